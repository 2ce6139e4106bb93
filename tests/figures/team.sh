#!/bin/bash
# Figure: one worker that leads a team of 2 threads beside two workers of one thread, in turn in one run: ratio of
# samples/s. The target is 0.8, because a team synchronises at the end of every task and two workers do not.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/figures/figure.shlib"
starling=${STARLING:-$top/build/starling}
rounds=${ROUNDS:-5}
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }
[ "$(nproc)" -ge 2 ] || { echo 'SKIP: fewer than two cores'; exit 77; }

rate() { "$starling" bench "$@" --json | grep -oE '"samples_per_s": *[0-9.eE+-]+' | grep -oE '[0-9.eE+-]+$'; }
for model in mlp lenet; do
  team='' workers='' ratios=''
  for _ in $(seq "$rounds"); do
    a=$(rate $model --batch 256 --workers 1 --threads-per-worker 2) || exit 1
    b=$(rate $model --batch 256 --workers 2) || exit 1
    team+="$a"$'\n' workers+="$b"$'\n' ratios+="$(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.2f", a / b }')"$'\n'
  done
  ratio=$(printf '%s' "$ratios" | median)
  echo "$model: a team of 2 $(printf '%s' "$team" | median) samples/s, two workers $(printf '%s' "$workers" | median), medians of $rounds in turn"
  figure "$model, team of 2 over two workers" '>= 0.8' "$ratio"
done
exit $missed
