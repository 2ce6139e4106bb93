#!/bin/bash
# Figure: what the stages of ZeRO save and cost. HOSTS_N (4) test hosts (tests/support/hosts.sh) with links of RATE
# (10gbit), a rank of one worker each, MODEL (gpt2) with BATCH (4) sequences of LENGTH (128) tokens: peak memory of the
# largest rank, measured and predicted, samples/s, and MB that a rank sends, for stages 0, 1 and 3; the same on one
# host, whose ranks share the parameters' memory. Targets: with stage 3 the peak is at most 0.4 of stage 0's; speed at
# least 0.85 of stage 0's on one host; the prediction is within 3%. ROUNDS (2): the stages in turn; medians.
set -uo pipefail
top=$(cd "$(dirname "$0")/../../.." && pwd)
. "$top/tests/figures/figure.shlib"
starling=${STARLING:-$top/build/starling}
export MPIEXEC=${MPIEXEC:-mpiexec.mpich} HOSTS=zero$$
n=${HOSTS_N:-4} model=${MODEL:-gpt2} rounds=${ROUNDS:-2}
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }
command -v jq >/dev/null || { echo 'SKIP: no jq'; exit 77; }
[ "$(id -u)" = 0 ] || { echo 'SKIP: network namespaces are for root'; exit 77; }
work=$(mktemp -d)
trap '"$top/tests/support/hosts.sh" down; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
"$top/tests/support/hosts.sh" up "$n" "${RATE:-10gbit}" || { echo 'SKIP: no network namespaces, bridges or tbf here'; exit 77; }
# shellcheck disable=SC2086 # $model is a name and perhaps sizes
bench() { # launcher..., then --, stage
  local launcher=()
  while [ "$1" != -- ]; do launcher+=("$1"); shift; done
  timeout 900 "${launcher[@]}" -n "$n" "$starling" bench $model --batch "${BATCH:-4}" --leaves "$n" --length "${LENGTH:-128}" \
    --workers 1 --steps "${STEPS:-4}" --zero "$2" --no-measure --json 2>"$work/err" || { tail -n 3 "$work/err" >&2; return 1; }
}
for _ in $(seq "$rounds"); do
  for stage in 0 1 3; do
    bench "$top/tests/support/hosts.sh" mpiexec -- $stage | jq -c '[.peak_memory_bytes, .predicted_peak_bytes, .samples_per_s, .sent_bytes]' >>"$work/hosts-$stage" || exit 1
    bench "$MPIEXEC" -- $stage | jq -c '[.peak_memory_bytes, .predicted_peak_bytes, .samples_per_s, .sent_bytes]' >>"$work/one-$stage" || exit 1
  done
done
median_of() { jq -s "map(.[$2]) | sort | .[length / 2 | floor]" "$work/$1"; }
for where in hosts one; do
  [ $where = hosts ] && echo "$model, $n hosts of one rank, ${RATE:-10gbit}:" || echo "$model, $n ranks on one host:"
  for stage in 0 1 3; do
    read -r peak predicted speed sent <<<"$(median_of $where-$stage 0) $(median_of $where-$stage 1) $(median_of $where-$stage 2) $(median_of $where-$stage 3)"
    printf '  stage %s: peak of the largest rank %5.0f MB, predicted %5.0f MB; %.2f samples/s; %.0f MB sent a step\n' \
      $stage "$(awk -v b="$peak" 'BEGIN { print b / 1e6 }')" "$(awk -v b="$predicted" 'BEGIN { print b / 1e6 }')" "$speed" "$(awk -v b="$sent" 'BEGIN { print b / 1e6 }')"
    off=$(ratio "$peak" "$predicted")
    figure "  peak over the prediction" 0.97..1.03 "$off"
  done
  value=$(ratio "$(median_of $where-3 0)" "$(median_of $where-0 0)")
  figure "stage 3: peak over stage 0's" '<= 0.4' "$value"
  value=$(ratio "$(median_of $where-3 2)" "$(median_of $where-0 2)")
  if [ $where = one ]; then figure "stage 3: speed over stage 0's" '>= 0.85' "$value"
  else echo "  stage 3: speed over stage 0's, $value (no target: the link decides)"; fi
done
exit $missed
