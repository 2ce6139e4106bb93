#!/bin/bash
# Figure: if a rank is stopped at any of 30 random moments of a job of 2 or 3 ranks, between its start and MPI's end,
# the job names it within --stall-timeout + 2 s. STALLS: moments in each of the two jobs (15); SEED chooses others.
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
export STARLING=${STARLING:-$top/build/starling} MPIEXEC=${MPIEXEC:-$(command -v mpiexec.mpich)} top_srcdir=$top
export STALLS=${STALLS:-15} LATE=${LATE:-2}
[ -x "$STARLING" ] || { echo "SKIP: no $STARLING: run ./quickstart first"; exit 77; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$top/tests/ranks/stalls.sh" >"$log"
count() { grep -cE "^ok .*$1" "$log"; }
moments=$((2 * STALLS - $(count 'too late')))
missed=0
figure() { # name, target, value
  printf '%-44s target %-8s value %-10s %s\n' "$1" "$2" "$3" "$([ "$3" = "$2" ] && echo met || echo MISSED)"
  [ "$3" = "$2" ] || missed=1
}
grep '^# SEED' "$log"
figure 'stopped ranks that are named' "$moments" "$(count ': named$')"
figure "named within the timeout + $LATE s" "$moments" "$(count 'ms later')"
figure 'jobs of which no process stays' "$moments" "$(count 'no process stays')"
[ $missed = 0 ] || grep -A 8 '^not ok' "$log"
exit $missed
