#!/bin/sh
# ZeRO within a mesh (--mesh data=N,pipe=N,tensor=N --zero STAGE): the ranks that have the same part of the model divide
# its optimizer state, gradients and parameters by stage, and give the bytes of one rank, in every precision, with
# clipping, tied weights, dropout, recomputation and micro-batches. Checkpoints go from any mesh and stage to any other;
# model files and the best model are whole. Less memory, as predicted.
. "$(dirname "$0")/../support/command.shlib"
. "$top/tests/support/ranks.shlib"

# MPICH can be told that no two ranks share memory.
export MPIR_CVAR_NOLOCAL=1
same_bytes() { # name, meshes (data x pipe x tensor, stage of ZeRO, what else, separated by :), train's arguments
  plan=$1 meshes=$2
  shift 2
  ranks 1 train "$@" --steps 4 --val-fraction 0 --quiet --workers 1 --out one --force
  [ $code = 0 ] || { not_ok "$plan, 1 rank"; return; }
  for mesh in $meshes; do
    IFS=x: read -r data pipe tensor zero options <<END
$mesh
END
    # shellcheck disable=SC2046 # options
    ranks $((data * pipe * tensor)) train "$@" --steps 4 --val-fraction 0 --quiet --workers 1 --mesh "data=$data,pipe=$pipe,tensor=$tensor" --zero "$zero" $(echo "$options" | sed 's/:/ /g') --out several --force
    if [ $code = 0 ]; then check "$plan, $mesh" cmp one/model.safetensors several/model.safetensors
    else not_ok "$plan, $mesh"; fi
  done
}
same_bytes 'mlp, sgd, row blocks, uneven' '2x2x1:1 2x1x2:3 3x1x2:3' mlp --size layers=3,hidden=40 --folds 2 --data data --batch 96 --leaves 12 --row-blocks 2 --optimizer sgd
same_bytes 'lenet, lamb, clipping' '2x3x1:3:--pipe-order:gpipe' lenet --data data --batch 96 --leaves 6 --optimizer lamb --clip 0.5
same_bytes 'bert-nano, recomputed' '2x2x1:3 2x3x1:3:--pipe-order:gpipe' bert-nano --size layers=3,width=72,heads=3 --data text --length 32 --batch 8 --leaves 8 --recompute block
gpt2='gpt2-nano --size layers=2,width=64,heads=4 --folds 2 --data text --length 32 --batch 8 --leaves 8 --dropout 0.1 --clip 0.1'
# shellcheck disable=SC2086 # several words, here and below
{
  same_bytes 'gpt2-nano, tied weights, dropout, clipping' '2x2x1:1 2x2x1:3 2x2x1:3:--micro-batches:4 2x1x2:1 2x1x2:3:--sched:dmdas 2x2x2:3:--micro-batches:2' $gpt2
  same_bytes 'gpt2-nano, bf16' '2x2x1:3 2x1x2:3' $gpt2 --precision bf16 --bf16-sums pairs
  same_bytes 'gpt2-nano, fp16, recomputed' '2x2x1:1 2x1x2:3' $gpt2 --precision fp16 --recompute block
}
# A vocabulary that is divided, and so few tokens that the gradients of its table are gathered.
awk 'BEGIN { srand(1); for (i = 0; i < 20000; i++) printf "w%d %s", int(rand() * rand() * 3000), i % 12 ? "" : "\n" }' >words
run tokenize words --tokenizer train --vocabulary 1100 --out tokens
same_bytes '1,100 tokens, gathered gradients' '2x2x1:3 2x1x2:1 2x2x2:3' gpt2-nano --size layers=2,width=64,heads=4 --folds 4 --data tokens --length 4 --batch 8 --leaves 8 --clip 0.1

# From any mesh and stage to any other. Tensor ranks make two steps: the second one uses what each of them has updated.
resumes 'stages 3, 1, 3, 3, 1, 0 on 2x2x1, 2x1x2, 2x2x1, 3x1x1, 2x1x2, 1 rank' \
  'gpt2-nano --rate-schedule constant --size layers=2,width=64,heads=4 --folds 2 --data text --length 16 --batch 12 --leaves 12 --clip 0.5 --val-fraction 0 --quiet --workers 1' \
  '4 --steps 1 --mesh data=2,pipe=2 --zero 3' '4 --steps 3 --mesh data=2,tensor=2 --zero 1' '4 --steps 4 --mesh data=2,pipe=2 --zero 3' \
  '3 --steps 5 --mesh data=3 --zero 3' '4 --steps 7 --mesh pipe=1,tensor=2,data=2 --zero 1' '1 --steps 8 --mesh data=1 --zero 0'
# So many positions that the first replica owns what tensor ranks have in common.
resumes 'stages 1 and 3 on 2x1x2: tensors of several tensor ranks' \
  'gpt2-nano --rate-schedule constant --size layers=1,width=64,heads=4,positions=4096 --folds 2 --data text --length 16 --batch 12 --leaves 12 --val-fraction 0 --quiet --workers 1' \
  '4 --steps 2 --mesh data=2,tensor=2 --zero 1' '4 --steps 4 --mesh data=2,tensor=2 --zero 3' '4 --steps 6 --mesh data=2,tensor=2 --zero 1' '1 --steps 8 --mesh data=1 --zero 0'
