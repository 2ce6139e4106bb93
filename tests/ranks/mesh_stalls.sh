#!/bin/sh
# A rank of a mesh that is stopped (SIGSTOP) while it is in an exchange is named within the stall timeout, with the
# exchange that waits for it: a message between stages of a pipeline, a message between the ranks that divide products,
# a sum over the ranks that divide samples, and a copy of parameters that one rank keeps (--zero 3). If a rank waits for
# another rank that itself waits for the stopped one, the message still names the stopped rank, and not the rank in
# between. The job ends with exit code 76 and leaves no process. STALLS: moments of each job (1; the default also leaves
# out the last two jobs); LATE: the most seconds beyond the timeout (none by default: a busy machine is slow). The
# moments come from a printed SEED. tests/figures/failures/stalls.sh takes more.
. "$(dirname "$0")/../support/command.shlib"
[ -x "${MPIEXEC-}" ] || { echo '1..0 # SKIP no mpiexec'; exit 0; }
[ -r /proc/self/environ ] || { echo '1..0 # SKIP no /proc'; exit 0; }
awk 'BEGIN { for (i = 0; i < 1000; i++) print i, "the quick brown fox jumps over", i * i % 97, "lazy dogs" }' >text
seed=${SEED:-$(date +%s)}
echo "# SEED=$seed"
draw() { seed=$(((seed * 1103515245 + 12345) % 2147483648)); drawn=$((seed / 65536 % $1)); } # from 0 to $1 - 1
ms() { echo $(($(date +%s%N) / 1000000)); }
gone() { ! kill -0 "$1" 2>/dev/null; }
layer="for layer '[a-z0-9._]+' between"
named() { [ $code = 76 ] && grep -qE "no (progress|message) for .* (waits for|from) rank $rank \\(" err; }
has_begun() { has_lines a/metrics.jsonl 3 || ! kill -0 "$job" 2>/dev/null; }
start_and_stop() { # train's options: stops the rank $rank at a drawn moment; 1: the job had ended before
  rm -rf a
  patience=$((4 + 2 * $(pace)))
  $limit "$MPIEXEC" -n "$ranks" "$starling" train gpt2-nano --size layers=2,width=64,heads=4 --folds 4 --data text \
    --length 16 --batch 12 --leaves 12 --workers 1 --steps 1000000 --log-every 1 --val-fraction 0 \
    --stall-timeout $patience --quiet --out a "$@" >out 2>err &
  job=$!
  wait_until has_begun
  draw 100
  sleep "$(printf '0.%02d' "$drawn")"
  victim=$(rank_of $job "$rank")
  code=0 stopped=1
  [ -n "$victim" ] && kill -STOP "$victim" && stopped=0
  from=$(ms)
  wait $job || code=$?
  took=$(($(ms) - from))
  [ $stopped = 1 ] || kill -KILL "$victim" 2>/dev/null
  echo "exit code $code after $took ms" >>out
  return $stopped
}
# Name, number of ranks, the rank that is stopped (any: drawn), apart (MPICH: ranks share no memory) or any
# (drawn), what the message says, the most tries until it is that exchange that waits, options.
stop_in() {
  kind=$1 ranks=$2 whom=$3 where=$4 pattern=$5 most_tries=$6
  shift 6
  for moment in $(seq "${STALLS:-1}"); do
    draw "$ranks"
    rank=$whom
    [ "$rank" != any ] || rank=$drawn
    draw 2
    [ "$where" != apart ] || drawn=1
    export MPIR_CVAR_NOLOCAL="$drawn"
    about="$kind, rank $rank of $* is stopped$([ "$drawn" = 0 ] || echo ', no shared memory'), moment $moment"
    stopped=0
    for try in $(seq "$most_tries"); do
      start_and_stop "$@" || break
      if ! named || grep -qE "$pattern" err; then break; fi
    done
    if [ $stopped = 1 ]; then
      not_ok "$about: the job had ended before"
      continue
    fi
    check "$about: named" named
    if [ "$kind" = 'a fetch' ] && grep -q __asan_init "$starling"; then
      skip "$about: the exchange, too: under a sanitizer the rank with one leaf hardly waits"
    else
      check "$about: the exchange, too, at try $try" grep -qE "$pattern" err
    fi
    [ -z "${LATE-}" ] || check "$about: $took ms later, at most $patience + $LATE s" test $took -le $(((patience + LATE) * 1000))
    check "$about: no process stays" wait_until gone "$victim"
  done
}
stop_in 'a message of a pipeline' 2 any any "the message (from|to) rank [01] $layer pipeline stages [01] and [01] \\(exchange" 1 --mesh pipe=2
stop_in 'a partial sum of a product' 2 any any "the message (from|to) rank [01] $layer tensor parts [01] and [01] \\(exchange" 1 --mesh tensor=2
stop_in 'a sum over samples' 2 any any "the sum of layer '[a-z0-9._]+' over the ranks \\(exchange" 1 --mesh data=2
# Rank 1 has little to do, so it mostly waits for the gradients of rank 0, which then misses its parameters.
stop_in 'a fetch' 2 1 apart "the copy of layer '[a-z0-9._]+' over the ranks \\(exchange" 8 --mesh data=2 --zero 3 --balance 11,1 --clip 0
# Rank 3 computes with rank 2 or 1, and these are who rank 0 waits for.
stop_in 'a pipeline of two replicas' 4 3 any "no message for [0-9]+ s from rank 3|by way of rank|between pipeline stages|over the data ranks of stage [01] \\(" 1 --mesh data=2,pipe=2 --zero 3
[ -n "${STALLS-}" ] || finish # `make check` stops here
stop_in 'tensor parts of two replicas' 4 3 any "no message for [0-9]+ s from rank 3|by way of rank|between tensor parts|over the data ranks of tensor part [01] \\(" 1 --mesh data=2,tensor=2
stop_in 'parts of two stages' 4 3 any "no message for [0-9]+ s from rank 3|by way of rank|between tensor parts [01] and [01] of stage [01]|between pipeline stages" 1 --mesh pipe=2,tensor=2
finish
