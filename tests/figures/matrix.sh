#!/bin/bash
# Figure: the tree builds and passes its tests with gcc and clang, StarPU 1.3 and 1.4, with and without CUDA, as far
# as this machine has them. JOBS: compilations and tests at a time (2). ONLY: a pattern of the configurations to try
# ('clang*'). STARPU14 and STARPU14_CUDA: installations of StarPU 1.4, made by tools/build-starpu. LOGS: a folder that
# keeps the logs.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/figures/figure.shlib"
work=$(mktemp -d "${TMPDIR:-/tmp}/matrix.XXXXXX")
trap 'rm -rf "$work"' EXIT
starpu14=${STARPU14:-/opt/starpu-1.4}
starpu14_cuda=${STARPU14_CUDA:-/opt/starpu-1.4-cuda}
tried=0
[ -x "$top/configure" ] || { echo 'SKIP: no configure: run ./bootstrap first'; exit 77; }
try() { # name, configure's arguments
  name=$1; shift
  case $name in ${ONLY:-*}) ;; *) return ;; esac
  tried=$((tried + 1))
  mkdir -p "$work/b" && cd "$work/b" || exit 1
  if "$top/configure" -q "$@" >configure.log 2>&1 && make -s -j"${JOBS:-2}" >make.log 2>&1; then
    make -k -j"${JOBS:-2}" check >check.log 2>&1
    failed=$(awk '/^# (FAIL|ERROR|XPASS):/ { n += $3; said = 1 } END { print said ? n + 0 : "none ran" }' check.log)
    total=$(awk '/^# (PASS|SKIP):/ { printf "%s%s %s", s, $2, $3; s = ", " }' check.log)
  else
    failed='no build'; total=$(tail -n 1 make.log configure.log 2>/dev/null | tr '\n' ' ')
  fi
  figure "$name" 0 "$failed" "$total"
  [ "$failed" = 0 ] || { grep -hE '^(FAIL|ERROR|XPASS): |: error|undefined reference' check.log 2>/dev/null | head -n 30; }
  if [ -n "${LOGS:-}" ]; then
    mkdir -p "$LOGS/$name" && cp ./*.log "$LOGS/$name/" && find tests -name '*.log' -exec cp --parents {} "$LOGS/$name/" \;
  fi
  cd / && rm -rf "$work/b"
}
try 'gcc, installed StarPU' CC=gcc --without-cuda
if command -v clang >/dev/null; then try 'clang, installed StarPU' CC=clang --without-cuda; else echo 'clang: not installed, not run'; fi
if [ -d "$starpu14" ]; then
  try 'gcc, StarPU 1.4' CC=gcc --without-cuda --with-starpu="$starpu14"
  command -v clang >/dev/null && try 'clang, StarPU 1.4' CC=clang --without-cuda --with-starpu="$starpu14"
else echo "StarPU 1.4: not at $starpu14, not run"; fi
if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
  try 'gcc, CUDA kernels, installed StarPU' CC=gcc --with-cuda
  [ -d "$starpu14_cuda" ] && try 'gcc, CUDA, StarPU 1.4 with CUDA' CC=gcc --with-cuda --with-starpu="$starpu14_cuda"
else echo 'CUDA: no nvcc, not run'; fi
[ $tried -gt 0 ] || { echo "no configuration has a name like ${ONLY-}"; exit 1; }
exit $missed
