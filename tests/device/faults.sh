#!/bin/sh
# If a CUDA program makes a mistake, the emulated device names the kernel, the function that launched the kernel, the
# place, the thread and the access. Runs tests/device/faults.cu, one mistake at a time. Usage: tests/device/faults.sh
# [DIR]; DIR: where tests/device/build has put the device (default: a new one).
here=$(cd "$(dirname "$0")" && pwd)
if ! command -v "${CXX:-c++}" >/dev/null || ! command -v perl >/dev/null; then
  echo '1..0 # SKIP no C++ compiler, or no perl'
  exit 0
fi
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
toolkit=${1:-$work/toolkit}
compile() { "$here/build" "$toolkit" && "$toolkit/bin/nvcc" -ccbin "${CXX:-c++}" -O2 "$here/faults.cu" -o "$work/faults"; }
if ! compile >"$work/log" 2>&1; then
  sed 's/^/# /' "$work/log"
  echo 'Bail out! the emulated device does not build'
  exit 99
fi

number=0
tap() { number=$((number + 1)); echo "$1 $number - $2"; [ "$1" = ok ] || sed 's/^/# /' "$work/out"; }
# The program's output must have a line that the pattern describes.
check() { # FAULT, what it is, pattern, environment...
  fault=$1 what=$2 pattern=$3
  shift 3
  env "$@" "$work/faults" "$fault" >"$work/out" 2>&1
  if grep -qE "$pattern" "$work/out"; then tap ok "$what"; else tap 'not ok' "$what"; fi
}
check none 'a correct program gives correct results, without messages' '^results are right$' EMULATED_REPORT=0
for seed in 1 2 3; do check none "also with seed $seed" '^results are right$' EMULATED_SEED=$seed EMULATED_DELAY=500; done
at='faults\.cu:[0-9]+'
check behind 'a write behind the end' "kernel fill \(.*$at, launched by main\), block \(0,0,0\), thread \(100,0,0\): writes 4 bytes outside its memory: .* 0 bytes behind the end of a block of 400 bytes"
check before 'a write before the beginning' 'kernel fill .*writes 4 bytes outside.* 4 bytes before a block of 400'
check freed 'a write to freed memory' 'kernel fill .*writes 4 bytes outside its memory'
check fresh 'a read of memory that nothing has written' 'kernel add .*reads 4 bytes that nothing has written: .*byte 0 of a block'
check null 'a null pointer' 'kernel fill .*writes 4 bytes of host memory: \(nil\)'
check host-heap 'a kernel that writes to memory of the host' 'kernel fill .*writes 4 bytes of host memory'
check host-stack "a kernel that reads the host's stack" 'kernel read_int .*reads 4 bytes of host memory'
check host-global 'a kernel that reads a variable of the host' 'kernel read_int .*reads 4 bytes of host memory'
check constant 'a kernel that writes to a constant' 'kernel write_constant .*writes 4 bytes of constants'
check peer "a kernel that writes to another device's memory" "emulated GPU 1: kernel fill .*writes 4 bytes of GPU 0's memory" EMULATED_DEVICES=2
check on-host 'host code that reads device memory' 'emulated GPU 0: host code uses device memory: .*byte 12 of a block of 400 bytes'
check barriers 'threads that wait at different barriers' "kernel two_barriers .*waits at .*$at, but thread \(.*\) at .*$at: threads diverge at a barrier"
check ended 'a thread that ends before a barrier' "kernel early_end .*waits at .*$at for ever, as do 62 others: 1 threads of the block have ended"
check half-warp 'half a warp at a shuffle' 'kernel half_warp .*waits at .* for ever'
check mask 'a mask that leaves lanes out' 'kernel wrong_mask .*names lanes 0xffff at'
check race 'a missing __syncthreads' 'kernel reverse<false> .*(reads|writes) 4 bytes of shared memory .*with no barrier between'
check warp-race 'a missing __syncwarp' 'kernel swap<false> .*of shared memory .*with no barrier between'
check shared-end 'a write behind the end of an array in shared memory' "kernel beyond_shared .*writes 4 bytes outside the block's arrays"
check shared-fresh 'a read of shared memory that nothing has written' 'kernel fresh_shared .*shared memory that nothing has written'
check shared-limit 'more shared memory than a launch may have' 'kernel dynamic .*60000 bytes of shared memory: more .* needs cudaFuncSetAttribute'
check threads 'a block of too many threads' 'kernel fill .*a block has 1 to 1024 threads'
check grid 'a grid that is too large' 'kernel fill .*a grid has'
check memory 'a device without memory left' '^cudaMalloc: out of memory$' EMULATED_MEMORY=64
check copy-end 'a copy that is longer than its block' 'cudaMemcpy of 800 bytes from .*byte 0 of a block of 400 bytes: beyond its end'
check copy-way 'a copy in the wrong direction' 'cudaMemcpy from device memory .* to host memory .*asked for as host to device'
check double-free 'a block that is freed twice' 'cudaFree of .*no block of device memory'
check endless 'a kernel that never ends' 'kernel endless .*still runs after 1 s' EMULATED_PATIENCE=1
check third 'a device that fails at its third kernel' 'emulated GPU 0: kernel fill .*fails, as EMULATED_FAIL wishes' EMULATED_FAIL=0:3
check third 'and later calls return the error' '^end: unspecified launch failure$' EMULATED_FAIL=0:3
if grep -qw fma /proc/cpuinfo; then
  check libm "a call of the host's mathematical library" "kernel libm .*calls a function of the host's libm \\(.*exp.*, or one beside it\\)"
