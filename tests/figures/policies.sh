#!/bin/bash
# Figure: scheduling policies on lenet, gpt2-nano and uneven, 2 workers: `starling compare` with REPETITIONS (10) of
# each, in turn, with and without priorities. Times have no target; all policies must leave the same bits, and the
# bound must not exceed any step. POLICIES: which ones; OUT: folder for tables, CSV, JSON and pages.
#
# `policies.sh gpu`: on one CPU worker and an emulated GPU that takes a tenth of its time (EMULATED_TIMED in
# docs/how-to/emulated-gpus.md), on mlp, lenet, resnet8 and gpt2-nano, with REPETITIONS (5) of STEPS (5), then dmda
# with other weights of time, copies and energy, on one network each: tables for docs/policies.md, in about 10 minutes
# on two idle cores with 3 repetitions of 3 steps. The emulated kernels then only wait, so bits are not compared. The
# CPU worker uses the kernels of the x86 baseline: with a slow core, task times are long compared with the emulator's
# own cost. NETWORKS, WEIGHTS: patterns of those to take. STARLING: of a build for emulated GPUs.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
where=${1:-cpus}
case $where in
cpus) starling=${STARLING:-$top/build/starling} policies=${POLICIES:-lws,ws,prio,random,dmda,dmdas,modular-heft,own} workers=2 ;;
gpu) starling=${STARLING:-$top/build-emulated/starling} policies=${POLICIES:-lws,dmda,dmdas,heteroprio,own} workers='1 --gpus 1 --kernels base' ;;
*) echo 'Usage: policies.sh [cpus|gpu]' >&2; exit 2 ;;
esac
repetitions=${REPETITIONS:-$([ "$where" = gpu ] && echo 5 || echo 10)} steps=${STEPS:-5}
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
missed=0 compared=0
# Other work on the machine only lengthens steps, above all those with an emulated GPU, which waits by the clock. So the
# rows are in the order of each policy's shortest repetition.
table() { # folder of a comparison: its rows as docs/policies.md has them
  echo '| policy | priorities | least step, ms | median, ms | of the bound (least) | moved, MB |'
  echo '|---|---|---|---|---|---|'
  jq -r '.bound_s as $b | .policies[] | select(.step_s) | [.policy, .priorities, .step_s, .moved_bytes, $b] | @tsv' "$1/compare.json" |
    awk -F'\t' -v csv="$1/compare.csv" 'BEGIN { while ((getline line <csv) > 0) {
        split(line, f, ","); k = f[1] " " f[2]; if (f[5] + 0 > 0 && (!(k in least) || f[5] + 0 < least[k])) least[k] = f[5] + 0 } }
      { t = least[$1 " " ($2 == "true" ? 1 : 0)]
        printf "%.9f\t| `%s` | %s | %.1f | %.1f | %.0f%% | %.1f |\n", t, $1, $2 == "true" ? "on" : "off", 1e3 * t, 1e3 * $3, 100 * $5 / t, 1e-6 * $4 }' |
    sort -n | cut -f 2
  jq -r '"bound: \(.bound_s * 1e5 | round / 100) ms; \(.verdict)"' "$1/compare.json"
  # Every policy must have figures.
  jq -e 'all(.policies[]; .step_s)' "$1/compare.json" >/dev/null || { echo 'MISSED: a policy has no figures'; missed=1; }
}
compare() { # model, bench's options
  echo "== $*"
  compared=$((compared + 1))
  to=$out/$1${as:-}
  # shellcheck disable=SC2086 # words
  "$starling" compare "$@" --workers $workers --threads-per-worker 1 --sched-lib "$work/policy.so" --policies "$policies" --repetitions "$repetitions" \
    --out "$to" >"$to.txt" || [ "$where" = gpu ] || missed=1 # other bits count as a failure of compare
  cat "$to.txt"
  [ "$where" = cpus ] || table "$to"
  [ "$where" = gpu ] || jq -e '.same_bits' "$to/compare.json" >/dev/null || { echo 'MISSED: not the same bits'; missed=1; }
  jq -e '.bound_s as $b | [.policies[] | select(.step_s)] | $b > 0 and length > 0 and all(.step_s >= $b)' "$to/compare.json" >/dev/null || { echo 'MISSED: a step below the bound'; missed=1; }
}
if [ "$where" = gpu ]; then
  # A StarPU home of its own: the times of an emulated GPU are not those of this machine.
  export STARPU_HOME="$work/home" STARPU_SUBALLOCATOR=0 EMULATED_DEVICES=1 EMULATED_TIMED=120 EMULATED_GBPS=12 EMULATED_TIMES="$work/times"
  mkdir -p "$work/home"
  mlp='mlp --batch 512' lenet='lenet --batch 256 --shards 2' resnet8='resnet8 --batch 32 --shards 2'
  gpt2='gpt2-nano --size layers=1 --batch 8 --length 64 --shards 2'
  began=$(date +%s)
  for model in "$mlp" "$lenet" "$resnet8" "$gpt2"; do
    # shellcheck disable=SC2254 # a pattern, here and below
    case ${model%% *} in ${NETWORKS:-*}) ;; *) continue ;; esac
    # The device computes a kernel of each size once, which compare would not wait for.
    # shellcheck disable=SC2086 # words, here and below
    "$starling" bench $model --workers gpu --kernels base --threads-per-worker 1 --steps 2 --quiet </dev/null >"$work/filled" || missed=1
    # shellcheck disable=SC2086
    compare $model --calibrate --priorities both --steps "$steps" </dev/null
    echo "($(($(date +%s) - began)) s so far)"
  done
  policies=dmda
  for weight in ALPHA BETA GAMMA; do
    # shellcheck disable=SC2254
    case $weight in ${WEIGHTS:-*}) ;; *) continue ;; esac
    # ALPHA weighs time, on the network with the most kinds of tasks; BETA copies, on a network where they decide; GAMMA
    # energy, which has no model.
    case $weight in ALPHA) model=$resnet8 values='0 1 10' ;; BETA) model=$lenet values='0 1 10' ;; *) model=$mlp values='0 1000 10000' ;; esac
    for value in $values; do
      as=-$weight-$value
      echo "== STARPU_SCHED_$weight=$value"
      # shellcheck disable=SC2086
      export "STARPU_SCHED_$weight=$value" && compare $model --steps "$steps" </dev/null
    done
    unset "STARPU_SCHED_$weight"
  done
  echo "$(($(date +%s) - began)) s in all"
  [ $compared -gt 0 ] || { echo 'no network has a name like NETWORKS, no weight one like WEIGHTS'; exit 1; }
  exit $missed
fi
set -- --calibrate --priorities both
compare uneven "$@" --steps 40
compare lenet "$@" --steps 20
compare gpt2-nano "$@" --batch 4 --length 128 --steps 8
exit $missed
