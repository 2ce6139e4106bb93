#!/bin/bash
# Figure: the link between two test hosts (tests/hosts.sh) limited to 1 Gbit/s: each rank sends and receives what a reduce-scatter and an
# allgather of 64 MB need, 64 MB each way, and that takes the time that the limit allows, within 25%, on machines with a core for each host.
# What shared memory would do stands beside it, to show that no rank went round the link.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$top/build}
export MPIEXEC=${MPIEXEC:-mpiexec.mpich} HOSTS=network$$
[ -x "$build/tests/runtime/exchange" ] || { echo "SKIP: no $build/tests/runtime/exchange: run ./quickstart check first"; exit 77; }
[ "$(id -u)" = 0 ] || { echo 'SKIP: network namespaces are for root'; exit 77; }
trap '"$top/tests/hosts.sh" down' EXIT
trap 'exit 130' INT TERM
"$top/tests/hosts.sh" up 2 1gbit || { echo 'SKIP: no network namespaces, bridges or tbf here'; exit 77; }
bytes=64000000
read -r _ _ messages mpi < <(timeout 300 "$top/tests/hosts.sh" mpiexec "$build/tests/runtime/exchange" measure $bytes) || exit 1
read -r shared _ < <(timeout 300 "$MPIEXEC" -n 2 "$build/tests/runtime/exchange" measure $bytes) || exit 1
limit=$(awk -v b=$bytes 'BEGIN { print 8 * b / 1e9 }')
echo "64 MB between two hosts: ${messages} s, MPI_Iallreduce ${mpi} s; the link's rate allows ${limit} s; on one host ${shared} s"
missed=0
figure() { # name, target, value, whether met
  printf '  %-44s target %-8s value %-10s %s\n' "$1" "$2" "$3" "$([ "$4" = 1 ] && echo met || echo MISSED)"
  [ "$4" = 1 ] || missed=1
}
share=$(awk -v a="$limit" -v b="$messages" 'BEGIN { printf "%.2f", a / b }')
figure "part of the link's rate" 0.75 "$share" "$(awk -v v="$share" 'BEGIN { print (v >= 0.75 && v <= 1) }')"
gain=$(awk -v a="$mpi" -v b="$messages" 'BEGIN { printf "%.2f", a / b }')
figure "speed as multiples of MPI_Iallreduce's" 0.95 "$gain" "$(awk -v v="$gain" 'BEGIN { print (v >= 0.95) }')"
exit $missed
