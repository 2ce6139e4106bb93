#!/bin/bash
# Figure: steps with OpenBLAS's products over steps with Starling's own, for MODELS, with the best kernels of this
# machine and with base kernels, on one worker. STEPS (30) steps each, in turn, ROUNDS (5) times; medians. Targets: own
# products are at least as fast with the best kernels, and --products auto takes the faster ones with base kernels.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
starling=${STARLING:-$top/build/starling}
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }
command -v jq >/dev/null || { echo 'SKIP: no jq'; exit 77; }
export STARPU_SILENT=1
missed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
median() { sort -n | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] + 0 }'; }
bench() { # model and sizes, options: seconds of a step
  local model=$1
  shift
  # shellcheck disable=SC2086 # several words
  "$starling" bench $model --workers 1 --gpus 0 --sched eager --steps "${STEPS:-30}" --no-measure --json "$@" 2>"$work/err" | jq .step_s
}
best=$("$starling" info --json --no-measure | jq -r '[.. | .best_kernels? // empty][0]')
while read -r model; do
  for kernels in "$best" base; do
    : >"$work/ratios"
    for _ in $(seq "${ROUNDS:-5}"); do
      own=$(bench "$model" --kernels "$kernels" --products own)
      blas=$(bench "$model" --kernels "$kernels" --products openblas)
      auto=$(bench "$model" --kernels "$kernels" --products auto)
      [ -n "$own" ] && [ -n "$blas" ] && [ -n "$auto" ] && echo "$own $blas $auto" >>"$work/ratios"
    done
    [ "$(wc -l <"$work/ratios")" = "${ROUNDS:-5}" ] || { echo "$model, $kernels: a run failed MISSED"; cat "$work/err"; missed=1; continue; }
    own=$(cut -d' ' -f1 "$work/ratios" | median)
    ratio=$(awk '{ print $2 / $1 }' "$work/ratios" | median)
    chosen=$(awk '{ print $3 / ($1 < $2 ? $1 : $2) }' "$work/ratios" | median)
    awk -v name="$model, $kernels" -v own="$own" -v ratio="$ratio" -v chosen="$chosen" -v best="$([ "$kernels" = base ] || echo 1)" 'BEGIN {
      met = best ? ratio >= 1 : chosen <= 1.05
      printf "%-44s %8.2f ms with own; OpenBLAS over own %.2f; auto over the faster %.2f  %s\n", name, 1e3 * own, ratio, chosen, met ? "met" : "MISSED"
      exit !met
    }' || missed=1
  done
done <<<"${MODELS:-mlp --batch 256
lenet --batch 64
resnet8 --batch 32
gpt2-nano --batch 4 --length 64}"
exit $missed
