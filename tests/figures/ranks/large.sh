#!/bin/bash
# Figure: memory of a large model whose ranks share one host. MODEL (gpt2-large) with BATCH (4) sequences of LENGTH (64)
# tokens: the largest sum of the ranks' memory (PSS, which counts shared pages once), for one rank and for RANKS (4)
# ranks of one worker with ZeRO stage 3; both recompute blocks. The one rank has one leaf, since each further leaf needs
# memory for gradients of its own. Target: all ranks together need at most 1.15 times what the one needs. STEPS (2).
# gpt2-large takes 14.5 GB of memory and less than ten minutes on two cores.
set -uo pipefail
top=$(cd "$(dirname "$0")/../../.." && pwd)
. "$top/tests/figures/figure.shlib"
starling=${STARLING:-$top/build/starling} mpiexec=${MPIEXEC:-mpiexec.mpich}
ranks=${RANKS:-4} model=${MODEL:-gpt2-large}
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }
command -v jq >/dev/null || { echo 'SKIP: no jq'; exit 77; }
[ -r /proc/self/smaps_rollup ] || { echo 'SKIP: the kernel does not report PSS'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# kB of all processes of the job, whose arguments name its folder.
memory() {
  local pid
  for pid in $(pgrep -f "$work/run"); do
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = starling ] && sed -n 's/^Pss: *\([0-9]*\) kB/\1/p' "/proc/$pid/smaps_rollup" 2>/dev/null
  done | awk '{ sum += $1 } END { print sum + 0 }'
}
# Runs a job and prints its largest memory in kB, the predicted largest memory of a rank in bytes, and samples/s.
measure() { # leaves, launcher and command...
  local job most=0 now leaves=$1
  shift
  rm -rf "$work/run"
  # shellcheck disable=SC2086 # $model is a name and perhaps sizes
  "$@" bench $model --batch "${BATCH:-4}" --length "${LENGTH:-64}" --leaves "$leaves" --recompute block --workers 1 --steps "${STEPS:-2}" \
    --no-measure --stall-timeout 600 --json --quiet --out "$work/run" ${options-} >"$work/json" 2>"$work/err" &
  job=$!
  while kill -0 $job 2>/dev/null; do
    now=$(memory)
    [ "$now" -gt "$most" ] && most=$now
    sleep 0.2
  done
  wait $job || { tail -n 3 "$work/err" >&2; exit 1; }
  echo "$most $(jq '.predicted_peak_bytes, .peak_memory_bytes, .samples_per_s' "$work/json" | tr '\n' ' ')"
}
one=$(measure 1 "$starling") || exit 1
many=$(options="--zero 3" measure "$ranks" "$mpiexec" -n "$ranks" "$starling") || exit 1
for row in "1 $one" "$ranks $many"; do
  awk -v model="$model" '{ printf "%s, ranks %d: PSS of all %.0f MB; peak of the largest %.0f MB, predicted %.0f MB; %.2f samples/s\n",
    model, $1, $2 * 1024 / 1e6, $4 / 1e6, $3 / 1e6, $5 }' <<<"$row"
done
figure "$ranks ranks: memory over one rank's" '<= 1.15' "$(ratio "${many%% *}" "${one%% *}")"
exit $missed
