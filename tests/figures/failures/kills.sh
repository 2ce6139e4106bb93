#!/bin/sh
# Figure: 200 kills (KILLS) of runs in fp32, bf16 and fp16 (KILLS_PRECISIONS) whose starts are on 2, 3 and 1 ranks in
# turn (KILLS_RANKS): every start after a kill finds a complete checkpoint, and the end has the bits of the undisturbed
# run.
export KILLS="${KILLS:-200}" KILLS_PRECISIONS="${KILLS_PRECISIONS:-fp32 bf16 fp16}" KILLS_RANKS="${KILLS_RANKS:-2 3 1}"
export MPIEXEC="${MPIEXEC:-$(command -v mpiexec.mpich)}"
out=$("$(dirname "$0")/../../ranks/kills.sh")
echo "$out" | grep -v '^ok .*same'
! echo "$out" | grep -q '^not ok' && echo "$out" | grep -q '^1\.\.'
