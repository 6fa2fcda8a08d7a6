#!/usr/bin/env sh
# Any tool can run the items of a sweep: one command line each, here two at a time by xargs, and then the table of all.
#   sweep-items.sh FOLDER 'runs/checkpoint-*'
# Each line is quoted for a shell. `xargs -0` leaves these quotes alone; without -0 it would strip them, and a folder's
# name could run commands.
set -eu
attn sweep rank-collapse --variants SAN --glob "$2" --into "$1" --list-items |
    tr '\n' '\0' | xargs -0 -n 1 -P 2 bash -c || true # one that fails is told below
attn sweep rank-collapse --variants SAN --glob "$2" --collect "$1"
