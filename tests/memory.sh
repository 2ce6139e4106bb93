#!/bin/sh
# Memory that runs out on one of two ranks ends the job with a message, or the job reports it and continues; no rank
# waits for ever. The test lets an allocation fail on one rank and then on the other, at FAILURES places (default 8)
# spread over a training run with checkpoints.
. "$(dirname "$0")/support/command.shlib"
[ -x "${MPIEXEC-}" ] || { echo '1..0 # SKIP no mpiexec'; exit 0; }
failing=$(dirname "$starling")/tests/support/starling_failing
[ -x "$failing" ] || { echo "1..0 # SKIP no $failing"; exit 0; }
if grep -qE '__(asan|tsan)_init' "$failing"; then echo '1..0 # SKIP sanitizers have allocators of their own'; exit 0; fi
make_set data 300 60 8 3
seconds=$((60 * $(pace)))
train() { # rank, which of its allocations fails
  rm -rf a
  code=0
  FAILING_RANK=$1 FAILING_AT=$2 FAILING_LOG=$work/count ${TIMEOUT:+"$TIMEOUT" -k 10 $seconds} "$MPIEXEC" -n 2 "$failing" train mlp --data data \
    --batch 60 --leaves 2 --workers 1 --steps 3 --eval-every 2 --checkpoint-every 2 --quiet --out a >out 2>err || code=$?
}
ended() { [ "$code" = 0 ] || { [ "$code" -le 3 ] && grep -q '^starling: ' err && ! grep -qE 'Assertion|BAD TERMINATION.*(SIG|signal)' err; }; }
tries=0 told=0
for rank in 0 1; do
  train $rank 1000000000
  all=$(cat count)
  check "rank $rank: $all allocations" test "$code" = 0 -a "${all:-0}" -gt 1000
  for part in $(seq "${FAILURES:-8}"); do
    place=$((all * part / (${FAILURES:-8} + 1)))
    train $rank "$place"
    echo "exit code $code" >>out
    check "rank $rank without memory for allocation $place: the job ends" ended
    tries=$((tries + 1))
    ! grep -q '^starling: ' err || told=$((told + 1))
  done
done
check "$told of $tries failures are told" test "$told" -gt 0
finish
