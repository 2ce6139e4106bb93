#!/bin/sh
# Figure: networks of sizes and settings that no list has, odd ones included, written by transformers and torchvision
# with random weights: logits within 1e-4 of the largest, the same bits there and back, and, against PyTorch in double
# precision, the gradients of one step of SGD within 2e-5 and the losses of ten. PYTHON: a Python with torch,
# torchvision, transformers and safetensors (default python3).
top=$(cd "$(dirname "$0")/../../.." && pwd)
build=${top_builddir:-$top/build} python=${PYTHON:-python3}
[ -x "$build/starling" ] || { echo "SKIP: no $build/starling: run ./quickstart first"; exit 77; }
"$python" -c 'import safetensors, torch, torchvision, transformers' 2>/dev/null ||
  { echo "SKIP: $python lacks torch, torchvision, transformers or safetensors"; exit 77; }
exec "$python" "$top/tests/figures/peers/sizes.py" "${STARLING:-$build/starling}" "$build/tests/support/logits" "$@"
