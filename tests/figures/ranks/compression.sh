#!/bin/bash
# Figure: loss of gpt2-nano on the King James text after STEPS steps (default 300) on 2 ranks without shared memory,
# one core each, with gradients sent uncompressed, as bf16, and as the largest tenth and hundredth, and with ranks that
# train apart and meet every few steps (--sync); and bytes per step over the whole run, warm-up included. bf16 may lose
# 2% of the loss, top-k 15%. WAYS: fewer of them. OUT=FILE.svg draws the curves.
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
starling=${STARLING:-$top/build/starling} mpiexec=${MPIEXEC:-mpiexec.mpich} steps=${STEPS:-300}
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }
command -v "$mpiexec" >/dev/null || { echo "SKIP: no $mpiexec"; exit 77; }
command -v jq >/dev/null || { echo 'SKIP: no jq'; exit 77; }
command -v bible >/dev/null || { echo 'SKIP: no King James text (apt-get install bible-kjv bible-kjv-text)'; exit 77; }
read -r -a cores < <(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | tr , '\n' | while IFS=- read -r a b; do seq -s ' ' "$a" "${b:-$a}"; done | tr '\n' ' ')
export MPIR_CVAR_NOLOCAL=1 # MPICH: ranks of a host are as far apart as those of two
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bible -f 'Gen1:1-Rev22:21' >"$work/kjv.txt"
missed=0 plot=
for way in ${WAYS:-none bf16 topk=0.1 topk local:8 diloco:8}; do
  how="--compress $way"
  case $way in *:*) how="--sync $way" ;; esac
  train=("$starling" train gpt2-nano --data "$work/kjv.txt" --batch 8 --leaves 2 --workers 1 --steps "$steps" --log-every 10 --eval-every "$steps"
    --learning-rate 1e-3 $how --quiet --out "$work/$way")
  "$mpiexec" -n 1 taskset -c "${cores[0]}" "${train[@]}" : -n 1 taskset -c "${cores[-1]}" "${train[@]}" >"$work/log" 2>&1 || { tail -n 3 "$work/log"; exit 1; }
  loss=$(jq .validation_loss "$work/$way/summary.json")
  bytes=$(jq ".sent_bytes / $steps / 1e6" "$work/$way/summary.json")
  [ $way != none ] || plain=$loss
  most=1.15
  [ $way != bf16 ] || most=1.02
  verdict=met
  case $way in *:* | none) most=1000 verdict=- ;; esac
  awk -v a="$plain" -v b="$loss" -v most=$most 'BEGIN { exit !(b <= most * a) }' || verdict=MISSED missed=1
  printf '%-9s validation loss %.4f, %4.1f%% more (%s), %6.2f MB sent a step\n' $way "$loss" "$(awk -v a="$plain" -v b="$loss" 'BEGIN { print 100 * (b / a - 1) }')" $verdict "$bytes"
  jq -r 'select(.split == "train") | [.step, .loss] | @tsv' "$work/$way/metrics.jsonl" >"$work/$way.tsv"
  plot+="${plot:+, }'$work/$way.tsv' with lines linewidth 2 title '$how'"
done
if [ -n "${OUT-}" ] && command -v gnuplot >/dev/null; then
  gnuplot -e "set terminal svg size 560,320 font 'sans-serif,12' background rgb 'white'; set output '$OUT'; set xlabel 'steps'; set ylabel 'training loss'; set grid; plot $plot"
fi
exit $missed
