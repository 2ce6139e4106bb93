#!/bin/bash
# Figure: the tests notice wrong code. Each mutant of tests/figures/mutants/*.list breaks one place of the code; it is
# applied to a copy of the tree, built, and must be caught by the test that its entry names. A mutant that no test
# catches fails the figure, and so does one that does not compile. tests/sources/mutants.sh keeps the lists in step with
# the sources.
#   MUTANTS=codelets/products/linear tests/figures/mutants.sh     only those whose "file: what" matches that expression
#   TESTS='\.sh' tests/figures/mutants.sh                        only those whose test is a script, which take minutes
# EMULATED: a StarPU for emulated GPUs (tools/build-starpu --emulated-gpus). Without it the mutants of devices.list are
# left out. JOBS: copies of the tree that work at once (2). A test may take 5 times as long as without a mutant and
# SECONDS_MORE (60); a test that hangs has caught the mutant, too.
#
# The form of an entry. "file" and "test" also hold for the entries that follow; "-" and "+" may have several lines:
#   file codelets/elementwise/relu.c
#   test tests/codelets/operations relu relu_grad
#   mutant the mask is y >= 0
#   - dx[i] = y[i] > 0 ?
#   + dx[i] = y[i] >= 0 ?
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
[ -x "$top/configure" ] || { echo 'SKIP: no configure: run ./bootstrap first'; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/mutants.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
jobs=${JOBS:-2} more=${SECONDS_MORE:-60}
export CMOCKA_MESSAGE_OUTPUT=TAP STARPU_SILENT=1 MPIEXEC="${MPIEXEC:-$(command -v mpiexec)}" TIMEOUT=timeout
unset top_srcdir top_builddir STARLING
mkdir "$work/mutant" "$work/seconds"

# One folder a mutant: file, test, what, mutated.
( cd "$top" && awk -v to="$work/mutant" -v wanted="${MUTANTS:-}" -f tests/support/mutants.awk tests/figures/mutants/*.list ) || exit 1
if [ -z "${EMULATED:-}" ]; then
  for at in $(grep -l '/devices\.list:' "$work"/mutant/*/at); do
    echo "left out without EMULATED: $(cat "${at%/at}/file"): $(cat "${at%/at}/what")"
    rm -r "${at%/at}"
  done
fi
for at in "$work"/mutant/*; do grep -qE -e "${TESTS:-.}" "$at/test" || rm -r "$at"; done
count=$(ls "$work/mutant" | wc -l)
[ "$count" -gt 0 ] || { echo "no mutant like '${MUTANTS:-}' of a test like '${TESTS:-}'"; exit 1; }

compiler=${CC:-gcc}
command -v ccache >/dev/null && case $compiler in *ccache*) ;; *) compiler="ccache $compiler" ;; esac

loaded='tests/support/give_way.so tests/support/faults.so tests/support/record.so tests/support/starts.so'
# Mutants of CUDA code are built for emulated devices, in the folder "device", where tests take many times as long;
# all others in the folder "plain".
kind_of() { # mutant
  if [ -n "${EMULATED:-}" ] || grep -qi cuda "$work/mutant/$1/file" "$work/mutant/$1/what"; then echo device; else echo plain; fi
}

tree() { # number: a copy of the sources, configured and built
  mkdir -p "$work/$1" && cd "$work/$1" || return 1
  for name in runtime tasks codelets models tools tests examples docs man build-aux bootstrap configure configure.ac aclocal.m4 \
    Makefile.am Makefile.in config.h.in starling.pc.in starling-uninstalled.pc.in LICENSE README.md CONTRIBUTING.md .commit; do
    [ ! -e "$top/$name" ] || cp -Rp "$top/$name" . || return 1
  done
  for kind in $(for at in "$work"/mutant/*; do kind_of "$(basename "$at")"; done | sort -u); do
    mkdir -p "$work/$1/$kind" && cd "$work/$1/$kind" || return 1
    local cuda=--without-cuda
    if [ -n "${EMULATED:-}" ]; then
      cuda="--with-starpu=$EMULATED --with-cuda=$EMULATED/cuda"
    elif [ "$kind" = device ]; then
      ../tests/device/build "$PWD/cuda" >device.log 2>&1 || return 1
      cuda=--with-cuda=$PWD/cuda
    fi
    # shellcheck disable=SC2086 # words
    ../configure -q $cuda CC="$compiler" CFLAGS='-O1 -g0' >configure.log 2>&1 &&
      make -s -j"$jobs" libstarling.a $loaded >make.log 2>&1 || return 1
  done
}

build() { # a test's command, in the folder of its kind
  case $1 in *.sh*) make -s all ;; *) make -s "${1%% *}" ;; esac >build.log 2>&1
}

seconds_of() { echo "$work/seconds/$(echo "$1 $2" | cksum | tr ' ' -)"; } # kind, a test's command: the file with its seconds

# Idle threads give way as in make check: tests with several ranks take a fifth of the time.
run() { # a test's command, in the folder of its kind
  local limit
  limit=$((more + 5 * $(cat "$(seconds_of "$(basename "$PWD")" "$1")" 2>/dev/null || echo 300)))
  set -- $1
  case $1 in *.sh) program="../$1" ;; *) program="./$1" ;; esac
  shift
  mkdir -p tmp/home # what StarPU measured in one test may change what another one sees
  TMPDIR=$PWD/tmp STARPU_HOME=$PWD/tmp/home top_srcdir=$PWD/.. top_builddir=$PWD STARLING=$PWD/starling LD_PRELOAD=$PWD/tests/support/give_way.so \
    timeout -k 5 "$limit" "$program" "$@" >run.log 2>&1 </dev/null &
  local test=$! code
  until grep -q '^not ok [0-9]* -' run.log || ! kill -0 $test 2>/dev/null; do sleep 0.1; done
  kill $test 2>/dev/null # the first check that fails ends the test
  wait $test
  code=$?
  ! grep -q '^not ok [0-9]* -' run.log || code=1
  rm -rf tmp
  # The ranks of a test that did not end outlive it, and spin.
  find /proc/[0-9]*/exe -maxdepth 0 -lname "${PWD%/*}/*" 2>/dev/null | tr -dc '0-9\n' | xargs -r kill -9 2>/dev/null
  return $code
}

