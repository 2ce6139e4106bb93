#!/bin/sh
# Figure: on an idle machine each lesson's program ends within a minute (LESSON_SECONDS), and lesson 10's shares of
# time are as its page says.
top=$(cd "$(dirname "$0")/../.." && pwd)
SHARES=1 LESSON_SECONDS=${LESSON_SECONDS:-60}
export SHARES LESSON_SECONDS
[ -x "${STARLING:-$top/build/starling}" ] || { echo 'SKIP: no starling: run ./quickstart first'; exit 77; }
STARLING=${STARLING:-$top/build/starling} top_srcdir=${top_srcdir:-$top}
export STARLING top_srcdir
[ -n "${MPIEXEC-}" ] || MPIEXEC=$(command -v mpiexec.mpich)
export MPIEXEC
out=$(CDPATH='' sh "$top/tests/lessons/lessons.sh")
echo "$out"
! echo "$out" | grep '# SKIP' | grep -v 'no GPU' || { echo 'MISSED: lessons were left out'; exit 1; }
! echo "$out" | grep -q '^not ok' && echo "$out" | grep -q '^1\.\.[1-9]'
