#!/bin/bash
# Figure: samples/s of a training step beside PyTorch on the same cores, in turn in one run: mlp (batch 256) at 2.5
# times, lenet (batch 256) at 2 times Debian's PyTorch; mlp at 60% of the sgemm peak; kernels take 90% of worker
# time. PYTHON: the Python whose torch is compared (default /usr/bin/python3, Debian's python3-torch); ROUNDS:
# number of rounds.
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
. "$top/tests/figures/figure.shlib"
starling=${STARLING:-$top/build/starling}
python=${PYTHON:-/usr/bin/python3}
rounds=${ROUNDS:-5}
"$python" -c 'import torch' 2>/dev/null || { echo "SKIP: $python has no torch (apt-get install python3-torch)"; exit 77; }
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }

field() { grep -oE "\"$1\": *-?[0-9.eE+-]+" | head -n 1 | grep -oE '[0-9.eE+-]+$'; }

"$python" -c 'import torch; print("PyTorch", torch.__version__, "2 threads")'
for model in mlp lenet; do
  target=2.5; [ $model = mlp ] || target=2.0
  ours='' theirs='' ratios='' peak='' kernels=''
  for _ in $(seq "$rounds"); do
    json=$("$starling" bench $model --batch 256 --workers 2 --json) || exit 1
    a=$(echo "$json" | field samples_per_s)
    b=$("$python" "$top/tests/figures/peers/torch_speed.py" $model 256 2 15) || exit 1
    b=${b% *}
    ours+="$a"$'\n' theirs+="$b"$'\n' ratios+="$(ratio "$a" "$b")"$'\n'
    peak+="$(echo "$json" | field percent_of_peak)"$'\n' kernels+="$(echo "$json" | field kernel_percent)"$'\n'
  done
  m() { printf '%s' "$1" | median; }
  echo "$model: Starling $(m "$ours") samples/s, PyTorch $(m "$theirs") samples/s, medians of $rounds in turn; $(m "$peak")% of the sgemm peak"
  figure "$model, samples/s as multiples of PyTorch's" ">= $target" "$(m "$ratios")"
  [ $model = lenet ] || figure "$model, per cent of the sgemm peak" '>= 60' "$(m "$peak")"
  figure "$model, kernels' per cent of worker time" '>= 90' "$(m "$kernels")"
done
exit $missed
