#!/bin/sh
# A rank that is stopped (SIGSTOP) in the last calls of MPI, which are the closing barriers and MPI_Finalize, is named
# within --stall-timeout, and the job ends with exit code 76: after a run that succeeded, and after all ranks failed
# together. The timeout here is longer than the 20 s that MPI_Finalize may take where no rank is stopped. LATE: the most
# seconds beyond the timeout after which the message may come (none by default: a busy machine is slow).
. "$(dirname "$0")/../support/command.shlib"
faults=$(cd "${top_builddir:-$(dirname "$starling")}" && pwd)/tests/support/faults.so
[ -x "${MPIEXEC-}" ] || { echo '1..0 # SKIP no mpiexec'; exit 0; }
[ -r /proc/self/environ ] || { echo '1..0 # SKIP no /proc'; exit 0; }
[ -e "$faults" ] || { echo "1..0 # SKIP no $faults"; exit 0; }
! grep -qa __asan_init "$starling" || { echo '1..0 # SKIP sanitizers come before what is loaded into a program'; exit 0; }
make_set data 120 0 8 3
options='--batch 60 --leaves 2 --workers 1 --steps 2 --val-fraction 0'
patience=24
# The jobs run side by side, since each waits for most of its time.
job() { # name, rank, call, which one (0: none), data; slow: the call does not return, but the process is not stopped
  mkdir "$1"
  quiet=--quiet
  [ "${6-}" != slow ] || quiet='' # which leaves warnings out
  # shellcheck disable=SC2086 # $options and $limit are several words
  (
    cd "$1" || exit
    code=0
    env LD_PRELOAD="$faults${LD_PRELOAD:+:$LD_PRELOAD}" FAULT_CALL="$3" FAULT_N="$4" FAULT_HOW="${6:-stop}" FAULT_MS=1000000 FAULT_RANK="$2" FAULT_LOG=calls \
      $limit "$MPIEXEC" -n 2 "$starling" train mlp --data "$5" $options $quiet --stall-timeout $patience --out "$work/$1/run" >out 2>err || code=$?
    echo "$code" >code
  ) &
}
# Ranks fail together where each fails within a second after the other, which a busy machine may not grant. A rank that
# fails alone ends the job before the call in which this test stops it.
again() { # as for job
  tries=0
  while grep -q "^starling: rank [01] of 2 (" "$1/err" && [ $tries -lt 5 ]; do
    rm -r "$1"
    job "$@"
    wait
    tries=$((tries + 1))
  done
}
job counted 1 barrier 0 ../data
job counted-fsync 1 fsync 0 ../data
job counted-fail 1 barrier 0 ../none
wait
again counted-fail 1 barrier 0 ../none
check 'a run that nobody disturbs' test "$(cat counted/code)" = 0
cp counted-fsync/out counted-fsync/err . # for a diagnosis
check 'and another one' test "$(cat counted-fsync/code)" = 0
check 'ranks that fail together' test "$(cat counted-fail/code)" = 1
check 'rank 1 writes a part of the last checkpoint' test "$(sed -n 's/^fsync //p' counted-fsync/calls)" -ge 1
last=$(sed -n 's/^barrier //p' counted/calls) last_fail=$(sed -n 's/^barrier //p' counted-fail/calls)
check 'both have closing barriers' test "$last" -ge 10 -a "$last_fail" -ge 1
job barrier 1 barrier $((last - 1)) ../data
job finalize 1 finalize 1 ../data
job checkpoint 1 fsync 1 ../data
job finalize-0 0 finalize 1 ../data
job slow-finalize 1 finalize 1 ../data slow
job fail-barrier 1 barrier "$last_fail" ../none
job fail-finalize 1 finalize 1 ../none
job fail-finalize-0 0 finalize 1 ../none
wait
again fail-barrier 1 barrier "$last_fail" ../none
again fail-finalize 1 finalize 1 ../none
again fail-finalize-0 0 finalize 1 ../none
for job in barrier finalize checkpoint finalize-0 fail-barrier fail-finalize fail-finalize-0; do
  case $job in *-0) rank=0 ;; *) rank=1 ;; esac
  cp $job/out $job/err . # for diagnoses
  echo "exit code $(cat $job/code)" >>out
  check "$job, rank $rank stopped: exit code 76" test "$(cat $job/code)" = 76
  check "$job, rank $rank stopped: it is named" grep -qE "^starling: rank $((1 - rank)): no (progress|message) for [0-9]+ s.* (waits for|from) rank $rank[ ,;(].*(stopped by a signal|heard from)" err
  after=$(sed -n 's/.* no [a-z]* for \([0-9]*\) s.*/\1/p' err)
  [ -z "${LATE-}" ] || check "$job: $after s after the stop, at most $patience + $LATE" test "$after" -le $((patience + LATE))
done
stall=$(find checkpoint/run -name 'stall-*.json')
check 'stopped in a checkpoint: the stall file says for whom rank 0 waits' sh -c "tr -d ' \n' <$stall | grep -q '\"waits_for\":\[1\]'"
for job in barrier finalize; do
  check "$job: the run is whole" test -s $job/run/model.safetensors -a -s $job/run/summary.json
done
cp slow-finalize/out slow-finalize/err .
echo "exit code $(cat slow-finalize/code)" >>out
check 'MPI_Finalize does not return: the job ends without it, with the exit code of the run' test "$(cat slow-finalize/code)" = 0 -a -s slow-finalize/run/summary.json
check 'a warning says so' grep -q 'warning: .*MPI_Finalize did not return in [0-9]* s' err
none_stays() { ! ps -e -o args= | grep -v grep | grep -q "$work/.*/run"; }
check 'no process stays' wait_until none_stays
finish
