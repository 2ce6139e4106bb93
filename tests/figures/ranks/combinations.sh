#!/bin/bash
# Figure: random combinations of train's options, COMBINATIONS (200): each is trained or refused as it should be, and
# options that must not change the bits do not. SEED draws others. tests/combinations.sh says what is drawn.
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
. "$top/tests/figures/figure.shlib"
export STARLING=${STARLING:-$top/build/starling} MPIEXEC=${MPIEXEC:-$(command -v mpiexec.mpich)} top_srcdir=$top
export COMBINATIONS=${COMBINATIONS:-200} top_builddir=${STARLING%/*} TIMEOUT=timeout
[ -x "$STARLING" ] || { echo "SKIP: no $STARLING: run ./quickstart first"; exit 77; }
[ -n "$MPIEXEC" ] || { echo 'SKIP: no mpiexec.mpich'; exit 77; }
[ -e "$top_builddir/tests/support/give_way.so" ] || make -s -C "$top_builddir" tests/support/give_way.so || exit 1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$top/tests/support/run-program" "$top/tests/combinations.sh" >"$log"
grep -E '^# (SEED|[0-9]+ of )' "$log"
value=$(grep -cE '^ok [0-9]+ - combination' "$log") compared=$(grep -cE '^ok .*: the same bits$' "$log")
sed -n '/^not ok/,/^ok/p' "$log"
figure 'combinations trained or refused as promised' "$COMBINATIONS" "$value"
figure 'of which trained and compared' '> 0' "$compared"
exit $missed
