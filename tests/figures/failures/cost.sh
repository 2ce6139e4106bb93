#!/bin/bash
# Figure: what the guards against failures cost. Steps of lenet (batch 64) and gpt2-nano (batch 2) on one rank of one
# worker and on two ranks, with the watch (--stall-timeout) and without. The two runs are started together and take
# turns of a tenth of a second, by SIGSTOP and SIGCONT, so that whatever slows the machine slows both; runs of one rank
# share one core, because other work slows the cores of a machine differently. STEPS (lenet 1,000, gpt2-nano 30) steps
# of each; a run counts by its median step, ROUNDS (5) such pairs by their median ratio.
# Target: 1.01. Two runs of the same program differ by up to 2% in one pair. Also the watch's part of the processor time
# that its ranks take. Target: 0.01. ROUNDS=0: that part alone.
# MODELS, RANKS: some of these models and numbers of ranks. OLD: another starling, compared with this one in the same
# way.
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
starling=${STARLING:-$top/build/starling}
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }
command -v jq >/dev/null || { echo 'SKIP: no jq'; exit 77; }
launcher=${MPIEXEC:-$(command -v mpiexec.mpich)}
export STARPU_SILENT=1
missed=0 core=$(taskset -cp $$ | sed 's/.*[^0-9]//')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bench() { # program, ranks, model, steps, options: what bench prints
  local program=$1 ranks=$2 model=$3 steps=$4 one=''
  [ "$ranks" != 1 ] || one="taskset -c $core"
  shift 4
  # shellcheck disable=SC2086 # several words
  $one ${launcher:+"$launcher" -n "$ranks"} "$program" bench "$model" --workers 1 --gpus 0 --sched eager --steps "$steps" \
    --batch "$([ "$model" = lenet ] && echo 64 || echo 2)" --no-measure --json "$@" 2>>"$work/errors" </dev/null
}
ranks_of() { # a job: the processes below it that run starling
  local child
  for child in $(pgrep -P "$1"); do
    case $(readlink "/proc/$child/exe") in */starling) echo "$child" ;; esac
    ranks_of "$child"
  done
}
take_turns() { # jobs a and b, the number of ranks of each: returns as both have ended; fails if they took no turns
  local a b in_time=$((SECONDS + 30))
  until a=$(ranks_of "$1") b=$(ranks_of "$2") && [ "$(wc -w <<<"$a $b")" = $((2 * $3)) ]; do
    [ "$SECONDS" -lt "$in_time" ] || { echo "the runs of '$name' did not start within 30 s"; wait "$1" "$2"; return 1; }
    sleep 0.02
  done
  while kill -0 "$1" && kill -0 "$2"; do
    # shellcheck disable=SC2086 # several words
    { kill -STOP $b; kill -CONT $a; sleep 0.1; kill -STOP $a; kill -CONT $b; sleep 0.1; }
  done 2>/dev/null
  # shellcheck disable=SC2086
  kill -CONT $a $b 2>/dev/null
  wait "$1" "$2"
}
compare() { # name, ranks, model, steps, what the second run has in place of the watch: program and options
  local name=$1 ranks=$2 model=$3 steps=$4 other=$5 a b
  shift 5
  : >"$work/errors"
  for _ in $(seq "${ROUNDS:-5}"); do
    bench "$starling" "$ranks" "$model" "$steps" >"$work/a" &
    a=$!
    bench "$other" "$ranks" "$model" "$steps" "$@" >"$work/b" &
    b=$!
    take_turns $a $b "$ranks" >>"$work/errors" &&
      jq -rn --slurpfile a "$work/a" --slurpfile b "$work/b" '$a[0].step_s / $b[0].step_s'
  done 2>>"$work/errors" | sort -n | awk -v name="$name" -v rounds="${ROUNDS:-5}" '
    { x[NR] = $1 }
    END {
      m = NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2
      met = NR == rounds && x[1] > 0 && m <= 1.01
      printf "%-60s target %-8s value %-8.3f %s (%d pairs: %.3f to %.3f)\n", name, "1.01", m, met ? "met" : "MISSED", NR, x[1], x[NR]
      exit !met
    }' || missed=1
  cat "$work/errors" >&2
}
# Processor time of the threads named sl-watch, as a part of that of all threads of the ranks. Looks at the threads
# twice a second while the steps run. The look with the most processor time counts: a later look lacks the threads that
# have ended.
share() { # ranks, model, steps
  local ranks=$1 model=$2 steps=$3 job pid task name ran
  bench "$starling" "$ranks" "$model" "$steps" >/dev/null &
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
      printf "%-60s target %-8s value %-8.5f %s\n", name, "0.01", part, part <= 0.01 ? "met" : "MISSED"
      exit part > 0.01
    }' || missed=1
}
for model in ${MODELS:-lenet gpt2-nano}; do
  steps=${STEPS:-$([ "$model" = lenet ] && echo 1000 || echo 30)}
  for ranks in ${RANKS:-1 2}; do
    share "$ranks" "$model" $((steps / 2))
    [ "${ROUNDS:-5}" = 0 ] ||
      compare "$model, $ranks rank(s): with the watch over without" "$ranks" "$model" "$steps" "$starling" --stall-timeout 0
  done
  [ -z "${OLD:-}" ] || compare "$model, 1 rank: over $OLD" 1 "$model" "$steps" "$OLD"
done
exit $missed
