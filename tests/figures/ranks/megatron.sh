#!/bin/bash
# Figure: GPT-3 with 175 billion parameters on 128 A100 (16 dgx-a100), predicted, beside the 44% of the peak that
# Narayanan et al. (2021) report for 8 such replicas with 192 windows each. 16 stages; the 8 GPUs of a node divide the
# products, as 8 ranks of a GPU each, or as one rank of 8 GPUs, each of which computes a fold. Micro-batches of two
# windows, so that one's products hide the other's sums. MICRO_BATCHES (16 96): with 96, as published, it takes some
# minutes. CHUNKS (3): chunks of layers on each stage. PARTS (8): messages in which a stage sends a shard.
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
starling=${STARLING:-$top/build/starling}
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }
command -v jq >/dev/null || { echo 'SKIP: no jq'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
best=0
predict() { # ranks of a node, micro-batches, chunks, parts of a message
  local windows=$((2 * $2))
  "$starling" simulate gpt2 --size layers=96,width=12288,heads=96,untied=1,positions=2048,vocabulary=51200 --length 2048 --machine dgx-a100 \
    --nodes 16 --ranks-per-node "$1" --workers gpu --precision bf16 --batch $windows --leaves $windows --micro-batches "$2" \
    --mesh data=1,pipe=16,tensor="$1" --folds 8 --recompute block --pipe-chunks "$3" --pipe-parts "$4" --json >"$work/out" || exit 1
  awk -v ranks="$1" -v m="$2" -v c="$3" -v parts="$4" -v p="$(jq .percent_of_peak "$work/out")" -v s="$(jq .step_s "$work/out")" 'BEGIN {
    printf "%d rank%s of %d GPU%s on a node, %3d micro-batches, %d chunk%s, %d part%s: %.1f s, %.1f %% of the peak; bubble by the formula %.0f %%\n",
           ranks, (ranks > 1 ? "s" : ""), 8 / ranks, (ranks < 8 ? "s" : ""), m, c, (c > 1 ? "s" : ""), parts, (parts > 1 ? "s" : ""), s, p, 1500 / (c * m + 15) }'
  best=$(jq --argjson best "$best" '[.percent_of_peak, $best] | max' "$work/out")
}
predict 8 16 1 1
predict 1 16 1 1
predict 1 16 3 1
for m in ${MICRO_BATCHES:-16 96}; do
  for chunks in ${CHUNKS:-3}; do predict 1 "$m" "$chunks" "${PARTS:-8}"; done
done
awk -v v="$best" 'BEGIN { printf "%-40s target %-6s value %-8.1f %s\n", "best of them, % of the peak", 44, v, (v >= 44 ? "met" : "MISSED"); exit v < 44 }'
