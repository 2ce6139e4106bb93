#!/bin/sh
# Slurm, nodes of CPUs and GPUs, one rank a node: it drives all the node's GPUs, with one core each, and computes on the
# other cores too. (For one rank a GPU: --ntasks-per-node=4 --gpus-per-task=1 --cpus-per-task=8 in place of the three
# lines below; a rank takes the GPUs that Slurm makes visible.) Needs a StarPU with CUDA (tools/build-starpu --cuda).
# Checkpoint and requeue as in slurm-cpu.sh.
#   sbatch examples/clusters/slurm-gpu.sh gpt2 --data tokens --epochs 1
#SBATCH --job-name=starling
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=32
#SBATCH --time=04:00:00
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
: "${STARLING:=starling}" "${MAX_RESTARTS:=20}"
[ $# -gt 0 ] || set -- resnet8 --epochs 5
run=${RUN:-runs/slurm-$SLURM_JOB_ID}
# dmdas compares processors by StarPU's performance models, which --calibrate fills: this folder must outlive the job.
export STARPU_HOME="${STARPU_HOME:-$HOME}"
[ ! -e "$run/config.yaml" ] || set -- "$@" --resume

rm -f "$run/heartbeat.json" # of the start before
srun --mpi=pmi2 --cpus-per-task="$SLURM_CPUS_PER_TASK" --wait=60 "$STARLING" train "$@" --sched dmdas --calibrate --out "$run"
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
