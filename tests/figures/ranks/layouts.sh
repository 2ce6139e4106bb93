#!/bin/bash
# Figure: the same model, losses and optimizer state after STEPS (50) steps on random layouts of 1 to 8 ranks as on one
# rank: LAYOUTS (15) layouts of each family in each precision. FAMILIES (gpt2 words bert vit mlp resnet), PRECISIONS
# (fp32 bf16): which; SEED draws others. tests/ranks/layouts.sh says what is drawn.
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
. "$top/tests/figures/figure.shlib"
export STARLING=${STARLING:-$top/build/starling} MPIEXEC=${MPIEXEC:-$(command -v mpiexec.mpich)} top_srcdir=$top
export LAYOUTS=${LAYOUTS:-15} STEPS=${STEPS:-50} FAMILIES=${FAMILIES:-gpt2 words bert vit mlp resnet} PRECISIONS=${PRECISIONS:-fp32 bf16}
export top_builddir=${STARLING%/*} TIMEOUT=''
[ -x "$STARLING" ] || { echo "SKIP: no $STARLING: run ./quickstart first"; exit 77; }
[ -n "$MPIEXEC" ] || { echo 'SKIP: no mpiexec.mpich'; exit 77; }
[ -e "$top_builddir/tests/support/give_way.so" ] || make -s -C "$top_builddir" tests/support/give_way.so || exit 1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$top/tests/support/run-program" "$top/tests/ranks/layouts.sh" | tee "$log" | grep -E '^# (SEED|[0-9]+ s)|^Bail'
for family in $FAMILIES; do
  for precision in $PRECISIONS; do
    value=$(grep -cE "^ok [0-9]+ - $family, $precision, ranks" "$log")
    figure "$family, $precision: layouts with one digest" "$LAYOUTS" "$value"
  done
done
[ $missed = 0 ] || sed -n '/^not ok/,/^ok/p' "$log"
exit $missed
