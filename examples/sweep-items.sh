#!/usr/bin/env sh
# Any tool can run the items of a sweep: one command line each, here two at a time by xargs, and then the table of all.
#   sweep-items.sh FOLDER 'runs/checkpoint-*'
set -eu
attn sweep rank-collapse --variants SAN --glob "$2" --into "$1" --list-items |
    xargs -P 2 -I LINE sh -c 'LINE' || true # one that fails is told below
attn sweep rank-collapse --variants SAN --glob "$2" --collect "$1"
