#!/bin/bash
# Figure: all tests pass under the address and undefined-behaviour sanitizers, the tests of data that several threads
# share (exchange, checkpoints, loader, recorder, engine, activities, mapped files) and a whole run of two ranks with
# its watch and heartbeat under ThreadSanitizer, and the engine's tests under valgrind, without an error or a leak of
# ours. JOBS: compilations and tests at a time (2). ONLY=threads: ThreadSanitizer alone, which needs clang;
# ONLY=addresses: all but that.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/figures/figure.shlib"
work=$(mktemp -d "${TMPDIR:-/tmp}/sanitizers.XXXXXX")
trap 'rm -rf "$work"' EXIT
[ -x "$top/configure" ] || { echo 'SKIP: no configure: run ./bootstrap first'; exit 77; }

# Tests of data that threads share. A planted race must be found, or the sanitizer sees nothing.
threads() { # source folder, test...: number of tests that fail
  folder=$1
  shift
  mkdir -p "$work/tsan" && cd "$work/tsan" || exit 1
  "$folder/configure" -q --without-cuda CC=clang CFLAGS='-g -O1 -fsanitize=thread' >configure.log 2>&1 &&
    make -s -j"${JOBS:-2}" $(printf 'tests/%s ' "$@") >make.log 2>&1 || { tail -n 20 configure.log make.log >&2; exit 1; }
  failed=0
  for test in "$@"; do
    TSAN_OPTIONS="suppressions=$top/tests/support/tsan.supp:history_size=4:exitcode=66:halt_on_error=1" OMP_NUM_THREADS=1 top_srcdir=$top \
      MPIEXEC=$(sed -n 's/^MPIEXEC = //p' Makefile) "tests/$test" >tsan.log 2>&1 || failed=$((failed + 1))
    grep -h SUMMARY tsan.log | sort | uniq -c >&2
  done
  cd "$top" && rm -rf "$work/tsan"
  echo $failed
}
# Runs of two ranks that validate, write checkpoints and metrics, verify, and are watched, beside two busy loops, so
# that the watch looks at other moments each time: 0, or the code of the first one that fails.
whole_run() ( # source folder
  rm -rf "$work/run" && mkdir -p "$work/run" && cd "$work/run" || exit 1
  "$1/configure" -q --without-cuda CC=clang CFLAGS='-g -O1 -fsanitize=thread' >configure.log 2>&1 &&
    make -s -j"${JOBS:-2}" starling >make.log 2>&1 || { tail -n 20 configure.log make.log >&2; exit 1; }
  launcher=$(sed -n 's/^MPIEXEC = //p' Makefile) top_builddir=$PWD STARLING=$PWD/starling top_srcdir=$top
  . "$top/tests/support/command.shlib"
  make_set data 40 20 8 3
  code=0
  for _ in 1 2; do sh -c 'while :; do :; done' >/dev/null 2>&1 & loops="${loops-} $!"; done
  for _ in 1 2 3 4 5 6 7 8; do
    rm -rf run
    TSAN_OPTIONS="suppressions=$top/tests/support/tsan.supp:history_size=4:exitcode=66:halt_on_error=1" OMP_NUM_THREADS=1 $launcher -n 2 "$starling" \
      train mlp --size hidden=16 --data data --batch 8 --leaves 2 --shards 4 --workers 1 --steps 20 --eval-every 4 --checkpoint-every 5 \
      --log-every 1 --verify-every 5 --stall-timeout 300 --out run >out 2>&1 || code=$?
    [ $code = 0 ] || break
  done
  # shellcheck disable=SC2086 # several words
  kill $loops
  grep -h SUMMARY out | sort | uniq -c >&2
  [ $code = 0 ] && [ -s run/summary.json ] || { grep -A 14 'WARNING: ThreadSanitizer' out >&2 || tail -n 20 out >&2; code=1; }
  echo $code
)
if [ "${ONLY-}" = addresses ]; then
  :
elif command -v clang >/dev/null; then
  figure 'ThreadSanitizer: failed tests' 0 "$(threads "$top" runtime/trace/recorder runtime/data/loader runtime/files/checkpoint \
    runtime/exchange/exchange runtime/exchange/mpi runtime/exchange/tree tasks/starpu/exchange tasks/starpu/program \
    runtime/base/activity runtime/base/mapping)"
  figure 'ThreadSanitizer: runs of two ranks fail' 0 "$(whole_run "$top")"
  # Planted: the loader leaves out a lock; the submission no longer orders its writes before the exchange's reads.
  mkdir "$work/planted" && (cd "$top" && tar -cf - --exclude=./build --exclude=./.git .) | tar -xf - -C "$work/planted"
  sed -i '/snprintf(s->error/ { n; n; s/pthread_mutex_lock(&l->lock);/;/ }' "$work/planted/runtime/data/loader.c"
  sed -i '/^void sl__exchanges_hold/,/^}/ s/atomic_store(&b->left, b->n)/atomic_store_explicit(\&b->left, b->n, memory_order_relaxed)/' \
    "$work/planted/tasks/starpu/exchange.c"
  missing() { case $1 in *'SUMMARY: ThreadSanitizer'*) echo 0 ;; *) echo 1 ;; esac; } # the sanitizer itself must name it
  figure 'ThreadSanitizer: a planted race is missed' 0 "$(missing "$(threads "$work/planted" runtime/data/loader 2>&1)")"
  figure 'ThreadSanitizer: one between ranks is missed' 0 "$(missing "$(whole_run "$work/planted" 2>&1)")"
else
  echo 'SKIP: ThreadSanitizer, without clang'
  [ "${ONLY-}" != threads ] || exit 77
fi
[ "${ONLY-}" != threads ] || exit $missed

mkdir "$work/asan" && cd "$work/asan" || exit 1
"$top/configure" -q --without-cuda --enable-sanitizers >configure.log 2>&1 && make -s -j"${JOBS:-2}" >make.log 2>&1 ||
  { tail -n 20 configure.log make.log; exit 1; }
make -k -j"${JOBS:-2}" check >check.log 2>&1
figure 'sanitizers: failed tests' 0 "$(awk '/^# (FAIL|ERROR|XPASS):/ { n += $3; said = 1 } END { print said ? n + 0 : "none ran" }' check.log)"
grep -hE '^# (TOTAL|PASS|SKIP)' check.log
grep -lE 'ERROR: (Address|Leak)Sanitizer|runtime error:' -r tests --include='*.log' | sed 's/^/see /'
if command -v valgrind >/dev/null; then
  mkdir "$work/plain" && cd "$work/plain" || exit 1
  "$top/configure" -q --without-cuda >configure.log 2>&1 && make -s -j"${JOBS:-2}" >make.log 2>&1 && make -s tests/tasks/starpu/program >>make.log 2>&1 || exit 1
  STARPU_HOME=$work STARPU_SILENT=1 valgrind -q --error-exitcode=9 --leak-check=full --show-leak-kinds=definite \
    --errors-for-leak-kinds=definite tests/tasks/starpu/program >valgrind.log 2>&1
  figure 'valgrind on the engine: exit code' 0 $?
  grep -E '^==' valgrind.log | head -n 20
else
  echo 'valgrind is not installed: that part was not run'
fi
exit $missed
