#!/bin/sh
# Figure: 200 kills (KILLS) of runs in fp32, bf16 and fp16 (KILLS_PRECISIONS) whose starts are on 2, 3 and 1 ranks in
# turn (KILLS_RANKS), and 100 kills (MESH_KILLS) of runs whose starts are on random meshes (KILLS_MESHES): every start
# after a kill finds a complete checkpoint, and the end has the bits of the undisturbed run. KILLS=0 or MESH_KILLS=0
# leaves one of them out.
top=$(cd "$(dirname "$0")/../../.." && pwd)
. "$top/tests/figures/figure.shlib"
export STARLING="${STARLING:-$top/build/starling}" MPIEXEC="${MPIEXEC:-$(command -v mpiexec.mpich)}" top_srcdir="$top"
[ -x "$STARLING" ] || { echo "SKIP: no $STARLING: run ./quickstart first"; exit 77; }
export KILLS_PRECISIONS="${KILLS_PRECISIONS:-fp32 bf16 fp16}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# What the two jobs print: "ok N - fp32: every start after a kill found a whole checkpoint (RESUMED of STARTS)"; "ok N -
# fp32, after 7 kills: the same model", state and losses.
figures_of() { # name; kills.sh has written the log
  grep -q ' whole checkpoint (' "$log" || { echo "$1: no job ran"; tail -n 12 "$log"; exit 1; }
  figure "$1: starts that found a checkpoint" \
    "$(sed -n 's/.* whole checkpoint ([0-9]* of \([0-9]*\))$/\1/p' "$log" | awk '{ n += $1 } END { print n + 0 }')" \
    "$(sed -n 's/.* whole checkpoint (\([0-9]*\) of [0-9]*)$/\1/p' "$log" | awk '{ n += $1 } END { print n + 0 }')"
  figure "$1: the same bytes at the end" "$(grep -c ': the same' "$log")" "$(grep -c '^ok .*: the same' "$log")"
  grep '^# KILLS_SEED' "$log"
  if grep -q '^not ok' "$log" || ! grep -q '^1\.\.[1-9]' "$log"; then missed=1; fi
  [ $missed = 0 ] || grep -A 12 '^not ok' "$log"
}
if [ "${KILLS:-200}" != 0 ]; then
  KILLS=${KILLS:-200} KILLS_MESHES='' KILLS_RANKS=${KILLS_RANKS:-2 3 1} "$top/tests/ranks/kills.sh" >"$log"
  figures_of "${KILLS:-200} kills"
fi
if [ "${MESH_KILLS:-100}" != 0 ]; then
  KILLS=${MESH_KILLS:-100} KILLS_MESHES=${KILLS_MESHES:-random} "$top/tests/ranks/kills.sh" >"$log"
  figures_of "${MESH_KILLS:-100} kills on meshes"
fi
exit $missed
