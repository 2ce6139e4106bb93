#!/bin/sh
# The Slurm scripts of examples/clusters under a real Slurm: a slurmctld and two slurmd on loopback, started here in
# a temporary folder and stopped at the end. Both nodes are this machine, so they share its cores; control groups
# are not used (proctrack/pgid, task/affinity), since containers often cannot make any. Needs root, slurm-wlm and
# munge.
. "$(dirname "$0")/support/command.shlib"
[ "$(id -u)" = 0 ] || { echo '1..0 # SKIP slurmd is for root'; exit 0; }
PATH=$PATH:/usr/sbin:/sbin
for tool in slurmctld slurmd munged sbatch srun scontrol scancel; do
  command -v $tool >/dev/null || { echo "1..0 # SKIP no $tool (Debian: slurm-wlm, munge)"; exit 0; }
done
stop() { # the program that wrote a file of its number
  [ -s "$1" ] || return
  pid=$(cat "$1")
  kill "$pid" 2>/dev/null
  for tries in 1 2 3 4 5 6 7 8 9 10; do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.5
  done
}
end() {
  for job in $(squeue -h -o %A 2>/dev/null); do scancel --signal=KILL --full "$job"; scancel "$job"; done
  for tries in 1 2 3 4 5 6 7 8 9 10; do
    [ -n "$(squeue -h 2>/dev/null)" ] || break
    sleep 0.5
  done
  for file in slurmd.one slurmd.two slurmctld munged; do stop "$work/$file.pid"; done
  cd / && rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT TERM
chmod 755 "$work"
port=$((20000 + $$ % 4000 * 3))
cat >slurm.conf <<END
ClusterName=starling
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket,cred_expire=5
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool.%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.%n.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0
NodeName=one NodeHostname=localhost NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=$(nproc --all)
NodeName=two NodeHostname=localhost NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=$(nproc --all)
PartitionName=all Nodes=one,two Default=YES MaxTime=10 State=UP
END
SLURM_CONF=$work/slurm.conf
export SLURM_CONF
head -c 128 /dev/urandom >key
chmod 400 key
mkdir state
munged --force --key-file="$work/key" --socket="$work/munge.socket" --pid-file="$work/munged.pid" --log-file="$work/munged.log" \
  --seed-file="$work/seed" >out 2>err && slurmctld -c >>out 2>>err && slurmd -N one >>out 2>>err && slurmd -N two >>out 2>>err ||
  { echo "1..0 # SKIP Slurm does not start here: $(tail -n 1 err)"; exit 0; }
wait_for() { # seconds, command...
  tries=$(($1 * 4))
  shift
  while ! "$@"; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || return 1
    sleep 0.25
  done
}
idle() { [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 2 ]; }
wait_for 300 idle || { sed 's/^/# /' slurm*.log; echo '1..0 # SKIP the nodes do not come up'; exit 0; }

# What the scripts leave to the user: small jobs here.
make_set data 300 60 8 3
STARLING=$starling
STARPU_HOME=$work/home
export STARLING STARPU_HOME
scripts=$top/examples/clusters
small='mlp --data data --batch 32 --leaves 2 --val-fraction 0'
submit() { sbatch --parsable --cpus-per-task=1 --time=5 --output="$work/%j.out" "$@" 2>err; }
of() { scontrol show job -o "$1" | tr ' ' '\n' | sed -n "s/^$2=//p"; } # job, field
ended() { case $(of "$1" JobState) in COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL) ;; *) false ;; esac; }
ends() { # job, exit code
  wait_for 1800 ended "$1"
  cat "$work/$1.out" >out
  scontrol show job "$1" | grep -E 'JobState|ExitCode' >err
  [ "$(of "$1" ExitCode)" = "$2:0" ]
}
lines() { grep -c '"split": *"train"' "$1/metrics.jsonl" 2>/dev/null || true; }
trained() { count=$(lines "$1"); [ "${count:-0}" -gt "${2:-0}" ]; } # run, lines of metrics before
restarted() { [ "$(of "$1" Restarts)" = "$2" ]; }

# shellcheck disable=SC2086 # $small is several words, here and below
"$starling" train $small --steps 30 --quiet --workers 1 --out alone >out 2>err
job=$(RUN=$work/cpu submit "$scripts/slurm-cpu.sh" $small --steps 30)
check 'slurm-cpu.sh: the job trains on two nodes' ends "$job" 0
check 'slurm-cpu.sh: both nodes are used' test "$(of "$job" NumNodes)" = 2
check 'slurm-cpu.sh: the bits are those of one rank' cmp alone/model.safetensors cpu/model.safetensors

job=$(RUN=$work/again MAX_RESTARTS=1 submit "$scripts/slurm-cpu.sh" $small --steps 1000000 --log-every 20)
check 'requeue: the job trains' wait_for 1800 trained again 0
scancel --signal=USR1 "$job"
check 'requeue: after SIGUSR1 the job is in the queue again' wait_for 1800 restarted "$job" 1
before=$(lines again)
check 'requeue: the job resumes' wait_for 1800 trained again "$((before + 1))"
check 'requeue: no step occurs twice in the metrics' sh -c "grep -o '\"step\":[0-9]*' again/metrics.jsonl | cut -d: -f2 | sort -n -c -u"
scancel --signal=USR1 "$job"
check 'requeue: the last restart ends with exit code 75' ends "$job" 75
check 'requeue: its output says so' grep -q 'stopped after 1 restarts' "$job.out"

job=$(RUN=$work/none submit "$scripts/slurm-cpu.sh" nosuchmodel)
check 'requeue: a job that fails at once is not requeued' ends "$job" 2
check 'requeue: its restart count is 0' restarted "$job" 0

if [ -n "${MPIEXEC-}" ]; then
  job=$(RUN=$work/hydra MAX_RESTARTS=0 submit --ntasks-per-node=1 "$scripts/slurm-mpiexec.sh" $small --steps 1000000 --log-every 20)
  check 'slurm-mpiexec.sh: the job trains' wait_for 1800 trained hydra 0
  scancel --batch --signal=USR1 "$job"
  check 'slurm-mpiexec.sh: SIGUSR1 reaches the ranks' ends "$job" 75
  check 'slurm-mpiexec.sh: the run has two ranks' grep -q '"ranks": *2' hydra/environment.json
else for what in 'slurm-mpiexec.sh: the job trains' 'slurm-mpiexec.sh: SIGUSR1 reaches the ranks' 'slurm-mpiexec.sh: the run has two ranks'; do skip "$what: no MPI launcher"; done; fi
finish
