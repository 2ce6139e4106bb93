#!/bin/sh
# PBS (OpenPBS, PBS Pro), CPU nodes, one rank a node. NOT RUN BY US: we have no PBS. PBS gives no warning before the
# time limit, so `timeout` sends SIGUSR1 five minutes before it; the ranks checkpoint and exit with 75, and the script
# submits itself again, at most MAX_RESTARTS times.
#   qsub -v ARGS='gpt2-nano --data text.txt --epochs 3' examples/clusters/pbs.sh
# For a copy of this file give its path, too, as the job submits it again: -v SCRIPT=my.sh,ARGS='...'. Resources must be
# in the file, since those on the command line of qsub are not submitted again.
#PBS -N starling
#PBS -l select=2:ncpus=16:mpiprocs=1
#PBS -l walltime=04:00:00
#PBS -j oe
#PBS -r n
limit=$((4 * 3600 - 300)) # walltime, less five minutes
cd "$PBS_O_WORKDIR" || exit 1
: "${STARLING:=starling}" "${MPIEXEC:=mpiexec.mpich}" "${MAX_RESTARTS:=20}" "${RESTARTS:=0}"
: "${ARGS:=lenet --epochs 5}" "${RUN:=runs/pbs-${PBS_JOBID%%.*}}" "${SCRIPT:=examples/clusters/pbs.sh}"
if [ ! -e "$SCRIPT" ] || { [ -f "$0" ] && grep -q '^#PBS' "$0" && ! cmp -s "$0" "$SCRIPT"; }; then
  echo "SCRIPT=$SCRIPT is not this job's script, which must be submitted again: qsub -v SCRIPT=PATH,..." >&2
  exit 2
fi
export STARPU_HOME="${STARPU_HOME:-/tmp/starpu-$(id -un)}"
resume=
[ ! -e "$RUN/config.yaml" ] || resume=--resume

rm -f "$RUN/heartbeat.json" # of the start before
# mpiprocs=1 names each node once in the file.
# shellcheck disable=SC2086 # ARGS is words
timeout --preserve-status -s USR1 "$limit" \
  "$MPIEXEC" -f "$PBS_NODEFILE" -n "$(wc -l <"$PBS_NODEFILE")" "$STARLING" train $ARGS --out "$RUN" $resume
code=$?
# mpiexec may lose the exit code of the ranks; the heartbeat has it.
said=$(sed -n 's/.*"exit_code": *\([0-9][0-9]*\).*/\1/p' "$RUN/heartbeat.json" 2>/dev/null)
code=${said:-$code}
# 9 and 137 without a heartbeat: a rank was killed before the run began, maybe because it stood still.
case $code in 9 | 137) [ -e "$RUN/heartbeat.json" ] || code=76 ;; esac
[ $code = 75 ] || [ $code = 76 ] || exit $code
if [ "$RESTARTS" -ge "$MAX_RESTARTS" ]; then
  echo "stopped after $MAX_RESTARTS restarts; go on with: qsub -v RUN=$RUN,ARGS='$ARGS' $SCRIPT" >&2
  exit $code
fi
export ARGS RUN SCRIPT STARLING MPIEXEC MAX_RESTARTS RESTARTS=$((RESTARTS + 1))
qsub -v ARGS,RUN,SCRIPT,STARLING,MPIEXEC,MAX_RESTARTS,RESTARTS "$SCRIPT"
