#!/bin/bash
# Figure: pinning on a machine of 2 x 64 cores in 8 NUMA domains (a synthetic hwloc topology) with 1, 2 and 8 ranks
# per node, printed, and checked by tests/runtime/processors/topology (no core twice, none left out, no team across a
# domain).
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/figures/figure.shlib"
build=${BUILD:-$top/build}
[ -x "$build/tests/runtime/processors/topology" ] || { echo "SKIP: no $build/tests/runtime/processors/topology: run ./quickstart check first"; exit 77; }
"$build/tests/runtime/processors/topology" --print || exit 1
out=$(CMOCKA_MESSAGE_OUTPUT=TAP "$build/tests/runtime/processors/topology" 2>&1)
code=$?
failed=$(echo "$out" | grep -c '^not ok')
passed=$(echo "$out" | grep -c '^ok')
figure 'topology: exit code' 0 $code
figure 'topology: failed checks' 0 "$failed"
figure 'topology: passed checks' '> 0' "$passed"
exit $missed
