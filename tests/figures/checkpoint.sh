#!/bin/bash
# Figure: steps per second of gpt2-nano with a checkpoint every 20 steps to a local disk (CHECKPOINT_DISK, default
# /var/tmp), over those without checkpoints, in turn: at least 0.97. Start, the first 20 steps, validation and end are
# not timed. ROUNDS and STEPS: more of each.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/figures/figure.shlib"
starling=${STARLING:-$top/build/starling}
rounds=${ROUNDS:-5} steps=${STEPS:-120}
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }
work=$(mktemp -d "${CHECKPOINT_DISK:-/var/tmp}/starling.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
find "$top/runtime" "$top/tasks" "$top/codelets" -name "*.c" -exec cat {} + >"$work/text.txt"

times() { sed -n 's/.*"time_s":\([0-9.]*\),"split":"train".*/\1/p' "$work/run/metrics.jsonl"; }
rate() { # options
  "$starling" train gpt2-nano --data "$work/text.txt" --steps "$steps" --eval-every "$steps" --log-every 20 --quiet --checkpoint-minutes 0 \
    --out "$work/run" --force "$@" >/dev/null || return 1
  times | awk -v steps="$((steps - 20))" 'NR == 1 { first = $1 } { last = $1 } END { printf "%.4f\n", steps / (last - first) }'
}
with='' without='' ratios='' stood=''
for _ in $(seq "$rounds"); do
  a=$(rate --checkpoint-every 20) || exit 1
  stood+="$(sed -n 's/.*"checkpoint_s":\([0-9.e-]*\).*/\1/p' "$work/run/metrics.jsonl" | median)"$'\n'
  bytes=$(du -k "$work"/run/checkpoints/step-*/part-* | awk '{ n = $1 } END { print int(n * 1.024 / 1000) }')
  b=$(rate --checkpoint-every 0) || exit 1
  with+="$a"$'\n' without+="$b"$'\n' ratios+="$(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.4f", a / b }')"$'\n'
done
ratio=$(printf '%s' "$ratios" | median)
echo "gpt2-nano: $(printf '%s' "$with" | median) steps/s with a checkpoint of $bytes MB every 20 steps, $(printf '%s' "$without" | median) with none, medians of $rounds in turn; training stood $(printf '%s' "$stood" | median) s for each"
figure 'steps/s with checkpoints over those without' '>= 0.97' "$ratio"
exit $missed
