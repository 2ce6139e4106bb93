#!/bin/bash
# Figure: two test hosts (tests/support/hosts.sh) with a link of 1 Gbit/s between them. A reduce-scatter and an
# allgather of 64 MB alone, 64 MB each way, take at most 25% longer than the link's rate allows. In steps of
# gpt2-nano, 80% of the exchange that the backward pass can hide is hidden. Also shows what hierarchy (ranks that
# share a host's memory) and compression gain. For machines with one core per host.
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
. "$top/tests/figures/figure.shlib"
build=${BUILD:-$top/build}
export MPIEXEC=${MPIEXEC:-mpiexec.mpich} HOSTS=network$$
[ -x "$build/tests/runtime/exchange/tree" ] || { echo "SKIP: no $build/tests/runtime/exchange/tree: run ./quickstart check first"; exit 77; }
[ "$(id -u)" = 0 ] || { echo 'SKIP: network namespaces are for root'; exit 77; }
trap '"$top/tests/support/hosts.sh" down' EXIT
trap 'exit 130' INT TERM
"$top/tests/support/hosts.sh" up 2 1gbit || { echo 'SKIP: no network namespaces, bridges or tbf here'; exit 77; }
bytes=64000000
read -r _ _ messages mpi < <(timeout 300 "$top/tests/support/hosts.sh" mpiexec "$build/tests/runtime/exchange/tree" measure $bytes) && [ -n "$mpi" ] || exit 1
read -r shared _ < <(timeout 300 "$MPIEXEC" -n 2 "$build/tests/runtime/exchange/tree" measure $bytes) || exit 1
limit=$(awk -v b=$bytes 'BEGIN { print 8 * b / 1e9 }')
echo "64 MB between two hosts: ${messages} s, MPI_Iallreduce ${mpi} s; the link's rate allows ${limit} s; on one host ${shared} s"
share=$(ratio "$limit" "$messages")
figure "part of the link's rate" 0.75..1 "$share"
gain=$(ratio "$mpi" "$messages")
figure "speed as multiples of MPI_Iallreduce's" '>= 0.95' "$gain"

# The backward pass can hide as much of the exchange as it lasts from the first bucket on (runtime/trace/overlap.h); the
# idle time of workers that wait for an exchange is the part that was not hidden.
starling=${STARLING:-$top/build/starling}
command -v jq >/dev/null || { echo 'SKIP: no jq'; exit $missed; }
work=$(mktemp -d)
trap '"$top/tests/support/hosts.sh" down; rm -rf "$work"' EXIT
steps() { # ranks a host, bench's arguments
  timeout 300 "$top/tests/support/hosts.sh" mpiexec -n $((2 * $1)) -ppn "$1" "$starling" bench gpt2-nano --batch 8 --leaves 4 --workers 1 --steps 12 --no-measure --json "${@:2}" 2>"$work/err"
}
steps 1 --out "$work/run" >"$work/plain" || { tail -n 2 "$work/err"; exit 1; }
share=$("$starling" trace "$work/run" --json | jq '(map(.exchange.achieved_s) | add) / (map(.exchange.hideable_s) | add)')
figure 'of what can be hidden, hidden' '>= 0.8' "$share"
speed() { jq -r '"\(.samples_per_s) samples/s, \(.sent_bytes / 1e5 | round / 10) MB sent a step"' "$1"; }
try() { # file, name, as steps
  local to=$work/$1 name=$2
  shift 2
  if steps "$@" >"$to"; then echo "$name: $(speed "$to")"; else echo "$name: MISSED, it failed"; tail -n 2 "$work/err"; missed=1; fi
}
echo "  gpt2-nano, 2 hosts of 1 rank: $(speed "$work/plain")"
for way in bf16 topk; do try $way "    --compress $way" 1 --compress $way; done
for way in local:8 diloco:8; do try $way "    --sync $way" 1 --steps 16 --sync $way; done
try two '  2 hosts of 2 ranks, exchange inside a host first' 2
MPIR_CVAR_NOLOCAL=1 try flat '    each rank for itself' 2
exit $missed
