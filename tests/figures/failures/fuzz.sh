#!/bin/bash
# Figure: libFuzzer runs each target of tests/fuzz RUNS times (1,000,000), under the address and undefined-behaviour
# sanitizers, without a crash, a leak or an input that takes 25 seconds. Needs clang. TARGETS: names of targets, in
# place of all; JOBS: fuzzers and compilations at once; SEED: libFuzzer's; KEEP: a folder for the corpora and inputs
# that fail.
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
build=$(cd "$(dirname "${STARLING:-$top/build/starling}")" 2>/dev/null && pwd) runs=${RUNS:-1000000} jobs=${JOBS:-2} seed=${SEED:-1}
command -v clang >/dev/null || { echo 'SKIP: no clang'; exit 77; }
[ -e "$build/Makefile" ] || { echo "SKIP: no $build/Makefile: run ./quickstart first"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/fuzz.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
keep=${KEEP:-$work/keep}
targets=${TARGETS:-$(cd "$top/tests/fuzz" && grep -l LLVMFuzzerTestOneInput ./*.c | grep -v driver | sed 's#^\./\(.*\)\.c#\1#')}
programs=$(for t in $targets; do echo "tests/fuzz/$t"; done)
# shellcheck disable=SC2086 # several words
make -s -C "$build" -j"$jobs" $programs >"$work/seeds.log" 2>&1 || { tail -n 20 "$work/seeds.log"; exit 1; }
mkdir -p "$work/b" "$keep" && cd "$work/b" || exit 1
flags='-g -O1 -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined'
# shellcheck disable=SC2086
"$top/configure" -q --without-cuda CC=clang CFLAGS="$flags" CPPFLAGS=-DSL_LIBFUZZER >configure.log 2>&1 &&
  make -s -j"$jobs" LDFLAGS=-fsanitize=fuzzer $programs >make.log 2>&1 || { tail -n 20 configure.log make.log; exit 1; }
fuzz() { # target: a line of the table; the last lines of its log on a failure
  mkdir -p "$keep/$1" "$work/seeds/$1"
  "$build/tests/fuzz/$1" --seeds "$work/seeds/$1" || return 1
  ASAN_OPTIONS=allocator_may_return_null=1 LSAN_OPTIONS=suppressions="$top/tests/support/lsan.supp" \
    "tests/fuzz/$1" -runs="$runs" -seed="$seed" -max_len=8192 -timeout=25 -rss_limit_mb=4096 -print_final_stats=1 \
    -artifact_prefix="$keep/$1-" "$keep/$1" "$work/seeds/$1" >"$work/$1.log" 2>&1
  local code=$? done inputs
  done=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$1.log")
  inputs=$(find "$keep/$1" -type f | wc -l)
  [ "${done:-0}" -ge "$runs" ] || [ $code != 0 ] || code=1
  printf '%-44s target %-8s value %-10s %s\n' "fuzz: $1, executions ($inputs inputs kept)" "$runs" "${done:-0}" \
    "$([ $code = 0 ] && echo met || echo MISSED)"
  [ $code = 0 ] || { grep -E 'ERROR|runtime error|SUMMARY|Test unit written' "$work/$1.log" || tail -n 5 "$work/$1.log"; } | head -n 8
  return $code
}
export -f fuzz
export work keep build runs seed top
# shellcheck disable=SC2086
printf '%s\n' $targets | xargs -P "$jobs" -I{} bash -c 'fuzz {}'
