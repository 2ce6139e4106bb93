#!/bin/bash
# Figure: short runs of each command survive a failure of each of their system calls (tests/failures/faults.sh tries a
# few). FAULTS_OF and FAULTS_CALLS choose commands and kinds of calls, as there.
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
export STARLING=${STARLING:-$top/build/starling} top_srcdir=$top top_builddir=${top_builddir:-$top/build} FAULTS=${FAULTS:-all}
[ -x "$STARLING" ] || { echo "SKIP: no $STARLING: run ./quickstart first"; exit 77; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$top/tests/failures/faults.sh" >"$log"
grep -q '^1\.\..*SKIP' "$log" && { cat "$log"; exit 77; }
planted=$(sed -n 's/^# \([0-9]*\) faults in all$/\1/p' "$log")
bad=$(grep -c '^# .*, call [0-9]* of ' "$log")
missed=0
[ "$bad" = 0 ] && [ "${planted:-0}" -gt 0 ] && ! grep -q '^not ok' "$log" || missed=1
printf '%-44s target %-8s value %-10s %s\n' 'planted faults that are survived' "${planted:-0}" "$((${planted:-0} - bad))" "$([ $missed = 0 ] && echo met || echo MISSED)"
sed -n 's/^ok [0-9]* - \(.*: [0-9]* of [0-9]*\)$/  \1/p' "$log"
[ $missed = 0 ] || grep -A 3 -E '^not ok|, call [0-9]* of ' "$log"
exit $missed
