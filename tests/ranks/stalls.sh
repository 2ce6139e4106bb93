#!/bin/sh
# A rank that is stopped (SIGSTOP) at any moment, from its start until MPI has ended, is named within the stall
# timeout; the job ends and leaves no process. STALLS moments (default 4 in each job) spread over a run on 2 and on 3
# ranks; LATE: the most seconds beyond the timeout (none by default: a busy machine is slow). A rank that is stopped
# when all others have ended goes on: nobody but mpiexec waits for it. The moments and ranks come from a printed SEED.
. "$(dirname "$0")/../support/command.shlib"
[ -x "${MPIEXEC-}" ] || { echo '1..0 # SKIP no mpiexec'; exit 0; }
[ -r /proc/self/environ ] || { echo '1..0 # SKIP no /proc'; exit 0; }
make_set data 300 60 8 3
stalls=${STALLS:-4}
seed=${SEED:-$(date +%s)}
echo "# SEED=$seed"
draw() { seed=$(((seed * 1103515245 + 12345) % 2147483648)); } # the next number, in $seed
ms() { echo $(($(date +%s%N) / 1000000)); }
start() { # ranks: a short job with checkpoints and validations, in the background
  rm -rf a
  $limit "$MPIEXEC" -n "$1" "$starling" train mlp --data data --batch 60 --leaves 3 --workers 1 --steps 40 --eval-every 10 \
    --checkpoint-every 5 --stall-timeout $patience --quiet --out a >out 2>err &
  job=$!
}
# The process of rank $1, which says so in its environment, or nothing.
process_of() { rank_of "$job" "$1"; }
named() { grep -qE "no (progress|message) for .* (waits for|from) (.*, )?rank $1[ ,;]" err; }
gone() { ! kill -0 "$1" 2>/dev/null; }
is_last() { # rank: no other one has a process
  for other in $(seq 0 $((ranks - 1))); do
    [ "$other" = "$1" ] || [ -z "$(process_of "$other")" ] || return 1
  done
}
stopped=0
for ranks in 2 3; do
  patience=1000
  start $ranks # what the first start prepares takes no part in the span
  wait $job
  from=$(ms)
  start $ranks
  wait $job
  span=$(($(ms) - from))
  for part in $(seq "$stalls"); do
    draw
    rank=$((seed / 65536 % ranks))
    draw
    # The first moment is in the eighth in which ranks meet, the last in the eighth in which they part.
    case $part in
      1) first=0 width=$((span / 8)) ;;
      "$stalls") first=$((span * 7 / 8)) width=$((span / 8)) ;;
      *) first=$((span * (part - 1) / stalls)) width=$((span / stalls)) ;;
    esac
    at=$((first + seed / 65536 % (width + 1)))
    moment="$ranks ranks, rank $rank stopped after $at of $span ms"
    code=0 patience=$((4 + 2 * $(pace)))
    start $ranks
    sleep "$(awk -v ms=$at 'BEGIN { print ms / 1000 }')"
    victim=''
    until [ -n "$victim" ] || ! kill -0 $job 2>/dev/null; do victim=$(process_of $rank); done
    if [ -z "$victim" ] || ! kill -STOP "$victim" 2>/dev/null; then
      wait $job || code=$?
      check "$moment: too late, the job had ended" test $code = 0
      continue
    fi
    from=$(ms)
    while kill -0 $job 2>/dev/null; do
      if [ -e a/summary.json ] && is_last $rank; then kill -CONT "$victim" 2>/dev/null; fi
      sleep 0.1
    done
    wait $job || code=$?
    took=$(($(ms) - from))
    if [ $code = 0 ] && ! named $rank; then # its last act was done, and the launcher had heard from it
      check "$moment: too late, the job had ended" wait_until gone "$victim"
      continue
    fi
    stopped=$((stopped + 1))
    echo "exit code $code after $took ms" >>out
    check "$moment: named" named $rank
    [ -z "${LATE-}" ] || check "$moment: $took ms later, at most $patience + $LATE s" test $took -le $(((patience + LATE) * 1000))
    check "$moment: no process stays" wait_until gone "$victim"
  done
done
check "$stopped ranks were stopped in time" test $stopped -gt 0
finish
