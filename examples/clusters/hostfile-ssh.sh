#!/bin/sh
# No batch system: the machines of a hostfile, one "NAME" or "NAME:RANKS" a line, over ssh. Every machine has Starling
# at the same path and lets you in without a password (ssh NAME true); the folder is shared, or the run directory is on
# the first machine (then copy its config.yaml to the same folder on each machine before you resume). Ctrl-C checkpoints
# and stops; the same command then resumes.
#   RUN=runs/a examples/clusters/hostfile-ssh.sh hosts.txt gpt2-nano --data text.txt --epochs 3
set -eu
[ $# -gt 0 ] || { sed -n '2,6s/^# *//p' "$0" >&2; exit 2; }
hosts=$1
shift
[ $# -gt 0 ] || set -- lenet --epochs 5
: "${STARLING:=$(command -v starling)}" "${MPIEXEC:=mpiexec.mpich}" "${RUN:=runs/$1}"
export STARPU_HOME="${STARPU_HOME:-/tmp/starpu-$(id -un)}"
ranks=$(awk -F: '!/^[ \t]*(#|$)/ { n += $2 ? $2 : 1 } END { print n + 0 }' "$hosts")
[ ! -e "$RUN/config.yaml" ] || set -- "$@" --resume
exec "$MPIEXEC" -launcher ssh -f "$hosts" -n "$ranks" "$STARLING" train "$@" --out "$RUN"
