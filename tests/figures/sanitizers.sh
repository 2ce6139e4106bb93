#!/bin/bash
# Figure: all tests pass under the address and undefined-behaviour sanitizers, and the engine's tests under
# valgrind, without an error or a leak of ours. JOBS: parallel compilations.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/sanitizers.XXXXXX")
trap 'rm -rf "$work"' EXIT
missed=0
figure() {
  printf '%-44s target %-8s value %-10s %s\n' "$1" 0 "$2" "$([ "$2" = 0 ] && echo met || echo MISSED)"
  [ "$2" = 0 ] || missed=1
}
[ -x "$top/configure" ] || { echo 'SKIP: no configure: run ./bootstrap first'; exit 77; }
mkdir "$work/asan" && cd "$work/asan" || exit 1
"$top/configure" -q --without-cuda --enable-sanitizers >configure.log 2>&1 && make -s -j"${JOBS:-2}" >make.log 2>&1 ||
  { tail -n 20 configure.log make.log; exit 1; }
make -k check >check.log 2>&1
figure 'sanitizers: failed tests' "$(awk '/^# (FAIL|ERROR|XPASS):/ { n += $3 } END { print n + 0 }' check.log)"
grep -hE '^# (TOTAL|PASS|SKIP)' check.log
grep -lE 'ERROR: (Address|Leak)Sanitizer|runtime error:' -r tests --include='*.log' | sed 's/^/see /'
if command -v valgrind >/dev/null; then
  mkdir "$work/plain" && cd "$work/plain" || exit 1
  "$top/configure" -q --without-cuda >configure.log 2>&1 && make -s -j"${JOBS:-2}" >make.log 2>&1 && make -s tests/tasks/starpu/program >>make.log 2>&1 || exit 1
  STARPU_HOME=$work STARPU_SILENT=1 valgrind -q --error-exitcode=9 --leak-check=full --show-leak-kinds=definite \
    --errors-for-leak-kinds=definite tests/tasks/starpu/program >valgrind.log 2>&1
  figure 'valgrind on the engine: exit code' $?
  grep -E '^==' valgrind.log | head -n 20
else
  echo 'valgrind is not installed: that part was not run'
fi
exit $missed