fi
check signals 'signals to the whole process group: devices go on, for the program to decide' '^after signals results are right$'
check loader "the loader's lock was held when a device's process was forked" '^4 devices: results are right$' EMULATED_DEVICES=4 EMULATED_PATIENCE=20
check matrix 'a product that reads behind a matrix' 'kernel cublasSgemm .*launched by main.*reads 40 bytes outside'

# The process of a device ends with the program, even in the middle of a kernel.
ends() { # process: is it gone, or does only its name remain?
  ! grep -q '^State:[[:space:]]*[^Z]' "/proc/$1/status" 2>/dev/null
}
soon() { # command...
  for _ in $(seq 600); do "$@" && return; sleep 0.1; done
  return 1
}
"$work/faults" endless >"$work/out" 2>&1 &
program=$!
of_program() { device=$(ps -o pid= --ppid $program) && [ -n "$device" ]; }
soon of_program
kill -KILL $program
wait $program 2>/dev/null
# shellcheck disable=SC2086 # without the blanks
if [ -n "$device" ] && soon ends ${device}; then tap ok 'a program is killed: its device ends, too'; else tap 'not ok' "a program is killed: its device $device runs on"; fi

# A missing wait shows in the results of a lazy device, which does only what someone waits for. A right program is right
# there, too, and with any delays.
missing() { # FAULT, what, wrong line, the same program with its wait, right line
  right=yes
  EMULATED_LAZY=1 "$work/faults" "$4" >"$work/out" 2>&1
  grep -q "$5" "$work/out" || right=no
  for seed in 1 2 3; do
    EMULATED_SEED=$seed EMULATED_DELAY=3000 "$work/faults" "$4" >"$work/out" 2>&1
    grep -q "$5" "$work/out" || right=no
  done
  EMULATED_LAZY=1 "$work/faults" "$1" >"$work/out" 2>&1
  if grep -q "$3" "$work/out" && [ $right = yes ]; then tap ok "$2"; else tap 'not ok' "$2"; fi
}
missing no-wait 'a copy that does not wait for its kernel' 'copies overtook kernels' order 'all copies came after'
missing early-use 'a host that does not wait for a copy' 'the host was too early' wait 'the host waited'
echo "1..$number"
