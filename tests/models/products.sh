#!/bin/sh
# --products openblas: the same bits over policies, workers, teams and ranks, other bits than Starling's own products;
# the plan, the configuration, eval and --resume keep the choice; impossible combinations are refused; --products auto.
. "$(dirname "$0")/../support/command.shlib"
make_set set 512 128 28 10
mkdir text
awk 'BEGIN { s = 7; srand(7); for (i = 0; i < 20000; i++) printf "%s", substr("the cat sat on a mat and ran ", int(20 * rand()) + 1, 3 + int(7 * rand())) }' >text/words.txt
base='--quiet --force --gpus 0 --products openblas'
train() { # options
  # shellcheck disable=SC2086
  run train "$@" $base
}

# ---- the same bits
gpt2='gpt2-nano --size layers=2,width=72,heads=3 --data text --length 37 --batch 4 --leaves 4 --dropout 0.1 --clip 0.5 --steps 4'
one_digest gpt2 "$gpt2" '--sched lws --workers 1' '--sched dmdas --workers 2' '--workers 1 --threads-per-worker 2' \
  '--micro-batches 2' '--recompute block'
one_digest resnet8 'resnet8 --data set --batch 32 --leaves 2 --steps 3 --val-fraction 0' '--workers 1' '--sched dmdas --workers 2' \
  '--workers 1 --threads-per-worker 2'
lenet='lenet --data set --batch 64 --leaves 2 --steps 4 --val-fraction 0'
one_digest lenet "$lenet" '--sched eager --workers 1' '--sched dmda --workers 2' '--workers 1 --threads-per-worker 2'
mpiexec=$(made_of MPIEXEC)
if [ -x "$mpiexec" ]; then
  # shellcheck disable=SC2086
  $limit "$mpiexec" -n 2 "$starling" train $lenet $base --out ranks.d --workers 1 --threads-per-worker 1 >out 2>err
  check 'lenet on two ranks' same_state reference ranks.d
else skip 'lenet on two ranks: no MPI launcher'; fi

# ---- what goes along
check 'the plan names OpenBLAS with version and kernels' grep -qE '"products": "openblas [0-9.]+ [A-Za-z0-9]+"' reference/plan.json
check 'and the configuration says' grep -q '^products: *openblas' reference/config.yaml
# shellcheck disable=SC2086
run train $lenet --force --gpus 0 --workers 1 --products openblas --out told
check 'training tells' grep -qE '^products of linear and conv2d: openblas [0-9.]+ ' out
# shellcheck disable=SC2086
run train $lenet --quiet --force --gpus 0 --workers 1 --out own
check 'own products' test "$code" = 0
check 'own products have other bits' sh -c '! cmp -s reference/model.safetensors own/model.safetensors'
check 'and the plan says own' grep -q '"products": "own"' own/plan.json
check 'the configuration then has no such line' sh -c '! grep -q "^products" own/config.yaml'
run eval reference --data set --json --gpus 0
check 'eval' test "$code" = 0
# shellcheck disable=SC2086
train $lenet --steps 2 --out half --workers 1
cp -r half again
run train lenet --data set --quiet --gpus 0 --out half --resume --steps 4 --val-fraction 0
check 'without the option a run goes on with its products' same_state reference half
run train lenet --data set --quiet --gpus 0 --out again --resume --steps 4 --val-fraction 0 --products own
check 'a run is not resumed with other products' test "$code" = 1
check 'as the message says' grep -qE "products is 'own' here and 'openblas [^']*' in " err

# ---- what cannot be
expect '16 bits' 1 "OpenBLAS's products are in fp32, and the precision is bf16 \(--products own, --precision fp32\)" \
  train lenet --data set --products openblas --precision bf16 --gpus 0 --out none
check 'then nothing is made' test ! -e none
expect 'an unknown choice' 2 'own, openblas, auto|own\|openblas\|auto' train lenet --data set --products mkl --out none

# ---- auto
auto() { # kernels
  # shellcheck disable=SC2086
  run train $lenet --quiet --force --gpus 0 --workers 1 --kernels "$1" --products auto --out auto.d
}
if "$starling" info --no-measure --kernels avx2 >out 2>&1; then
  auto avx2
  check 'auto: own where kernels have fused multiply-adds' grep -q '"products": "own"' auto.d/plan.json
  auto base
  check 'auto: OpenBLAS in place of base kernels' grep -q '"products": "openblas ' auto.d/plan.json
  check 'and --resume repeats it' grep -q '^products: *openblas' auto.d/config.yaml
else for what in 'auto: own' 'auto: OpenBLAS' 'and --resume repeats it'; do skip "$what: no AVX2"; done; fi
finish
