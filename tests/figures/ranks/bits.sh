#!/bin/bash
# Figure: the same parameters, byte for byte, after 100 steps (STEPS) of lenet on Fashion-MNIST and of gpt2-nano on
# the King James text: on 1, 2 and 4 ranks with 4 leaves, on 1 and 3 with 12; also with uneven leaves, and with
# divided optimizer state.
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
starling=${STARLING:-$top/build/starling} mpiexec=${MPIEXEC:-mpiexec.mpich} steps=${STEPS:-100}
data=${DATA:-/usr/share/datasets/fashion-mnist}
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }
command -v "$mpiexec" >/dev/null || { echo "SKIP: no $mpiexec"; exit 77; }
[ -d "$data" ] || { echo 'SKIP: no Fashion-MNIST (apt-get install dataset-fashion-mnist)'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
missed=0
digest() { sha256sum "$work/run/model.safetensors" | cut -c 1-16; }
try() { # name, ranks, train's arguments
  name=$1 ranks=$2
  shift 2
  "$mpiexec" -n "$ranks" "$starling" train "$@" --workers 1 --steps "$steps" --val-fraction 0 --quiet --out "$work/run" --force >"$work/log" 2>&1 || {
    echo "$name, $ranks ranks: failed: $(tail -n 1 "$work/log")"
    missed=1
    return
  }
  got=$(digest)
  [ "$ranks" != 1 ] || { wanted=$got; printf '%-44s 1 rank   %s\n' "$name" "$got"; return; }
  printf '%-44s %s ranks  %s %s\n' "$name" "$ranks" "$got" "$([ "$got" = "$wanted" ] && echo met || echo MISSED)"
  [ "$got" = "$wanted" ] || missed=1
}
both() { # name, arguments
  model=$1
  shift
  for ranks in 1 2 4; do try "$model, 4 leaves" "$ranks" "$@" --leaves 4; done
  try "$model, 4 leaves, state divided" 2 "$@" --leaves 4 --zero 1
  for ranks in 1 3; do try "$model, 12 leaves" "$ranks" "$@" --leaves 12; done
  try "$model, 12 leaves, 7 and 5" 2 "$@" --leaves 12 --balance 7,5
}
both 'lenet, batches of 240' lenet --data "$data" --batch 240
if command -v bible >/dev/null; then
  bible -f 'Gen1:1-Rev22:21' >"$work/kjv.txt"
  both 'gpt2-nano, 12 windows of 64' gpt2-nano --data "$work/kjv.txt" --batch 12 --length 64
else
  echo 'SKIP: no King James text (apt-get install bible-kjv bible-kjv-text)'
fi
exit $missed
