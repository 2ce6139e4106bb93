#!/bin/sh
# Lesson 11, a GPU among the workers: the lesson itself, the folder that a student gets, and submissions that must fail.
# The test runs in a build for emulated GPUs (docs/how-to/emulated-gpus.md); the emulated device names many of the
# mistakes in the submissions.
. "$(dirname "$0")/training.shlib"
command -v pkg-config >/dev/null || { echo '1..0 # SKIP no pkg-config'; exit 0; }
PKG_CONFIG_PATH=$(dirname "$starling")${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH
lesson=$top/examples/11-gpu all=$work/all
in_lesson() { $limit env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C "$@" CC="$(made_of CC)" >"$work/out" 2>"$work/err"; }

cp -R "$lesson" "$work/right"
in_lesson "$work/right" run CFLAGS='-O3 -g -Wall -Wextra -Werror'
check 'the solution: ok' test "$(tail -n 1 "$work/out")" = ok
check 'core and GPU have run tasks in turn' grep -qE '^in turn +tasks that a core ran +11, a GPU +11; elements far from right +0, with other bits +0$' "$work/out"
check 'the policy is shown with samples and without' sh -c "grep -q '^dmda, nothing known yet ' '$work/out' && grep -q '^dmda, calibrated ' '$work/out'"

expect 'the folder of a student' 0 'complete and hand in hand-out/linear_gpu.cu' lesson 11 hand-out
check 'it has the skeletons' sh -c "cmp $lesson/skeleton/linear.c hand-out/linear.c && cmp $lesson/skeleton/linear_gpu.cu hand-out/linear_gpu.cu"
check 'it has no solution' eval '! grep -rqE "cuda_funcs = |e >= rows" hand-out'
cp "$lesson/linear.c" "$lesson/linear_gpu.cu" hand-out/
(unset PKG_CONFIG_PATH; in_lesson hand-out run)
check 'with the solution the folder alone says ok' test "$(tail -n 1 "$work/out")" = ok

hand_in() { mkdir -p "$all/$1" && cp "$lesson/linear.c" "$lesson/linear_gpu.cu" "$all/$1/"; } # name
change() { # name, file, sed script
  hand_in "$1"
  sed "$3" "$lesson/$2" >"$all/$1/$2"
  if cmp -s "$lesson/$2" "$all/$1/$2"; then not_ok "$1: the script changes nothing"; fi
}
hand_in right
mkdir -p "$all/skeleton" "$all/half" && cp "$lesson"/skeleton/* "$all/skeleton/" && cp "$lesson/linear.c" "$all/half/"
change tail linear_gpu.cu 's|(rows \* out + THREADS - 1) / THREADS|rows * out / THREADS|'
change outside linear_gpu.cu 's|if (e >= rows \* out) return;||'
change contracted linear_gpu.cu 's|sum = fmaf(\(.*\), \(.*\), sum)|sum += \1 * \2|'
change backwards linear_gpu.cu 's|for (int i = 0; i < in; i++)|for (int i = in - 1; i >= 0; i--)|'
change stream linear_gpu.cu 's|THREADS, 0, starpu_cuda_get_local_stream()>>>|THREADS>>>|'
change no-wait linear.c 's,\.cuda_flags = .*,,'
change no-model linear.c 's|\.model = &linear_model,||; s|static struct starpu_perfmodel|struct starpu_perfmodel|'
change no-gpu linear.c 's|\.cuda_funcs = {linear_gpu},||'
# The driving core computes, on copies: the results are right.
change core linear_gpu.cu '/^ *linear_kernel<<</,/);$/c \
  float *m[4]; \
  const int n[4] = {rows * in, out * in, out, rows * out}; \
  for (int k = 0; k < 4; k++) m[k] = (float *)malloc(4 * n[k]); \
  for (int k = 0; k < 3; k++) cudaMemcpy(m[k], array[k], 4 * n[k], cudaMemcpyDeviceToHost); \
  for (int e = 0; e < n[3]; e++) { \
    m[3][e] = m[2][e % out]; \
    for (int i = 0; i < in; i++) m[3][e] = __builtin_fmaf(m[0][e / out * in + i], m[1][e % out * in + i], m[3][e]); \
  } \
  cudaMemcpy(array[3], m[3], 4 * n[3], cudaMemcpyHostToDevice); \
  for (int k = 0; k < 4; k++) free(m[k]); \
  (void)blocks;'
run grade 11 "$all" --quiet --out table.csv
if grep -q 'submissions cannot be shut in a sandbox here' "$work/err"; then run grade 11 "$all" --quiet --out table.csv --unprotected; fi
check 'all submissions are graded' test "$code" = 0
cat table.csv >>"$work/out"
row() { # name, built, passed, points, pattern of the failure
  check "$1: built $2, passed $3, $4 of 5 points, $5" grep -qE "^\"$1\",$2,$3,$4,5,[0-9]+,[0-9.]+,[0-9]+,\"$5\"\$" table.csv
}
samples='wrong: StarPU cannot predict the times of tasks.*'
row right yes yes 5 ''
row skeleton yes no 0 "wrong: the GPU did not run .*; $samples"
row half no no 0 'there is no file linear_gpu.cu'
row tail yes no '[0-2]' 'wrong: .*the GPU.*'
row outside yes no '[0-1]' 'wrong: the GPU did not run all tasks .*'
row contracted yes no 3 "wrong: the GPU's results do not have the core's bits"
row backwards yes no 3 "wrong: the GPU's results do not have the core's bits"
row stream yes no '[0-4]' 'wrong: .*'
row no-wait yes no '[0-4]' 'wrong: .*'
row no-model yes no 4 "$samples"
row no-gpu yes no 0 "wrong: the GPU did not run .*; $samples"
row core yes no '[0-2]' 'wrong: the GPU launched fewer kernels .*'
finish
