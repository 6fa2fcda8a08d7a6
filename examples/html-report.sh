#!/usr/bin/env sh
# Every head of a model on one page to look at, with its map over a short text: html-report.sh MODEL [PAGE.html]
# minilm.html beside this script is the page of all-MiniLM-L6-v2, minilm.png a picture of it.
set -eu
attn inspect-model "$1" --metric all --pairs 3 --with-random-init -q -o "${2:-heads.html}" \
  --text 'When Mary and John went to the store, John gave a drink to Mary, and Mary, who had not asked for one, gave it back to John.'
