#!/bin/sh
# The same bits: one plan gives the same parameters and optimizer state, byte for byte, under every scheduling
# policy, with one worker, two workers and a team. BITS_STEPS: number of steps; tests/figures/bits.sh takes 200.
. "$(dirname "$0")/support/command.shlib"
steps=${BITS_STEPS:-6}
make_set data 768 0 28 10
compare() { # name, plan's options, then machine's options
  name=$1 plan=$2
  shift 2
  # shellcheck disable=SC2086
  run train $plan --data data --steps "$steps" --val-fraction 0 --quiet --out run --force "$@"
  if [ $code != 0 ]; then
    if grep -qE 'workers|cores' err && [ "$(nproc)" -lt 2 ]; then skip "$name: fewer than 2 cores"; else not_ok "$name"; fi
  elif [ ! -e reference ]; then
    rm -rf reference && mv run reference
    ok "$name (the reference)"
  else check "$name" same_state reference run; fi
}
for plan in 'mlp --batch 256' 'mlp --batch 192 --leaves 2 --shards 4 --row-blocks 2 --optimizer sgd --clip 0.5' 'lenet --batch 256'; do
  rm -rf reference
  for sched in eager lws dmda dmdas; do
    for workers in 1 2; do
      compare "$plan, $sched, $workers workers" "$plan" --sched $sched --workers $workers --threads-per-worker 1
    done
    compare "$plan, $sched, a team of 2" "$plan" --sched $sched --workers 1 --threads-per-worker 2
  done
done
run train lenet --batch 256 --data data --steps "$steps" --val-fraction 0 --quiet --out run --force --seed 2
different() { ! same_state reference run; }
check 'another seed gives other bytes' different
finish
