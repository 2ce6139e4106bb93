#!/bin/sh
# If a disk or file server hangs in a call that writes (open, write, fsync or rename of a checkpoint, the metrics or the
# model), a warning names call and file within --stall-timeout. If the call returns later, the run goes on, to the bytes
# of an undisturbed run. If the job has waited for the call for --disk-timeout, the job ends with exit code 76, and
# --resume continues to the same bytes. A call for which the job does not wait ends no job.
. "$(dirname "$0")/../support/command.shlib"
. "$top/tests/failures/hangs.shlib"
hang() { # name, call, part of the path, which one, pattern of the file
  code=0
  paced 2
  rm -rf a
  # shellcheck disable=SC2086
  with_fault "$2" "$3" "$4" 1000000000 $limit "$starling" train mlp $options --stall-timeout $patience --disk-timeout $disk --out a >out 2>err || code=$?
  warns "$1" "$2 of .*$5.*" "$waits"
  ends "$1" "no progress for [0-9]+ s: $2 of .*$5.* does not return: the disk or file server hangs; --disk-timeout says"
}
hang 'a part of a checkpoint' fsync .step-00000005.partial 1 step-00000005
hang 'the last checkpoint' rename checkpoints/step-00000020 1 step-00000020
hang 'a line of metrics' write metrics.jsonl 3 metrics.jsonl
hang 'the best model' open model.safetensors 1 model.safetensors
terminate() { # the run of $job
  for process in $(descendants $job); do
    [ "$(cat "/proc/$process/comm" 2>/dev/null)" != starling ] || kill -TERM "$process"
  done
}
slow() { # name, call, part of the path, which one
  code=0
  paced 2
  rm -rf a
  # shellcheck disable=SC2086
  with_fault "$2" "$3" "$4" $((1000 * (patience + margin + 2))) $limit "$starling" train mlp $options --stall-timeout $patience --out a >out 2>err || code=$?
  check "$1: the run goes on" test $code = 0
  warns "$1" "$2 of .*$3.*" "$waits"
  check "$1: the same model" cmp whole/model.safetensors a/model.safetensors
  check "$1: the same state" same_state whole a
}
slow 'a slow part of a checkpoint' fsync .step-00000005.partial 1
slow 'a slow line of metrics' write metrics.jsonl 3
# The end of the call is reported while the run goes on.
rm -rf a
paced 2
# shellcheck disable=SC2086
with_fault write metrics.jsonl 3 $((1000 * (patience + margin + 2))) $limit "$starling" train mlp $options --steps 1000000 --stall-timeout $patience --out a >out 2>err &
job=$!
check 'a slow line of metrics: it is reported when the call returns' wait_until grep -qE '^starling: write of .*metrics.jsonl has returned after [0-9]+ s$' err
step=$(grep -c '' a/metrics.jsonl)
check 'a slow line of metrics: training goes on' wait_until has_lines a/metrics.jsonl $((step + 3))
terminate
code=0
wait $job || code=$?
check 'a slow line of metrics: the signal is answered' test $code = 75

# Nothing waits for a checkpoint until the next one is due: a call of its writer ends no job meanwhile, however late.
rm -rf a
paced 2
# shellcheck disable=SC2086
with_fault fsync .partial 1 1000000000 $limit "$starling" train mlp $options --steps 1000000 --checkpoint-every 0 \
  --checkpoint-minutes "$(awk -v s=$((4 * patience)) 'BEGIN { print s / 60 }')" --stall-timeout $patience --disk-timeout $patience --out a >out 2>err &
job=$!
check 'the writer of a checkpoint: a warning says that the job goes on' \
  wait_until grep -qE '^starling: warning: fsync of .*partial.* has not returned for [0-9]+ s: .*; the job goes on meanwhile$' err
sleep $patience
step=$(grep -c '' a/metrics.jsonl)
check 'the writer of a checkpoint: it does go on' wait_until has_lines a/metrics.jsonl $((step + 3))
code=0
wait $job || code=$?
check 'the writer of a checkpoint: the job ends when the next one waits for it' test $code = 76

# Nothing waits for the heartbeat until the end.
rm -rf a
paced 2
# shellcheck disable=SC2086
with_fault open heartbeat.json 3 $((1000 * (patience + 2))) $limit "$starling" train mlp $options --steps 1000000 --stall-timeout $patience --out a >out 2>err &
job=$!
check 'training goes on: a warning names call and file' wait_until grep -qE '^starling: warning: write of .*heartbeat.json has not returned for [0-9]+ s: the disk or file server is slow or hangs; the job goes on meanwhile$' err
step=$(grep -c '' a/metrics.jsonl)
check 'and it does go on' wait_until has_lines a/metrics.jsonl $((step + 3))
terminate
code=0
wait $job || code=$?
check 'the signal is answered' test $code = 75
check 'the heartbeat has the end' test "$(field exit_code a/heartbeat.json)" = 75
check 'the warning came once' test "$(grep -c 'the job goes on meanwhile' err)" = 1

finish
