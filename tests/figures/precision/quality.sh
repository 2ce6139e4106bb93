#!/bin/bash
# Figure: what training in 16 bits loses. gpt2-nano on the King James text, resnet8 and vit-tiny on Fashion-MNIST, each
# with SEEDS ("1 2 3") in fp32, bf16 and fp16; means over the seeds. Met if the validation loss of gpt2-nano is at most
# 0.5% above fp32's, and the test accuracy of the others at most 0.2 points below. STEPS (1000) for gpt2-nano and EPOCHS
# (10) for the others are those of examples/; with them and three seeds it takes four hours on two cores. NETWORKS
# chooses. RUNS: folder for the runs; one that is complete there is not repeated, and keeps its metrics only. Each
# network's curves go to RUNS/NETWORK.svg if gnuplot is installed.
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
. "$top/tests/figures/figure.shlib"
starling=${STARLING:-$top/build/starling}
export STARPU_SILENT=1
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }
command -v jq >/dev/null || { echo 'SKIP: no jq'; exit 77; }
runs=${RUNS:-$(mktemp -d "${TMPDIR:-/tmp}/quality.XXXXXX")} seeds=${SEEDS:-1 2 3} steps=${STEPS:-1000} epochs=${EPOCHS:-10}
text=$runs/kjv.txt
mkdir -p "$runs" || exit 1

# As in examples/, but for the text with fewer bytes for validation, which takes longer than training.
declare -A options=(
  [gpt2-nano]="--data $text --val-fraction 0.02 --steps $steps --eval-every $(((steps + 4) / 5)) --learning-rate 1e-3 --warmup $(((steps + 9) / 10)) --rate-schedule cosine"
  [resnet8]="--augment crop=2,flip --epochs $epochs" [vit-tiny]="--augment flip --epochs $epochs")
declare -A measure=([gpt2-nano]=validation_loss [resnet8]=test_accuracy [vit-tiny]=test_accuracy)
mean() { awk 'NF { sum += $1; n++ } END { if (n) printf "%.6f", sum / n }'; }

# Draws the validation loss over steps, the mean over seeds, one line a precision.
draw() { # network
  command -v gnuplot >/dev/null || return 0
  local p plots=''
  for p in fp32 bf16 fp16; do
    cat "$runs/$1-$p"-*/metrics.jsonl | jq -r 'select(.split == "validation") | [.step, .loss] | @tsv' |
      awk '{ sum[$1] += $2; n[$1]++ } END { for (s in sum) print s, sum[s] / n[s] }' | sort -n >"$runs/$1-$p.curve"
    plots+="${plots:+, }'$runs/$1-$p.curve' with linespoints pointtype 7 pointsize 0.4 title '$p'"
  done
  gnuplot <<END
set terminal svg size 560,320 font 'sans-serif,12' background rgb 'white'
set output '$runs/$1.svg'
set xlabel 'steps'
set ylabel 'validation loss'
set grid
plot $plots
END
}

for network in ${NETWORKS:-gpt2-nano vit-tiny resnet8}; do
  if [ "$network" = gpt2-nano ] && ! command -v bible >/dev/null; then
    echo 'gpt2-nano is left out: no King James text (apt-get install bible-kjv bible-kjv-text)'
    continue
  fi
  [ "$network" != gpt2-nano ] || [ -s "$text" ] || bible -f 'Gen1:1-Rev22:21' >"$text" || exit 1
  for seed in $seeds; do
    for p in fp32 bf16 fp16; do
      run=$runs/$network-$p-$seed
      if [ ! -s "$run/value" ]; then
        # shellcheck disable=SC2086 # words
        "$starling" train "$network" ${options[$network]} --out "$run" --force --seed "$seed" --precision $p >"$run.log" 2>&1 ||
          { echo "$network, seed $seed, $p failed:"; tail -n 3 "$run.log"; exit 1; }
        jq ".${measure[$network]}" "$run/summary.json" >"$run/value" && find "$run" -type f -size +1M -delete
      fi
    done
    echo "$network, seed $seed: fp32 $(cat "$runs/$network-fp32-$seed/value"), bf16 $(cat "$runs/$network-bf16-$seed/value"), fp16 $(cat "$runs/$network-fp16-$seed/value")"
  done
  wide=$(for seed in $seeds; do cat "$runs/$network-fp32-$seed/value"; done | mean)
  for p in bf16 fp16; do
    narrow=$(for seed in $seeds; do cat "$runs/$network-$p-$seed/value"; done | mean)
    each=$(for seed in $seeds; do paste "$runs/$network-$p-$seed/value" "$runs/$network-fp32-$seed/value"; done | awk '{ printf "%s%+.4f", (NR > 1 ? ", " : ""), $1 - $2 }')
    if [ "$network" = gpt2-nano ]; then
      figure "$network, $p: validation loss above fp32's, %" '<= 0.5' "$(awk -v a="$narrow" -v b="$wide" 'BEGIN { if (b > 0) printf "%.3f", 100 * (a / b - 1) }')" "$narrow against $wide; by seed $each"
    else
      figure "$network, $p: test accuracy below fp32's, points" '<= 0.2' "$(awk -v a="$narrow" -v b="$wide" 'BEGIN { if (b > 0) printf "%.3f", 100 * (b - a) }')" "$narrow against $wide; by seed $each"
    fi
  done
  draw "$network"
done
exit $missed
