#!/bin/sh
# The set-up scripts on a machine that lacks packages, simulated here: they name each missing package with the command
# that installs it, count Spack's packages as installed, and refuse wrong options and archives.
cd "${top_srcdir:-$(dirname "$0")/..}" || exit 99
top=$PWD
echo 1..10
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
number=0
check() { # name, command...
  name=$1
  number=$((number + 1))
  shift
  if "$@"; then echo "ok $number - $name"; else
    echo "not ok $number - $name"
    sed 's/^/# /' "$work/out"
  fi
}
says() { grep -qF -- "$1" "$work/out"; }
quiet_on() { ! grep -qF -- "$1" "$work/out"; }

# A PATH with the tools of every system, and no compiler, apt or pkg-config.
mkdir "$work/bin" "$work/tree" "$work/home"
for tool in awk cat cut date dirname env find grep id mkdir nproc printf rm sed seq sh sort tail tr wc; do
  ln -s "$(command -v $tool)" "$work/bin/$tool" 2>/dev/null
done
cp quickstart "$work/tree/"
alone() { # arguments of quickstart
  env -i HOME="$work/home" PATH="$work/bin" PKG_CONFIG_LIBDIR="$work/none" sh "$work/tree/quickstart" "$@" >"$work/out" 2>&1
  code=$?
}
alone
check 'quickstart fails on a machine without packages' [ $code = 1 ]
check 'it names a missing library and the package' says 'StarPU 1.3.10 or later: spack install starpu && spack load starpu'
check 'it names the missing compiler' says 'a C compiler (gcc)'
if [ -d /usr/share/datasets/fashion-mnist ]; then
  number=$((number + 1))
  echo "ok $number # SKIP the data is not missing here"
else check 'it names the missing data set' says './quickstart --data DIR'; fi
alone nonsense
check 'an unknown argument is a usage error' [ $code = 2 ]

# A Spack that holds hwloc.
if command -v pkg-config >/dev/null; then
  ln -s "$(command -v pkg-config)" "$work/bin/pkg-config"
  mkdir -p "$work/spack/lib/pkgconfig"
  printf 'Name: hwloc\nDescription: x\nVersion: 2.9\n' >"$work/spack/lib/pkgconfig/hwloc.pc"
  printf '#!/bin/sh\n[ "$3" = hwloc ] && echo %s\n' "$work/spack" >"$work/bin/spack"
  chmod +x "$work/bin/spack"
  alone
  check 'packages from Spack count as installed' quiet_on 'hwloc:'
else
  number=$((number + 1))
  echo "ok $number # SKIP no pkg-config"
fi

build_starpu() { HOME=$work/home "$top/tools/build-starpu" "$@" >"$work/out" 2>&1; code=$?; }
build_starpu --nonsense
check 'build-starpu: an unknown option is a usage error' [ $code = 2 ]
build_starpu --cuda "$work" --simgrid
check 'build-starpu: CUDA and SimGrid exclude each other' [ $code = 2 ]
build_starpu --emulated-gpus --simgrid
check 'build-starpu: emulated GPUs and SimGrid exclude each other' [ $code = 2 ]
echo 'no archive' >"$work/starpu-1.4.10.tar.gz"
build_starpu --prefix "$work/prefix" --source "$work/starpu-1.4.10.tar.gz"
if says missing:; then
  number=$((number + 1))
  echo "ok $number # SKIP this machine cannot build StarPU: $(sed -n 1p "$work/out")"
else check 'build-starpu: an archive with a wrong digest is refused' says 'and should have 8f35f59c'; fi