try() { # tree, mutant
  cd "$work/$1/$(kind_of "$2")" || return
  local at=$work/mutant/$2 file test says start=$SECONDS
  file=$(cat "$at/file") test=$(cat "$at/test")
  cp "../$file" "$work/$1/kept"
  cp "$at/mutated" "../$file"
  if ! build "$test"; then
    says='NO BUILD'; cp build.log "$at/log"
  else
    run "$test"
    code=$?
    case $code in 124 | 137) run "$test"; code=$? ;; esac # a busy machine may have taken the time
    case $code in 0 | 77) says=SURVIVED; cp run.log "$at/log" ;; 124 | 137) says='caught, no end' ;; *) says=caught ;; esac
  fi
  cp "$work/$1/kept" "../$file"
  printf '%-15s %s: %s (%s; %d s)\n' "$says" "$file" "$(cat "$at/what")" "$test" $((SECONDS - start)) | tee "$at/says"
}

tree 1 || { echo "the copy of the tree does not build:"; tail -n 20 "$work"/1/*/*.log; exit 1; }
for job in $(seq 2 "$jobs"); do cp -Rp "$work/1" "$work/$job" || exit 1; done
# Without a mutant every test passes, or being caught by it means nothing.
for at in "$work"/mutant/*; do echo "$(kind_of "$(basename "$at")") $(cat "$at/test")"; done | sort -u >"$work/tests"
for job in $(seq "$jobs"); do
  while read -r kind test; do
    at=$(seconds_of "$kind" "$test")
    mkdir "$at.taken" 2>/dev/null || continue
    cd "$work/$job/$kind" || exit 1
    build "$test" && start=$SECONDS && run "$test" && echo $((SECONDS - start)) >"$at" && continue
    { echo "without a mutant $test fails ($kind):"; tail -n 20 build.log run.log; } >"$at.fails"
  done <"$work/tests" &
done
wait
for at in "$work"/seconds/*.fails; do [ -e "$at" ] && { cat "$work"/seconds/*.fails; exit 1; }; done

for job in $(seq "$jobs"); do
  for at in "$work"/mutant/*; do
    mkdir "$at/taken" 2>/dev/null && try "$job" "$(basename "$at")"
  done &
done
wait
for at in "$work"/mutant/*; do [ -s "$at/log" ] && { echo "== $(cat "$at/says")"; tail -n "${TAIL:-4}" "$at/log"; }; done

echo
for at in "$work"/mutant/*; do
  printf '%s\t%s\n' "$(cat "$at/file")" "$(grep -c '^caught' "$at/says")"
done | awk -F'\t' '{ n[$1]++; caught[$1] += $2; all++; good += $2 }
  END { for (file in n) printf "%-44s %3d mutants, %3d caught\n", file, n[file], caught[file] | "sort"
        close("sort"); printf "%-44s target %-8s value %-10s %s\n", "mutants that survive", 0, all - good, all == good ? "met" : "MISSED"
        exit all != good }'
