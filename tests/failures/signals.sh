#!/bin/sh
# A signal at any moment of a run. A planted slow call (tests/support/faults.c) holds each run at that moment until the
# signal has come. Before the first step SIGINT and SIGTERM end the process as usual, also if it resumes, and SIGUSR1
# stops the run after the first step; while it validates or writes the best model or a checkpoint the run stops after
# the next step at the latest, with exit code 75; after the last step the run is complete; a second signal ends the
# process at once. What is left resumes to the bytes of an undisturbed run.
. "$(dirname "$0")/../support/command.shlib"
faults=$(cd "${top_builddir:-$(dirname "$starling")}" && pwd)/tests/support/faults.so
[ -e "$faults" ] || { echo "1..0 # SKIP no $faults"; exit 0; }
! grep -qa __asan_init "$starling" || { echo '1..0 # SKIP sanitizers come before what is loaded into a program'; exit 0; }
env --default-signal=INT,TERM true 2>/dev/null || { echo '1..0 # SKIP no env --default-signal'; exit 0; } # a background job ignores SIGINT
export UCX_MEM_EVENTS=n # UCX would put its own mmap before that of faults.so
make_set data 40 20 8 3
options="train mlp --size hidden=16 --data $work/data --batch 8 --leaves 2 --shards 2 --workers 1 --eval-every 3 --checkpoint-every 2 --log-every 1 --steps 8"
# shellcheck disable=SC2086 # $options is several words, here and below
expect 'a run that nothing disturbs' 0 '^test' $options --out whole
# shellcheck disable=SC2086
expect 'half a run' 0 '^test' $options --steps 4 --out half
# For validation: the pages of a text that only validation reads, more than those that stay in memory.
mkdir text
awk 'BEGIN { for (i = 0; i < 9000; i++) print "the", i % 7, "and", i % 11 }' >text/train.txt
cp text/train.txt text/val.txt
pages=$((($(wc -c <text/val.txt) + 4095) / 4096))
of_text="train gpt2-nano --size layers=1,width=16,heads=2 --data $work/text --length 64 --batch 64 --leaves 2 --workers 1 --eval-every 3 --checkpoint-every 2 --log-every 1 --steps 8"
# shellcheck disable=SC2086
expect 'a run on a text that nothing disturbs' 0 '^validation loss' $of_text --out whole-text
# The run, the same one undisturbed, the last line of its output, what is in its folder before, the state that its
# heartbeat must have, the ranks that get the signals.
usual() { starts=$options undisturbed=whole ends='^test' from='' state='' victims=1; }
usual
taken() { ! grep -q '^ShdPnd:.*[1-9a-f]' "/proc/$1/status" 2>/dev/null; } # process
reached_or_ended() { [ -e reached ] || ! kill -0 $job 2>/dev/null; }
# call, part of the path, which one, signals; then the launcher: the run's exit code is in $code
held() {
  kind=$1 under=$2 nth=$3 signals=$4 code=0
  shift 4
  rm -rf a reached
  [ -z "$from" ] || cp -r "$from" a
  env --default-signal=INT,TERM LD_PRELOAD="$faults${LD_PRELOAD:+:$LD_PRELOAD}" FAULT_CALL="$kind" FAULT_HOW=slow FAULT_UNDER="$under" FAULT_N="$nth" \
    FAULT_REACHED="$work/reached" "$@" "$starling" $starts --out a >out 2>err &
  job=$!
  wait_until reached_or_ended
  check "$moment: the moment is there" test -e reached
  processes=$job
  [ $# = 0 ] || processes=$(for victim in $victims; do rank_of $job "$victim"; done)
  [ -z "$state" ] || check "$moment: the run says so" wait_until grep -q "\"state\": \"$state\"" a/heartbeat.json
  for signal in $signals; do
    for process in $processes; do
      kill "-$signal" "$process"
      [ "$signal" = USR1 ] || wait_until taken "$process" # two of the same that wait are one
    done
  done
  rm -f reached
  wait $job || code=$?
}
goes_on() { # it resumes, or, where no run has begun, starts
  if [ -e a/config.yaml ]; then expect "$moment: it goes on" 0 "$ends" train --resume --steps 8 --out a; else expect "$moment: it starts again" 0 '^test' $options --out a; fi
  check "$moment: the same model" cmp $undisturbed/model.safetensors a/model.safetensors
  check "$moment: the same state" same_state $undisturbed a
}
for signal in INT TERM; do
  [ $signal = INT ] && killed=130 || killed=143
  moment="SIG$signal while data are read"
  held open train-images 1 $signal
  check "$moment: it ends the process" test $code = $killed
  goes_on
  moment="SIG$signal while the run directory is made"
  held open config.yaml 1 $signal
  check "$moment: it ends the process" test $code = $killed
  goes_on
  moment="SIG$signal while a checkpoint is written"
  held fsync .step-00000004.partial/ 1 $signal
  check "$moment: the exit code of a checkpoint" test $code = 75
  step=$(sed -n 's/^stopped by a signal after step \([0-9]*\).*/\1/p' out)
  check "$moment: the newest is of the step at which it stopped" test "$(basename "$(newest a)")" = "$(printf 'step-%08d' "${step:-0}")"
  goes_on
  moment="SIG$signal while the best model is written"
  held fsync model.safetensors 1 $signal
  check "$moment: the exit code of a checkpoint" test $code = 75
  goes_on
  moment="SIG$signal during validation"
  starts=$of_text undisturbed=whole-text ends='^validation loss' state=validating
  held page val.txt $((pages + pages / 2)) $signal
  check "$moment: the exit code of a checkpoint" test $code = 75
  check "$moment: it stops after the next step" grep -q '^stopped by a signal after step 4' out
  goes_on
  usual
  moment="SIG$signal while --resume reads the checkpoint"
  starts='train --resume --steps 8' from=half
  held read step-00000004/part 1 $signal
  check "$moment: it ends the process" test $code = $killed
  check "$moment: the checkpoint stays" same_state half a
  goes_on
  usual
  moment="SIG$signal while the last checkpoint is written"
  held fsync .step-00000008.partial/ 1 $signal
  check "$moment: the run is done" test $code = 0
  check "$moment: the same model" cmp whole/model.safetensors a/model.safetensors
  check "$moment: the same state" same_state whole a
  moment="SIG$signal while the summary is written"
  held open summary.json 1 $signal
  check "$moment: the run is done" test $code = 0
  check "$moment: the summary is there" test -s a/summary.json
  moment="SIG$signal twice while a checkpoint is written"
  held fsync .step-00000004.partial/ 1 "$signal $signal"
  check "$moment: it ends the process" test $code = $killed
  goes_on
done
for call in 'train-images 1' 'config.yaml 1' '.step-00000004.partial/ 1'; do
  kind=open
  [ "$call" != '.step-00000004.partial/ 1' ] || kind=fsync
  moment="SIGUSR1, held in $kind ${call% *}"
  held $kind "${call% *}" "${call#* }" USR1
  check "$moment: the exit code of a checkpoint" test $code = 75
  goes_on
done
moment='SIGINT, then SIGTERM'
held fsync .step-00000004.partial/ 1 'INT TERM'
check "$moment: each counts for itself: the exit code of a checkpoint" test $code = 75
if [ -x "${MPIEXEC-}" ]; then
  for signal in INT TERM; do
    for victims in 1 '0 1'; do
      [ "$victims" = 1 ] && moment="SIG$signal to the second rank" || moment="SIG$signal to both ranks"
      moment="$moment while the second writes a checkpoint"
      held fsync .step-00000004.partial/ 1 $signal env FAULT_RANK=1 "$MPIEXEC" -n 2
      check "$moment: the exit code of a checkpoint" test $code = 75
      goes_on
    done
  done
else
  skip 'two ranks: no mpiexec'
fi
finish