unset MPIR_CVAR_NOLOCAL
resumes 'ranks that share memory: stage 3 on 2x2x1 and 2x1x2' \
  'mlp --rate-schedule constant --size layers=3,hidden=40 --folds 2 --data data --batch 96 --leaves 12 --val-fraction 0 --quiet --workers 1' \
  '4 --steps 3 --mesh data=2,pipe=2 --zero 3' '4 --steps 5 --mesh data=2,tensor=2 --zero 3' '1 --steps 8 --mesh data=1 --zero 0'

# Each rank verifies a share of a checkpoint's parts and reads what it alone holds, if all ranks see the folder of the
# run; else rank 0 reads all.
faults=$(cd "${top_builddir:-$(dirname "$starling")}" && pwd)/tests/support/faults.so
export MPIR_CVAR_NOLOCAL=1
set -- --size layers=5,hidden=384 --folds 2 --data "$PWD/data" --batch 96 --leaves 12 --val-fraction 0 --quiet --workers 1 --mesh data=2,pipe=2 --zero 3
ranks 1 train mlp "$@" --mesh data=1 --zero 0 --steps 4 --out one --force
ranks 4 train mlp "$@" --steps 2 --out first --force
ranks 4 train --resume --out first --steps 3
again() { rm -rf several && cp -r first several; }
# Resumes, with ranks 1 to 3 in this folder. counting RANK: counts the reads of this rank from parts.
resumed_in() { # folder
  code=0
  rm -f counts
  $limit "$MPIEXEC" -n 1 "$starling" train --resume --out several --steps 4 : -n 3 -wdir "$1" "$starling" train --resume --out several --steps 4 >out 2>err || code=$?
}
counting() { # rank, folder
  again
  (
    export FAULT_CALL=read FAULT_N=0 FAULT_UNDER=part-0000 FAULT_RANK="$1" FAULT_LOG="$PWD/counts" LD_PRELOAD="$faults ${LD_PRELOAD-}"
    resumed_in "$2"
  )
  awk '$1 == "read" { print $2 }' counts
}
same_model() { [ $code = 0 ] && cmp one/model.safetensors several/model.safetensors; }
again
printf x | dd of=several/checkpoints/step-00000003/part-00001.safetensors bs=1 seek=200000 conv=notrunc 2>>err
resumed_in "$PWD"
check 'a changed part that another rank verifies: the checkpoint before is used' grep -q 'part-00001.safetensors changed since it was written: .*; the checkpoint of step 2 is used' err
check 'and the same model comes of it' same_model
mkdir -p elsewhere/several
cp first/config.yaml elsewhere/several/
again
resumed_in "$PWD/elsewhere"
check 'only rank 0 sees the checkpoints: the same model' same_model
if grep -q __asan_init "$starling"; then skip 'who reads: not under a sanitizer'; else
  together=$(counting 0 "$PWD") alone=$(counting 0 "$PWD/elsewhere") other=$(counting 3 "$PWD")
  check "rank 3 reads parts itself ($other reads), and rank 0 less than alone ($together, $alone)" test "${other:-0}" -gt 2 -a "${together:-99}" -lt "${alone:-0}"
fi
again
cp -r first/checkpoints elsewhere/several/
rm -rf elsewhere/several/checkpoints/step-00000003
cp -r first/checkpoints/step-00000002 elsewhere/several/checkpoints/step-00000003
resumed_in "$PWD/elsewhere"
check 'other ranks see another checkpoint: the same model' same_model
unset MPIR_CVAR_NOLOCAL

# Validation, the best model, and its test: all ranks divide the samples then.
set -- train lenet --data data --batch 96 --leaves 6 --steps 12 --eval-every 2 --val-fraction 0.2 --workers 1 --learning-rate 0.01 --force
result() { sed -n 's/.*"\(best_step\|best_accuracy\|best_loss\|test_accuracy\|test_loss\)": *\([-0-9.e]*\).*/\1 \2/p' "$1/summary.json"; }
ranks 1 "$@" --out one
ranks 4 "$@" --mesh data=2,pipe=2 --zero 3 --verify-every 3 --out several
check 'validated: exit code' test $code = 0
check 'validated: the best model' cmp one/model.safetensors several/model.safetensors
check 'validated: its figures' test "$(result several)" = "$(result one)" -a -n "$(result one)"

# Memory: what a rank keeps falls, and is predicted. A model whose parameters outweigh the rest.
export MPIR_CVAR_NOLOCAL=1
peak() { ranks 4 bench mlp --size hidden=2048,layers=8 --optimizer adamw --batch 16 --leaves 4 --steps 3 --workers 1 --no-measure --json --mesh data=2,pipe=2 "$@" && number_of peak_memory_bytes out; }
whole=$(peak) state=$(peak --zero 1)
parts=$(peak --zero 3)
predicted=$(number_of predicted_peak_bytes out)
check "the peak falls with the stage: $whole, $state, $parts" test "${parts:-0}" -gt 0 -a "$parts" -lt "$state" -a "$state" -lt "$whole"
check "as predicted: $predicted" awk -v a="$parts" -v b="${predicted:-0}" 'BEGIN { exit !(a > 0 && b > 0 && a / b < 1.1 && b / a < 1.1) }'
run graph mlp --ranks 4 --mesh data=2,pipe=2 --zero 3
check 'graph shows the owners' grep -qE '^fc[0-9].weight +owned by rank [01] +replicated +fetch' out
run simulate gpt2 --machine epyc-2x64 --nodes 2 --ranks-per-node 2 --leaves 4 --batch 4 --mesh data=2,pipe=2 --zero 3
check 'simulated' test $code = 0
finish
