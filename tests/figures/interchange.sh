#!/bin/sh
# Figure: Starling reads weights of transformers and torchvision, they read Starling's, and the logits are the same.
# $PYTHON (default python3) needs torch, torchvision, transformers and safetensors.
python=${PYTHON:-python3}
"$python" -c 'import torch, torchvision, transformers, safetensors' 2>/dev/null || {
  echo "SKIP: $python lacks torch, torchvision, transformers or safetensors; PYTHON names another"
  exit 77
}
build=${top_builddir:-.}
exec "$python" "$(dirname "$0")/peers/interchange.py" "${STARLING:-$build/starling}" "$build/tests/support/logits"
