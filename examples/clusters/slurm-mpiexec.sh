#!/bin/sh
# Slurm, CPU nodes, several ranks a node, started by MPICH's own mpiexec, which works whatever MPI plugins srun has.
# mpiexec does not bind ranks, so the ranks of a node see all the job's cores on it, and Starling gives each rank its
# NUMA domains. A signal to the job's steps reaches only mpiexec's helpers. So Slurm signals this script (B:), which
# forwards it to mpiexec, and mpiexec to every rank. Checkpoint and requeue as in slurm-cpu.sh.
#   sbatch --nodes=4 --ntasks-per-node=2 examples/clusters/slurm-mpiexec.sh gpt2-nano --data text.txt --epochs 3
#SBATCH --job-name=starling
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
: "${STARLING:=starling}" "${MPIEXEC:=mpiexec.mpich}" "${MAX_RESTARTS:=20}"
[ $# -gt 0 ] || set -- lenet --epochs 5
run=${RUN:-runs/slurm-$SLURM_JOB_ID}
export STARPU_HOME="${STARPU_HOME:-/tmp/starpu-$(id -un)}"
[ ! -e "$run/config.yaml" ] || set -- "$@" --resume

export SLURM_CPU_BIND=none # of mpiexec's helpers, whose binding the ranks would inherit
rm -f "$run/heartbeat.json" # of the start before
signalled= code=127
trap 'signalled=1; kill -USR1 $pid' USR1
"$MPIEXEC" "$STARLING" train "$@" --out "$run" &
pid=$!
while :; do
  wait $pid
  last=$?
  [ $last = 127 ] || code=$last # 127: the wait before had it already
  [ -n "$signalled" ] || break
  signalled= # the trap ended the wait, not mpiexec
done
# mpiexec may lose the exit code of the ranks; the heartbeat has it.
said=$(sed -n 's/.*"exit_code": *\([0-9][0-9]*\).*/\1/p' "$run/heartbeat.json" 2>/dev/null)
code=${said:-$code}
# 9 and 137 without a heartbeat: a rank was killed before the run began, maybe because it stood still.
case $code in 9 | 137) [ -e "$run/heartbeat.json" ] || code=76 ;; esac
[ $code = 75 ] || [ $code = 76 ] || exit $code
if [ "${SLURM_RESTART_COUNT:-0}" -ge "$MAX_RESTARTS" ]; then
  echo "stopped after $MAX_RESTARTS restarts; go on with: RUN=$run sbatch $SLURM_JOB_NAME ..." >&2
  exit $code
fi
scontrol requeue "$SLURM_JOB_ID"
