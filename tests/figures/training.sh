#!/bin/bash
# Figure: the examples train as docs/reference/models.md promises: gpt2-nano on the King James text below 1.7 nats a
# byte within 15 minutes and no worse than PyTorch after the same bytes, resnet8 92.5% and vit-tiny 89% on
# Fashion-MNIST's test images; bert-nano's loss. Three quarters of an hour on two cores. RUNS: folder for the runs,
# so that curve.sh can draw them. PYTHON: the Python whose torch is compared (default /usr/bin/python3, Debian's
# python3-torch); without one that part is skipped.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/figures/figure.shlib"
export STARLING=${STARLING:-$top/build/starling} TEXT
runs=${RUNS:-$(mktemp -d)}
python=${PYTHON:-/usr/bin/python3}
TEXT=$runs/kjv.txt
[ -x "$STARLING" ] || { echo "SKIP: no $STARLING: run ./quickstart first"; exit 77; }

summary() { grep -oE "\"$2\": *[0-9.eE+-]+" "$runs/$1/summary.json" | grep -oE '[0-9.eE+-]+$' | awk '{ printf "%.6g", $1 }'; }
mkdir -p "$runs"
RUN=$runs/fashion-resnet8 "$top/examples/fashion-resnet8.sh" --force >"$runs/fashion-resnet8.log" 2>&1 || exit 1
value=$(summary fashion-resnet8 test_accuracy)
figure 'resnet8, test accuracy on Fashion-MNIST' '>= 0.925' "$value"
RUN=$runs/fashion-vit-tiny "$top/examples/fashion-vit-tiny.sh" --force >"$runs/fashion-vit-tiny.log" 2>&1 || exit 1
value=$(summary fashion-vit-tiny test_accuracy)
figure 'vit-tiny, test accuracy on Fashion-MNIST' '>= 0.89' "$value"
if ! command -v bible >/dev/null; then
  echo 'SKIP: no King James text (apt-get install bible-kjv bible-kjv-text)'
  exit $missed
fi
RUN=$runs/kjv "$top/examples/kjv.sh" --force >"$runs/kjv.log" 2>&1 || exit 1
loss=$(summary kjv validation_loss) seconds=$(summary kjv time_s) steps=$(summary kjv steps)
figure 'gpt2-nano, validation loss on the King James text' '<= 1.7' "$loss"
figure 'gpt2-nano, seconds for that' '<= 900' "$seconds"
if "$python" -c 'import torch' 2>/dev/null; then
  read -r _ theirs_seconds theirs < <("$python" "$top/tests/figures/peers/torch_text.py" "$TEXT" "$steps" 2 1e-3)
  echo "PyTorch after $steps steps: loss $theirs, $theirs_seconds s"
  figure "gpt2-nano, loss over PyTorch's after the same bytes" '<= 1' "$(ratio "$loss" "$theirs")"
fi
RUN=$runs/kjv-bert "$top/examples/kjv-bert.sh" --force >"$runs/kjv-bert.log" 2>&1 || exit 1
[ -n "$(summary kjv-bert validation_loss)" ] || { echo 'bert-nano: no value'; exit 1; }
echo "bert-nano: loss of hidden bytes $(summary kjv-bert validation_loss), of which $(summary kjv-bert validation_accuracy) restored"
exit $missed
