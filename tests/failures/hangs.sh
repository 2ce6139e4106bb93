#!/bin/sh
# If a disk or file server hangs in a call, a warning names call and file within --stall-timeout: open, write, fsync,
# rename and others of a checkpoint, the metrics or the model, on one rank and on several; reads of data, whole or
# mapped, of weights and of checkpoints. If the call returns later, the run goes on, to the bytes of an undisturbed run.
# If the job has waited for it for --disk-timeout, it ends with exit code 76, and --resume continues to the same bytes.
. "$(dirname "$0")/../support/command.shlib"
faults=$(cd "${top_builddir:-$(dirname "$starling")}" && pwd)/tests/support/faults.so
[ -r /proc/self/comm ] || { echo '1..0 # SKIP no /proc'; exit 0; }
[ -e "$faults" ] || { echo "1..0 # SKIP no $faults"; exit 0; }
! grep -qa __asan_init "$starling" || { echo '1..0 # SKIP sanitizers come before what is loaded into a program'; exit 0; }
export UCX_MEM_EVENTS=n # UCX would put its own mmap before ours
make_set data 300 60 8 3
options="--data data --batch 60 --leaves 2 --shards 2 --workers 1 --learning-rate 1e-4 --steps 20 --eval-every 4 --checkpoint-every 5 --log-every 2 --quiet"
patience=$((2 * $(pace)))
margin=$((2 * $(pace))) # what a busy machine may add to a second's looks
disk=$((2 * patience))
# shellcheck disable=SC2086 # $options is several words, here and below
expect 'a run that nothing disturbs' 0 '' train mlp $options --out whole
with_fault() { # call, part of the path, which one, milliseconds, program and arguments
  kind=$1 under=$2 nth=$3 ms=$4
  shift 4
  env LD_PRELOAD="$faults${LD_PRELOAD:+:$LD_PRELOAD}" FAULT_CALL="$kind" FAULT_HOW=slow FAULT_UNDER="$under" FAULT_N="$nth" FAULT_MS="$ms" "$@"
}
# The first warning of a call that is late: name, pattern of call and file, pattern of the consequence
warns() {
  check "$1: a warning names call and file" grep -qE "^starling: warning: (rank [0-9]: )?$2 has not returned for [0-9]+ s: the disk or file server is slow or hangs; $3\$" err
  said=$(sed -nE 's/.* has not returned for ([0-9]+) s: .*/\1/p' err | head -n 1)
  check "$1: it comes in time" test "${said:-1000000}" -le $((patience + margin))
}
waits='the job waits for it, and ends after [0-9]+ s \(--disk-timeout\)'
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
  with_fault "$2" "$3" "$4" 1000000000 $limit "$starling" train mlp $options --stall-timeout $patience --disk-timeout $disk --out a >out 2>err || code=$?
  warns "$1" "$2 of .*$5.*" "$waits"
  ends "$1" "nothing has moved for [0-9]+ s: $2 of .*$5.* does not return: the disk or file server hangs; --disk-timeout says"
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

