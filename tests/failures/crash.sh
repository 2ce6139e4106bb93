#!/bin/sh
# A run survives a crash of the machine, which loses data that were not synchronised. The test records a run's file
# operations and cuts the log anywhere. Data that were not synchronised survive completely, not at all, or in part at
# random (whole writes, halves, names). From each cut the run resumes from the newest synchronised checkpoint or a newer
# one, and ends with the bytes of the undisturbed run. CUTS: number of cuts for each of the three cases (3), or all; a
# printed SEED draws them.
. "$(dirname "$0")/../support/command.shlib"
tools=$(cd "${top_builddir:-$(dirname "$starling")}" && pwd)/tests/support
[ -e "$tools/record.so" ] || { echo "1..0 # SKIP no $tools/record.so"; exit 0; }
! grep -qa __asan_init "$starling" || { echo '1..0 # SKIP sanitizers come before what is loaded into a program'; exit 0; }
seed=${SEED:-$(date +%s)}
echo "# SEED=$seed"
draw() { seed=$(((seed * 1103515245 + 12345) % 2147483648)); } # the next number, in $seed
make_set data 40 20 8 3
options="train mlp --size hidden=16 --data $work/data --batch 8 --workers 1 --eval-every 3 --checkpoint-every 2 --log-every 1 --steps 8"
losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([^,]*\),"accuracy":\([^,}]*\).*/\1 \2 \3/p' "$1/metrics.jsonl"; }
mkdir rec
code=0
# shellcheck disable=SC2086 # $options is several words, here and below
LD_PRELOAD="$tools/record.so${LD_PRELOAD:+:$LD_PRELOAD}" RECORD_UNDER="$work/rec" RECORD_LOG="$work/log" "$starling" $options --out "$work/rec/run" >out 2>err || code=$?
check 'a recorded run' test $code = 0
operations=$("$tools/replay" log all all 0 -)
check "the log holds all of it: $operations operations" sh -c "mkdir again && '$tools/replay' log $operations all 0 again/all && diff -r rec again/all"
losses rec/run >base.losses
cut() { # after which operation, how; what is wrong, in $bad
  bad=''
  rm -rf left
  durable=$("$tools/replay" log "$1" "$2" "$seed" left) || bad='no replay'
  if [ -e left/run/config.yaml ] && [ -e left/run/.starling-run ]; then
    run train --resume --out left/run
    step=$(sed -n 's/^resumed after step //p' out)
    [ "${step:-0}" -ge "$durable" ] || bad="resumed after step ${step:-0}, and the checkpoint of step $durable is there"
  else
    [ "$durable" = 0 ] || bad="no run to resume, and the checkpoint of step $durable is there"
    run $options --out left/run --force
  fi
  [ "$code" = 0 ] || bad="$bad; exit code $code: $(tail -n 1 err)"
  if [ "$code" = 0 ]; then
    same_state rec/run left/run || bad="$bad; another state"
    cmp -s rec/run/model.safetensors left/run/model.safetensors || bad="$bad; another model"
    losses left/run >left.losses
    cmp -s base.losses left.losses || bad="$bad; other metrics"
    remains=$(find left -name ".*.tmp" -o -name ".*.partial" -o -name "model.safetensors.step-*")
    [ -z "$remains" ] || bad="$bad; leftovers: $remains"
  fi
}
total=0 failed_cuts=0
for how in none some all; do
  failed=0
  if [ "${CUTS:-3}" = all ]; then numbers=$(seq 0 "$operations"); else
    numbers=''
    for _ in $(seq "${CUTS:-3}"); do
      draw
      numbers="$numbers $((seed / 65536 % (operations + 1)))"
    done
  fi
  done_cuts=0
  for n in $numbers; do
    draw
    done_cuts=$((done_cuts + 1)) total=$((total + 1))
    cut "$n" $how
    [ -z "$bad" ] || { failed=$((failed + 1)) failed_cuts=$((failed_cuts + 1)); echo "# after operation $n, $how of the rest, seed $seed: $bad"; }
  done
  check "a crash that leaves $how of what is not synchronised: $done_cuts cuts" test $failed = 0
done
echo "# $total cuts in all, $failed_cuts not survived"
finish
