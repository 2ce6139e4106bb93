#!/bin/sh
# Slurm, CPU nodes, one rank a node, started by srun: each rank's workers use all cores of the rank. Before the time
# limit Slurm sends SIGUSR1; the ranks write a checkpoint and exit with 75, and the job goes back into the queue and
# resumes at its next start; so it does after the loss of a rank (76). Any other failure ends the job, and so does the
# last of MAX_RESTARTS, so that no job restarts for ever.
#   sbatch --nodes=4 examples/clusters/slurm-cpu.sh gpt2-nano --data text.txt --epochs 3
#SBATCH --job-name=starling
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=04:00:00
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
: "${STARLING:=starling}" "${MAX_RESTARTS:=20}"
[ $# -gt 0 ] || set -- lenet --epochs 5
run=${RUN:-runs/slurm-$SLURM_JOB_ID} # in a folder that all nodes share
export STARPU_HOME="${STARPU_HOME:-/tmp/starpu-$(id -un)}" # on each node's own disk
[ ! -e "$run/config.yaml" ] || set -- "$@" --resume

# MPICH and srun both support pmi2. When ranks have died, the others are ended after 60 s.
rm -f "$run/heartbeat.json" # of the start before
srun --mpi=pmi2 --cpus-per-task="$SLURM_CPUS_PER_TASK" --wait=60 "$STARLING" train "$@" --out "$run"
code=$?
# srun may report the code of another rank; the heartbeat has it.
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
