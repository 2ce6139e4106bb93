#!/bin/sh
# GPUs that fail while a network trains. If a GPU's memory is too small for all of the state, training works in less.
# If it is too small for a single task, or a GPU stops during a step, the job ends on all ranks with an error that
# names device and operation; --resume then gives the bytes of an undisturbed run.
. "$(dirname "$0")/training.shlib"
export EMULATED_SEED=1
same() { [ $code = 0 ] && [ "$(digest)" = "$wanted" ]; }
says() { cat out err | grep -qE -e "$1"; }

# Six layers of 160 x 160 with their moments are 1.8 MiB; StarPU keeps a part of the device's 2 MiB for itself.
layers='--size layers=6,hidden=160 --steps 4 --workers 1 --sched random'
# shellcheck disable=SC2086 # words, here and below
train_small mlp 1 $layers --gpus 0
wanted=$(digest)
export EMULATED_MEMORY=2
# shellcheck disable=SC2086
train_small mlp 1 $layers --gpus 1
check 'a state larger than the memory of the device: the same bytes' same
export EMULATED_MEMORY=6
train_small mlp 1 --size layers=3,hidden=600 --steps 4 --workers 1 --gpus 1 --sched random
check 'a task larger than the device: the run ends' test $code = 1
check 'the error names layer, operation and device, and what would help' says \
  "^starling: step 1: layer '[a-z0-9.]+' \([a-z_]+\) needs [0-9.]+ MiB at once, and GPU 0 has [0-9.]+ MiB.*--batch, --shards, --row-blocks, --folds, --mesh tensor=N, --gpus"
if [ -x "$MPIEXEC" ]; then
  EMULATED_DEVICES=2 train_small mlp 2 --size layers=3,hidden=600 --steps 4 --workers 1 --gpus 1 --sched random
  check 'a task larger than the device on 2 ranks: the job ends on both' test $code != 0 -a $code != 124 -a $code != 137
  check 'with an error that names layer, operation and device' says \
    "^starling: (rank [01]( of 2 \([^)]*\))?: )?step 1: layer '[a-z0-9.]+' \([a-z_]+\) needs [0-9.]+ MiB at once, and GPU [01] has [0-9.]+ MiB"
else
  skip 'a task larger than the device on 2 ranks: no MPI launcher'
fi
unset EMULATED_MEMORY

steps='--steps 20 --checkpoint-every 2 --workers 1 --sched random'
for ranks in 1 2; do
  if [ $ranks != 1 ] && ! [ -x "$MPIEXEC" ]; then
    skip "$ranks ranks: no MPI launcher"
    continue
  fi
  # Each rank has one of the devices. The first fails halfway.
  export EMULATED_DEVICES=$ranks EMULATED_REPORT=1
  # shellcheck disable=SC2086
  train_small mlp $ranks $steps
  wanted=$(digest)
  kernels=$(sed -n 's/.*emulated GPU 0: \([0-9]*\) kernels.*/\1/p' err | sort -n | tail -n 1)
  unset EMULATED_REPORT
  check "$ranks ranks: an undisturbed run, ${kernels:-no} kernels on GPU 0" test $code = 0 -a "${kernels:-0}" -gt 100
  # shellcheck disable=SC2086
  EMULATED_FAIL=0:$((kernels / 2)) train_small mlp $ranks $steps
  check "$ranks ranks: GPU 0 fails in the middle of a step: the job ends" test $code != 0 -a $code != 124 -a $code != 137
  check "$ranks ranks: the error names device, kernel and operation" says \
    'emulated GPU 0: kernel .* launched by sl__[a-z_]+_cuda of [a-z_]+\): fails'
  check "$ranks ranks: and GPU and layer" says "^starling: GPU [0-9]+ was given layer '[a-z0-9.]+' \([a-z_]+\) last; StarPU ends the process"
  check "$ranks ranks: there is a checkpoint" test -e "$(newest run)/checkpoint.json"
  code=0
  launch=''
  [ $ranks = 1 ] || launch="$MPIEXEC -n $ranks"
  $limit $launch "$starling" train --resume --out run --stall-timeout 600 --quiet >out 2>err </dev/null || code=$?
  check "$ranks ranks: --resume gives the bytes of the undisturbed run" same
done
finish
