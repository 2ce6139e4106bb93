#!/bin/sh
# Faults that cause no error. --verify-every finds a bit that flips in the memory of one rank, and names rank and
# tensor; the run goes back to a checkpoint and ends with the bytes of an undisturbed one. Reading a checkpoint's part
# back finds a byte that a disk changes. --on-spike finds a loss that leaps, and stops, or goes back and skips the
# batch.
. "$(dirname "$0")/../support/command.shlib"
faults=$(cd "${top_builddir:-$(dirname "$starling")}" && pwd)/tests/support/faults.so
[ -e "$faults" ] || { echo "1..0 # SKIP no $faults"; exit 0; }
! grep -qa __asan_init "$starling" || { echo '1..0 # SKIP sanitizers come before what is loaded into a program'; exit 0; }
make_set data 300 60 8 3
losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([^,]*\),"accuracy":\([^,}]*\).*/\1 \2 \3/p' "$1/metrics.jsonl"; }
options='--data data --batch 60 --leaves 3 --workers 1 --learning-rate 1e-4 --steps 40 --eval-every 10 --checkpoint-every 10 --log-every 5'
same() { # what, run, run
  check "$1: the same state" same_state "$2" "$3"
  check "$1: the same model" cmp "$2/model.safetensors" "$3/model.safetensors"
  losses "$2" >one && losses "$3" >other
  check "$1: the same losses" cmp one other
}
job() { # name, ranks, exit code, variables of the fault, arguments
  name=$1 ranks=$2 wanted=$3 fault=$4 code=0
  shift 4
  # shellcheck disable=SC2086 # $fault is several words
  $limit env LD_PRELOAD="$faults${LD_PRELOAD:+:$LD_PRELOAD}" $fault "$MPIEXEC" -n "$ranks" "$starling" train mlp $options "$@" >out 2>err || code=$?
  check "$name: exit code $wanted" test $code = "$wanted"
}
# The last bias has 3 numbers, as have its two states: the parameter is the first of this size that StarPU knows.
flip='FAULT_CALL=step FAULT_HOW=memory FAULT_BYTES=12 FAULT_BIT=3'
if [ -x "${MPIEXEC-}" ]; then
  # shellcheck disable=SC2086 # $options is several words, here and below
  expect 'a run that nothing disturbs' 0 '^test' train mlp $options --out whole
  job 'a bit flips in one of three ranks' 3 0 "$flip FAULT_RANK=2 FAULT_N=14" --verify-every 4 --out a
  check 'step, tensor and rank are named' grep -qE 'after step 16 [^ ]*bias.* of rank 2 \([^)]*\) differs from that of the other ranks; the run goes back to the checkpoint of step 10' err
  same 'a bit that flips' whole a
  job 'a bit flips in one of two ranks' 2 0 "$flip FAULT_RANK=1 FAULT_N=25" --verify-every 1000 --out b
  check 'before the next checkpoint it is found' grep -qE 'after step 30 .* differs between the ranks, and no majority of them agrees; the run goes back to the checkpoint of step 20' err
  same 'a bit that flips, two ranks' whole b
  job 'without the option it passes' 2 0 "$flip FAULT_RANK=1 FAULT_N=25" --out c
  check 'and the result is another' sh -c "! cmp -s whole/model.safetensors c/model.safetensors"
  job 'no checkpoint yet' 3 71 "$flip FAULT_RANK=1 FAULT_N=2" --verify-every 4 --out d
  check 'it says so' grep -q 'there is no checkpoint before it to go back to' err
  check 'the run directory stays, and its heartbeat has the exit code' grep -q '"exit_code": 71' d/heartbeat.json
  job 'a rank whose memory is bad for good' 2 71 "$flip FAULT_RANK=0 FAULT_N=25 FAULT_ON=1" --verify-every 1 --out e
  check 'it goes back once' grep -q 'differs between the ranks.*, as before the run went back to the checkpoint of step 20' err
  job 'no fault: nothing is told' 2 0 '' --verify-every 3 --out f
  check 'no word' sh -c '! grep -qE "differs|compare" err'
  same 'compared ranks' whole f
  # shellcheck disable=SC2086
  expect 'one rank has no other to compare with' 0 '^test' train mlp $options --verify-every 3 --out alone
  check 'it says so' grep -q 'this run has only one: nothing is compared' err
  job '--zero 3: parameters that only one rank holds' 2 0 '' --zero 3 --verify-every 3 --out divided
  check 'it says once that they are not compared' test "$(grep -cE 'with --zero 3 there is only one copy of ([0-9]+) of the \1 parameters: these are not compared' err)" = 1
  check 'what cannot be compared: the same model' cmp whole/model.safetensors divided/model.safetensors
  job '--zero 1: the ranks of a machine share parameters' 2 0 '' --zero 1 --verify-every 3 --out shared
  check 'it says so' grep -q 'with --zero 1 there is only one copy of' err
  # Two stages of two ranks each: the last bias is on ranks 0 and 2, as the second stage has the loss alone.
  options=$(echo "$options" | sed 's/--leaves 3/--leaves 12/')
  # shellcheck disable=SC2086
  expect 'twelve leaves' 0 '^test' train mlp $options --out twelve
  job 'a bit flips in a rank of a mesh' 4 0 "$flip FAULT_RANK=2 FAULT_N=25" --mesh data=2,pipe=2 --verify-every 3 --out mesh
  check 'the ranks of its stage differ' grep -qE 'after step 27 [^ ]*bias.* differs between the ranks, and no majority of them agrees; the run goes back to the checkpoint of step 20' err
  check 'nothing is left out' sh -c '! grep -q "only one copy" err'
  check 'a bit that flips in a mesh: the same model' cmp twelve/model.safetensors mesh/model.safetensors
  job 'a mesh without two ranks of a stage' 2 0 '' --mesh pipe=2 --verify-every 3 --out stages
  check 'it says that nothing is compared' grep -qE 'with --mesh pipe=2 there is only one copy of ([0-9]+) of the \1 parameters' err
