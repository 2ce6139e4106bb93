#!/bin/sh
# A run is killed again and again (SIGKILL, to one of its ranks), at random moments, mostly while it writes a
# checkpoint. Each start finds a complete checkpoint, and the end has the bytes of an undisturbed run. KILLS: number
# of kills; KILLS_RANKS: numbers of ranks of the starts, in turn (2 and 1), or meshes (2x3: two ranks in each of three
# stages of a pipeline); KILLS_PRECISIONS: each has its part of the kills (fp32 and bf16); KILLS_SEED: other moments and
# victims. KILLS_MESHES: the run is of a small GPT-2, with dropout and clipping, and its starts take these meshes in
# turn: words such as data=2,pipe=2:--zero:3, or the word random, a mesh of 1 to 6 ranks (data x pipe x tensor, stages
# of ZeRO, orders of a pipeline, micro-batches, with and without memory that the ranks share). mesh_kills.sh takes
# random ones, tests/figures/failures/kills.sh takes 200 kills and 100 on meshes.
. "$(dirname "$0")/../support/command.shlib"
kills=${KILLS:-6} precisions=${KILLS_PRECISIONS:-fp32 bf16} seed=${KILLS_SEED:-$$} steps=${KILLS_STEPS:-150} all_ranks=1
[ ! -x "${MPIEXEC-}" ] || all_ranks='2 1'
all_ranks=${KILLS_MESHES:-${KILLS_RANKS:-$all_ranks}}
if [ -z "${KILLS_MESHES-}" ]; then
  make_set data 300 0 8 3
  # Enough steps that a run outlives its kills; every third one has a checkpoint of 13 MB.
  options="mlp --data data --batch 36 --leaves 6 --shards 6 --learning-rate 1e-4"
else
  # Every mesh can divide this model. Its plan names the folds and as many leaves as the largest mesh has ranks.
  awk 'BEGIN { for (i = 0; i < 1000; i++) print i, "the quick brown fox jumps over", i * i % 97, "lazy dogs" }' >text
  options="gpt2-nano --size layers=2,width=64,heads=4 --folds 4 --data text --length 16 --batch 12 --leaves 12 --shards 12 --dropout 0.1 --clip 0.1 --rate-schedule constant"
