#!/bin/bash
# Figure: if a rank is stopped at any of 30 random moments of a job of 2 or 3 ranks, between its start and MPI's end,
# the job names it within --stall-timeout + 2 s; so it does if a rank of a mesh is stopped in each kind of exchange, and
# names the exchange. STALLS: moments in each of the two jobs (15); MESH_STALLS: moments in each of the seven jobs of
# meshes (3); 0 leaves them out; SEED chooses others.
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
. "$top/tests/figures/figure.shlib"
export STARLING=${STARLING:-$top/build/starling} MPIEXEC=${MPIEXEC:-$(command -v mpiexec.mpich)} top_srcdir=$top
export LATE=${LATE:-2}
[ -x "$STARLING" ] || { echo "SKIP: no $STARLING: run ./quickstart first"; exit 77; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
ok_of() { grep -cE "^ok .*$1" "$log"; }
run() { # script, moments of each of its jobs, number of jobs, what to print before the names
  STALLS=$2 "$top/tests/ranks/$1" >"$log"
  moments=$(($2 * $3 - $(ok_of 'too late')))
  if grep -q '^not ok' "$log" || ! grep -q '^1\.\.[1-9]' "$log" || [ $moments -le 0 ]; then missed=1; fi
  grep '^# SEED' "$log"
  figure "$4stopped ranks that are named" "$moments" "$(ok_of ': named$')"
  [ "$1" = stalls.sh ] || figure "$4the exchange is named" "$moments" "$(ok_of ': the exchange, too, ')"
  figure "$4named within the timeout + $LATE s" "$moments" "$(ok_of 'ms later')"
  figure "$4jobs of which no process stays" "$moments" "$(ok_of 'no process stays')"
  [ $missed = 0 ] || grep -A 8 '^not ok' "$log"
}
stalls=${STALLS:-15} mesh_stalls=${MESH_STALLS:-3}
[ "$stalls" = 0 ] || run stalls.sh "$stalls" 2 ''
[ "$mesh_stalls" = 0 ] || run mesh_stalls.sh "$mesh_stalls" 7 'meshes: '
exit $missed
