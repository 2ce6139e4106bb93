#!/bin/bash
# Figure: the same model, losses and optimizer state after STEPS (50) steps on random layouts of 1 to 8 ranks as on one
# rank: LAYOUTS (15) layouts of each family in each precision. FAMILIES (gpt2 words bert vit mlp resnet), PRECISIONS
# (fp32 bf16): which; SEED draws others. tests/ranks/layouts.sh says what is drawn. TWO_HOSTS=1: the ranks that are
# apart are on two test hosts (tests/support/hosts.sh; root), with a link of RATE (1gbit) between them.
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
. "$top/tests/figures/figure.shlib"
export STARLING=${STARLING:-$top/build/starling} MPIEXEC=${MPIEXEC:-$(command -v mpiexec.mpich)} top_srcdir=$top
export LAYOUTS=${LAYOUTS:-15} STEPS=${STEPS:-50} FAMILIES=${FAMILIES:-gpt2 words bert vit mlp resnet} PRECISIONS=${PRECISIONS:-fp32 bf16}
export top_builddir=${STARLING%/*} TIMEOUT=''
[ -x "$STARLING" ] || { echo "SKIP: no $STARLING: run ./quickstart first"; exit 77; }
[ -n "$MPIEXEC" ] || { echo 'SKIP: no mpiexec.mpich'; exit 77; }
[ -e "$top_builddir/tests/support/give_way.so" ] || make -s -C "$top_builddir" tests/support/give_way.so || exit 1
work=$(mktemp -d) log=$work/log
trap 'rm -rf "$work"' EXIT
if [ -n "${TWO_HOSTS-}" ]; then
  export HOSTS=layouts$$
  trap '"$top/tests/support/hosts.sh" down; rm -rf "$work"' EXIT
  trap 'exit 130' INT TERM
  "$top/tests/support/hosts.sh" up 2 "${RATE:-1gbit}" || { echo 'SKIP: no network namespaces, bridges or tbf here'; exit 77; }
  # Half of the ranks on each. Its arguments begin with -n N.
  printf '#!/bin/sh\nexec "%s" mpiexec -ppn $((($2 + 1) / 2)) "$@"\n' "$top/tests/support/hosts.sh" >"$work/apart"
  chmod +x "$work/apart"
  export APART=$work/apart
fi
"$top/tests/support/run-program" "$top/tests/ranks/layouts.sh" | tee "$log" | grep -E '^# (SEED|[0-9]+ s)|^Bail'
for family in $FAMILIES; do
  for precision in $PRECISIONS; do
    value=$(grep -cE "^ok [0-9]+ - $family, $precision, ranks" "$log")
    figure "$family, $precision: layouts with one digest" "$LAYOUTS" "$value"
  done
done
[ $missed = 0 ] || sed -n '/^not ok/,/^ok/p' "$log"
exit $missed
