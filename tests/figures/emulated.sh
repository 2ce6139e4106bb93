#!/bin/bash
# Figure: on emulated GPUs the trained model has the same bytes as from one CPU worker, with any processors, policy,
# numbers of GPUs and ranks, and order of operations (seeds of delays): all combinations of tests/device/networks.sh
# for each family, then mlp for 100 steps. Takes hours. FAMILIES, STEPS: restrict the runs; SAMPLE=N: tries only N
# random combinations and prints their SEED. STARLING: a command of the build for emulated GPUs, which ./quickstart
# check leaves in build-emulated.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
export STARLING="${STARLING:-$top/build-emulated/starling}" MPIEXEC="${MPIEXEC:-$(command -v mpiexec.mpich)}"
export top_srcdir="$top" COMBINATIONS=all
[ -x "$STARLING" ] || { echo "SKIP: no $STARLING: docs/how-to/emulated-gpus.md tells how to build it"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/emulated.XXXXXX")
trap 'rm -rf "$work"' EXIT
missed=0
figure() { # name
  "$top/tests/device/networks.sh" >"$work/out" 2>&1
  grep -A20 '^not ok' "$work/out"
  grep '^# a sample' "$work/out"
  if grep '^1\.\.0 # SKIP' "$work/out"; then exit 77; fi
  runs=$(grep -cE '^(not )?ok .* ranks' "$work/out") same=$(grep -cE '^ok .* ranks( |$)' "$work/out")
  said=MISSED
  [ "$same" = "$runs" ] && grep -q '^ok .* all combinations ran$' "$work/out" && said=met
  printf '%-44s target %-8s value %-10s %s\n' "$1: runs with the CPU's bytes" "$runs" "$same" $said
  [ $said = met ] || missed=1
}
if [ -n "${SAMPLE:-}" ]; then
  figure "$SAMPLE of all"
  exit $missed
fi
for family in ${FAMILIES:-mlp lenet resnet vit gpt2 bert}; do FAMILIES=$family figure "$family"; done
[ -n "${STEPS:-}" ] || FAMILIES=mlp STEPS=100 figure 'mlp, 100 steps'
exit $missed
