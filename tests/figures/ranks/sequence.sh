#!/bin/bash
# Figure: what --sequence-parallel on saves. (1) Predicted on GPUS (2 4 8) of a dgx-a100: step and peak of MODEL in
# bf16, all as tensor ranks, with and without, and without it also with whole sums (--fold-sums). (2) This host: the
# measured peak of the largest of RANKS (4) tensor ranks of gpt2-nano, with and without. Targets: less memory from 4
# ranks on; peaks within 3% of the prediction.
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
. "$top/tests/figures/figure.shlib"
starling=${STARLING:-$top/build/starling}
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }
command -v jq >/dev/null || { echo 'SKIP: no jq'; exit 77; }
model=${MODEL:-gpt2 --size layers=12,width=1280,heads=20 --length 1024 --batch 16 --leaves 1}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for gpus in ${GPUS-2 4 8}; do
  for way in whole off on; do
    options="--sequence-parallel $way"
    [ $way != whole ] || options='--fold-sums whole'
    # shellcheck disable=SC2086 # several words, here and below
    "$starling" simulate $model --precision bf16 --machine dgx-a100 --ranks-per-node "$gpus" --mesh tensor="$gpus" \
      $options --json | jq -r '"\(.predicted_step_s) \(.predicted_peak_bytes)"' >"$work/$way"
    read -r step peak <"$work/$way" || exit 1
    awk -v n="$gpus" -v way=$way -v s="$step" -v b="$peak" 'BEGIN { printf "%d GPUs, %-5s: a step of %.0f ms, peak of a rank %.2f GB\n", n, way, 1e3 * s, b / 1e9 }'
  done
  less=$(ratio "$(cut -d' ' -f2 "$work/on")" "$(cut -d' ' -f2 "$work/off")")
  [ "$gpus" -lt 4 ] || figure "$gpus GPUs: peak, on over off" '< 1' "$less"
done
ranks=${RANKS:-4}
for way in off on; do
  STARPU_SILENT=1 "${MPIEXEC:-mpiexec.mpich}" -n "$ranks" "$starling" bench gpt2-nano --length 256 --batch 16 --leaves 4 --workers 1 --steps 2 \
    --no-measure --mesh tensor="$ranks" --sequence-parallel $way --json 2>"$work/err" | jq -r '"\(.peak_memory_bytes) \(.predicted_peak_bytes)"' >"$work/$way"
  read -r peak predicted <"$work/$way" || { tail -n 3 "$work/err" >&2; exit 1; }
  off=$(ratio "$peak" "$predicted")
  awk -v n="$ranks" -v way=$way -v b="$peak" 'BEGIN { printf "%d ranks here, %-3s: peak of the largest %.0f MB\n", n, way, b / 1e6 }'
  figure "$way: measured over predicted" 0.97..1.03 "$off"
done
less=$(ratio "$(cut -d' ' -f1 "$work/on")" "$(cut -d' ' -f1 "$work/off")")
figure "$ranks ranks here: peak, on over off" '< 1' "$less"
exit $missed
