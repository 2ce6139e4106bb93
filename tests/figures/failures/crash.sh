#!/bin/bash
# Figure: a run survives a crash after any of its file operations (tests/failures/crash.sh tries a few): the log is cut
# after each, all, none or some of the data that were not synchronised survive, and every cut resumes to the same bytes.
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
export STARLING=${STARLING:-$top/build/starling} top_srcdir=$top top_builddir=${top_builddir:-$top/build} CUTS=${CUTS:-all}
[ -x "$STARLING" ] || { echo "SKIP: no $STARLING: run ./quickstart first"; exit 77; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$top/tests/failures/crash.sh" >"$log"
grep -q '^1\.\..*SKIP' "$log" && { cat "$log"; exit 77; }
read -r cuts bad < <(sed -n 's/^# \([0-9]*\) cuts in all, \([0-9]*\) not survived$/\1 \2/p' "$log")
missed=0
[ "${bad:-1}" = 0 ] && [ "${cuts:-0}" -gt 0 ] && ! grep -q '^not ok' "$log" || missed=1
printf '%-44s target %-8s value %-10s %s\n' 'crashes that are survived' "${cuts:-0}" "$((${cuts:-0} - ${bad:-0}))" "$([ $missed = 0 ] && echo met || echo MISSED)"
[ $missed = 0 ] || grep -A 3 -E '^not ok|^# after operation' "$log"
exit $missed
