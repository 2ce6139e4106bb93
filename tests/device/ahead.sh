#!/bin/sh
# Batches are copied to GPUs a step ahead, while a step runs, and the results have the same bits as on CPUs.
. "$(dirname "$0")/training.shlib"
export EMULATED_DEVICES=1 EMULATED_SEED=0
network='mlp --size layers=2,hidden=24 --batch 32'
# shellcheck disable=SC2086 # words
run bench $network --steps 8 --gpus 0 --workers 1 --json
digest=$(grep state_digest out)
check 'the reference, one CPU worker' test $code = 0 -a -n "$digest"
for way in 'both lws 2 1' 'both random 2 2' 'gpu dmda 4 1'; do
  # shellcheck disable=SC2086 # words
  set -- $way
  workers=$1
  [ "$1" = gpu ] || workers=1
  # shellcheck disable=SC2086
  EMULATED_DEVICES="$3" EMULATED_SEED="$4" EMULATED_LAZY=1 run bench $network --steps 12 --workers "$workers" --sched "$2" --json
  [ -n "${twelve-}" ] || twelve=$(grep state_digest out)
  check "$1, $2, $3 GPUs, seed $4" test $code = 0 -a "$(grep state_digest out)" = "$twelve"
done
# shellcheck disable=SC2086
run bench $network --steps 12 --gpus 0 --workers 1 --json
check 'the bits of a CPU' test "$(grep state_digest out)" = "$twelve"

# At 2 megabytes a second the images of a batch take 12.5 ms. StarPU measures its links before, in a run
# with as many devices.
# shellcheck disable=SC2086
run bench $network --steps 8 --workers gpu --json
check 'on a GPU: the same bits' test "$(grep state_digest out)" = "$digest"
# shellcheck disable=SC2086
{
  run bench $network --steps 8 --gpus 0 --workers 1 --shards 4 --json
  four=$(grep state_digest out)
  run bench $network --steps 8 --workers gpu --shards 4 --json
}
check 'four tasks, each with its rows: the same bits' test -n "$four" -a "$(grep state_digest out)" = "$four"
# shellcheck disable=SC2086
EMULATED_GBPS=0.002 EMULATED_DELAY=0 run bench $network --steps 8 --workers gpu --out ahead --json
check 'by a slow link: the same bits' test "$(grep state_digest out)" = "$digest"
# shellcheck disable=SC2086
EMULATED_REPORT=1 run bench $network --steps 8 --workers gpu --json
copied() { sed -n "s/.*$1 \([0-9]*\) bytes.*/\1/p" err | head -n 1; }
unpinned=$(sed -n 's/.*; \([0-9]*\) bytes from or to memory that is not pinned.*/\1/p' err | head -n 1)
echo "# $(copied 'host to device') bytes to the GPU, ${unpinned:-0} bytes from or to memory that is not pinned"
check 'batches and large values lie in pinned memory' test "$(copied 'host to device')" -gt 500000 -a "${unpinned:-0}" -lt 100000
run trace ahead
check 'the batches are among the copies' grep -Eq ' MB   a step for input,' out
run trace ahead --format chrome --out trace.json
# The shortest wait for the images, in us: if batches were copied only after the step's start, it would be 12.5 ms
# or more.
waits() { tr '{' '\n' <trace.json | grep -A 1 '"name": *"images input"' | grep -o '"data_us": *[0-9.]*' | grep -o '[0-9.]*$' | sort -g; }
least() { waits | head -n 1; }
check 'eight steps were recorded' test "$(waits | grep -c .)" = 8
check 'some step had its images when it began' awk -v least="$(least)" 'BEGIN { exit !(least < 7500) }'
# If tasks copied the images over the link themselves, even the quickest task would take 12.5 ms.
quickest() { tr '{' '\n' <trace.json | grep '"name": *"images input"' | grep -o '"dur": *[0-9.]*' | grep -o '[0-9.]*$' | sort -g | head -n 1; }
check 'tasks use the images that were copied ahead' awk -v quickest="$(quickest)" 'BEGIN { exit !(quickest > 0 && quickest < 7500) }'

# At the end a batch is still being copied when the run frees its memory, which malloc gives back to the system.
# shellcheck disable=SC2086
MALLOC_MMAP_THRESHOLD_=65536 EMULATED_GBPS=0.0001 EMULATED_DELAY=0 run bench mlp --size layers=1,hidden=4 --batch 256 --steps 2 --workers gpu --json
check 'the end of a run waits for the batch that is copied' test $code = 0

make_set tested 96 50 8 3
train() { $limit "$starling" train mlp --workers both --size layers=2,hidden=24 --data tested --batch 12 --steps 6 --val-fraction 0.2 --quiet --out run "$@" >out 2>err </dev/null; }
scores() { $limit "$starling" eval run --data tested --json "$@" 2>err | grep -E '"(loss|accuracy|samples)"'; }
train --gpus 0 --workers 1
check 'a trained network' test -s run/model.safetensors
scores --gpus 0 --workers 1 >cpu
check 'is evaluated on a CPU' test -s cpu
scores --workers gpu >gpu
check 'and on a GPU, with its batches ahead: the same scores' cmp cpu gpu
finish
