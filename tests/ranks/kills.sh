#!/bin/sh
# A run is killed again and again (SIGKILL, to one of its ranks), at random moments, mostly while it writes a
# checkpoint. Each start finds a complete checkpoint, and the end has the bytes of an undisturbed run. KILLS: number
# of kills; KILLS_RANKS: numbers of ranks of the starts, in turn (2 and 1), or meshes (2x3: two ranks in each of three
# stages of a pipeline); KILLS_PRECISIONS: each has its part of the kills (fp32 and bf16).
# tests/figures/failures/kills.sh takes 200.
. "$(dirname "$0")/../support/command.shlib"
kills=${KILLS:-6} precisions=${KILLS_PRECISIONS:-fp32 bf16} seed=${KILLS_SEED:-$$} all_ranks=1
[ ! -x "${MPIEXEC-}" ] || all_ranks='2 1'
all_ranks=${KILLS_RANKS:-$all_ranks}
make_set data 300 0 8 3
# Enough steps that a run outlives its kills; every third one has a checkpoint of 13 MB.
options="--data data --batch 36 --leaves 6 --shards 6 --workers 1 --learning-rate 1e-4 --steps 150 --eval-every 50 --log-every 10 --checkpoint-every 3"
losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([^,]*\),"accuracy":\([^,}]*\).*/\1 \2 \3/p' "$1/metrics.jsonl"; }
echo "# KILLS_SEED=$seed"
draw() { seed=$(((seed * 1103515245 + 12345) % 2147483648)); drawn=$((seed / 65536 % $1)); } # from 0 to $1 - 1
pids_of() { # of the ranks that run in $work
  for pid in $(pgrep -f "^$starling train .*--out $work/run"); do
    [ "$(cat /proc/"$pid"/comm 2>/dev/null)" != starling ] || echo "$pid"
  done
}
launch() { # ranks, arguments
  ranks=$1
  shift
  if [ "$ranks" = 1 ]; then exec "$starling" "$@"; else exec "$MPIEXEC" -n "$ranks" "$starling" "$@"; fi
}
mesh_of() { # an entry of KILLS_RANKS: $ranks and $mesh
  case $1 in
    *x*) ranks=$((${1%x*} * ${1#*x})) mesh="data=${1%x*},pipe=${1#*x}" ;;
    *) ranks=$1 mesh="data=$1" ;;
  esac
}
for ranks in $all_ranks; do
  [ "$ranks" = 1 ] || [ -x "${MPIEXEC-}" ] || { echo '1..0 # SKIP no mpiexec'; exit 0; }
done

compare() {
  # A checkpoint of a pipeline holds the tensors in another order; the starts after it show that they are the same.
  case $all_ranks in *x*) ;; *) check "$precision, after $done_kills kills: the same state" same_state undisturbed run ;; esac
  check "$precision, after $done_kills kills: the same model" cmp undisturbed/model.safetensors run/model.safetensors
  losses run >run.losses
  check "$precision, after $done_kills kills: the same losses" cmp undisturbed.losses run.losses
}
kill_again() { # precision, number of kills
  precision=$1 todo=$2
  rm -rf undisturbed run lost.log
  # shellcheck disable=SC2086 # $options is several words, here and below
  expect "$precision: the undisturbed run" 0 '^step 150' train mlp $options --precision $precision --out undisturbed
  losses undisturbed >undisturbed.losses
  done_kills=0 resumed=0 lost=0 again=''
  # shellcheck disable=SC2086
  set -- $all_ranks
  while [ $done_kills -lt "$todo" ]; do
    mesh_of "$1"
    shift
    # shellcheck disable=SC2086
    [ $# != 0 ] || set -- $all_ranks
    arguments="train mlp $options --precision $precision --mesh $mesh --out $work/run"
    [ -z "$again" ] || arguments="train --resume --mesh $mesh --out $work/run"
    rm -f out err
    # shellcheck disable=SC2086
    launch "$ranks" $arguments >out 2>err &
    process=$!
    # A resumed run may be killed at once, a new one only after its first checkpoint.
    while kill -0 $process 2>/dev/null && ! { if [ -z "$again" ]; then [ -n "$(newest run 2>/dev/null)" ]; else grep -qs 'run directory' out; fi; }; do
      sleep 0.02
    done
    draw 100
    sleep "$(printf '0.%02d' "$drawn")"
    victim=$(pids_of | shuf -n 1)
    [ -z "$victim" ] || kill -KILL "$victim" 2>/dev/null
    code=0
    wait $process || code=$?
    [ -z "$again" ] || { grep -q '^resumed after step' out && ! grep -q 'the checkpoint of step' err && resumed=$((resumed + 1)); } || { lost=$((lost + 1)); cat out err >>lost.log; }
    again=yes
    if [ $code = 0 ]; then # it was faster
      compare
      rm -rf run
      again=''
    else done_kills=$((done_kills + 1)); fi
  done
  cp lost.log out 2>/dev/null
  check "$precision: every start after a kill found a whole checkpoint ($resumed of $((resumed + lost)))" test $lost = 0
  if [ -n "$again" ]; then
    mesh_of 1
    run train --resume --mesh $mesh --out run
    compare
  fi
}
n=$(echo "$precisions" | wc -w)
for one in $precisions; do kill_again "$one" $(((kills + n - 1) / n)); done
finish
