#!/bin/bash
# Figure: what the guards against failures cost. Steps of lenet (batch 64) and gpt2-nano (batch 2) on one rank of one
# worker and on two ranks, with the watch (--stall-timeout) and without, ROUNDS (10) times, STEPS steps each (lenet 100,
# gpt2-nano 8). One rank: both runs at the same time, each on a core of its own, then with the cores exchanged, so that
# whatever slows the machine slows both. Two ranks, or one core: in turn (A B B A). Of each run counts the median step,
# of all pairs the median ratio. (The step that a tenth of the steps are faster than differs more between runs.)
# Target: 1.01. Needs a quiet machine. The same of the steps divided by the time of their kernels, which a machine whose
# speed varies changes less: what the guards add to a step they add between kernels, but for the watch's thread. Also
# the watch's part of the processor time that its ranks take, which needs no quiet machine. Target: 0.01.
# MODELS, RANKS: some of these models and numbers of ranks. OLD: another starling, compared with this one in the same
# way.
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
starling=${STARLING:-$top/build/starling}
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }
command -v jq >/dev/null || { echo 'SKIP: no jq'; exit 77; }
launcher=${MPIEXEC:-$(command -v mpiexec.mpich)} export STARPU_SILENT=1
missed=0 core=''
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
read -r first second _ < <(lscpu --parse=cpu,core | awk -F, '/^[0-9]/ && !seen[$2]++ { printf "%s ", $1 } END { print "" }')
step() { # program, ranks, model, steps, options: seconds, per cent of the workers' time in kernels
  local program=$1 ranks=$2 model=$3 steps=$4
  shift 4
  ${core:+taskset -c "$core"} ${launcher:+"$launcher" -n "$ranks"} "$program" bench "$model" --workers 1 --gpus 0 --sched eager --steps "$steps" --no-measure --json "$@" \
    2>/dev/null </dev/null | jq -r '"\(.step_s) \(.kernel_percent)"'
}
median() { # name, a file of numbers
  sort -n "$2" | awk -v name="$1" '
    { x[NR] = $1 }
    END {
      m = NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2
      printf "%-68s target %-8s value %-8.3f %s (half of the pairs: %.3f to %.3f)\n", name, "1.01", m,
        m <= 1.01 ? "met" : "MISSED", x[int((NR + 3) / 4)], x[int((3 * NR + 3) / 4)]
      exit m > 1.01
    }' || missed=1
}
pair() { # what two runs printed
  awk -v a="$1" -v b="$2" -v steps="$work/steps" -v kernels="$work/kernels" '
    BEGIN { split(a, x, " "); split(b, y, " "); print x[1] / y[1] >steps; print y[2] / x[2] >kernels }'
  cat "$work/steps" >>"$work/all-steps"
  cat "$work/kernels" >>"$work/all-kernels"
}
compare() { # name, ranks, model, steps, what the second run has in place of the watch: program and options
  local name=$1 ranks=$2 model=$3 steps=$4 other=$5 a b
  shift 5
  local size='--batch 64'
  [ "$model" = lenet ] || size='--batch 2'
  rm -f "$work"/all-*
  for _ in $(seq "${ROUNDS:-10}"); do
    # shellcheck disable=SC2086 # two words
    if [ "$ranks" = 1 ] && [ -n "$second" ]; then
      for cores in "$first $second" "$second $first"; do
        core=${cores% *} step "$starling" 1 "$model" "$steps" $size >"$work/a" &
        b=$(core=${cores#* } step "$other" 1 "$model" "$steps" $size "$@")
        wait $!
        pair "$(cat "$work/a")" "$b"
      done
    else
      a=$(step "$starling" "$ranks" "$model" "$steps" $size) b=$(step "$other" "$ranks" "$model" "$steps" $size "$@")
      pair "$a" "$b"
      b=$(step "$other" "$ranks" "$model" "$steps" $size "$@") a=$(step "$starling" "$ranks" "$model" "$steps" $size)
      pair "$a" "$b"
    fi
  done
  median "$name" "$work/all-steps"
  median "$name, by kernels' time" "$work/all-kernels"
}
# Processor time of the threads named sl-watch, as a part of that of all threads of the ranks. Looks twice a second as
# the steps run. The look with the most time counts: threads that have ended are in none.
share() { # ranks, model, steps
  local ranks=$1 model=$2 steps=$3 job pid task name ran
  step "$starling" "$ranks" "$model" "$steps" --batch "$([ "$model" = lenet ] && echo 64 || echo 2)" >/dev/null &
  job=$!
  while kill -0 $job 2>/dev/null; do
    for pid in $(pgrep -f "^$starling bench $model"); do
      for task in /proc/"$pid"/task/*; do
        { read -r name <"$task/comm" && read -r ran _ <"$task/schedstat"; } 2>/dev/null && echo "$name ${ran%% *}"
      done
    done
    echo look
    sleep 0.5
  done | awk -v name="$model, $ranks rank(s): the watch's part of the time" '
    $1 == "look" { if (all > most && n > 0) { most = all; part = mine / all } all = mine = n = 0; next }
    { all += $NF } $1 == "sl-watch" { mine += $NF; n++ }
    END {
      if (most == 0) part = 1
      printf "%-68s target %-8s value %-8.5f %s\n", name, "0.01", part, part <= 0.01 ? "met" : "MISSED"
      exit part > 0.01
    }' || missed=1
}
for model in ${MODELS:-lenet gpt2-nano}; do
  steps=${STEPS:-$([ "$model" = lenet ] && echo 100 || echo 8)}
  for ranks in ${RANKS:-1 2}; do
    share "$ranks" "$model" $((5 * steps))
    [ "${ROUNDS:-10}" = 0 ] ||
      compare "$model, $ranks rank(s): with the watch over without" "$ranks" "$model" "$steps" "$starling" --stall-timeout 0
  done
  [ -z "${OLD:-}" ] || compare "$model, 1 rank: over $OLD" 1 "$model" "$steps" "$OLD"
done
exit $missed