fi
options="$options --workers 1 --steps $steps --eval-every 50 --log-every 10 --checkpoint-every 3"
losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([^,]*\),"accuracy":\([^,}]*\).*/\1 \2 \3/p' "$1/metrics.jsonl"; }
echo "# KILLS_SEED=$seed"
draw() { seed=$(((seed * 1103515245 + 12345) % 2147483648)); drawn=$((seed / 65536 % $1)); } # from 0 to $1 - 1
draw_of() { # words: one of them, in $word
  draw $#
  shift "$drawn"
  word=$1
}
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
draw_mesh() { # a mesh that the command does not refuse, as a word of KILLS_MESHES
  while
    draw_of 1 2 2 2 3 3 4 5 6 && data=$word
    draw_of 1 1 2 2 3 4 && pipe=$word
    draw_of 1 1 2 2 3 4 && tensor=$word
    draw_of 1 1 2 3 4 6 && micro=$word
    [ $((data * pipe * tensor)) -gt 6 ] || [ "$micro" -gt $((12 / data)) ]
  do :; done
  draw_of 0 1 2 3 3 && zero=$word
  [ "$data" != 1 ] || zero=0
  draw_of 1f1b gpipe zero-bubble eager-1f1b
  [ "$pipe" != 1 ] || word=1f1b
  drawn_mesh="data=$data,pipe=$pipe,tensor=$tensor:--zero:$zero:--pipe-order:$word:--micro-batches:$micro"
}
mesh_of() { # a start: $ranks, and the options of its mesh in $mesh
  case $1 in
    random) draw_mesh && set -- "$drawn_mesh" ;;
  esac
  case $1 in
    *=*)
      ranks=1
      for size in $(echo "${1%%:*}" | sed 's/[a-z]*=//g; s/,/ /g'); do ranks=$((ranks * size)); done
      mesh="--mesh $(echo "$1" | sed 's/:/ /g')"
      draw 2 # whether MPICH lets the ranks share memory
      export MPIR_CVAR_NOLOCAL="$drawn"
      echo "# start on $mesh, MPIR_CVAR_NOLOCAL=$drawn"
      ;;
    *x*) ranks=$((${1%x*} * ${1#*x})) mesh="--mesh data=${1%x*},pipe=${1#*x}" ;;
    *) ranks=$1 mesh="--mesh data=$1" ;;
  esac
}
one='--mesh data=1'
for word in $all_ranks; do
  [ "$word" = 1 ] || [ -x "${MPIEXEC-}" ] || { echo '1..0 # SKIP no mpiexec'; exit 0; }
done
[ -z "${KILLS_MESHES-}" ] || one='--mesh data=1 --zero 0 --micro-batches 1'

compare() {
  check "$precision, after $done_kills kills: the same model" cmp model.safetensors run/model.safetensors
  # A checkpoint of a mesh holds the tensors in another order: one rank adds a step.
  case $all_ranks in *[x=]* | random) add_step run ;; esac
  check "$precision, after $done_kills kills: the same state" same_state undisturbed run
  losses run >run.losses
  check "$precision, after $done_kills kills: the same losses" cmp undisturbed.losses run.losses
}
add_step() { # run
  # shellcheck disable=SC2086 # $one is several words, here and below
  run train --resume $one --steps $((steps + 1)) --out "$1"
}
kill_again() { # precision, number of kills
  precision=$1 todo=$2
  rm -rf undisturbed run lost.log
  # shellcheck disable=SC2086 # $options is several words, here and below
  expect "$precision: the undisturbed run" 0 "^step $steps" train $options $one --precision $precision --out undisturbed
  cp undisturbed/model.safetensors .
  case $all_ranks in *[x=]* | random) add_step undisturbed ;; esac
  losses undisturbed >undisturbed.losses
  done_kills=0 resumed=0 lost=0 died=0 again=''
  # shellcheck disable=SC2086
  set -- $all_ranks
  while [ $done_kills -lt "$todo" ]; do
    mesh_of "$1"
    shift
    # shellcheck disable=SC2086
    [ $# != 0 ] || set -- $all_ranks
    arguments="train $options --precision $precision $mesh --out $work/run"
    [ -z "$again" ] || arguments="train --resume $mesh --out $work/run"
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
    # shellcheck disable=SC2046 # words
    set_victim $(pids_of)
    [ -z "$victim" ] || kill -KILL "$victim" 2>/dev/null
    code=0
    wait $process || code=$?
    [ -z "$again" ] || { grep -q '^resumed after step' out && ! grep -q 'the checkpoint of step' err && resumed=$((resumed + 1)); } || { lost=$((lost + 1)); cat out err >>lost.log; }
    again=yes
    if [ -z "$victim" ] && [ $code != 0 ]; then # it ended by itself, with an error
      died=$((died + 1))
      cat out err >>lost.log
      [ $died -lt 3 ] || break
    elif [ $code = 0 ]; then # it was faster
      compare
      rm -rf run
      again=''
    else done_kills=$((done_kills + 1)); fi
  done
  cp lost.log out 2>/dev/null
  check "$precision: every start after a kill found a whole checkpoint ($resumed of $((resumed + lost)))" test $lost = 0
  check "$precision: no start ended by itself ($died)" test $died = 0
  if [ -n "$again" ]; then
    # shellcheck disable=SC2086
    run train --resume $one --out run
    compare
  fi
}
set_victim() { # processes
  victim=''
  [ $# = 0 ] || { draw_of "$@" && victim=$word; }
}
n=$(echo "$precisions" | wc -w)
for one_precision in $precisions; do kill_again "$one_precision" $(((kills + n - 1) / n)); done
finish
