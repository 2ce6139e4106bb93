#!/bin/bash
# Figure: scheduling policies on lenet, gpt2-nano and uneven, 2 workers: `starling compare` with REPETITIONS (10) of
# each, in turn, with and without priorities. Times have no target; all policies must leave the same bits, and the
# bound must not exceed any step. POLICIES: which ones; OUT: folder for tables, CSV, JSON and pages.
#
# `policies.sh gpu`: on one CPU worker and an emulated GPU that takes a tenth of its time (EMULATED_TIMED in
# docs/how-to/emulated-gpus.md), on four networks, then dmda with other weights of time and transfers. The emulated
# kernels then only wait, so bits are not compared. The CPU worker uses the kernels of the x86 baseline: with a slow
# core, task times are long compared with the emulator's own cost. STARLING: of a build for emulated GPUs.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
where=${1:-cpus}
case $where in
cpus) starling=${STARLING:-$top/build/starling} policies=${POLICIES:-lws,ws,prio,random,dmda,dmdas,modular-heft,own} workers=2 ;;
gpu) starling=${STARLING:-$top/build-emulated/starling} policies=${POLICIES:-lws,dmda,dmdas,heteroprio,own} workers='1 --gpus 1 --kernels base' ;;
*) echo 'Usage: policies.sh [cpus|gpu]' >&2; exit 2 ;;
esac
repetitions=${REPETITIONS:-10}
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }
command -v jq >/dev/null || { echo 'SKIP: no jq'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
out=${OUT:-$work/out}
mkdir -p "$out"
# The finished policy of lesson 8 takes part.
PKG_CONFIG_PATH=$(dirname "$starling")${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH STARPU_SILENT=1
# shellcheck disable=SC2046 # words
cc -std=gnu11 -O3 -shared -fPIC $(pkg-config --cflags starling) "$top/examples/08-own-policy/policy.c" -o "$work/policy.so" || exit 1
missed=0
compare() { # model, bench's options
  echo "== $*"
  to=$out/$1${as:-}
  # shellcheck disable=SC2086 # words
  "$starling" compare "$@" --workers $workers --threads-per-worker 1 --sched-lib "$work/policy.so" --policies "$policies" --repetitions "$repetitions" \
    --out "$to" >"$to.txt" || [ "$where" = gpu ] || missed=1 # other bits count as a failure of compare
  cat "$to.txt"
  # What else runs on the machine only adds to a step, and to a GPU that waits by the clock more than to a core.
  [ "$where" = cpus ] || awk -F, 'NR > 1 { k = $1 (1 * $2 ? ", priorities on" : ", off"); if (!(k in least) || $5 < least[k]) least[k] = $5 }
    END { for (k in least) printf "least of the repetitions, ms: %8.2f %s\n", 1e3 * least[k], k }' "$to/compare.csv" | sort -k 6 -n
  [ "$where" = gpu ] || jq -e '.same_bits' "$to/compare.json" >/dev/null || { echo 'MISSED: not the same bits'; missed=1; }
  jq -e '.bound_s as $b | [.policies[] | select(.step_s)] | length > 0 and all(.step_s >= $b)' "$to/compare.json" >/dev/null || { echo 'MISSED: a step below the bound'; missed=1; }
}
if [ "$where" = gpu ]; then
  # Of its own: the times of an emulated GPU are none of this machine's.
  export STARPU_HOME="$work/home" STARPU_SUBALLOCATOR=0 EMULATED_DEVICES=1 EMULATED_TIMED=120 EMULATED_GBPS=12 EMULATED_TIMES="$work/times"
  mkdir -p "$work/home"
  models="mlp --batch 512|lenet --batch 256 --shards 2|gpt2-nano --size layers=1 --batch 8 --length 64 --shards 2|resnet8 --batch 32 --shards 2"
  echo "$models" | tr '|' '\n' >"$work/models"
  while read -r model; do
    # The device computes a kernel of each size once, which compare would not wait for.
    # shellcheck disable=SC2086
    "$starling" bench $model --workers gpu --kernels base --threads-per-worker 1 --steps 2 --quiet </dev/null >"$work/filled" || missed=1
    # shellcheck disable=SC2086
    compare $model --calibrate --priorities both --steps 5 </dev/null
  done <"$work/models"
  policies=dmda
  for weights in '1 0' '1 1' '1 10' '0 1'; do
    export STARPU_SCHED_ALPHA="${weights% *}" STARPU_SCHED_BETA="${weights#* }"
    as=-alpha$STARPU_SCHED_ALPHA-beta$STARPU_SCHED_BETA
    for model in 'lenet --batch 256 --shards 2' 'resnet8 --batch 32 --shards 2'; do
      echo "== alpha $STARPU_SCHED_ALPHA, beta $STARPU_SCHED_BETA"
      # shellcheck disable=SC2086
      compare $model --steps 5
    done
  done
  exit $missed
fi
set -- --calibrate --priorities both
compare uneven "$@" --steps 40
compare lenet "$@" --steps 20
compare gpt2-nano "$@" --batch 4 --length 128 --steps 8
exit $missed