else
  skip 'bits that flip: no mpiexec'
fi

# The second write of a part, because the first holds the tensors' names.
code=0
# shellcheck disable=SC2086
LD_PRELOAD="$faults${LD_PRELOAD:+:$LD_PRELOAD}" FAULT_CALL=write FAULT_UNDER=.step-00000020.partial/.part FAULT_N=2 FAULT_HOW=flip \
  "$starling" train mlp $options --out g >out 2>err || code=$?
check 'a byte changes on its way to the disk: training goes on' test $code = 0
check 'it is found, and the part is named' grep -qE 'no checkpoint was written, training goes on: .*step-00000020.*: read back, its checksum is' err
check 'no such checkpoint is there' absent g/checkpoints/step-00000020
check 'the next one is' test -e g/checkpoints/step-00000030/checkpoint.json

# One image of the first class with the label of another: once the others are learned, its loss leaps.
make_set odd 300 60 8 3
printf '\1' | dd of=odd/train-labels-idx1-ubyte bs=1 seek=$((8 + ${ODD:-297})) conv=notrunc 2>/dev/null
odd='train mlp --data odd --batch 4 --workers 1 --steps 120 --eval-every 1000 --checkpoint-every 10 --log-every 1 --keep 20 --val-fraction 0'
# shellcheck disable=SC2086
expect 'a loss that leaps is no failure by default' 0 '^test' $odd --out i
# shellcheck disable=SC2086
expect '--on-spike stop' 65 'step [0-9]+: the loss leaps to [0-9.]+; over the [0-9]+ steps before it was [0-9.e-]+ \+- ' $odd --on-spike stop --out s
step=$(sed -n 's/.*step \([0-9]*\): the loss leaps.*/\1/p' err)
check 'the step is that of the greatest loss so far' test "$(losses i | awk -v s="$step" '$1 > 30 && $1 <= s && $2 > most { most = $2; at = $1 } END { print at }')" = "$step"
# shellcheck disable=SC2086
expect '--on-spike rollback' 0 "step $step: the loss leaps to .*; the run goes back to the checkpoint of step $(((step - 2) / 10 * 10))" $odd --on-spike rollback --out r
check 'the summary has the steps that were left out' sh -c "tr -d ' \n' <r/summary.json | grep -q '\"skipped_steps\":\[$((step - 1)),$step'"
check 'their metrics are missing, those of the others are there' test "$(losses r | awk '{ print $1 }' | tr '\n' ' ' | grep -c " $((step - 2)) $((step + 1)) ")" = 1
# shellcheck disable=SC2086
expect 'again' 0 '^test' $odd --on-spike rollback --out again
same '--on-spike rollback' r again
# shellcheck disable=SC2086
expect 'a leap at step 2: there is nothing to go back to' 65 'there is no checkpoint before it to go back to' $odd --learning-rate 1e30 --optimizer sgd --clip 0 --checkpoint-every 1 --on-spike rollback --out first
ruin="$odd --val-fraction 0.2 --learning-rate 1e30 --optimizer sgd --clip 0 --eval-every 1"
# shellcheck disable=SC2086
{
  expect 'an update that ruins the model, found by a validation: stop' 65 'not finite .*; no earlier checkpoint can help' $ruin --on-spike stop --out ruined
  expect 'likewise: rollback' 65 'there is no checkpoint before it to go back to' $ruin --checkpoint-every 1 --on-spike rollback --out ruined2
  expect 'likewise: ignore' 1 'evaluation: step 1: .*not finite' $ruin --out ruined3
}
# shellcheck disable=SC2086
expect 'every checkpoint is too young to go back to' 65 'there is no checkpoint before it to go back to' $odd --checkpoint-every $((step - 1)) --keep 1 --on-spike rollback --out young
check 'the checkpoint stays' test -e "young/checkpoints/$(printf 'step-%08d' $((step - 1)))/checkpoint.json"
check 'and so do metrics, and a heartbeat with the exit code' sh -c 'test -s young/metrics.jsonl && grep -q "\"exit_code\": 65" young/heartbeat.json'
# shellcheck disable=SC2086
expect 'the stopped run goes on' 0 '^test' train --resume --out s --on-spike rollback
same 'stopped, then resumed' r s
finish
