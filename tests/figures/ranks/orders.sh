#!/bin/bash
# Figure: orders of a pipeline, simulated on 8 nodes, one H100 each (dgx-h100), a sequence a micro-batch, beside 1F1B:
# runs that are interleaved (--pipe-chunks 2 and 4) for a model of 26 billion parameters, and gradients of weights in
# the bubble (--pipe-order zero-bubble, with 1 and 2 runs) for one of 6.6 billion, as it holds more activations.
# Prints the predicted step, the gain, and the idle part of the step beside the bubble of the formula. Targets, as
# published: a gain of 1.28 for interleaved 1F1B in torchtitan, with as many micro-batches as stages; of 1.23 for
# zero-bubble in about the memory of 1F1B (Qi et al. 2023). MICRO_BATCHES (8 16 32): which.
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
starling=${STARLING:-$top/build/starling}
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
number_of() { sed -n "s/.*\"$1\": \([-0-9.e+]*\).*/\1/p" "$2" | head -n 1; }
missed=0
# Name, target, micro-batches that count for it (any: all), width, heads, orders with their runs; prints and judges.
compare() {
  local name=$1 target=$2 counts=$3 width=$4 heads=$5 best=0 m order chunks step first
  shift 5
  for m in ${MICRO_BATCHES:-8 16 32}; do
    for order in 1f1b:1 "$@"; do
      chunks=${order#*:}
      "$starling" simulate gpt2 --size "layers=32,width=$width,heads=$heads,untied=1,positions=2048" --length 2048 \
        --machine dgx-h100 --nodes 8 --ranks-per-node 1 --workers gpu --gpus 1 --precision bf16 --batch "$m" --leaves "$m" \
        --micro-batches "$m" --mesh data=1,pipe=8 --pipe-chunks "$chunks" --pipe-order "${order%:*}" --json >"$work/out" || exit 1
      step=$(number_of step_s "$work/out")
      [ "$order" != 1f1b:1 ] || first=$step
      awk -v m="$m" -v v="$chunks" -v order="${order%:*}" -v first="$first" -v step="$step" -v busy="$(number_of kernel_percent "$work/out")" \
        -v bubble="$(number_of bubble_percent "$work/out")" 'BEGIN {
          printf "%2d micro-batches, %-11s %d run(s) on a stage: step %.3f s, gain %.3f; no task runs for %.1f %%: bubble %.1f %% (formula %.1f %%), messages %.1f %%\n",
            m, order ",", v, step, first / step, 100 - busy, bubble, 700 / ((order == "zero-bubble" ? 3 : 1) * v * m + 7), 100 - busy - bubble }'
      case $counts in any | "$m") best=$(awk -v best="$best" -v a="$first" -v b="$step" 'BEGIN { print (a / b > best ? a / b : best) }') ;; esac
    done
  done
  [ "$best" != 0 ] || return
  awk -v name="$name" -v target="$target" -v best="$best" 'BEGIN {
    printf "%-52s target %-8s value %-8.2f %s\n", name, target, best, (best >= target ? "met" : "MISSED"); exit best < target }' || missed=1
}
compare 'gain of runs that are interleaved, 8 micro-batches' 1.28 8 8192 64 1f1b:2 1f1b:4
compare 'gain of gradients of weights in the bubble' 1.23 any 4096 32 zero-bubble:1 zero-bubble:2
exit $missed
