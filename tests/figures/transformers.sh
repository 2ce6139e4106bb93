#!/bin/bash
# Figure: samples/s of gpt2-nano (8 windows of 256 tokens) and gpt2 (4 of 64) beside PyTorch's on the same cores, in turn in one run: 1.2 times
# the rate of the PyTorch that PYTHON names (default /usr/bin/python3, Debian's python3-torch). Both clip gradients by their norm.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
starling=${STARLING:-$top/build/starling}
python=${PYTHON:-/usr/bin/python3}
rounds=${ROUNDS:-3}
"$python" -c 'import torch' 2>/dev/null || { echo "SKIP: $python has no torch (apt-get install python3-torch)"; exit 77; }
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }

median() { sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
field() { grep -oE "\"$1\": *-?[0-9.eE+-]+" | head -n 1 | grep -oE '[0-9.eE+-]+$'; }
missed=0
"$python" -c 'import torch; print("PyTorch", torch.__version__, "eager, 2 threads")'
for model in ${MODELS:-gpt2-nano gpt2}; do
  batch=8; [ "$model" = gpt2-nano ] || batch=4
  ours='' theirs='' ratios='' peak=''
  for _ in $(seq "$rounds"); do
    json=$("$starling" bench "$model" --batch $batch --workers 2 --steps 6 --json) || exit 1
    a=$(echo "$json" | field samples_per_s)
    b=$("$python" "$top/tests/figures/torch_speed.py" "$model" $batch 2 5) || exit 1
    ours+="$a"$'\n' theirs+="$b"$'\n' peak+="$(echo "$json" | field percent_of_peak)"$'\n'
    ratios+="$(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.2f", a / b }')"$'\n'
  done
  m() { printf '%s' "$1" | median; }
  ratio=$(m "$ratios")
  met=$(awk -v r="$ratio" 'BEGIN { print (r >= 1.2) }')
  echo "$model: Starling $(m "$ours") samples/s, PyTorch $(m "$theirs"), medians of $rounds in turn; $(m "$peak")% of the sgemm peak"
  printf '%-44s target %-8s value %-10s %s\n' "$model, samples/s as multiples of PyTorch's" 1.2 "$ratio" "$([ "$met" = 1 ] && echo met || echo MISSED)"
  [ "$met" = 1 ] || missed=1
done
exit $missed
