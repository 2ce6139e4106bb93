#!/bin/bash
# Figure: seconds to sum 4, 64 and 500 MB over 2 and 4 ranks of this machine: the tree through shared memory and by
# messages, beside MPI_Iallreduce, in turn in one run. The tree is at most 5% slower, and four times as fast at 500
# MB.
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
. "$top/tests/figures/figure.shlib"
build=${BUILD:-$top/build}
mpiexec=${MPIEXEC:-mpiexec.mpich}
[ -x "$build/tests/runtime/exchange/tree" ] || { echo "SKIP: no $build/tests/runtime/exchange/tree: run ./quickstart check first"; exit 77; }
for ranks in 2 4; do
  for mb in 4 64 500; do
    read -r shared copied messages mpi < <("$mpiexec" -n $ranks "$build/tests/runtime/exchange/tree" measure $((mb * 1000000))) || exit 1
    target=0.95
    [ $mb != 500 ] || target=4
    echo "$ranks ranks, $mb MB: in shared memory ${shared} s, through it ${copied} s, messages ${messages} s, MPI_Iallreduce ${mpi} s"
    figure "speed as multiples of MPI_Iallreduce's" ">= $target" "$(ratio "$mpi" "$shared")"
  done
done
exit $missed
