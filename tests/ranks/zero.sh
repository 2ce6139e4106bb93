#!/bin/sh
# Stages 2 and 3 of ZeRO (--zero): parameters that only one rank keeps give the bytes of one rank, in every precision,
# with clipping, tied weights, dropout, micro-batches and recomputation. Checkpoints go from any stage and number of
# ranks to any other; the best model is restored, and --init and --verify-every work. Less memory, as predicted.
. "$(dirname "$0")/../support/command.shlib"
. "$top/tests/support/ranks.shlib"

# MPICH can be told that no two ranks share memory. Where they do, parameters lie in memory that they have in common.
export MPIR_CVAR_NOLOCAL=1
same_bytes() { # name, numbers of ranks, train's arguments
  plan=$1 counts=$2
  shift 2
  ranks 1 train "$@" --steps 4 --val-fraction 0 --quiet --workers 1 --out one --force
  [ $code = 0 ] || { not_ok "$plan, 1 rank"; return; }
  for count in $counts; do
    ranks "$count" train "$@" --steps 4 --val-fraction 0 --quiet --workers 1 --zero 3 --out several --force
    if [ $code = 0 ]; then check "$plan, $count ranks" cmp one/model.safetensors several/model.safetensors
    else not_ok "$plan, $count ranks"; fi
  done
}
same_bytes 'lenet, sgd, clipping' '2 3' lenet --data data --batch 96 --leaves 12 --clip 0.5 --optimizer sgd
same_bytes 'mlp, lamb, row blocks, micro-batches' 3 mlp --data data --batch 120 --leaves 6 --micro-batches 2 --row-blocks 2 --optimizer lamb --clip 0.5
same_bytes 'resnet8, batchnorm over the batch' 2 resnet8 --data data --batch 16 --leaves 4 --batchnorm global
same_bytes 'vit-tiny' 2 vit-tiny --data data --batch 8 --leaves 2 --smoothing 0.1
same_bytes 'bert-nano' 2 bert-nano --size layers=2,width=72,heads=3 --data text --length 32 --batch 4 --leaves 2
gpt2='gpt2-nano --size layers=2,width=72,heads=3 --data text --length 32 --batch 6 --leaves 3 --dropout 0.1 --clip 0.1'
for options in '3' '2 --recompute block' '2 --micro-batches 3 --leaves 9 --batch 9' '3 --precision bf16' '2 --precision fp16' '2 --sched dmdas'; do
  # shellcheck disable=SC2086 # several words
  same_bytes "gpt2-nano, tied weights, dropout, clipping: $options" ${options%% *} $gpt2 ${options#?}
done
run tokenize text --tokenizer train --vocabulary 900 --out tokens
same_bytes 'gpt2-nano, an embedding whose gradient is gathered' 3 gpt2-nano --size layers=2,width=72,heads=3 --data tokens --length 16 --batch 12 --leaves 6 --clip 0.1

# Stage 2 is stage 1: gradients leave their buffers as they are sent.
set -- train mlp --data data --batch 96 --leaves 6 --steps 4 --val-fraction 0 --quiet --workers 1 --force
ranks 2 "$@" --zero 1 --out one
ranks 2 "$@" --zero 2 --out several
check 'stage 2: the bytes of stage 1' cmp one/model.safetensors several/model.safetensors
expect 'a stage that does not exist' 2 '--zero.* (0 to 3|4)' "$@" --zero 4

# Validation, the best model, and its test: all read parameters that other ranks keep.
set -- train lenet --data data --batch 96 --leaves 6 --steps 12 --eval-every 2 --val-fraction 0.2 --workers 1 --learning-rate 0.01 --force
result() { sed -n 's/.*"\(best_step\|best_accuracy\|best_loss\|test_accuracy\|test_loss\)": *\([-0-9.e]*\).*/\1 \2/p' "$1/summary.json"; }
ranks 1 "$@" --out one
ranks 3 "$@" --zero 3 --verify-every 3 --out several
check 'validated: exit code' test $code = 0
check 'validated: the best model' cmp one/model.safetensors several/model.safetensors
check 'validated: its figures' test "$(result several)" = "$(result one)" -a -n "$(result one)"
scored() { "$starling" eval "$1" --data data 2>>err | grep -o 'accuracy [0-9.]*'; }
check 'eval has the model' test -n "$(scored one)" -a "$(scored several)" = "$(scored one)"

# From any stage and number of ranks to any other.
resumes 'stages 3, 3, 0, 3, 1, 3, 0 on 3, 2, 3, 2, 3, 2, 1 ranks' \
  'mlp --data data --batch 120 --leaves 6 --clip 0.5 --val-fraction 0 --quiet --workers 1' '3 --steps 2 --zero 3' \
  '2 --steps 3 --zero 3' '3 --steps 4 --zero 0' '2 --steps 5 --zero 3' '3 --steps 6 --zero 1' '2 --steps 7 --zero 3' '1 --steps 8 --zero 0'
begins_with '--init' one/model.safetensors --zero 3

# More ranks than tensors that are worth an owner: some write no part of a checkpoint.
set -- train lenet --data data --batch 96 --leaves 6 --steps 4 --val-fraction 0 --quiet --workers 1 --force
ranks 1 "$@" --out one
ranks 3 "$@" --zero 3 --checkpoint-every 2 --out several
check '3 ranks, two of them without a tensor' cmp one/model.safetensors several/model.safetensors

# Memory: what a rank keeps falls, and is predicted. A model whose parameters outweigh the rest.
peak() { ranks 2 bench mlp --size hidden=2048,layers=8 --optimizer adamw --batch 16 --leaves 2 --steps 3 --workers 1 --no-measure --json "$@" && number_of peak_memory_bytes out; }
whole=$(peak) half=$(peak --zero 1)
parts=$(peak --zero 3)
predicted=$(number_of predicted_peak_bytes out)
check "the peak falls with the stage: $whole, $half, $parts" test "${parts:-0}" -gt 0 -a "$parts" -lt "$half" -a "$half" -lt "$whole"
within() { awk -v a="$1" -v b="$2" -v most="$3" 'BEGIN { exit !(a > 0 && b > 0 && a / b < 1 + most && b / a < 1 + most) }'; }
check "as predicted: $predicted" within "$parts" "$predicted" 0.1

# Where ranks share memory, the parameters lie there once, and nothing is fetched.
unset MPIR_CVAR_NOLOCAL
set -- train lenet --data data --batch 96 --leaves 6 --steps 4 --val-fraction 0 --quiet --workers 1 --force
ranks 1 "$@" --out one
ranks 2 "$@" --zero 3 --out several
check 'ranks that share memory' cmp one/model.safetensors several/model.safetensors
# Each rank touches a part of the others' memory, in whole windows of 64 KB.
for stage in 0 3; do
  ranks 4 bench mlp --size hidden=2048,layers=4 --batch 16 --leaves 4 --steps 2 --workers 1 --no-measure --json --zero $stage
  check "4 ranks that share memory, stage $stage: the peak is as predicted" within "$(number_of peak_memory_bytes out)" "$(number_of predicted_peak_bytes out)" 0.03
done
run graph mlp --ranks 2 --zero 3
check 'graph shows what is fetched, when and for whom' grep -qE '^fc2.weight +owned by rank [01] +replicated +fetch +4.194  fc1, fc2$' out
finish
