#!/bin/bash
# Figure: cost of recording: steps with and without the recorder, in turn in one run. At most 2% of step time for
# gpt2-nano and lenet, 2 microseconds per task, and 100 ns for the record alone: medians of pairs, with the range of
# their middle half. A round counts with the 10th percentile of its step times, which keeps out most of the machine's
# other work; the rest of that noise may exceed the cost itself, or make it negative. ROUNDS: number of rounds;
# SECONDS_EACH: approximate length of each.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
starling=${STARLING:-$top/build/starling}
rounds=${ROUNDS:-9}
each=${SECONDS_EACH:-5}
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }

field() { grep -oE "\"$1\": *-?[0-9.eE+-]+" | head -n 1 | grep -oE '[0-9.eE+-]+$'; }
quantile() { sort -g | awk -v q="$1" '{ v[NR] = $1 } END { at = 1 + q * (NR - 1); low = int(at); print v[low] + (at - low) * (v[low < NR ? low + 1 : NR] - v[low]) }'; }
missed=0
figure() { # name, target, values of all pairs
  value=$(printf '%s' "$3" | quantile 0.5) from=$(printf '%s' "$3" | quantile 0.25) to=$(printf '%s' "$3" | quantile 0.75)
  met=$(awk -v v="$value" -v t="$2" 'BEGIN { print (v <= t) }')
  noise=$(awk -v a="$from" -v b="$to" 'BEGIN { print (a < 0 && b > 0 || b < 0 ? "; noise hides it" : "") }')
  printf '%-44s target %-4s value %-8.3g %s (half of the pairs: %.3g to %.3g%s)\n' "$1" "$2" "$value" "$([ "$met" = 1 ] && echo met || echo MISSED)" "$from" "$to" "$noise"
  [ "$met" = 1 ] || missed=1
}
cost=$(dirname "$starling")/tests/support/recorder_cost
[ -x "$cost" ] || { echo "SKIP: no $cost: make has it"; exit 77; }
alone='' record=''
for _ in 1 2 3 4 5; do
  read -r task one < <("$cost" 2) && [ -n "$one" ] || { echo "$cost failed"; exit 1; }
  alone+=$(awk -v ns="$task" 'BEGIN { printf "%.4f", ns / 1000 }')$'\n' record+=$one$'\n'
done
figure 'nanoseconds of the record alone' 100 "$record"
figure 'microseconds a task, by itself, on 2 threads' 2 "$alone"
for model in lenet gpt2-nano; do
  first=$("$starling" bench $model --steps 5 --no-measure --json) || exit 1
  steps=$(awk -v s="$(echo "$first" | field step_s)" -v t="$each" 'BEGIN { n = int(t / s); print n < 10 ? 10 : n }')
  tasks=$(echo "$first" | field tasks)
  percent='' micro='' workers=$(echo "$first" | field workers)
  for _ in $(seq "$rounds"); do
    on=$("$starling" bench $model --steps "$steps" --no-measure --json | field step_s_p10)
    off=$("$starling" bench $model --steps "$steps" --no-measure --json --no-record | field step_s_p10)
    [ -n "$on" ] && [ -n "$off" ] || { echo "starling bench $model failed"; exit 1; }
    percent+=$(awk -v a="$on" -v b="$off" 'BEGIN { printf "%.3f", 100 * (a / b - 1) }')$'\n'
    micro+=$(awk -v a="$on" -v b="$off" -v n="$tasks" -v w="$workers" 'BEGIN { printf "%.3f", 1e6 * (a - b) * w / n }')$'\n'
  done
  echo "$model: $tasks tasks a step on $workers workers; medians of $rounds pairs of $steps steps each"
  figure "$model, per cent of step time" 2 "$percent"
  figure "$model, microseconds of worker time a task" 2 "$micro"
done
exit $missed
