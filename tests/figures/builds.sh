#!/bin/bash
# Figure: this build beside another build of Starling (OTHER, the path of its starling): step times of mlp, lenet and
# gpt2-nano, in turn in one run, and the same bits. For changes that must cost nothing: the median of the ratios is at
# most 1.02. ROUNDS and MODELS choose; without ROUNDS the short runs, which scatter most, take the most rounds. Skipped
# without OTHER.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/figures/figure.shlib"
starling=${STARLING:-$top/build/starling} other=${OTHER:-}
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }
[ -x "$other" ] || { echo 'SKIP: OTHER names no other starling to compare with'; exit 77; }

field() { grep -oE "\"$1\": *\"?[0-9a-f.eE+-]+" | grep -oE '[0-9a-f.eE+-]+$'; }
declare -A steps=([mlp]=150 [lenet]=60 [gpt2-nano]=4) rounds_of=([mlp]=31 [lenet]=15)
for model in ${MODELS:-mlp lenet gpt2-nano}; do
  rounds=${ROUNDS:-${rounds_of[$model]:-9}}
  ratios='' same=yes mine='' theirs=''
  for round in $(seq "$rounds"); do
    # The order changes from round to round, so that a machine that slows down favours neither.
    if [ $((round % 2)) = 1 ]; then order="$starling $other"; else order="$other $starling"; fi
    for program in $order; do
      json=$("$program" bench "$model" --steps "${steps[$model]:-10}" --no-measure --json 2>/dev/null) || { echo "$program bench $model failed"; exit 1; }
      if [ "$program" = "$starling" ]; then a=$json; else b=$json; fi
    done
    digest=$(field state_digest <<<"$a")
    [ -n "$digest" ] && [ "$digest" = "$(field state_digest <<<"$b")" ] || same=no
    x=$(field step_s <<<"$a") y=$(field step_s <<<"$b")
    mine+="$x"$'\n' theirs+="$y"$'\n' ratios+="$(awk -v a="$x" -v b="$y" 'BEGIN { printf "%.4f", a / b }')"$'\n'
  done
  ratio=$(printf '%s' "$ratios" | median)
  echo "$model: a step takes $(printf '%s' "$mine" | median) s, in the other build $(printf '%s' "$theirs" | median) s; ratios $(printf '%s' "$ratios" | sort -g | tr '\n' ' ')"
  figure "$model, step time over the other build's" '<= 1.02' "$ratio"
  figure "$model, the same bits" yes "$same"
done
exit $missed
