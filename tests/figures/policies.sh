#!/bin/bash
# Figure: scheduling policies on lenet, gpt2-nano and uneven, 2 workers: `starling compare` with REPETITIONS (10) of
# each, in turn, with and without priorities. Times have no target; all policies must leave the same bits, and the
# bound must not exceed any step. POLICIES: which ones; OUT: folder for tables, CSV, JSON and pages.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
starling=${STARLING:-$top/build/starling} repetitions=${REPETITIONS:-10}
policies=${POLICIES:-lws,ws,prio,random,dmda,dmdas,modular-heft,own}
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
  if ! "$starling" compare "$@" --calibrate --workers 2 --threads-per-worker 1 --sched-lib "$work/policy.so" --policies "$policies" --priorities both --repetitions "$repetitions" \
    --out "$out/$1" >"$out/$1.txt"; then missed=1; fi
  cat "$out/$1.txt"
  jq -e '.same_bits' "$out/$1/compare.json" >/dev/null || { echo 'MISSED: not the same bits'; missed=1; }
  jq -e '.bound_s as $b | [.policies[] | select(.step_s)] | all(.step_s >= $b)' "$out/$1/compare.json" >/dev/null || { echo 'MISSED: a step below the bound'; missed=1; }
}
compare uneven --steps 40
compare lenet --steps 20
compare gpt2-nano --batch 4 --length 128 --steps 8
exit $missed
