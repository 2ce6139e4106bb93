#!/bin/sh
# Stages of a pipeline (--mesh pipe=N), also together with samples (data=N): any number of stages, any order of their
# passes, and any number of micro-batches give the bytes of one rank, in every precision, with clipping, tied weights,
# dropout and recomputation. Checkpoints go from any number of stages to any other, and to ranks that divide samples. An
# impossible pipeline is refused with the reason.
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
same_bytes 'mlp, sgd, clipping' '2 3:--pipe-order:gpipe 3:--pipe-order:zero-bubble 2x2:--pipe-order:eager-1f1b 2x2:--pipe-order:zero-bubble 2:--pipe-chunks:2:--micro-batches:4 2:--pipe-chunks:2:--pipe-order:gpipe:--micro-batches:3 3:--pipe-parts:5 3:--stages:1,1,3 2:--stages:fc3:--pipe-order:auto' mlp --data data --batch 96 --leaves 12 --clip 0.5 --optimizer sgd
same_bytes 'lenet, lamb, row blocks' '3:--pipe-parts:2 2:--micro-batches:2' lenet --data data --batch 96 --leaves 6 --row-blocks 2 --optimizer lamb --clip 0.5
same_bytes 'resnet8' '3 2x2' resnet8 --data data --batch 24 --leaves 6
same_bytes 'vit-tiny' '4' vit-tiny --data data --batch 8 --leaves 8 --smoothing 0.1
same_bytes 'bert-nano' '2' bert-nano --size layers=2,width=72,heads=3 --data text --length 32 --batch 8 --leaves 4
same_bytes 'bert-nano, recomputed' '2 3' bert-nano --size layers=3,width=72,heads=3 --data text --length 32 --batch 8 --leaves 4 --recompute block
gpt2='gpt2-nano --size layers=3,width=72,heads=3 --data text --length 32 --batch 8 --leaves 8 --dropout 0.1 --clip 0.1'
# shellcheck disable=SC2086 # several words, here and below
{
  same_bytes 'gpt2-nano, tied weights, dropout, clipping' '2 3 3:--pipe-order:gpipe 3:--pipe-order:zero-bubble 3:--pipe-order:eager-1f1b 2:--micro-batches:4 2:--sched:dmdas 2x2 3:--pipe-parts:3:--micro-batches:4' $gpt2
  same_bytes 'gpt2-nano, stages by hand' '2:--stages:3,1 3:--stages:h.0.mlp,ln_f:--zero:1 2:--pipe-chunks:2:--micro-batches:4:--stages:h.0,h.1,h.2' $gpt2
  same_bytes 'gpt2-nano, recomputed' '2 2:--pipe-parts:4:--pipe-order:zero-bubble 2:--pipe-chunks:2:--micro-batches:4' $gpt2 --recompute block
  same_bytes 'gpt2-nano, runs interleaved, ZeRO' '2:--pipe-chunks:3:--micro-batches:8 2x2:--pipe-chunks:2:--micro-batches:2:--zero:3:--sched:dmda 2x2:--pipe-chunks:2:--pipe-order:zero-bubble:--micro-batches:4:--zero:3' $gpt2
  same_bytes 'gpt2-nano, bf16' '3:--pipe-order:zero-bubble' $gpt2 --precision bf16
  same_bytes 'gpt2-nano, fp16' '2' $gpt2 --precision fp16
}
# What a stage has, by graph; the names of layers that it lists can begin a stage.
first_layer() { # stage, --stages' list: first layer with a parameter of the stage
  run graph gpt2-nano --length 32 --batch 8 --mesh pipe=2 --ranks 2 --stages "$2" --stage "$1"
  awk '$1 == "forward" && ($3 == "layernorm" || $3 == "linear" || $3 == "embedding") { print $2; exit }' out
}
check 'stage 1 begins with the layer that --stages names' test "$(first_layer 1 h.4)" = h.4.ln_1
block() { first_layer "$@" | sed 's/^h[.]\([0-9]*\)[.].*/\1/'; }
check 'a larger share for stage 0' test "$(block 1 3,1)" -gt "$(block 1 1,3)"
run graph gpt2-nano --length 32 --batch 8 --leaves 8 --shards 8 --mesh pipe=2 --ranks 2 --micro-batches 4 --pipe-parts 4
check 'a stage cuts each of 8 shards into 4 parts' grep -qE '^forward .* sequence_part +.* 32  ' out
check 'and joins the parts of 8 gradients' grep -qE '^backward .* sequence_join +.* 8  ' out
run tokenize text --tokenizer train --vocabulary 900 --out tokens
large='gpt2-nano --size layers=2,width=72,heads=3 --data tokens --length 16 --batch 12 --leaves 6 --clip 0.1 --dropout 0.1'
run graph gpt2 --batch 4 --length 64 --mesh pipe=2 --ranks 2 --stage 1
check 'a table larger than the rows that are looked up stays with the head' grep -qE '^wte:embedding +stage 1 +stage 0 +send' out
# shellcheck disable=SC2086
{
  same_bytes 'gpt2-nano, lookups where the head is' '2 3:--pipe-parts:2:--pipe-chunks:2:--micro-batches:3 3 3:--pipe-order:gpipe 2:--micro-batches:2 2x2' $large
  same_bytes 'gpt2-nano, lookups where the head is, bf16' '2:--pipe-order:zero-bubble 2:--pipe-parts:3' $large --precision bf16
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

# The report says how long the stages were idle, and the bubble of the formula: two of eight slots.
if command -v jq >/dev/null; then
  ranks 3 train mlp --data data --batch 96 --leaves 6 --micro-batches 6 --steps 4 --val-fraction 0 --quiet --workers 1 --mesh pipe=3 --out several --force
  run report several --json --out report.json
  check 'report: the stages' test "$(jq -c '[.timelines[].place]' report.json)" = '["stage 0","stage 1","stage 2"]'
  check 'report: idle at least as long as the bubble' jq -e '[.totals[].mesh | .pipe == 3 and .micro_batches == 6 and .bubble_percent == 25 and .no_task_percent < 100 and .no_task_percent > 0] | all and length == 3' report.json
  check 'report: the same as kernels of one worker tell' jq -e '[.totals[] | (.kernel_percent + .mesh.no_task_percent - 100) | fabs < 1e-3] | all' report.json
  check 'report: in words' jq -e '.answer | any(test("^No task ran on a stage of the pipeline for .* with P = 3 stages and M = 6 micro-batches, is 25.0 %"))' report.json
  ranks 3 train mlp --data data --batch 96 --leaves 6 --micro-batches 6 --steps 4 --val-fraction 0 --quiet --workers 1 --mesh pipe=3 --pipe-order zero-bubble --out third --force
  run report third --json --out third.json
  check 'report: the bubble of zero-bubble, two of twenty slots' jq -e '[.totals[].mesh | .bubble_percent == 10 and .chunks == 1] | all and length == 3' third.json
  check 'report: micro-batches of the tasks' jq -e '[.timelines[0].nodes.micro_batch[]] | max == 5' report.json
fi
run trace several
check 'trace: idle stages beside the bubble' grep -qE 'no task runs +[0-9.]+ % .*\(stage 2\); bubble .* with P = 3 stages, M = 6 micro-batches and V = 1 chunk of layers a stage: 25.00 %' out

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
refused 'a mesh of other ranks' 2 'mesh pipe=3 is for 3 ranks .*and this job has 2' --mesh pipe=3
refused 'an unknown dimension' 2 'none of data=N, pipe=N and tensor=N' --mesh layers=2
refused 'no number' 2 'pipe=x. has no number of ranks' --mesh pipe=x
refused 'named twice' 2 'names pipe twice' --mesh pipe=2,pipe=1
refused 'with --balance' 2 'leave --balance out' --mesh pipe=2 --balance auto
refused 'more stages than layers' 8 'into 8 stages|8 stages, and' --mesh pipe=8 --leaves 8
refused 'more runs than layers' 2 '30 chunks on each of 2 stages, .* layers \(--pipe-chunks\)' --mesh pipe=2 --pipe-chunks 30
refused 'runs and micro-batches that do not fit' 2 '2 chunks on each of 2 stages, which do not divide 3 micro-batches \(--pipe-chunks\)' --mesh pipe=2 --pipe-chunks 2 --leaves 6 --micro-batches 3
refused 'no runs' 2 'pipe-chunks: 0 is out of range' --mesh pipe=2 --pipe-chunks 0
refused 'shares for other stages' 2 '3 shares .*1,2,3.* for 2 runs of layers \(--stages\)' --mesh pipe=2 --stages 1,2,3
refused 'an unknown layer' 2 'no layer .fc9. .*the first one is .fc1. \(--stages\)' --mesh pipe=2 --stages fc9
refused 'layers in another order' 3 'layer .fc2. must come after' --mesh pipe=3 --leaves 6 --stages fc3,fc2
refused 'stages by hand, and no pipeline' 2 'stages 2,1: this job has no pipeline: add --mesh pipe=N, or --stages auto' --stages 2,1
refused 'an unknown order' 2 'pipe-order.*1f1b' --mesh pipe=2 --pipe-order zigzag

# A stage that stands still is named: by what waits for it, or by its silence if the other one has waited for less long.
# (mesh_stalls.sh looks at the exchanges that the message names.)
"$MPIEXEC" -n 2 "$starling" train mlp --data data --batch 96 --steps 1000000 --log-every 1 --val-fraction 0 --quiet --workers 1 --mesh pipe=2 --stall-timeout 6 --force --out stopped >out 2>err &
job=$!
check 'a run of two stages goes on' wait_while $job has_lines stopped/metrics.jsonl 5
pid=$(rank_of $job 1)
kill -STOP "$pid"
code=0
wait $job || code=$?
kill -KILL "$pid" 2>/dev/null
check 'a stage that stands still: exit code' test $code = 76
check 'and the other one names it' grep -qE 'rank 0: no (progress|message) for .* (waits for|from) rank 1 \(' err

# Memory: each stage has its own layers, and the peak is as predicted.
peak() { ranks "$1" bench mlp --size hidden=2048,layers=8 --optimizer adamw --batch 64 --leaves 8 --micro-batches 8 --steps 3 --workers 1 --no-measure --json --mesh "$2" && number_of peak_memory_bytes out; }
whole=$(peak 1 data=1) half=$(peak 2 pipe=2)
predicted=$(number_of predicted_peak_bytes out)
check "the peak falls with the stages: $whole, $half" test "${half:-0}" -gt 0 -a "$half" -lt $((whole * 2 / 3))
within() { awk -v a="$1" -v b="$2" -v most="$3" 'BEGIN { exit !(a > 0 && b > 0 && a / b < 1 + most && b / a < 1 + most) }'; }
check "as predicted: $predicted" within "$half" "$predicted" 0.05
finish
