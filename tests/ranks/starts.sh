#!/bin/sh
# Ranks that share a folder of performance models start StarPU in turn, since its first start measures the machine and
# writes what later starts read: the first rank before all others, and the first rank of each other node before the rest
# of that node. A preloaded library records the starts. As a check of the test itself, the library can switch off the
# turns; then the test must find that starts overlap. MPICH can be told that no two ranks share memory, or only ranks of
# the same parity; then the test has several nodes, which share one folder.
. "$(dirname "$0")/../support/command.shlib"
recorder=$(cd "${top_builddir:-$(dirname "$starling")}" && pwd)/tests/support/starts.so
[ -x "${MPIEXEC-}" ] || { echo '1..0 # SKIP no mpiexec'; exit 0; }
[ -e "$recorder" ] || { echo "1..0 # SKIP no $recorder"; exit 0; }
! grep -qaE '__(asan|tsan)_init' "$starling" || { echo '1..0 # SKIP sanitizers come before what is loaded into a program'; exit 0; }
make_set data 120 0 8 3
job() { # name, ranks, variables for env: a short job that must succeed
  about=$1 ranks=$2 code=0
  shift 2
  rm -rf starts.* a
  env LD_PRELOAD="$recorder${LD_PRELOAD:+:$LD_PRELOAD}" STARTS_LOG="$PWD/starts" "$@" $limit "$MPIEXEC" -n "$ranks" \
    "$starling" train mlp --data data --batch 60 --leaves 4 --workers 1 --steps 1 --val-fraction 0 --quiet --out a >out 2>err || code=$?
  check "$about: the job succeeds" test $code = 0
  check "$about: every rank records its start" test "$(cat starts.* | grep -cE '^[0-9]+ [0-9]+$')" = "$ranks"
}
# Whether each of the ranks $2... begins after rank $1 has ended.
before() {
  read -r begin end <"starts.$1"
  shift
  for rank in "$@"; do
    read -r begin rest <"starts.$rank"
    [ "$begin" -ge "$end" ] || return 1
  done
}
overlap() { # of any two ranks: whether each begins before the other's end
  for one in $(seq 0 $((ranks - 1))); do
    for other in $(seq 0 $((one - 1))); do
      before "$one" "$other" || before "$other" "$one" || return 0
    done
  done
  return 1
}
job 'one node' 2
check 'one node: the first rank starts alone' before 0 1
job 'one node, three ranks' 3
check 'one node, three ranks: the first rank starts alone' before 0 1 2
job 'three nodes' 3 MPIR_CVAR_NOLOCAL=1
check 'three nodes: the first rank starts alone' before 0 1 2
job 'two nodes of two ranks' 4 MPIR_CVAR_ODD_EVEN_CLIQUES=1
check 'two nodes of two ranks: the first rank starts alone' before 0 1 2 3
check 'two nodes of two ranks: so does the first of the other node before the rest' before 1 2 3
# The first start of a job has measured the buses above, and a measurement of two at a time might fail.
job 'no turns' 2 STARTS_SKIP=3
check 'no turns: starts that overlap are found' overlap
job 'no turns, two nodes' 2 STARTS_SKIP=3 MPIR_CVAR_NOLOCAL=1
check 'no turns, two nodes: starts that overlap are found' overlap
finish
