#!/bin/bash
# Figure: two ranks of one worker each beside one rank of two workers, with the same plan and global batch, in turn.
# Throughput: 95% or more for gpt2-nano, and for gpt2 at 2048 tokens a step or with divided optimizer state.
# Exchange: 80% hidden (of its time under way, no worker is idle for it). Memory of a rank: printed. ROUNDS: number
# of measurements (default 5); two minutes on two cores.
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
starling=${STARLING:-$top/build/starling} mpiexec=${MPIEXEC:-mpiexec.mpich} rounds=${ROUNDS:-5}
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }
command -v "$mpiexec" >/dev/null || { echo "SKIP: no $mpiexec"; exit 77; }
command -v jq >/dev/null || { echo 'SKIP: no jq'; exit 77; }
[ "$(nproc)" -ge 2 ] || { echo 'SKIP: fewer than 2 cores'; exit 77; }
missed=0
verdict() { if [ -z "$target" ]; then echo -; elif [ "$1" = 1 ]; then echo met; else echo MISSED; fi; }
value() { grep -oE "\"$1\": *[0-9.]+" | grep -oE '[0-9.]+$'; }
speed() { value samples_per_s; }
median() { sort -g | awk '{ x[NR] = $1 } END { print NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2 }'; }
compare() { # name, least ratio ('': none promised), options of the two ranks alone, bench's arguments
  name=$1 target=$2 options=$3
  shift 3
  work=$(mktemp -d)
  # shellcheck disable=SC2086 # $options is several words
  for _ in $(seq "$rounds"); do
    "$starling" bench "$@" --leaves 2 --workers 2 --no-measure --json 2>/dev/null | speed >>"$work/one"
    "$mpiexec" -n 2 "$starling" bench "$@" $options --leaves 2 --workers 1 --no-measure --json 2>/dev/null >"$work/json"
    speed <"$work/json" >>"$work/two"
  done
  [ "$(cat "$work/one" "$work/two" | wc -l)" = $((2 * rounds)) ] || { echo "$name: a run failed"; missed=1; rm -rf "$work"; return; }
  paste "$work/one" "$work/two" | awk '{ print $2 / $1 }' >"$work/ratio"
  ratio=$(median <"$work/ratio")
  met=$(awk -v r="$ratio" -v t="${target:-0}" 'BEGIN { print (r >= t) }')
  printf '%-36s 1 rank %8.2f/s  2 ranks %8.2f/s  ratio %.3f (%s to %s)  target %-5s %s\n' "$name" "$(median <"$work/one")" \
    "$(median <"$work/two")" "$ratio" "$(sort -g "$work/ratio" | head -n 1)" "$(sort -g "$work/ratio" | tail -n 1)" "${target:--}" \
    "$(verdict "$met")"
  printf '%-36s a rank of 2: peak memory %.0f MB, predicted %.0f MB\n' '' "$(value peak_memory_bytes <"$work/json" | awk '{ print $1 / 1e6 }')" \
    "$(value predicted_peak_bytes <"$work/json" | awk '{ print $1 / 1e6 }')"
  [ "$met" = 1 ] || missed=1
  # shellcheck disable=SC2086
  "$mpiexec" -n 2 "$starling" bench "$@" $options --leaves 2 --workers 1 --no-measure --quiet --out "$work/run" >/dev/null 2>&1
  hidden=$("$starling" trace "$work/run" --json | jq 'map(.exchange | .hidden_s / .under_way_s) | min')
  met=$(awk -v h="$hidden" -v t="${target:+0.8}" 'BEGIN { print (h >= t + 0) }')
  printf '%-36s exchange hidden %.3f  target %-5s %s\n' '' "$hidden" "${target:+0.8}" "$(verdict "$met")"
  [ "$met" = 1 ] || missed=1
  rm -rf "$work"
}
compare 'gpt2-nano, 8 windows of 256' 0.95 '' gpt2-nano --batch 8
compare 'gpt2, 8 windows of 256' 0.95 '' gpt2 --batch 8 --length 256 --steps 5
compare 'gpt2, 4 windows of 64' '' '' gpt2 --batch 4 --length 64 --steps 10
compare 'gpt2, 4 windows of 64, --zero 1' 0.95 '--zero 1' gpt2 --batch 4 --length 64 --steps 10
compare 'lenet, 256 images' '' '' lenet --batch 256
exit $missed
