#!/bin/sh
# Data larger than a GPU's memory: the plan of the memory says what leaves it and when. A network of test size of each
# family gives the same bytes with a third of the memory that its tasks' data take, on GPUs alone and beside a CPU
# worker, on 1 and 2 GPUs; what is moved is what the plan says, which is close to a lower bound.
. "$(dirname "$0")/training.shlib"
export EMULATED_SEED=1
of() { jq -r "$1" "$2"; }
within() { awk -v a="$1" -v b="$2" -v most="$3" 'BEGIN { exit !(a > 0 && b > 0 && a <= most * b) }'; } # a <= most b

# The memory in megabytes: a third of what the tasks of a GPU use, or what its largest task needs.
for family in ${FAMILIES:-$families}; do
  train_small "$family" 1 --steps 6 --gpus 0 --workers 1 --sched eager
  check "$family: the reference, one CPU worker" test $code = 0 -a -s run/model.safetensors
  digest >wanted
  # shellcheck disable=SC2046 # words
  "$starling" graph $(small "$family" | sed 's/--val-fraction 0//') --workers gpu --gpus 1 --json >graph
  memory=$(of '.gpu_memory[0] | [.all_bytes / 3, 1.5 * .task_bytes] | max / 1e6' graph)
  for how in 'gpu 1 lws' 'gpu 2 dmdas' '1 1 random' '1 2 lws'; do
    # shellcheck disable=SC2086
    set -- $how
    EMULATED_DEVICES=$2 train_small "$family" 1 --steps 6 --workers "$1" --sched "$3" --gpu-memory "$memory"
    same() { [ $code = 0 ] && [ "$(digest)" = "$(cat wanted)" ]; }
    check "$family: workers $1, $2 GPUs of $memory MB, $3" same
  done
done

# Parameters and state twice as large as the memory.
size='--size hidden=512 --batch 32 --optimizer adamw --row-blocks 8 --workers gpu'
export EMULATED_DEVICES=1
# shellcheck disable=SC2086 # words, here and below
"$starling" bench mlp $size --steps 10 --no-measure --quiet --json >fits 2>err
check 'data that fit stay where they are' test "$(of '.moved_bytes < 100000' fits)" = true
"$starling" bench mlp $size --steps 10 --no-measure --quiet --json --gpu-memory 4 >planned 2>err
check 'state twice the memory: the same bits' test "$(of .state_digest planned)" = "$(of .state_digest fits)"
check "moved bytes: $(of .moved_bytes planned), planned $(of .planned_moved_bytes planned)" \
  within "$(of .moved_bytes planned)" "$(of .planned_moved_bytes planned)" 1.15
"$starling" bench mlp $size --steps 10 --no-measure --quiet --json --gpu-memory 4 --gpu-eviction lru >recent 2>err
check "StarPU's own choice, what was used least recently, moves more: $(of .moved_bytes recent)" \
  test "$(of .state_digest recent)" = "$(of .state_digest fits)" -a "$(of '.moved_bytes * 10 | floor' recent)" -gt "$(of '.moved_bytes * 12 | floor' planned)"
check "planned bytes are within 1.2 of the lower bound, $(of .least_moved_bytes planned)" \
  within "$(of .planned_moved_bytes planned)" "$(of .least_moved_bytes planned)" 1.2
STARPU_LIMIT_CUDA_MEM=4 "$starling" graph mlp $size --gpus 1 --gpu-memory 1 >out 2>err && code=0 || code=$?
check 'a task that cannot fit is named, and what would help' grep -qE \
  "^starling: layer '[a-z0-9.]+' \([a-z_]+\) needs [0-9.]+ MB at once, and GPU 0 has 1.0 MB.*--row-blocks" err
finish
