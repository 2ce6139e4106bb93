#!/bin/sh
# Figure: this build runs on a machine that has a GPU and CUDA but not the packages that Starling needs. Packs the
# command, the test programs that use GPUs and the libraries that they need, less glibc and CUDA, into
# starling-gpu.tar.xz of the build folder (or the file named as argument), and starts every program from it in a chroot
# that has only glibc, a shell and CUDA. On the other machine:
#   tar xf starling-gpu.tar.xz; starling-gpu/run                        all test programs, closing with the counts
#   starling-gpu/run tests/codelets/cuda                                one of them
#   starling-gpu/run starling bench lenet                               the command
#   starling-gpu/source/tests/figures/gpu.sh                            all figures that need a GPU, in 25 minutes
#   starling-gpu/run mpiexec -n 2 starling-gpu/build/starling ...       ranks
# Run it in a build configured --with-cuda and --with-starpu= a StarPU 1.4 with CUDA, after make and make check.
# DATA=DIR packs a data set along, into starling-gpu/data. LD_LIBRARY_PATH makes the bundle relocatable: an rpath would
# need a second build.
set -eu
skip() { echo "SKIP: $*"; exit 77; }
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/figures/figure.shlib"
build=$(cd "${top_builddir:-.}" && pwd)
output=${1:-$build/starling-gpu.tar.xz}
[ -x "$build/starling" ] || skip "no starling in $build: run this in a build folder, after make"
ldd "$build/starling" | grep -q libcudart || skip "$build/starling has no CUDA kernels: configure --with-cuda"
starpu=$(ldd "$build/starling" | sed -n 's/.*=> \(.*libstarpu-1[^ ]*\).*/\1/p')
ldd "$starpu" | grep -q libcudart || skip "$starpu cannot run CUDA tasks: tools/build-starpu --cuda, then configure --with-starpu="

work=$(mktemp -d "${TMPDIR:-/tmp}/bundle.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
bundle=$work/starling-gpu
mkdir -p "$bundle/lib" "$bundle/mpi"

is_elf() { [ "$(head -c 4 "$1" | tail -c 3)" = ELF ]; }
programs=$(cd "$build" && find starling tests/codelets tests/models tests/runtime/machine tests/runtime/processors tests/tasks/starpu examples \
  -type f -perm -u+x ! -name '*.so*' 2>/dev/null | sort)
for program in $programs; do
  is_elf "$build/$program" || continue
  mkdir -p "$bundle/build/$(dirname "$program")"
  cp "$build/$program" "$bundle/build/$program"
done
make -s -C "$build" tests/support/give_way.so || exit
mkdir -p "$bundle/build/tests/support" && cp "$build/tests/support/give_way.so" "$bundle/build/tests/support/" || exit
strip --strip-debug $(find "$bundle/build" -type f)
(cd "$top" && find tests examples models docs -type f ! -name '*.c' 2>/dev/null | tar cf - -T -) >"$work/source.tar"
mkdir "$bundle/source" && tar xf "$work/source.tar" -C "$bundle/source"
[ -z "${DATA-}" ] || cp -rL "$DATA" "$bundle/data"
for tool in mpiexec.hydra hydra_pmi_proxy; do
  found=$(command -v "$tool") || skip "no $tool (Debian: apt-get install mpich)"
  cp "$found" "$bundle/mpi/"
done
# Each needed library once, under the name that it is asked for; glibc's own and CUDA's stay behind.
find "$bundle/build" "$bundle/mpi" -type f -exec ldd {} + | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | sort -u |
  grep -vE '^(ld-linux|lib(c|m|dl|rt|pthread|resolv|util|nsl|anl|cuda|cudart|cublas[A-Za-z]*|cusparse|cusolver|nv[A-Za-z-]*))[-.]' |
  while read -r name file; do cp -L "$file" "$bundle/lib/$name"; done

cat >"$bundle/run" <<'RUN'
#!/bin/sh
# run: all test programs. run PROGRAM [ARGUMENT...]: one of build/, or mpiexec.
here=$(cd "$(dirname "$0")" && pwd)
for cuda in "${CUDA_HOME-}" /usr/local/cuda; do [ -n "$cuda" ] && [ -d "$cuda/lib64" ] && break; done
LD_LIBRARY_PATH=$here/lib:$cuda/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} STARLING=$here/build/starling MPIEXEC=$here/mpi/mpiexec.hydra
STARPU_HOME=${STARPU_HOME:-$here/home} STARPU_SILENT=${STARPU_SILENT-1} top_srcdir=$here/source top_builddir=$here/build
export LD_LIBRARY_PATH STARLING MPIEXEC STARPU_HOME STARPU_SILENT top_srcdir top_builddir
mkdir -p "$STARPU_HOME"
case ${1-} in
'') ;;
mpiexec) shift; exec "$MPIEXEC" "$@" ;;
*) program=$here/build/$1; shift; exec "$program" "$@" ;;
esac
CMOCKA_MESSAGE_OUTPUT=TAP; export CMOCKA_MESSAGE_OUTPUT
cd "$here/build" || exit 99
passed=0 failed=0 skipped=0
for program in $(find tests -type f ! -name '*.so' | sort); do
  echo "== $program"
  sh "$here/source/tests/support/run-program" "./$program" >"$here/log" 2>&1
  code=$?
  cat "$here/log"
  p=$(grep -c '^ok ' "$here/log") s=$(grep -c '^ok .*# SKIP' "$here/log") f=$(grep -c '^not ok ' "$here/log")
  if [ $code != 0 ] && [ "$f" = 0 ]; then echo "not ok $program ended with $code"; f=1; fi
  passed=$((passed + p - s)) failed=$((failed + f)) skipped=$((skipped + s))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
