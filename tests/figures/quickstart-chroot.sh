#!/bin/bash
# Figure: on a Debian 12 with nothing installed, ./quickstart ends within 6 minutes on 2 cores with lenet at 90.5%
# test accuracy or better, and ./quickstart check passes. The machine is a chroot made by debootstrap; installing
# packages counts as time. KEEP=DIR makes the chroot there and keeps it.
set -u
skip() { echo "SKIP: $*"; exit 77; }
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/figures/figure.shlib"
[ "$(id -u)" = 0 ] || skip 'making a chroot needs root'
command -v debootstrap >/dev/null || skip 'no debootstrap (apt-get install debootstrap)'
unshare --mount true 2>/dev/null || skip 'no mounts may be made here'
git -C "$top" rev-parse HEAD >/dev/null 2>&1 || skip 'not a git checkout, so there is nothing to clone'

root=${KEEP:-$(mktemp -d "${TMPDIR:-/tmp}/chroot.XXXXXX")}
[ -n "${KEEP-}" ] || trap 'rm -rf --one-file-system "$root"' EXIT
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
  grep -v '^ *#' | grep -oE 'http://[^] ]+/debian/?( |$)' | head -n 1)
debootstrap --variant=minbase bookworm "$root" ${mirror:+"$mirror"} >"$root.log" 2>&1 || skip "debootstrap failed: $(tail -n 1 "$root.log")"
rm -f "$root.log"
chmod 755 "$root" # it is / to those inside
git clone -q --no-hardlinks "$top" "$root/root/starling" || exit 1
cp /etc/resolv.conf "$root/etc/resolv.conf"
# This machine's way to the packages (proxy, dates of a snapshot), if it has one.
grep -lE '^ *Acquire::' /etc/apt/apt.conf.d/* 2>/dev/null | xargs -rI{} sh -c "grep -E '^ *Acquire::(http|Check)' {} || true" >"$root/etc/apt/apt.conf.d/99host"

cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | tr , '\n' |
  while IFS=- read -r first last; do seq "$first" "${last:-$first}"; done | head -n 2 | paste -sd,)
inside() { # command: in the chroot, on two cores, with an environment as bare as the machine
  unshare --mount sh -c 'mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount -t tmpfs tmpfs "$1/dev/shm" &&
    exec taskset -c "$2" chroot "$1" env -i HOME=/root TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    sh -c "cd /root/starling && $3"' sh "$root" "$cpus" "$1"
}

began=$(date +%s)
inside ./quickstart
code=$?
seconds=$(($(date +%s) - began))
figure 'quickstart, exit code' 0 $code
figure 'quickstart, seconds' '<= 360' $seconds
accuracy=$(inside 'build/starling eval runs/quickstart --json' | grep -oE '"accuracy": *[0-9.]+' | tail -n 1 | grep -oE '[0-9.]+$')
figure 'lenet, test accuracy' '>= 0.905' "$accuracy"
began=$(date +%s)
inside ./quickstart
code=$?
figure 'quickstart again, exit code' 0 $code
echo "quickstart again took $(($(date +%s) - began)) s"
began=$(date +%s)
inside './quickstart check'
code=$?
figure 'quickstart check, exit code' 0 $code
echo "quickstart check took $(($(date +%s) - began)) s"
exit $missed
