#!/bin/bash
# Figure: on emulated GPUs the trained model has the same bytes as from one CPU worker, with any processors, policy,
# numbers of GPUs and ranks, and order of operations (seeds of delays): all combinations of tests/device/networks.sh
# for each family, then mlp for 100 steps: 324 different commands of 486 combinations each. Takes hours. JOBS: families
# at once (1). FAMILIES, STEPS: restrict the runs; SAMPLE=N: tries only N random combinations and prints their SEED.
# STARLING: a command of the build for emulated GPUs, which ./quickstart check leaves in build-emulated.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
export STARLING="${STARLING:-$top/build-emulated/starling}" MPIEXEC="${MPIEXEC:-$(command -v mpiexec.mpich)}"
export top_srcdir="$top" COMBINATIONS=all
[ -x "$STARLING" ] || { echo "SKIP: no $STARLING: docs/how-to/emulated-gpus.md tells how to build it"; exit 77; }
# Idle workers give way, which makes a run three times as fast on two cores; make check builds the library.
way=$(dirname "$STARLING")/tests/support/give_way.so
[ ! -e "$way" ] || export LD_PRELOAD="$way"
work=$(mktemp -d "${TMPDIR:-/tmp}/emulated.XXXXXX")
trap 'rm -rf "$work"' EXIT
# Runs the combinations in a folder of their own and prints the figure; its status is 0 if all runs gave the same bytes.
figure() { # number, name
  local out="$work/$1" runs same said=MISSED
  "$top/tests/device/networks.sh" >"$out" 2>&1
  grep -A20 '^not ok' "$out"
  grep '^# a sample' "$out"
  if grep '^1\.\.0 # SKIP' "$out"; then return 77; fi
  runs=$(grep -cE '^(not )?ok .* ranks' "$out") same=$(grep -cE '^ok .* ranks( |$)' "$out")
  [ "$same" = "$runs" ] && grep -q '^ok .* all combinations ran$' "$out" && said=met
  printf '%-44s target %-8s value %-10s %s\n' "$2: runs with the CPU's bytes" "$runs" "$same" $said
  [ $said = met ]
}
if [ -n "${SAMPLE:-}" ]; then
  figure sample "$SAMPLE of all"
  exit
fi
status=0 running=0
ended() {
  wait -n
  case $? in 0) ;; 77) [ $status = 1 ] || status=77 ;; *) status=1 ;; esac
  running=$((running - 1))
}
begin() { # as figure
  [ $running -lt "${JOBS:-1}" ] || ended
  figure "$@" &
  running=$((running + 1))
}
for family in ${FAMILIES:-mlp lenet resnet vit gpt2 bert}; do FAMILIES=$family begin "$family" "$family"; done
[ -n "${STEPS:-}" ] || FAMILIES=mlp STEPS=100 begin 100 'mlp, 100 steps'
while [ $running -gt 0 ]; do ended; done
exit $status
