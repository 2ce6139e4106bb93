#!/bin/sh
# Data larger than a GPU's memory: a plan decides which data leave it and when. A small network of each family gives the
# same bytes with a third of the memory that its tasks' data need, on GPUs only and with a CPU worker, on 1 and 2 GPUs,
# and on two ranks. The copied bytes are as planned, and close to a lower bound.
. "$(dirname "$0")/training.shlib"
export EMULATED_SEED=1
within() { awk -v a="$1" -v b="$2" -v most="$3" 'BEGIN { exit !(a > 0 && b > 0 && a <= most * b) }'; } # a <= most b

state() { sed -n 's/.*"state_digest": "\([^"]*\)".*/\1/p' "$1"; }

# The memory in megabytes: a third of the data of a GPU's tasks, or the data of its largest task.
for family in ${FAMILIES:-$families}; do
  train_small "$family" 1 --steps 6 --gpus 0 --workers 1 --sched eager
  check "$family: the reference, one CPU worker" test $code = 0 -a -s run/model.safetensors
  digest >wanted
  # shellcheck disable=SC2046 # words
  "$starling" graph $(small "$family" | sed 's/--val-fraction 0//') --workers gpu --gpus 1 --json >graph
  memory=$(awk -v all="$(number_of all_bytes graph)" -v task="$(number_of task_bytes graph)" \
    'BEGIN { printf "%.6f", (all / 3 > 1.5 * task ? all / 3 : 1.5 * task) / 1e6 }')
  for how in 'gpu 1 lws' 'gpu 2 dmdas' '1 1 random' '1 2 lws'; do
    # shellcheck disable=SC2086
    set -- $how
    EMULATED_DEVICES=$2 train_small "$family" 1 --steps 6 --workers "$1" --sched "$3" --gpu-memory "$memory"
    same() { [ $code = 0 ] && [ "$(digest)" = "$(cat wanted)" ]; }
    check "$family: workers $1, $2 GPUs of $memory MB, $3" same
    if [ "$how" = '1 2 lws' ]; then
      if [ -x "$MPIEXEC" ]; then
        EMULATED_DEVICES=2 train_small "$family" 2 --steps 6 --workers 1 --gpu-memory "$memory"
        check "$family: two ranks with a GPU each" same
      else skip "$family: no MPI launcher"; fi
    fi
  done
done

# Parameters and state twice as large as the memory.
size='--size hidden=512 --batch 32 --optimizer adamw --row-blocks 8 --workers gpu'
export EMULATED_DEVICES=1
# shellcheck disable=SC2086 # words, here and below
"$starling" bench mlp $size --steps 10 --no-measure --quiet --json >fits 2>err
check 'data that fit stay where they are' within "$(number_of moved_bytes fits)" 100000 1
"$starling" bench mlp $size --steps 10 --no-measure --quiet --json --gpu-memory 4 >planned 2>err
check 'state twice the memory: the same bits' test -n "$(state fits)" -a "$(state planned)" = "$(state fits)"
moved=$(number_of moved_bytes planned) said=$(number_of planned_moved_bytes planned) least=$(number_of least_moved_bytes planned)
check "moved bytes: $moved, planned $said" within "$moved" "$said" 1.15
"$starling" bench mlp $size --steps 10 --no-measure --quiet --json --gpu-memory 4 --gpu-eviction lru >recent 2>err
check "StarPU's LRU evictions give the same bits" test "$(state recent)" = "$(state fits)"
check "and copy more: $(number_of moved_bytes recent)" within "$moved" "$(number_of moved_bytes recent)" 0.85
check "planned bytes are within 1.2 of the lower bound, $least" within "$said" "$least" 1.2
check 'and so are the moved bytes' within "$moved" "$least" 1.2

# The greatest number of bytes in a GPU's memory: StarPU's count at each allocation, beside the prediction.
close() { # output of bench
  most=$(number_of gpu_memory_bytes "$1") said=$(number_of predicted_gpu_memory_bytes "$1")
  echo "measured $most, predicted $said"
  within "$most" "$said" 1.05 && within "$said" "$most" 1.05
}
check 'data that fit: the predicted peak within 5%' close fits
check 'state twice the memory: the predicted peak within 5%' close planned
# shellcheck disable=SC2086
"$starling" bench mlp $size --steps 10 --no-measure --quiet --json --gpu-kernels fast >fast 2>err
check "with cuBLAS's work space: the predicted peak within 5%" close fast
check 'which counts' within "$(number_of gpu_memory_bytes fits)" "$(number_of gpu_memory_bytes fast)" 0.8

# With --offload, what leaves the GPU's memory is in files.
mkdir disk
# shellcheck disable=SC2086
"$starling" bench mlp $size --steps 10 --no-measure --quiet --json --gpu-memory 4 --offload "disk:$PWD/disk" >filed 2>err
check 'state twice the memory, with files: the same bits' test -n "$(state filed)" -a "$(state filed)" = "$(state fits)"
check 'the copied bytes are as planned' within "$(number_of moved_bytes filed)" "$(number_of planned_moved_bytes filed)" 1.15

# Ranks that share a GPU divide its memory: half of it would hold the data of one rank, a quarter does not.
if [ -x "$MPIEXEC" ]; then
  for memory in 24 12; do
    # shellcheck disable=SC2086
    $limit $MPIEXEC -n 2 "$starling" bench mlp $size --leaves 2 --steps 10 --no-measure --quiet --json --stall-timeout 600 \
      --gpu-memory $memory >shared.$memory 2>err.$memory
  done
  cat err.24 err.12 >err
  check 'two ranks share a GPU with enough memory for both' test "$(number_of steps shared.24)" = 10 -a -z "$(number_of planned_moved_bytes shared.24)"
  check 'with enough for one: the memory of both is planned' within 1 "$(number_of planned_moved_bytes shared.12)" 1
  check 'and they give the same bits' test -n "$(state shared.12)" -a "$(state shared.12)" = "$(state shared.24)"
else
  skip 'ranks that share a GPU: no MPI launcher'
fi
# shellcheck disable=SC2086
expect 'a task that cannot fit: no step begins' 2 "^starling: layer '[a-z0-9.]+' \([a-z_]+\) needs [0-9.]+ MB at once" bench mlp $size --steps 2 --no-measure --quiet --gpu-memory 1
STARPU_LIMIT_CUDA_MEM=4 "$starling" graph mlp $size --gpus 1 --gpu-memory 1 >out 2>err && code=0 || code=$?
check 'a task that cannot fit is named, with a remedy' grep -qE \
  "^starling: layer '[a-z0-9.]+' \([a-z_]+\) needs [0-9.]+ MB at once, and GPU 0 has 1.0 MB.*: use more folds .*--folds" err
# shellcheck disable=SC2086
expect 'which helps' 0 'memory of GPU 0: .* with 1.00 MB a step moves' graph mlp $size --gpus 1 --gpu-memory 1 --folds 2
finish
