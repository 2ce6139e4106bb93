#!/bin/sh
# Stages of a pipeline (--mesh pipe=N), also together with samples (data=N): any number of stages, either order of their
# passes, and any number of micro-batches give the bytes of one rank, in every precision, with clipping, tied weights,
# dropout and recomputation. Checkpoints go from any number of stages to any other, and to ranks that divide samples.
# What cannot be a pipeline is refused with the reason.
. "$(dirname "$0")/../support/command.shlib"
. "$top/tests/support/ranks.shlib"

same_bytes() { # name, meshes (stages, or ranks of a stage x stages; then what else each has, separated by :), train's arguments
  plan=$1 meshes=$2
  shift 2
  ranks 1 train "$@" --steps 4 --val-fraction 0 --quiet --workers 1 --out one --force
  [ $code = 0 ] || { not_ok "$plan, 1 rank"; return; }
  for mesh in $meshes; do
    stages=${mesh%%:*} each=1
    case $stages in *x*) each=${stages%x*} stages=${stages#*x} ;; esac
    # shellcheck disable=SC2046 # options
    ranks $((each * stages)) train "$@" --steps 4 --val-fraction 0 --quiet --workers 1 --mesh "data=$each,pipe=$stages" $(echo "$mesh" | sed 's/^[0-9x]*//; s/:/ /g') --out several --force
    if [ $code = 0 ]; then check "$plan, $mesh stages" cmp one/model.safetensors several/model.safetensors
    else not_ok "$plan, $mesh stages"; fi
  done
}
same_bytes 'mlp, sgd, clipping' '2 3:--pipe-order:gpipe 2x2' mlp --data data --batch 96 --leaves 12 --clip 0.5 --optimizer sgd
same_bytes 'lenet, lamb, row blocks' '3 2:--micro-batches:2' lenet --data data --batch 96 --leaves 6 --row-blocks 2 --optimizer lamb --clip 0.5
same_bytes 'resnet8' '3 2x2' resnet8 --data data --batch 24 --leaves 6
same_bytes 'vit-tiny' '4' vit-tiny --data data --batch 8 --leaves 8 --smoothing 0.1
same_bytes 'bert-nano' '2' bert-nano --size layers=2,width=72,heads=3 --data text --length 32 --batch 8 --leaves 4
same_bytes 'bert-nano, recomputed' '2 3' bert-nano --size layers=3,width=72,heads=3 --data text --length 32 --batch 8 --leaves 4 --recompute block
gpt2='gpt2-nano --size layers=3,width=72,heads=3 --data text --length 32 --batch 8 --leaves 8 --dropout 0.1 --clip 0.1'
# shellcheck disable=SC2086 # several words, here and below
{
  same_bytes 'gpt2-nano, tied weights, dropout, clipping' '2 3 3:--pipe-order:gpipe 2:--micro-batches:4 2:--sched:dmdas 2x2' $gpt2
  same_bytes 'gpt2-nano, recomputed' '2' $gpt2 --recompute block
  same_bytes 'gpt2-nano, bf16' '3' $gpt2 --precision bf16
  same_bytes 'gpt2-nano, fp16' '2' $gpt2 --precision fp16
}
run tokenize text --tokenizer train --vocabulary 900 --out tokens
large='gpt2-nano --size layers=2,width=72,heads=3 --data tokens --length 16 --batch 12 --leaves 6 --clip 0.1 --dropout 0.1'
run graph gpt2 --batch 4 --length 64 --mesh pipe=2 --ranks 2 --stage 1
check 'a table larger than the rows that are looked up stays with the head' grep -qE '^wte:embedding +stage 1 +stage 0 +send' out
# shellcheck disable=SC2086
{
  same_bytes 'gpt2-nano, lookups where the head is' '2 3 3:--pipe-order:gpipe 2:--micro-batches:2 2x2' $large
  same_bytes 'gpt2-nano, lookups where the head is, bf16' '2' $large --precision bf16
}

