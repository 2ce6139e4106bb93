#!/bin/bash
# Figure: samples/s and peak memory of the networks beside PyTorch on the same cores, in turn in one run. Met if the
# rate is 1.2 times the best PyTorch's or 80% of the run's sgemm peak (gpt2 75%), and the peak memory is no larger than
# PyTorch's and predicted within 10%. PYTHONS: Pythons whose torch is compared (default /usr/bin/python3, Debian's
# python3-torch; a release of 2.x runs eagerly and compiled). MODELS and ROUNDS choose. PRECISION=bf16: both in bf16,
# PyTorch by autocast, without the share of the peak. PLAN=machine: Starling takes the leaves and shards with the
# shortest predicted step on this machine (--plan machine).
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
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

median() { printf '%s' "$1" | sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
field() { grep -oE "\"$1\": *-?[0-9.eE+-]+" | head -n 1 | grep -oE '[0-9.eE+-]+$'; }
over() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }
missed=0
figure() { # name, target, value, 1: met
  printf '  %-52s target %-12s value %-10s %s\n' "$1" "$2" "$3" "$([ "$4" = 1 ] && echo met || echo MISSED)"
  [ "$4" = 1 ] || missed=1
}
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
  a=$(median "$ours") best=0 least=1e9
  echo "$model: Starling $a samples/s, $(median "$peak")% of the peak; medians of $rounds in turn"
  for name in "${!rates[@]}"; do
    b=$(median "${rates[$name]}") m=$(median "${sizes[$name]}")
    echo "  PyTorch $name: $b samples/s ($(over "$a" "$b") times), $m MB"
    best=$(awk -v a="$best" -v b="$b" 'BEGIN { print (b > a ? b : a) }') least=$(awk -v a="$least" -v b="$m" 'BEGIN { print (b < a ? b : a) }')
  done
  [ "$best" != 0 ] || { echo "  nothing to compare $model with"; missed=1; continue; }
  percent=80; [ "$model" != gpt2 ] || percent=75
  [ "$precision" = fp32 ] || percent=1000 # no such target there
  figure "samples/s over the best PyTorch's, or % of peak" "1.2 or $percent%" "$(over "$a" "$best") $(median "$peak")%" \
    "$(awk -v r="$(over "$a" "$best")" -v p="$(median "$peak")" -v t=$percent 'BEGIN { print (r >= 1.2 || p >= t) }')"
  mb=$(awk -v m="$(median "$memory")" 'BEGIN { printf "%.0f", m / 1048576 }')
  figure "peak memory, MB" "$least" "$mb" "$(awk -v a="$mb" -v b="$least" 'BEGIN { print (a <= b) }')"
  ratio=$(over "$(median "$predicted")" "$(median "$memory")")
  figure "predicted over measured peak memory" "0.9 to 1.1" "$ratio" "$(awk -v r="$ratio" 'BEGIN { print (r >= 0.9 && r <= 1.1) }')"
done
exit $missed
