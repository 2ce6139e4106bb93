#!/bin/sh
# --offload disk:DIR: parameters, state and temporaries are mapped files, so a run that does not fit in memory
# continues, with the same bits. If the folder cannot be used, the command fails before anything runs.
. "$(dirname "$0")/support/command.shlib"
mkdir disk
small='--size hidden=512 --batch 32 --optimizer adamw --steps 3 --workers 1 --no-measure --quiet --json'
digest() { sed -n 's/.*"state_digest": "\([^"]*\)".*/\1/p' "$1"; }
# shellcheck disable=SC2086 # words, here and below
{
  expect 'in memory' 0 state_digest bench mlp $small
  cp out memory
  expect 'on disk' 0 state_digest bench mlp $small --offload "disk:$work/disk"
  check 'the same bits' test -n "$(digest out)" -a "$(digest out)" = "$(digest memory)"
  check 'no file stays' test -z "$(ls disk)"
  expect 'another kind of place' 2 'write disk:DIR' bench mlp $small --offload somewhere
  expect 'no such folder' 1 "cannot write to $work/none, the folder for data on disk: No such file" bench mlp $small --offload "disk:$work/none"
}
code=0
# shellcheck disable=SC2086
(ulimit -f 64 && UCX_TLS=tcp,self exec "$starling" bench mlp $small --offload "disk:$work/disk") >out 2>err || code=$?
check 'a full disk: the run ends' test $code != 0 -a $code != 137
check 'and names tensor and folder' grep -qE "cannot reserve [0-9]+ bytes in $work/disk for tensor '[a-z0-9.]+'" err

# A limit of 220 MB for what needs 360, where this machine lets us set one.
group=
if mkdir /sys/fs/cgroup/memory/starling-$$ 2>/dev/null; then
  group=/sys/fs/cgroup/memory/starling-$$ limit_file=memory.limit_in_bytes
elif mkdir /sys/fs/cgroup/starling-$$ 2>/dev/null; then
  group=/sys/fs/cgroup/starling-$$ limit_file=memory.max
fi
if [ -n "$group" ] && echo 220000000 2>/dev/null >$group/$limit_file; then
  large='--size hidden=4096 --batch 32 --optimizer adamw --steps 2 --workers 1 --no-measure --quiet --json'
  # shellcheck disable=SC2086
  "$starling" bench mlp $large >memory 2>err
  limited() { # shellcheck disable=SC2086
    # shellcheck disable=SC2016 # for the inner shell
    sh -c 'echo $$ >"$0" && shift && exec "$@"' "$group/cgroup.procs" x "$starling" bench mlp $large "$@" >out 2>err; }
  limited
  check 'without --offload the system kills it' test $? = 137
  limited --offload "disk:$work/disk"
  check 'with it the run ends well' test $? = 0
  check 'and has the same bits' test -n "$(digest out)" -a "$(digest out)" = "$(digest memory)"
else
  for what in 'without --offload' 'with it' 'the same bits'; do skip "$what: no limit of memory can be set here"; done
fi
[ -z "$group" ] || rmdir "$group" 2>/dev/null
finish
