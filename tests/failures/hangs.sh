#!/bin/sh
# If a disk or file server hangs in a call (open, write, fsync, rename) on a checkpoint, the metrics or the model, the
# run names call and file within --stall-timeout, on one rank and on two. If training waits for the call, the run ends
# with exit code 76, and --resume continues to the bytes of an undisturbed run; otherwise a warning is printed.
. "$(dirname "$0")/../support/command.shlib"
faults=$(cd "${top_builddir:-$(dirname "$starling")}" && pwd)/tests/support/faults.so
[ -r /proc/self/comm ] || { echo '1..0 # SKIP no /proc'; exit 0; }
[ -e "$faults" ] || { echo "1..0 # SKIP no $faults"; exit 0; }
! grep -qa __asan_init "$starling" || { echo '1..0 # SKIP sanitizers come before what is loaded into a program'; exit 0; }
make_set data 300 60 8 3
options="--data data --batch 60 --leaves 2 --shards 2 --workers 1 --learning-rate 1e-4 --steps 20 --eval-every 4 --checkpoint-every 5 --log-every 2 --quiet"
patience=$((2 * $(pace)))
# shellcheck disable=SC2086 # $options is several words, here and below
expect 'a run that nothing disturbs' 0 '' train mlp $options --out whole
with_fault() { # call, part of the path, which one, milliseconds, program and arguments
  kind=$1 under=$2 nth=$3 ms=$4
  shift 4
  env LD_PRELOAD="$faults${LD_PRELOAD:+:$LD_PRELOAD}" FAULT_CALL="$kind" FAULT_HOW=slow FAULT_UNDER="$under" FAULT_N="$nth" FAULT_MS="$ms" "$@"
}
ends() { # name, pattern of the message
  check "$1: exit code 76" test $code = 76
  check "$1: call and file are named" grep -qE "^starling: $2" err
  check "$1: the heartbeat has the exit code" test "$(field exit_code a/heartbeat.json)" = 76
  check "$1: the stall file has the call" sh -c "grep -qE '\"in\": *\".*(open|write|fsync|rename|link) of ' a/stall-*.json"
  expect "$1: the run resumes" 0 '' train --resume --out a
  check "$1: the same model" cmp whole/model.safetensors a/model.safetensors
  check "$1: the same state" same_state whole a
}
hang() { # name, call, part of the path, which one
  code=0
  rm -rf a
  # shellcheck disable=SC2086
  with_fault "$2" "$3" "$4" 1000000000 $limit "$starling" train mlp $options --stall-timeout $patience --out a >out 2>err || code=$?
  ends "$1" "nothing has moved for [0-9]+ s: $2 of .*$5.* does not return: the disk or file server hangs;"
}
hang 'a part of a checkpoint' fsync .step-00000005.partial 1 step-00000005
hang 'the last checkpoint' rename checkpoints/step-00000020 1 step-00000020
hang 'a line of metrics' write metrics.jsonl 3 metrics.jsonl
hang 'the best model' open model.safetensors 1 model.safetensors

# Nothing waits for the heartbeat until the end.
rm -rf a
# shellcheck disable=SC2086
with_fault open heartbeat.json 3 $((1000 * (patience + 2))) $limit "$starling" train mlp $options --steps 1000000 --stall-timeout $patience --out a >out 2>err &
job=$!
check 'training goes on: a warning names call and file' wait_until grep -qE '^starling: warning: write of .*heartbeat.json has not returned for [0-9]+ s: the disk or file server hangs$' err
step=$(grep -c '' a/metrics.jsonl)
check 'and it does go on' wait_until has_lines a/metrics.jsonl $((step + 3))
for process in $(descendants $job); do
  [ "$(cat "/proc/$process/comm" 2>/dev/null)" != starling ] || kill -TERM "$process"
done
code=0
wait $job || code=$?
check 'the signal is answered' test $code = 75
check 'the heartbeat has the end' test "$(field exit_code a/heartbeat.json)" = 75
check 'the warning came once' test "$(grep -c 'has not returned' err)" = 1

if [ -x "${MPIEXEC-}" ]; then
  patience=$((4 * $(pace))) # ranks also wait for one another, while the machine gives its time to others
  for what in 'fsync .step-00000005.partial/.part-00001 1' 'write .step-00000020.partial/.part-00001 1'; do
    # shellcheck disable=SC2086 # $what is several words
    set -- $what
    code=0
    rm -rf a
    # shellcheck disable=SC2086
    with_fault "$1" "$2" "$3" 1000000000 env FAULT_RANK=1 $limit "$MPIEXEC" -n 2 "$starling" train mlp $options --stall-timeout $patience --out a >out 2>err || code=$?
    ends "two ranks, $1" "rank 0: nothing has moved for [0-9]+ s: .* waits for rank 1 \(.* in .*$1 of .*part-00001"
  done
else
  skip 'two ranks: no mpiexec'
fi
finish
