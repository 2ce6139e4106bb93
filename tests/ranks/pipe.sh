#!/bin/sh
# Stages of a pipeline (--mesh pipe=N): any number of stages, either order of their passes, and any number of
# micro-batches give the bytes of one rank, in every precision, with clipping, tied weights, dropout and recomputation.
# Checkpoints go from any number of stages to any other, and to ranks that divide samples. What cannot be a pipeline is
# refused with the reason.
. "$(dirname "$0")/../support/command.shlib"
. "$top/tests/support/ranks.shlib"

same_bytes() { # name, meshes (separated by commas; : for what else each has), train's arguments
  plan=$1 meshes=$2
  shift 2
  ranks 1 train "$@" --steps 4 --val-fraction 0 --quiet --workers 1 --out one --force
  [ $code = 0 ] || { not_ok "$plan, 1 rank"; return; }
  for mesh in $meshes; do
    # shellcheck disable=SC2046 # options
    ranks "${mesh%%:*}" train "$@" --steps 4 --val-fraction 0 --quiet --workers 1 --stall-timeout 15 --mesh "pipe=${mesh%%:*}" $(echo "$mesh" | sed 's/^[0-9]*//; s/:/ /g') --out several --force
    if [ $code = 0 ]; then check "$plan, $mesh stages" cmp one/model.safetensors several/model.safetensors
    else not_ok "$plan, $mesh stages"; fi
  done
}
same_bytes 'mlp, sgd, clipping' '2 3:--pipe-order:gpipe' mlp --data data --batch 96 --leaves 12 --clip 0.5 --optimizer sgd
same_bytes 'lenet, lamb, row blocks' '3 2:--micro-batches:2' lenet --data data --batch 96 --leaves 6 --row-blocks 2 --optimizer lamb --clip 0.5
same_bytes 'resnet8' '3' resnet8 --data data --batch 24 --leaves 6
same_bytes 'vit-tiny' '4' vit-tiny --data data --batch 8 --leaves 8 --smoothing 0.1
same_bytes 'bert-nano' '2' bert-nano --size layers=2,width=72,heads=3 --data text --length 32 --batch 8 --leaves 4
gpt2='gpt2-nano --size layers=3,width=72,heads=3 --data text --length 32 --batch 8 --leaves 8 --dropout 0.1 --clip 0.1'
# shellcheck disable=SC2086 # several words, here and below
{
  same_bytes 'gpt2-nano, tied weights, dropout, clipping' '2 3 3:--pipe-order:gpipe 2:--micro-batches:4 2:--sched:dmdas' $gpt2
  same_bytes 'gpt2-nano, recomputed' '2' $gpt2 --recompute block
  same_bytes 'gpt2-nano, bf16' '3' $gpt2 --precision bf16
  same_bytes 'gpt2-nano, fp16' '2' $gpt2 --precision fp16
}
finish
