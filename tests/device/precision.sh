#!/bin/sh
# bf16 and fp16 on GPUs: a small network of each family gives the same model, byte for byte, on a CPU, on a GPU, and
# where a policy shares the tasks out between them; one family also on two ranks. With cuBLAS the products of linear
# layers have other bits, which are the same in each run. PRECISIONS, FAMILIES: restrict the runs.
. "$(dirname "$0")/training.shlib"
same() {
  echo "exit code $code, $(digest), wanted $wanted"
  [ $code = 0 ] && [ "$(digest)" = "$wanted" ]
}
export EMULATED_SEED=1
for precision in ${PRECISIONS:-bf16 fp16}; do
  for family in ${FAMILIES:-$families}; do
    options="--steps 4 --precision $precision --bf16-sums pairs"
    # shellcheck disable=SC2086 # words, here and below
    train_small "$family" 1 $options --gpus 0 --workers 1 --sched eager
    check "$precision, $family: the reference, one CPU worker" test $code = 0 -a -s run/model.safetensors
    wanted=$(digest)
    train_small "$family" 1 $options --gpus 1 --workers gpu
    check "$precision, $family: a GPU" same
    # Random placement moves most values between the two memories.
    EMULATED_DEVICES=2 train_small "$family" 1 $options --gpus 2 --workers 1 --sched random
    check "$precision, $family: a CPU and two GPUs" same
  done
done

if [ -x "$MPIEXEC" ]; then
  for precision in ${PRECISIONS:-bf16 fp16}; do
    options="--steps 4 --precision $precision --bf16-sums pairs --clip 0.5"
    train_small gpt2 1 $options --gpus 0 --workers 1
    wanted=$(digest)
    EMULATED_DEVICES=2 train_small gpt2 2 $options --gpus 1 --workers 1 --sched random --zero 1
    check "$precision, gpt2: two ranks with a GPU each, ZeRO 1" same
    train_small gpt2 1 $options --gpus 0 --workers 1 --folds 2
    wanted=$(digest)
    EMULATED_DEVICES=2 train_small gpt2 2 $options --gpus 1 --workers 1 --sched random --mesh tensor=2
    check "$precision, gpt2: two ranks with a GPU each divide products" same
    train_small gpt2 1 $options --gpus 0 --workers 1 --folds 2 --sequence-parallel on
    wanted=$(digest)
    EMULATED_DEVICES=2 train_small gpt2 2 $options --gpus 1 --workers 1 --sched random --mesh tensor=2 --sequence-parallel on
    check "$precision, gpt2: and positions" same
  done
else skip 'two ranks: no MPI launcher'; fi

train_small gpt2 1 --steps 4 --precision bf16 --bf16-sums pairs --gpus 0 --workers 1
exact=$(digest)
train_small gpt2 1 --steps 4 --precision bf16 --gpus 1 --workers gpu --gpu-kernels fast
check 'bf16, gpt2: by cuBLAS' test $code = 0
wanted=$(digest)
check 'with bits of its own' test "$wanted" != "$exact"
train_small gpt2 1 --steps 4 --precision bf16 --gpus 1 --workers gpu --gpu-kernels fast
check 'and the same ones again' same
train_small gpt2 1 --steps 2 --precision bf16 --bf16-sums blocks --gpus 1 --workers 1
check 'a plan that adds by blocks refuses GPUs' test $code != 0
check 'and names the option' grep -q "add up by blocks in this plan, which GPUs' kernels cannot: use no GPUs.*--gpus" err
train_small gpt2 1 --steps 2 --products openblas --gpus 1 --workers 1
check "a plan with OpenBLAS's products refuses GPUs" test $code != 0
check 'and names the option, too' grep -q "products are OpenBLAS's in this plan, which only CPUs compute: use no GPUs.*--gpus" err
train_small gpt2 1 --steps 2 --products auto --kernels base --gpus 1 --workers 1
check 'with a GPU, --products auto takes own products' test $code = 0
finish
