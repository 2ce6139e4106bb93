#!/bin/bash
# Figure: samples/s and peak memory of the networks beside PyTorch on the same cores, in turn in one run. Met if the
# rate is 1.2 times the best PyTorch's or 80% of the run's sgemm peak (gpt2 75%), and the peak memory is no larger than
# PyTorch's and predicted within 10%. PYTHONS: Pythons whose torch is compared (default /usr/bin/python3, Debian's
# python3-torch; a release of 2.x runs eagerly and compiled). MODELS and ROUNDS choose. PRECISION=bf16: both in bf16,
# PyTorch by autocast, without the share of the peak. PLAN=machine: Starling takes the leaves and shards with the
# shortest predicted step on this machine (--plan machine).
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
. "$top/tests/figures/figure.shlib"
starling=${STARLING:-$top/build/starling}
rounds=${ROUNDS:-3}
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }

declare -A batch=([gpt2]=4 [gpt2-nano]=8 [bert-base]=8 [vit-b16]=8 [resnet50]=16 [mlp]=256 [lenet]=256)
declare -A options=([bert-base]='--length 128')
variants=()
for python in ${PYTHONS:-/usr/bin/python3}; do
  version=$("$python" -c 'import torch; print(torch.__version__)' 2>/dev/null) || continue
  variants+=("$version|$python|")
  [ "${version%%.*}" -lt 2 ] || variants+=("$version compiled|$python|--compile")
done
precision=${PRECISION:-fp32} narrow=''
[ $precision != bf16 ] || narrow=--bf16
[ ${#variants[@]} -gt 0 ] || { echo 'SKIP: no Python of PYTHONS has torch (apt-get install python3-torch)'; exit 77; }

middle() { printf '%s' "$1" | median; }
field() { grep -oE "\"$1\": *-?[0-9.eE+-]+" | head -n 1 | grep -oE '[0-9.eE+-]+$'; }
over() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }
for model in ${MODELS:-gpt2 bert-base vit-b16 gpt2-nano resnet50}; do
  ours='' peak='' memory='' predicted=''
  declare -A rates=() sizes=()
  for _ in $(seq "$rounds"); do
    # shellcheck disable=SC2086 # options are words
    json=$("$starling" bench "$model" --batch "${batch[$model]}" ${options[$model]:-} --workers 2 --steps "${STEPS:-6}" --precision "$precision" --plan "${PLAN:-portable}" --json) || exit 1
    ours+="$(echo "$json" | field samples_per_s)"$'\n' peak+="$(echo "$json" | field percent_of_peak)"$'\n'
    memory+="$(echo "$json" | field peak_memory_bytes)"$'\n' predicted+="$(echo "$json" | field predicted_peak_bytes)"$'\n'
    for v in "${variants[@]}"; do
      IFS='|' read -r name python flag <<<"$v"
      # shellcheck disable=SC2086
      line=$("$python" "$top/tests/figures/peers/torch_speed.py" "$model" "${batch[$model]}" 2 "${STEPS:-6}" ${options[$model]:-} $flag $narrow 2>/dev/null) ||
        { echo "  PyTorch $name cannot run $model"; continue; }
      rates[$name]+="${line% *}"$'\n' sizes[$name]+="${line#* }"$'\n'
    done
  done
  a=$(middle "$ours") best=0 least=1e9
  echo "$model: Starling $a samples/s, $(middle "$peak")% of the peak; medians of $rounds in turn"
  for name in "${!rates[@]}"; do
    b=$(middle "${rates[$name]}") m=$(middle "${sizes[$name]}")
    echo "  PyTorch $name: $b samples/s ($(over "$a" "$b") times), $m MB"
    best=$(awk -v a="$best" -v b="$b" 'BEGIN { print (b > a ? b : a) }') least=$(awk -v a="$least" -v b="$m" 'BEGIN { print (b < a ? b : a) }')
  done
  [ "$best" != 0 ] || { echo "  nothing to compare $model with"; missed=1; continue; }
  percent=80; [ "$model" != gpt2 ] || percent=75
  # In fp32 either of them is enough.
  if [ "$precision" = fp32 ] && awk -v r="$(over "$a" "$best")" -v p="$(middle "$peak")" -v t="$percent" 'BEGIN { exit !(r < 1.2 && p >= t) }'; then
    figure "percent of the peak" ">= $percent" "$(middle "$peak")" "samples/s over the best PyTorch's: $(over "$a" "$best")"
  else
    figure "samples/s over the best PyTorch's" '>= 1.2' "$(over "$a" "$best")" "$(middle "$peak")% of the peak"
  fi
  mb=$(awk -v m="$(middle "$memory")" 'BEGIN { printf "%.0f", m / 1048576 }')
  figure "peak memory, MB" "<= $least" "$mb"
  figure "predicted over measured peak memory" 0.9..1.1 "$(over "$(middle "$predicted")" "$(middle "$memory")")"
done
exit $missed
