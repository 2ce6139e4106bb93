#!/bin/bash
# Figure: what recording costs: steps with the recorder and without, in turn in one run. At most 2% of step time for gpt2-nano and lenet, and
# 2 microseconds a task. A step has the 10th percentile of its times in a round, so that what else the machine does counts little.
# ROUNDS: how many of each; SECONDS_EACH: how long about.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
starling=${STARLING:-$top/build/starling}
rounds=${ROUNDS:-9}
each=${SECONDS_EACH:-5}
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }

field() { grep -oE "\"$1\": *-?[0-9.eE+-]+" | head -n 1 | grep -oE '[0-9.eE+-]+$'; }
median() { sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
missed=0
figure() { # name, target, value
  met=$(awk -v v="$3" -v t="$2" 'BEGIN { print (v <= t) }')
  printf '%-44s target %-8s value %-10s %s\n' "$1" "$2" "$3" "$([ "$met" = 1 ] && echo met || echo MISSED)"
  [ "$met" = 1 ] || missed=1
}
for model in lenet gpt2-nano; do
  first=$("$starling" bench $model --steps 5 --no-measure --json) || exit 1
  steps=$(awk -v s="$(echo "$first" | field step_s)" -v t="$each" 'BEGIN { n = int(t / s); print n < 10 ? 10 : n }')
  tasks=$(echo "$first" | field tasks)
  percent='' micro='' workers=$(echo "$first" | field workers)
  for _ in $(seq "$rounds"); do
    on=$("$starling" bench $model --steps "$steps" --no-measure --json | field step_s_p10) || exit 1
    off=$("$starling" bench $model --steps "$steps" --no-measure --json --no-record | field step_s_p10) || exit 1
    percent+=$(awk -v a="$on" -v b="$off" 'BEGIN { printf "%.3f", 100 * (a / b - 1) }')$'\n'
    micro+=$(awk -v a="$on" -v b="$off" -v n="$tasks" -v w="$workers" 'BEGIN { printf "%.3f", 1e6 * (a - b) * w / n }')$'\n'
  done
  echo "$model: $tasks tasks a step on $workers workers; medians of $rounds pairs of $steps steps each"
  figure "$model, per cent of step time" 2 "$(printf '%s' "$percent" | median)"
  figure "$model, microseconds of worker time a task" 2 "$(printf '%s' "$micro" | median)"
done
exit $missed
