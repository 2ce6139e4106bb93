#!/bin/sh
# Figure: mlp and lenet after 200 steps have the same parameters, byte for byte, under eager, lws, dmda and dmdas
# with 1 and 2 workers and with a team of 2. Each network has one plan.
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/figures/figure.shlib"
starling=${STARLING:-$top/build/starling}
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }
out=$(STARLING=$starling BITS_STEPS=${BITS_STEPS:-200} TIMEOUT='' sh "$top/tests/bits.sh") || exit 1
echo "$out" | grep -v '^1\.\.'
wanted=$(echo "$out" | grep -cE '^(not )?ok')
same=$(echo "$out" | grep -E '^ok' | grep -vc '# SKIP')
figure "runs with the same bytes after ${BITS_STEPS:-200} steps" "$wanted" "$same"
exit $missed