# Validation, the best model and its test: all ranks divide the samples then, and fetch the parameters of other stages.
set -- train lenet --data data --batch 96 --leaves 6 --steps 12 --eval-every 2 --val-fraction 0.2 --workers 1 --learning-rate 0.01 --force
result() { sed -n 's/.*"\(best_step\|best_accuracy\|best_loss\|test_accuracy\|test_loss\)": *\([-0-9.e]*\).*/\1 \2/p' "$1/summary.json"; }
ranks 1 "$@" --out one
ranks 3 "$@" --mesh pipe=3 --out several
check 'validated: exit code' test $code = 0
check 'validated: the best model' cmp one/model.safetensors several/model.safetensors
check 'validated: its figures' test "$(result several)" = "$(result one)" -a -n "$(result one)"
losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([^,]*\),"accuracy":\([^,}]*\).*/\1 \2 \3/p' "$1/metrics.jsonl"; }
check 'the same losses' test "$(losses several)" = "$(losses one)" -a -n "$(losses one)"

# From any number of stages to any other, and to ranks that divide samples.
resumes '3 stages, 2, 2 x 2, 2 ranks with ZeRO 3, 2 stages, 3 ranks, 1 rank' \
  'mlp --data data --batch 120 --leaves 6 --clip 0.5 --val-fraction 0 --quiet --workers 1' '3 --steps 2 --mesh pipe=3' \
  '2 --steps 3 --mesh pipe=2' '4 --steps 4 --mesh data=2,pipe=2' '2 --steps 5 --mesh data=2 --zero 3' '2 --steps 6 --zero 0 --mesh data=1,pipe=2' '3 --steps 7 --mesh data=3' '1 --steps 8 --mesh data=1'
set -- train mlp --data data --batch 120 --leaves 4 --steps 3 --val-fraction 0 --quiet --workers 1 --force
ranks 1 "$@" --out first
ranks 1 "$@" --init first/model.safetensors --out one
ranks 2 "$@" --init first/model.safetensors --mesh pipe=2 --out several
check '--init' cmp one/model.safetensors several/model.safetensors

# What cannot be, and why.
refused() { # name, ranks, pattern, options
  name=$1 count=$2 pattern=$3
  shift 3
  ranks "$count" train mlp --data data --batch 96 --steps 2 --quiet --workers 1 --force --out refused "$@"
  check "refused: $name" sh -c "[ $code = 2 ] && grep -qE -e '$pattern' err"
}
refused 'a mesh of other ranks' 2 'mesh pipe=3 is for 3 ranks, and this job has 2' --mesh pipe=3
refused 'an unknown dimension' 2 'none of data=N, pipe=N and tensor=N' --mesh layers=2
refused 'no number' 2 'pipe=x. has no number of ranks' --mesh pipe=x
refused 'named twice' 2 'names pipe twice' --mesh pipe=2,pipe=1
refused 'with --zero' 2 'leave --zero out' --mesh pipe=2 --zero 1
refused 'with --balance' 2 'leave --balance out' --mesh pipe=2 --balance auto
refused 'more stages than layers' 8 'into 8 stages|8 stages, and' --mesh pipe=8 --leaves 8
refused 'an unknown order' 2 'pipe-order.*1f1b' --mesh pipe=2 --pipe-order zigzag

# A stage that stands still is named, with what the other waits for.
"$MPIEXEC" -n 2 "$starling" train mlp --data data --batch 96 --steps 1000000 --log-every 1 --quiet --workers 1 --mesh pipe=2 --stall-timeout 6 --force --out stopped >out 2>err &
job=$!
check 'a run of two stages goes on' wait_until has_lines stopped/metrics.jsonl 5
pid=$(rank_of $job 1)
kill -STOP "$pid"
code=0
wait $job || code=$?
kill -KILL "$pid" 2>/dev/null
check 'a stage that stands still: exit code' test $code = 76
check 'and the other one names it' sh -c 'grep -q "rank 0: nothing has .* rank 1 " err && grep -qE "the message (to|from) rank 1 for layer" err'

# Memory: each stage has its own layers, and the peak is as predicted.
peak() { ranks "$1" bench mlp --size hidden=2048,layers=8 --optimizer adamw --batch 64 --leaves 8 --micro-batches 8 --steps 3 --workers 1 --no-measure --json --mesh "$2" && number_of peak_memory_bytes out; }
whole=$(peak 1 data=1) half=$(peak 2 pipe=2)
predicted=$(number_of predicted_peak_bytes out)
check "the peak falls with the stages: $whole, $half" test "${half:-0}" -gt 0 -a "$half" -lt $((whole * 2 / 3))
within() { awk -v a="$1" -v b="$2" -v most="$3" 'BEGIN { exit !(a > 0 && b > 0 && a / b < 1 + most && b / a < 1 + most) }'; }
check "as predicted: $predicted" within "$half" "$predicted" 0.05
finish
