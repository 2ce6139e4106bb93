#!/bin/bash
# Figure: bf16 beside fp32, in turn: samples/s, peak memory, measured and predicted. ROUNDS: measurements of each (3).
# MODELS: one "name options" a line. Needs a quiet machine. Prints whether this CPU has AVX512-BF16.
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
starling=${STARLING:-$top/build/starling}
[ -x "$starling" ] || { echo "SKIP: no $starling"; exit 77; }
export STARPU_SILENT=1
work=$(mktemp -d "${TMPDIR:-/tmp}/precision.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
models=${MODELS:-gpt2-nano --batch 8 --length 256
bert-base --batch 8 --length 128
vit-b16 --batch 8
resnet50 --batch 16
gpt2 --batch 4 --length 64}
number_of() { sed -n "s/.*\"$1\": \([-0-9.e+]*\).*/\1/p" "$2" | head -n 1; }
median() { sort -g | awk '{ x[NR] = $1 } END { print NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2 }'; }
sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1
grep -q avx512_bf16 /proc/cpuinfo && echo 'with AVX512-BF16' || echo 'without AVX512-BF16'
printf '%-34s %9s %9s %7s %11s %11s %7s %10s\n' model 'fp32 1/s' 'bf16 1/s' ratio 'fp32 MB' 'bf16 MB' ratio 'predicted'
while read -r model; do
  rm -f fp32.* bf16.*
  for _ in $(seq "${ROUNDS:-3}"); do
    for p in fp32 bf16; do
      # shellcheck disable=SC2086 # words
      "$starling" bench $model --precision $p --gpus 0 --steps 3 --no-measure --json >one 2>err || { cat err; exit 1; }
      number_of samples_per_s one >>$p.speed
      number_of peak_memory_bytes one >>$p.memory
      number_of predicted_peak_bytes one >$p.predicted
    done
  done
  a=$(median <fp32.speed) b=$(median <bf16.speed) m=$(median <fp32.memory) n=$(median <bf16.memory)
  awk -v model="$model" -v a="$a" -v b="$b" -v m="$m" -v n="$n" -v q="$(cat bf16.predicted)" 'BEGIN {
    printf "%-34s %9.2f %9.2f %7.2f %11.0f %11.0f %7.2f %+9.1f%%\n", model, a, b, b / a, m / 1e6, n / 1e6, n / m, 100 * (q / n - 1) }'
done <<END
$models
END
