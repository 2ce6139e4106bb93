#!/bin/sh
# A residual network on Fashion-MNIST: resnet8 (308,000 parameters) tells ten kinds of clothes apart. About eleven minutes on two cores.
# Options given here are passed on to starling train; STARLING and RUN name another program or place. The images come from
# Debian's package dataset-fashion-mnist, which quickstart installs.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
starling=${STARLING:-$top/build/starling} run=${RUN:-runs/fashion-resnet8}

# Each epoch sees every image moved by up to two pixels, and mirrored half of the time.
"$starling" train resnet8 --out "$run" --augment crop=2,flip "$@"
"$starling" eval "$run"
