#!/bin/sh
# Ranks on hosts of their own (tests/support/hosts.sh: network namespaces joined by a link of 1 Gbit/s): each host
# is seen as a node with its name and CPUs, the exchange between hosts and meshes over them give the bits of one rank,
# and nothing is left behind. Needs root.
. "$(dirname "$0")/../support/command.shlib"
[ -n "${MPIEXEC-}" ] || { echo '1..0 # SKIP no MPI launcher'; exit 0; }
[ "$(id -u)" = 0 ] || { echo '1..0 # SKIP network namespaces are for root'; exit 0; }
for tool in ip tc nsenter unshare taskset hostname; do
  command -v $tool >/dev/null || { echo "1..0 # SKIP no $tool (Debian: iproute2, util-linux, hostname)"; exit 0; }
done
HOSTS=netns$$
export HOSTS
hosts=$top/tests/support/hosts.sh
trap '"$hosts" down; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
if ! "$hosts" up 3 1gbit 2>err; then echo "1..0 # SKIP no network namespaces, bridges or tbf here: $(tail -n 1 err)"; exit 0; fi

between() { awk -v least="$1" -v value="$2" -v most="$3" 'BEGIN { exit !(value != "" && value + 0 >= least && value + 0 <= most) }'; }
over() { code=0; $limit "$hosts" mpiexec "$@" >out 2>err || code=$?; }
check 'the link has its rate' sh -c "tc -n $HOSTS-1 qdisc show dev eth0 | grep -q 'tbf.* rate 1Gbit'"
check 'no host has a route outside' sh -c "! ip -n $HOSTS-1 route get 192.0.2.1 2>/dev/null"
for n in 2 3; do
  over -n $n "$starling" info --no-measure
  check "info on $n hosts" test $code = 0
  check 'each host is a node' grep -q "^ranks      $n on $n nodes" out
  check 'each node has its own name' test "$(grep -c "^host       $HOSTS-[1-$n]:" out)" = $n
done
over -n 2 sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status
if [ "$(nproc)" -ge 2 ]; then check 'two hosts have different CPUs' test "$(sort -u out | wc -l)" = 2; else skip 'two hosts have different CPUs: there is one'; fi
over -n 4 -ppn 2 "$starling" info --no-measure
check 'two ranks on each of two hosts' grep -q '^ranks      4 on 2 nodes' out
# A gigabit is 0.125 GB/s; where other programs use the processors, less arrives.
over -n 4 -ppn 2 "$starling" calibrate --network --json
check 'calibrate --network between hosts' test $code = 0
check 'a rank sends no faster than the link' between 1e5 "$(number_of rank_bytes_per_s out)" 0.126e9
check 'nor do two ranks of a host' between 1e5 "$(number_of node_bytes_per_s out)" 0.126e9
check 'a message between hosts has a latency' between 1e-6 "$(number_of latency_s out)" 10
check 'ranks of one host sum through memory' between 1e6 "$(number_of shared_bytes_per_s out)" 1e12
# Between such hosts MPI_Finalize may not return; then the command ends without it after half a minute.
make_set data 384 64 28 10
for model in lenet 'lenet --zero 1 --clip 0.5' 'mlp --row-blocks 2'; do
  # shellcheck disable=SC2086 # $model is several words
  set -- train $model --data data --batch 96 --leaves 6 --steps 4 --val-fraction 0 --quiet --workers 1 --force
  run "$@" --out one
  for n in 2 3; do
    over -n $n "$starling" "$@" --out several
    if [ $code = 0 ]; then check "$model on $n hosts: the bits of one rank" cmp one/model.safetensors several/model.safetensors
    else not_ok "$model on $n hosts"; fi
  done
done
# Meshes: two ranks on each of two hosts, in both orders.
awk 'BEGIN { for (i = 0; i < 800; i++) print i, "the quick brown fox jumps over", i * i % 97, "lazy dogs" }' >text
set -- train gpt2-nano --size layers=2,width=32,heads=2 --data text --length 16 --batch 8 --leaves 4 --folds 2 --steps 3 --val-fraction 0 --quiet --workers 1 --force
run "$@" --out one
for mesh in 'data=2,tensor=2 --zero 3' 'tensor=2,data=2 --zero 2' pipe=2,data=2 'tensor=2,pipe=2 --micro-batches 2'; do
  # shellcheck disable=SC2086 # $mesh is several words
  over -n 4 -ppn 2 "$starling" "$@" --mesh $mesh --out several
  if [ $code = 0 ]; then check "$mesh on two hosts: the bits of one rank" cmp one/model.safetensors several/model.safetensors
  else not_ok "$mesh on two hosts"; fi
done
"$hosts" down
check 'no namespace is left' test -z "$(find /run/netns -name "$HOSTS-*" 2>/dev/null)"
finish
