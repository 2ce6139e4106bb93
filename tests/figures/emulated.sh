#!/bin/bash
# Figure: on emulated GPUs the trained model has the bytes of a run on CPU workers, whatever the policy, the number of GPUs
# and the order in which they run (seeds of delays). STARLING: a command built with tools/build-starpu --emulated-gpus.
# MODELS, STEPS, SEEDS: what is tried.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
starling=${STARLING:-$top/build-emulated/starling} steps=${STEPS:-10}
[ -x "$starling" ] || { echo "SKIP: no $starling: docs/how-to/emulated-gpus.md tells how to build it"; exit 77; }
data=${DATA:-/usr/share/datasets/fashion-mnist}
[ -d "$data" ] || { echo "SKIP: no images in $data"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/emulated.XXXXXX")
trap 'rm -rf "$work"' EXIT
export STARPU_SUBALLOCATOR=0 STARPU_HOME=$work
missed=0
train() { # model, options: the trained model's digest
  rm -rf "$work/run"
  timeout 600 "$starling" train "$1" --data "$data" --steps "$steps" --batch 64 --leaves 4 --shards 4 --out "$work/run" "${@:2}" \
    >"$work/log" 2>&1 && sha256sum <"$work/run/model.safetensors" | cut -c1-16 || { tail -n 3 "$work/log" >&2; echo failed; }
}
for model in ${MODELS:-mlp lenet}; do
  wanted=$(train "$model" --gpus 0 --workers 2)
  runs=0 same=0
  for policy in eager lws dmda dmdas; do
    for gpus in 1 2; do
      for seed in ${SEEDS:-0 1}; do
        export EMULATED_DEVICES=$gpus EMULATED_SEED=$seed EMULATED_DELAY=200
        got=$(train "$model" --gpus "$gpus" --workers 1 --sched "$policy")
        runs=$((runs + 1))
        if [ "$got" = "$wanted" ]; then same=$((same + 1)); else echo "$model, $policy, $gpus GPUs, seed $seed: $got, not $wanted"; fi
      done
    done
  done
  printf '%-44s target %-8s value %-10s %s\n' "$model: runs with the CPU's bytes" $runs $same "$([ $same = $runs ] && echo met || echo MISSED)"
  [ $same = $runs ] || missed=1
done
exit $missed
