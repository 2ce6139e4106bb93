#!/bin/sh
# --gpu-kernels fast: only GPUs compute operations that have a fast kernel. Results are the same byte for byte with any
# schedule and number of devices and ranks, differ from those of exact kernels, and a resumed run keeps fast kernels.
. "$(dirname "$0")/training.shlib"
# 300 rows in one leaf: the sums of a gradient are longer than the exact kernels' pieces.
make_set many 300 0 8 3
network='mlp --size layers=2,hidden=24 --data many --batch 300 --leaves 1 --shards 1 --val-fraction 0 --quiet --learning-rate 1e-2'
train_fast() { # steps, options
  steps=$1 code=0
  shift
  rm -rf run
  # shellcheck disable=SC2086 # words
  $limit ${launch-} "$starling" train $network --steps "$steps" --out run "$@" >out 2>err </dev/null || code=$?
}
train_fast 6 --workers 1 --gpus 0
check 'exact, on a CPU' test $code = 0
exact=$(digest)
train_fast 6 --workers 1
check 'exact, on a CPU and a GPU: the same bits' test $code = 0 -a "$(digest)" = "$exact"
train_fast 6 --workers gpu --gpu-kernels fast
check 'fast, on a GPU' test $code = 0
fast=$(digest)
check 'fast kernels have other bits' test "$fast" != "$exact"
same() { [ $code = 0 ] && [ "$(digest)" = "$fast" ]; }
for way in 'eager 1 0' 'lws 2 1' 'dmda 2 2' 'random 1 2'; do
  # shellcheck disable=SC2086 # words
  set -- $way
  export EMULATED_DEVICES="$2" EMULATED_SEED="$3" EMULATED_LAZY=$(($3 == 1))
  train_fast 6 --workers 1 --sched "$1" --gpu-kernels fast
  check "fast, $1, a CPU and $2 GPUs, seed $3: the same bits" same
done
unset EMULATED_DEVICES EMULATED_SEED EMULATED_LAZY
train_fast 3 --workers 1 --gpu-kernels fast
expect 'a run resumes with fast kernels' 0 '' train --resume --out run --steps 6
check 'and to the same bits' test "$(digest)" = "$fast"
check 'on the same GPU there is no warning' test "$(grep -c 'nobody interrupted' err)" = 0
train_fast 3 --workers 1 --gpu-kernels fast
EMULATED_NAME='Other GPU' expect 'on another GPU the run resumes, and says that its bits change' 0 \
  'fast GPU kernels: the checkpoint was made on Emulated GPU, and this is Other GPU: the bits' train --resume --out run --steps 6
network="$network --leaves 4 --shards 4"
train_fast 4 --workers 1 --gpu-kernels fast
fast=$(digest)
if [ -x "$MPIEXEC" ]; then
  launch="$MPIEXEC -n 2"
  train_fast 4 --workers 1 --gpu-kernels fast
  check 'fast, on 2 ranks: the same bits' same
  launch=''
else skip 'fast, on 2 ranks: no MPI launcher'; fi
train_fast 4 --workers 1 --gpu-kernels fast --gpu-memory 8
check 'fast, in little memory: the same bits' same
train_fast 4 --workers auto --gpu-kernels fast
check 'fast, --workers auto: the same bits' same
train_fast 4 --workers 1 --gpu-kernels fast --row-blocks 2
check 'fast, with row blocks' test $code = 0
# Convolutions, with strides and of 1 x 1; attention, causal and with lengths.
for family in lenet resnet gpt2 bert; do
  for precision in fp32 bf16 fp16; do
    train_small $family 1 --steps 3 --workers 1 --precision $precision --gpu-kernels fast
    fast=$(digest)
    check "fast, $family in $precision" test $code = 0
    EMULATED_DEVICES=2 EMULATED_SEED=3 train_small $family 1 --steps 3 --workers 1 --precision $precision --gpu-kernels fast --sched random
    check "fast, $family in $precision, 2 GPUs: the same bits" same
  done
done
# shellcheck disable=SC2086 # words
expect 'bench names the operations that only GPUs compute' 0 '^fast kernels, on GPUs only: linear, linear_d[xw], linear_d[xw] ' \
  bench mlp --size layers=2,hidden=24 --steps 2 --batch 32 --workers 1 --no-measure --gpu-kernels fast
expect 'graph names them, too' 0 '^fast kernels, on GPUs only: linear, .*the bits differ from --gpu-kernels exact' \
  graph mlp --workers gpu --gpus 1 --gpu-kernels fast
run graph mlp --workers gpu --gpus 1
check 'of exact kernels it says nothing' sh -c "! grep -q '^fast kernels' out"
expect 'convolutions, too' 0 '^fast kernels, on GPUs only: conv2d, .*conv2d_dx, conv2d_dw' \
  bench lenet --size channels=4,hidden=16 --steps 2 --batch 12 --workers 1 --no-measure --gpu-kernels fast
expect 'and attention' 0 '^fast kernels, on GPUs only: .*attention, .*attention_grad' \
  bench gpt2-nano --size layers=1,width=16,heads=2,positions=16 --length 8 --steps 2 --batch 6 --workers 1 --no-measure --gpu-kernels fast
expect 'calibrate has enough samples where a task can run' 0 '^([0-9]+) of \1 have 10 samples or more' \
  calibrate mlp --size layers=2,hidden=24 --batch 32 --workers 1 --gpu-kernels fast --performance-models fast
# TF32: fp32 products have other bits, those of bf16 have not.
for precision in fp32 bf16; do
  train_small gpt2 1 --steps 3 --workers 1 --rate-schedule constant --precision $precision --gpu-kernels fast
  fast=$(digest)
  train_small gpt2 1 --steps 2 --workers 1 --rate-schedule constant --precision $precision --gpu-kernels tf32
  expect "a run in TF32 and $precision resumes" 0 '' train --resume --out run --steps 3
  tf32=$(digest)
  train_small gpt2 1 --steps 3 --workers 1 --rate-schedule constant --precision $precision --gpu-kernels tf32
  check "to the bits of one that was not interrupted" test "$(digest)" = "$tf32"
  if [ $precision = fp32 ]; then check 'in fp32 not those of fast' test "$tf32" != "$fast"
  else check 'in bf16 those of fast' test "$tf32" = "$fast"; fi
done
expect 'bench names TF32' 0 'attention_grad .*\(cuBLAS in TF32; the bits differ' \
  bench gpt2-nano --size layers=1,width=16,heads=2,positions=16 --length 8 --steps 2 --batch 6 --workers 1 --no-measure --gpu-kernels tf32
EMULATED_GENERATION=7 expect 'a GPU without TF32' 1 'GPU 0 has no TF32 .*7, not 8.*--gpu-kernels exact' train $network --gpu-kernels tf32 --out refused
EMULATED_GENERATION=7 expect 'a GPU without bf16' 1 'GPU 0 has no products of bf16 .*7, not 8.*--gpu-kernels exact' train $network --gpu-kernels fast --precision bf16 --out refused
# shellcheck disable=SC2086 # words
expect 'heteroprio is refused' 1 'heteroprio gives tasks to any kind of worker.*--gpu-kernels exact' train $network --gpu-kernels fast --sched heteroprio --out refused
# shellcheck disable=SC2086 # words
expect 'a rank without a GPU is named' 1 'fast GPU kernels were asked for, but rank 0 has no GPU.*--gpu-kernels exact' train $network --gpus 0 --gpu-kernels fast --out refused
finish
