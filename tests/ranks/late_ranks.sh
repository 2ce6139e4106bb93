#!/bin/sh
# The watch takes none of these for a stall: a job that is suspended as a whole, a rank that reads its data for longer
# than --stall-timeout, a rank whose reports are late by less than --stall-timeout.
. "$(dirname "$0")/../support/command.shlib"
[ -x "${MPIEXEC-}" ] || { echo '1..0 # SKIP no mpiexec'; exit 0; }
[ -r /proc/self/environ ] || { echo '1..0 # SKIP no /proc'; exit 0; }
make_set data 300 60 8 3
paced() { patience=$(($1 + 2 * $(pace))); } # the stall timeout of the next job

# A job that is suspended as a whole, as by Ctrl-Z or a batch system, goes on afterwards.
code=0
paced 4
$limit "$MPIEXEC" -n 2 "$starling" train mlp --data data --batch 60 --leaves 3 --workers 1 --steps 1000000 --eval-every 100000 \
  --log-every 1 --stall-timeout $patience --quiet --out a >out 2>err &
job=$!
wait_while $job has_lines a/metrics.jsonl 3
zero=$(rank_of $job 0) one=$(rank_of $job 1)
check 'both ranks are there' test -n "$zero" -a -n "$one"
kill -STOP "$zero" "$one"
suspended() { for pid in "$zero" "$one"; do grep -q '^State:[[:space:]]*T' "/proc/$pid/status" || return 1; done; }
check 'a job is suspended' wait_while $job suspended
lines=$(grep -c '' a/metrics.jsonl)
sleep $((patience + 2))
check 'it makes no steps' test "$(grep -c '' a/metrics.jsonl)" = "$lines"
kill -CONT "$zero" "$one"
check 'then it goes on' wait_while $job has_lines a/metrics.jsonl $((lines + 3))
kill -TERM "$zero" "$one"
wait $job || code=$?
check 'until a signal ends it' test $code = 75

# A rank that reads its data for longer than the others is no stall: others hear from it, and reading may take long. Nor
# does rank 2, which hears from no other, end the job. More patience here: ranks that wait keep the cores busy, so on a
# shared machine a report may come seconds late.
cp -r data slow
slow=slow/train-images-idx3-ubyte
reads_for() { # name, seconds, ranks: a job whose rank 1 reads its data for so long; run_meanwhile, if set, runs beside it
  rm -rf b $slow
  mkfifo $slow
  { sleep "$2" && cat data/train-images-idx3-ubyte; } >$slow &
  code=0
  for_rank="$starling train mlp --batch 60 --leaves 3 --workers 1 --steps 2 --stall-timeout $patience --quiet --out b"
  others=$(($3 - 2))
  # shellcheck disable=SC2086 # several words
  $limit "$MPIEXEC" -n 1 $for_rank --data data : -n 1 $for_rank --data slow \
    $([ $others = 0 ] || echo ": -n $others $for_rank --data data") >out 2>err &
  job=$!
  ${run_meanwhile:-true}
  wait $job || code=$?
  check "$1" test $code = 0
}
paced 8
reads_for 'a rank that reads its data for long is no stall' $((2 * patience + 2)) 2
paced 8
reads_for 'for rank 2 neither' $((2 * patience + 10)) 3
# On a busy machine its reports come late.
late() {
  until [ -n "$(rank_of $job 1)" ] || ! kill -0 $job 2>/dev/null; do sleep 0.1; done
  sleep $((patience - 2))
  victim=$(rank_of $job 1)
  kill -STOP "$victim" && stopped=yes
  sleep 6
  kill -CONT "$victim"
}
stopped=no
run_meanwhile=late
paced 12
reads_for 'nor where its reports are late for less than the timeout' $((patience + 10)) 2
check 'they were late' test $stopped = yes
finish
