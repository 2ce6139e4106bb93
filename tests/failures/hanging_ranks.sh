#!/bin/sh
# If the disk hangs in a call of one rank of several, which writes its part of a checkpoint or the metrics, or reads
# data, a warning names rank, call and file; if the call returns, the job goes on, else it ends with exit code 76.
. "$(dirname "$0")/../support/command.shlib"
[ -x "${MPIEXEC-}" ] || { echo '1..0 # SKIP no mpiexec'; exit 0; }
. "$top/tests/failures/hangs.shlib"
# Ranks also wait for one another, while the machine gives its time to others: 4 s each time, on an idle machine.
for what in 'fsync .step-00000005.partial/.part-00001 1' 'write .step-00000020.partial/.part-00001 1'; do
  # shellcheck disable=SC2086 # $what is several words
  set -- $what
  code=0
  rm -rf a
  paced 4
  # shellcheck disable=SC2086
  with_fault "$1" "$2" "$3" 1000000000 env FAULT_RANK=1 $limit "$MPIEXEC" -n 2 "$starling" train mlp $options --stall-timeout $patience --disk-timeout $disk --out a >out 2>err || code=$?
  warns "two ranks, $1" "$1 of .*part-00001.*" "$waits"
  ends "two ranks, $1" "rank 1: no progress for [0-9]+ s: $1 of .*part-00001.* does not return: the disk or file server hangs; --disk-timeout says"
done
# The third rank hears of no other by itself, and would end the job after twice the timeout.
code=0
rm -rf a
paced 4
# shellcheck disable=SC2086
with_fault write metrics.jsonl 3 $((1000 * (2 * patience + 6 + margin))) env FAULT_RANK=0 $limit "$MPIEXEC" -n 3 "$starling" train mlp $options --leaves 3 --shards 3 --stall-timeout $patience --out a >out 2>err || code=$?
check 'three ranks, a slow disk: the job goes on' test $code = 0
warns 'three ranks, a slow disk' 'write of .*metrics.jsonl' "$waits"
check 'three ranks, a slow disk: nobody is said to hang' sh -c '! grep -qE "no (progress|message) for" err'
# A model in many pieces, each written in less time than counts as slow, all in more than the timeout.
code=0
rm -rf a
paced 4
# shellcheck disable=SC2086
with_fault write model.safetensors 1 $((200 * patience)) env FAULT_ON=1 FAULT_RANK=0 $limit "$MPIEXEC" -n 3 "$starling" train mlp --size layers=8,hidden=16 $options --leaves 3 --shards 3 --steps 6 --stall-timeout $patience --out a >out 2>err || code=$?
check 'three ranks, a model that takes long to write: the job goes on' test $code = 0
undisturbed_text
# shellcheck disable=SC2086
{
  code=0
  rm -rf t
  paced 4
  with_fault page text.txt $((pages + (accesses - pages) / 4)) 1000000000 env FAULT_RANK=1 $limit "$MPIEXEC" -n 2 "$starling" train $tokens --stall-timeout $patience --disk-timeout $disk --out t >out 2>err || code=$?
  check 'two ranks, a page: exit code 76' test $code = 76
  check 'two ranks, a page: rank and file are named' grep -qE "^starling: rank 1: no progress for [0-9]+ s: read of text.txt does not return: the disk or file server hangs; --disk-timeout says" err
}
finish
