#!/bin/sh
# The batch scripts of examples/clusters put a job back into the queue after exit codes 75 (checkpointed) and 76 (a rank
# was lost), after 9 and 137 (killed) if there is no heartbeat yet, and after no other exit code. The exit code in
# heartbeat.json takes precedence over that of srun or mpiexec. In this test srun and mpiexec are stand-ins that write a
# heartbeat and exit as they are told; scontrol and qsub only print that they were called. tests/slurm.sh runs a real
# Slurm.
. "$(dirname "$0")/support/command.shlib"
scripts=$top/examples/clusters
mkdir bin
cat >bin/srun <<'END'
#!/bin/sh
echo "$*" >>"$SEEN"
[ -n "${SAID-}" ] && mkdir -p "$RUN" && printf '{\n  "state": "ended",\n  "exit_code": %s,\n  "step": 75\n}\n' "$SAID" >"$RUN/heartbeat.json"
exit "$CODE"
END
printf '#!/bin/sh\necho "requeued $*" >>"$SEEN"\n' >bin/scontrol
cp bin/srun bin/mpiexec.mpich
cp bin/scontrol bin/qsub
chmod +x bin/*
printf 'one\ntwo\n' >nodes
SEEN=$work/seen RUN=$work/run
export SEEN RUN
job() { # script, exit code of the launcher, exit code in the heartbeat ("": none is written), restarts so far
  : >seen
  code=0
  env PATH="$work/bin:$PATH" STARLING=starling MPIEXEC=mpiexec.mpich CODE="$2" SAID="$3" MAX_RESTARTS=3 SLURM_JOB_ID=17 SLURM_CPUS_PER_TASK=2 SLURM_JOB_NAME=job \
    SLURM_RESTART_COUNT="${4:-0}" RESTARTS="${4:-0}" PBS_JOBID=17.here PBS_O_WORKDIR="$work" PBS_NODEFILE="$work/nodes" SCRIPT="$scripts/pbs.sh" sh "$scripts/$1" >out 2>err </dev/null || code=$?
}
requeued() { [ $code = 0 ] && [ "$(grep -c '^requeued' seen)" = 1 ]; }
ended() { [ $code = "$1" ] && ! grep -q '^requeued' seen; } # exit code
for script in slurm-cpu.sh slurm-gpu.sh slurm-mpiexec.sh pbs.sh; do
  rm -rf run
  for lost in 75 76; do
    for launcher in $lost 0 1 137; do
      job $script $launcher $lost
      check "$script: the heartbeat says $lost, the launcher $launcher: requeued" requeued
    done
    job $script $lost ''
    check "$script: no heartbeat, the launcher says $lost: requeued" requeued
    job $script $lost null
    check "$script: a heartbeat without an end, the launcher says $lost: requeued" requeued
    job $script 0 $lost 3
    check "$script: $lost after the last restart: the job ends" ended $lost
    check "$script: and says how to go on" grep -q "^stopped after 3 restarts; go on with: .*RUN=$RUN" err
  done
  for killed in 9 137; do
    rm -rf run
    job $script $killed ''
    check "$script: $killed without a heartbeat: requeued" requeued
    job $script $killed '' 3
    check "$script: $killed after the last restart: the job ends as after a lost rank" ended 76
    job $script $killed null
    check "$script: $killed after a heartbeat without an end: not requeued" ended $killed
    job $script $killed $killed
    check "$script: exit code $killed in the heartbeat: not requeued" ended $killed
  done
  for other in 0 1 2 3 65 71 74 77 130 134 139 143 255; do
    rm -rf run
    job $script $other $other
    check "$script: exit code $other: not requeued" ended $other
    job $script $other ''
    check "$script: the launcher's $other alone: not requeued" ended $other
    job $script 75 $other
    check "$script: the heartbeat says $other, the launcher 75: not requeued" ended $other
  done
  job $script 0 75
  job $script 1 ''
  check "$script: the heartbeat of the start before does not count" ended 1
  job $script 0 0
  check "$script: a new run is not resumed" sh -c '! grep -q -e --resume seen'
  mkdir -p run && touch run/.starling-run
  job $script 0 0
  check "$script: nor is one that ended before it began" sh -c '! grep -q -e --resume seen'
  touch run/config.yaml
  job $script 0 0
  check "$script: a run that exists is" grep -q -e --resume seen
done
finish