# Reading, and the calls around it. With the files on their way there is no run yet, or an old one.
reads() { # name, call, part of the path, which one, pattern, starling's arguments
  about=$1 wanted_call=$2 wanted_path=$3 which=$4 pattern=$5 code=0
  shift 5
  # shellcheck disable=SC2086
  with_fault "$wanted_call" "$wanted_path" "$which" 1000000000 $limit "$starling" "$@" --stall-timeout $patience --disk-timeout $disk >out 2>err || code=$?
  check "$about: exit code 76" test $code = 76
  warns "$about" "$pattern" "$waits"
  check "$about: call and file are named" grep -qE "^starling: nothing has moved for [0-9]+ s: $pattern does not return: the disk or file server hangs;" err
}
# shellcheck disable=SC2086
{
  reads 'the folder of the data' opendir data 1 'opendir of data' train mlp $options --out b
  reads 'opening images' open train-images 1 'open of data/train-images-idx3-ubyte' train mlp $options --out b
  reads 'reading labels' read train-labels 2 'read of data/train-labels-idx1-ubyte' train mlp $options --out b
  reads 'closing the best model' close model.safetensors 1 'close of .*model.safetensors' train mlp $options --out b
  rm -rf b
  reads 'the lock of the run directory' flock b/.starling-run 1 'flock of .*b/.starling-run' train mlp $options --out b
  reads 'a new folder' mkdir b/checkpoints 1 'mkdir of .*b/checkpoints' train mlp $options --out b --force
  reads 'weights to begin with' read whole/model 1 'read of whole/model.safetensors' train mlp $options --init whole/model.safetensors --out b --force
  reads 'a model to evaluate' read whole/model 1 'read of whole/model.safetensors' eval whole --data data
  rm -rf b
  cp -r whole b
  reads 'the checkpoint to resume' read step-00000020/part 1 'read of .*b/checkpoints/step-00000020/part-00000.*' train --resume --out b
  expect 'it resumes later' 0 '' train --resume --out b
}
# A mapped file: the access itself takes long, in the first thread while the file is checked, in the loader's when
# training has begun.
head -c 100000 "$starling" | od -An -v -tx1 >text.txt
tokens="gpt2-nano --size layers=1,width=16,heads=2 --data text.txt --length 16 --batch 4 --leaves 2 --workers 1 --steps 30 --eval-every 30 --log-every 1 --quiet"
# shellcheck disable=SC2086
{
  code=0
  FAULT_LOG=pages with_fault page text.txt 0 0 "$starling" train $tokens --out t >out 2>err || code=$?
  check 'a run with a mapped text' test $code = 0
  cp t/model.safetensors mapped.safetensors
  pages=$(($(wc -c <text.txt) / 4096))
  accesses=$(sed -n 's/^page //p' pages)
  check 'pages are read again in training' test "$accesses" -gt $((pages + 20))
  rm -rf t
  reads 'a page, while the text is checked' page text.txt 20 'read of text.txt' train $tokens --out t
  check 'there is no run yet' absent t
  reads 'a page, in training' page text.txt $((pages + (accesses - pages) / 2)) 'read of text.txt' train $tokens --out t
  check 'training had begun' test "$(grep -c '"train"' t/metrics.jsonl)" -gt 0
  check 'the stall file has the call' grep -qE '"in": *".*the next batch.*read of text.txt' t/stall-*.json
  expect 'the run with the text resumes' 0 '' train --resume --out t
  check 'the run with the text: the same model' cmp mapped.safetensors t/model.safetensors
}

# Nothing waits for a checkpoint until the next one is due: a call of its writer ends no job meanwhile, however late.
rm -rf a
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

if [ -x "${MPIEXEC-}" ]; then
  patience=$((4 * $(pace))) # ranks also wait for one another, while the machine gives its time to others
  for what in 'fsync .step-00000005.partial/.part-00001 1' 'write .step-00000020.partial/.part-00001 1'; do
    # shellcheck disable=SC2086 # $what is several words
    set -- $what
    code=0
    rm -rf a
    # shellcheck disable=SC2086
    with_fault "$1" "$2" "$3" 1000000000 env FAULT_RANK=1 $limit "$MPIEXEC" -n 2 "$starling" train mlp $options --stall-timeout $patience --disk-timeout $((2 * patience)) --out a >out 2>err || code=$?
    warns "two ranks, $1" "$1 of .*part-00001.*" "$waits"
    ends "two ranks, $1" "rank 1: nothing has moved for [0-9]+ s: $1 of .*part-00001.* does not return: the disk or file server hangs; --disk-timeout says"
  done
  # The third rank hears of no other by itself, and would end the job after twice the timeout.
  code=0
  rm -rf a
  # shellcheck disable=SC2086
  with_fault write metrics.jsonl 3 $((1000 * (2 * patience + 6 + margin))) env FAULT_RANK=0 $limit "$MPIEXEC" -n 3 "$starling" train mlp $options --leaves 3 --shards 3 --stall-timeout $patience --out a >out 2>err || code=$?
  check 'three ranks, a slow disk: the job goes on' test $code = 0
  warns 'three ranks, a slow disk' 'write of .*metrics.jsonl' "$waits"
  check 'three ranks, a slow disk: nobody is said to hang' sh -c '! grep -q "nothing has" err'
  # shellcheck disable=SC2086
  {
    code=0
    rm -rf t
    with_fault page text.txt $((pages + (accesses - pages) / 4)) 1000000000 env FAULT_RANK=1 $limit "$MPIEXEC" -n 2 "$starling" train $tokens --stall-timeout $patience --disk-timeout $((2 * patience)) --out t >out 2>err || code=$?
    check 'two ranks, a page: exit code 76' test $code = 76
    check 'two ranks, a page: rank and file are named' grep -qE "^starling: rank 1: nothing has moved for [0-9]+ s: read of text.txt does not return: the disk or file server hangs; --disk-timeout says" err
  }
else
  skip 'two ranks: no mpiexec'
fi
finish
