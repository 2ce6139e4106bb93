#!/bin/sh
# Figure: `make check` passes each of RUNS (3) times on a busy machine, beside LOOPS (16) endless loops, with JOBS (12)
# tests at a time. Prints the time of each run. CHECK: the tests to run instead of all.
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/figures/figure.shlib"
build=$(dirname "${STARLING:-$top/build/starling}") runs=${RUNS:-3} loops=${LOOPS:-16} jobs=${JOBS:-12} pids=''
[ -e "$build/Makefile" ] || { echo "SKIP: no $build/Makefile: run ./quickstart first"; exit 77; }
seconds() { echo $(($(date +%s) - began)); }
log=$(mktemp)
# shellcheck disable=SC2086 # $pids are several words
trap 'kill $pids 2>/dev/null; rm -f "$log"' EXIT
trap 'exit 130' INT TERM HUP
for _ in $(seq "$loops"); do
  sh -c 'while :; do :; done' &
  pids="$pids $!"
done
passes=0
for run in $(seq "$runs"); do
  began=$(date +%s)
  if env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -C "$build" -j"$jobs" check ${CHECK:+"TESTS=$CHECK"} >"$log" 2>&1; then
    passes=$((passes + 1))
    echo "run $run, $jobs tests at a time beside $loops loops: passed in $(seconds) s"
  else
    echo "run $run, $jobs tests at a time beside $loops loops: failed after $(seconds) s"
    grep -E '^(FAIL|ERROR|XPASS):' "$log" || tail -n 5 "$log"
  fi
done
figure "make check beside $loops loops, passes" "$runs" "$passes"
exit $missed
