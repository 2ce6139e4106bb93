#!/bin/sh
# Figure: seconds from the SIGKILL of a random rank to the next step of the job that --restarts starts again, median and
# worst of RUNS (50), and whether the job ends with the bytes of an undisturbed one. SEED chooses other moments.
top=$(cd "$(dirname "$0")/../../.." && pwd)
export STARLING="${STARLING:-$top/build/starling}" MPIEXEC="${MPIEXEC:-$(command -v mpiexec.mpich)}" top_srcdir="$top"
[ -x "$STARLING" ] || { echo "SKIP: no $STARLING: run ./quickstart first"; exit 77; }
RESTARTS=${RUNS:-50} RESTARTS_LOG=$(mktemp) log=$(mktemp)
export RESTARTS RESTARTS_LOG
trap 'rm -f "$RESTARTS_LOG" "$log"' EXIT
"$top/tests/ranks/restarts.sh" >"$log"
grep '^# SEED' "$log"
sort -n "$RESTARTS_LOG" | awk -v runs="$RESTARTS" '{ ms[NR] = $1 } END {
  if (NR == 0) exit 1
  printf "%d of %d kills: median %.1f s, worst %.1f s from SIGKILL to the next step\n", NR, runs, ms[int((NR + 1) / 2)] / 1000, ms[NR] / 1000
  exit NR != runs
}' || exit 1
grep -E '^ok .*(undisturbed job|its state$)' "$log"
grep -A 8 '^not ok' "$log" && exit 1
grep -q '^1\.\.' "$log" || { tail -n 5 "$log"; exit 1; }
