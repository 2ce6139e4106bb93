#!/bin/sh
# A vision transformer on Fashion-MNIST: vit-tiny cuts an image into 49 patches of 4x4 pixels; each attends to all
# others. About six minutes on two cores. Options given here are passed on to starling train; STARLING and RUN name
# another program or run directory. The images come from Debian's package dataset-fashion-mnist, which quickstart
# installs.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
starling=${STARLING:-$top/build/starling} run=${RUN:-runs/fashion-vit-tiny}

"$starling" train vit-tiny --out "$run" --augment flip "$@"
"$starling" eval "$run"