RUN
chmod +x "$bundle/run"
# Each program holds all kernels: a dictionary larger than a program keeps them once.
(cd "$work" && tar cf - starling-gpu | xz --lzma2=preset=6,dict=128MiB >"$output.new") && mv "$output.new" "$output"

bytes=$(wc -c <"$output")
echo "$output"
[ -n "${DATA-}" ] ||
  figure 'GPU bundle, MiB' '<= 32' "$(awk "BEGIN { printf \"%.1f\", $bytes / 1048576 }")"

# ---- in a bare chroot ------------------------------------------------------------------------------------------------
[ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null || { echo 'SKIP: the chroot, which needs root'; exit $missed; }
root=$work/root
mkdir -p "$root/bin" "$root/tmp" "$root/dev" "$root/proc" "$root/sys" "$root/usr/local/cuda/lib64" "$root/etc"
echo 'root:x:0:0::/tmp:/bin/sh' >"$root/etc/passwd"
echo '127.0.0.1 localhost' >"$root/etc/hosts"
tools="sh cat gzip dirname find sort grep sed mktemp mkdir rm chmod timeout head tail"
for tool in $tools; do
  cp -L "$(command -v "$tool")" "$root/bin/"
  ldd "$(command -v "$tool")" | grep -oE '/[^ ]+' | while read -r file; do
    mkdir -p "$root$(dirname "$file")" && cp -L "$file" "$root$file"
  done
done
for name in libc.so.6 libm.so.6 libdl.so.2 librt.so.1 libpthread.so.0 libresolv.so.2 libutil.so.1 ld-linux-x86-64.so.2; do
  file=$(ldconfig -p | sed -n "s|^[[:space:]]*$name .*=> ||p" | head -n 1)
  [ -z "$file" ] || { mkdir -p "$root$(dirname "$file")" && cp -L "$file" "$root$file"; }
done
ldd "$build/starling" | sed -nE 's/.*=> ([^ ]*lib(cudart|cublas|cublasLt)\.[^ ]*) .*/\1/p' | while read -r file; do
  : >"$root/usr/local/cuda/lib64/$(basename "$file")"
  echo "$file"
done >"$work/cuda"
tar xf "$output" -C "$root/tmp"
inside() { # command
  unshare --mount sh -c '
    while read -r file; do mount --bind "$file" "$1/usr/local/cuda/lib64/$(basename "$file")" || exit 99; done <"$2"
    mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount --rbind /dev "$1/dev" &&
    exec chroot "$1" /bin/sh -c "export PATH=/bin HOME=/tmp; $3"' sh "$root" "$work/cuda" "$1"
}
inside 'cd /tmp && exec starling-gpu/run starling --version' >"$work/log" 2>&1 && started=1 || started=0
[ $started = 1 ] || cat "$work/log"
figure 'bare chroot, the command starts' yes "$([ $started = 1 ] && echo yes || echo no)"
inside 'cd /tmp && exec starling-gpu/run' >"$work/log" 2>&1 && passed=1 || passed=0
[ $passed = 1 ] || grep -E -A 4 '^(==|not ok)' "$work/log" | grep -B 1 -A 4 '^not ok'
tail -n 1 "$work/log"
figure 'bare chroot, test programs' '0 failed' "$(tail -n 1 "$work/log" | grep -oE '[0-9]+ failed')" "exit code $((1 - passed))"
[ $passed = 1 ] || missed=1
exit $missed
