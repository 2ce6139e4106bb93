#!/bin/sh
# A residual network on Fashion-MNIST: resnet8 (308,000 parameters) classifies ten kinds of clothes. About eleven
# minutes on two cores.
# Options given here are passed on to starling train; STARLING and RUN name another program or run directory. The images
# come from Debian's package dataset-fashion-mnist, which quickstart installs.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
starling=${STARLING:-$top/build/starling} run=${RUN:-runs/fashion-resnet8}

# Each epoch shifts every image by up to two pixels, and mirrors half of them.
"$starling" train resnet8 --out "$run" --augment crop=2,flip "$@"
"$starling" eval "$run"
