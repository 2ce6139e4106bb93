#!/bin/sh
# Test hosts on one machine: network namespaces that a switch joins, each with an address, a host name and CPUs of its
# own and a link of a limited rate, so that MPI takes them for separate nodes. Nothing that runs on them reaches any
# network but theirs. Root only.
#   hosts.sh up N RATE      makes N hosts (RATE as tc has it: 1gbit)
#   hosts.sh mpiexec ARG... runs mpiexec on the first host over all of them; -n defaults to one rank a host
#   hosts.sh on I COMMAND   runs a command on host I (1 .. N)
#   hosts.sh down           removes them all; nothing must run there any more
# HOSTS tells sets of hosts apart; MPIEXEC is MPICH's mpiexec.
set -eu
set_name=${HOSTS:-starling}
net=198.18.77
count() { find /run/netns -name "$set_name-[1-9]*" 2>/dev/null | wc -l; }

up() { # N, rate
  ip netns add "$set_name-switch"
  ip -n "$set_name-switch" link add bridge type bridge
  ip -n "$set_name-switch" link set bridge up
  for i in $(seq "$1"); do
    ip netns add "$set_name-$i"
    ip -n "$set_name-$i" link set lo up
    ip -n "$set_name-$i" link add eth0 type veth peer name "port$i" netns "$set_name-switch"
    ip -n "$set_name-$i" address add $net."$i"/24 dev eth0
    ip -n "$set_name-$i" link set eth0 up
    ip -n "$set_name-switch" link set "port$i" master bridge up
    # Each direction is limited where it is sent, so that the link is as fast both ways at once.
    tc -n "$set_name-$i" qdisc add dev eth0 root tbf rate "$2" burst 128kb latency 50ms
  done
}

down() {
  for path in $(find /run/netns -name "$set_name-*" 2>/dev/null); do ip netns delete "${path##*/}"; done
}

# The CPUs of all hosts: those that the first of these commands may use. mpiexec runs on host 1, so the commands that it
# starts on other hosts inherit the CPUs of that host alone.
export HOSTS_CPUS="${HOSTS_CPUS:-$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)}"
# Host I's part of them; CPUs serve several hosts where there are more hosts.
cpus() {
  echo "$HOSTS_CPUS" | tr , '\n' | while IFS=- read -r from to; do
    seq "$from" "${to:-$from}"
  done | awk -v i="$1" -v hosts="$(count)" '{ cpu[NR - 1] = $1 } END {
    each = NR > hosts ? int(NR / hosts) : 1
    for (k = 0; k < each; k++) printf "%s%s", k ? "," : "", cpu[((i - 1) * each + k) % NR]
  }'
}

on() { # I, command...
  host=$1
  shift
  exec nsenter --net="/run/netns/$set_name-$host" unshare --uts taskset -c "$(cpus "$host")" \
    sh -c 'hostname "$0" && exec "$@"' "$set_name-$host" "$@"
}

over_all() { # mpiexec's arguments
  list=$(seq -f "$net.%g" -s , "$(count)")
  case " $* " in *' -n '*) ;; *) set -- -n "$(count)" "$@" ;; esac
  # Without UCX_TLS ranks would find each other's shared memory, which separate machines have not.
  on 1 "${MPIEXEC:-mpiexec.mpich}" -localhost $net.1 -launcher ssh -launcher-exec "$0" -hosts "$list" -genv UCX_TLS tcp,self "$@"
}

case ${1-} in
up) [ $# = 3 ] || exit 2; shift; up "$@" ;;
down) down ;;
mpiexec) shift; over_all "$@" ;;
on) shift; on "$@" ;;
-x) # as mpiexec calls ssh: -x ADDRESS COMMAND...
  address=$2
  shift 2
  on "${address##*.}" sh -c "$*" ;;
*) sed -n '5,8s/^# //p' "$0" >&2; exit 2 ;;
esac
