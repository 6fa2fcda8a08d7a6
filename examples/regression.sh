#!/usr/bin/env sh
# Holds a new report against the last accepted one; each exit code of attn asks for something else.
# usage: regression.sh NEW.json ACCEPTED.json
set -u
attn check "$1" --baseline "$2" --fail-on 'log10_residual:-p.05' >/dev/null
code=$?
case $code in
  0) echo "no regression" ;;
  1) echo "regression:"; attn compare "$2" "$1" --top 5 ;;
  5) echo "first run: $1 is the baseline now"; cp "$1" "$2"; code=0 ;;
  *) echo "could not be checked" ;;
esac
exit "$code"
