#!/usr/bin/env sh
# Fails the build when the transformer variant of a network loses its residual, and keeps the report either way.
set -eu
attn rank-collapse --layers 24 --norm layer --seeds 3 --variants transformer -q \
  -o "${1:-rank-collapse.json}" \
  --fail-if 'log10_residual[transformer, layer=-1] < -3'
