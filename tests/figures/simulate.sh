#!/bin/bash
# Figure: simulated step times beside measured ones, on this machine: three models of three sizes each, four policies,
# 1 and 2 workers. In each round and for each policy, calibrate measures the tasks, bench measures the steps, and
# simulate simulates them, one after the other, since the speed of the machine changes by the minute with other work.
# Each round begins with another policy. Nothing is fitted to the measured steps. Where the measured
# steps of a policy scatter by more than a tenth of their mean, the machine was not quiet, and all policies of this
# size get as many rounds again; the simulated steps play no part in this. Prints each pair, the median and the worst
# error, the error of the predicted peak of the memory, the order of the policies, and how long a simulation of 100,000
# tasks and of 1,024 nodes takes. ROUNDS: measurements of each step, in turn (3). MODELS, POLICIES, WORKERS: fewer of
# them. SIZES: a pattern of sizes ('--batch 4*'). Needs a quiet machine.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/figures/figure.shlib"
starling=${STARLING:-$top/build/starling}
sim=${STARLING_SIM:-$top/build-simulated/starling-sim}
[ -x "$starling" ] && [ -x "$sim" ] || { echo 'SKIP: no starling or starling-sim: ./quickstart simulate builds them'; exit 77; }
export STARLING_SIM=$sim STARPU_SILENT=1
rounds=${ROUNDS:-3} policies=${POLICIES:-eager lws dmda dmdas}
work=$(mktemp -d "${TMPDIR:-/tmp}/simulate.XXXXXX")
trap 'rm -rf "$work"' EXIT
export STARPU_HOME=$work
cd "$work" || exit 1
number_of() { sed -n "s/.*\"$1\": \([-0-9.e+]*\).*/\1/p" "$2" | head -n 1; }
sizes() { # model: its three sizes, a line of options each
  case $1 in
  lenet) printf -- '--batch 64\n--batch 256\n--batch 1024\n' ;;
  gpt2-nano) printf -- '--batch 2\n--batch 4\n--batch 8\n' ;;
  gpt2) printf -- '--batch 1 --length 64\n--batch 2 --length 64\n--batch 4 --length 64\n' ;;
  *) echo ;;
  esac
}
began=$SECONDS calibrating=0
process=$("$starling" info --machine 2>/dev/null | sed -n 's/^ *process_megabytes: //p')
: >pairs
one_round() { # model, options of its size, workers, round
  local from policy times samples steps
  case $1 in # calibrated samples of each kind of task, and measured steps: without a number, those of 5 seconds
  lenet) samples=50 steps='' ;;
  gpt2-nano) samples=10 steps='--steps 10' ;;
  *) samples=6 steps='--steps 6' ;; # most kinds of tasks occur 12 times in a step of gpt2
  esac
  # shellcheck disable=SC2086 # words
  set -- "$@" $policies
  for policy in "${@:5+($4-1)%($#-4)}" "${@:5:($4-1)%($#-4)}"; do
    from=$SECONDS
    # shellcheck disable=SC2086
    "$starling" calibrate "$1" $2 --workers "$3" --gpus 0 --sched "$policy" --samples "$samples" --quiet >calibrated 2>&1 || { cat calibrated; return 1; }
    # The file's peaks do not matter: every kind of task is measured, and so is the memory of a process.
    times=$(echo "$work"/.starpu/sampling/*-"$3"x1-times.json)
    printf '%s\n' 'name: here' 'source: measured' "times: $times" \
      "cpu: {cores: 2, numa_domains: 1, gflops: {fp32: 100}, efficiency: 1, memory_gigabytes: 16, gigabytes_per_s: 20, overhead_us: 3, process_megabytes: $process}" >here.yaml
    calibrating=$((calibrating + SECONDS - from))
    # shellcheck disable=SC2086
    "$starling" bench "$1" $2 --workers "$3" --gpus 0 --sched "$policy" $steps --no-measure --json >real 2>err || { cat err; return 1; }
    # shellcheck disable=SC2086
    "$starling" simulate "$1" $2 --machine here.yaml --workers "$3" --sched "$policy" --json >simulated 2>err || { cat err; return 1; }
    echo "$1 ${2// /_} $3 $policy $4 $(number_of step_s real) $(number_of step_s simulated) $(number_of measured_kinds simulated) $(number_of kinds simulated) $(number_of peak_memory_bytes real) $(number_of predicted_peak_bytes simulated)" | tee -a pairs >&2
  done
}
scatter() { # model, options of its size, workers: do the measured steps of a policy differ by more than a tenth?
  awk -v key="$1 ${2// /_} $3 " 'index($0, key) == 1 {
      if (!($4 in n) || $6 < least[$4]) least[$4] = $6
      if ($6 > most[$4]) most[$4] = $6
      n[$4]++; sum[$4] += $6 }
    END { for (p in n) if (most[p] - least[p] > 0.1 * sum[p] / n[p]) exit 0; exit 1 }' pairs
}
for model in ${MODELS:-lenet gpt2-nano gpt2}; do
  while read -r size; do
    # shellcheck disable=SC2254 # a pattern
    case $size in ${SIZES:-*}) ;; *) continue ;; esac
    for workers in ${WORKERS:-1 2}; do
      for round in $(seq "$rounds"); do one_round "$model" "$size" "$workers" "$round" || exit 1; done
      scatter "$model" "$size" "$workers" || continue
      echo "$model $size, $workers workers: the measured steps scatter; $rounds more rounds" >&2
      for round in $(seq $((rounds + 1)) $((2 * rounds))); do one_round "$model" "$size" "$workers" "$round" || exit 1; done
    done
  done <<END
$(sizes "$model")
END
done
awk '
function median(n,   i, j, t) {
  for (i = 2; i <= n; i++) for (j = i; j > 1 && x[j - 1] > x[j]; j--) { t = x[j]; x[j] = x[j - 1]; x[j - 1] = t }
  return n % 2 ? x[(n + 1) / 2] : (x[n / 2] + x[n / 2 + 1]) / 2
}
{ key = $1 " " $2 " " $3 " " $4; if (!(key in n)) order[++keys] = key
  real[key, ++n[key]] = $6; simulated[key, n[key]] = $7; kinds[key] = $8 "/" $9
  off = $11 / $10 - 1; if (off < 0) off = -off; if (off > memory) { memory = off; largest = key } }
END {
  printf "%-44s %10s %18s %10s %8s  %s\n", "model, size, workers, policy", "real ms", "(least, largest)", "simulated", "error", "kinds measured, rounds"
  for (k = 1; k <= keys; k++) {
    key = order[k]
    for (i = 1; i <= n[key]; i++) x[i] = real[key, i]
    m = median(n[key]); least = x[1]; most = x[n[key]]
    for (i = 1; i <= n[key]; i++) x[i] = simulated[key, i]
    s = told[key] = median(n[key]); e = s / m - 1; a = e < 0 ? -e : e
    within = s >= least && s <= most
    middle[key] = m; spread[key] = (most - least) / m
    printf "%-44s %10.3f %8.3f %9.3f %10.3f %+7.1f%%  %s%s\n", key, 1e3 * m, 1e3 * least, 1e3 * most, 1e3 * s, 100 * e, kinds[key] ", " n[key], within ? " within the spread" : ""
    errors[++ne] = a; if (a > worst) worst = a; if (a > beyond && !within) beyond = a
  }
  if (!ne) { print "nothing was measured"; exit 1 }
  for (i = 1; i <= ne; i++) x[i] = errors[i]
  m = median(ne)
  printf "%-52s target %-8s value %-8s %s\n", "median error of the step time", "3%", sprintf("%.1f%%", 100 * m), m <= 0.03 ? "met" : "MISSED"
  printf "%-52s target %-8s value %-8s %s (beyond the spread of the measured steps: %.1f%%)\n", "worst error", "10%", sprintf("%.1f%%", 100 * worst), worst <= 0.1 ? "met" : "MISSED", 100 * beyond
  printf "%-52s target %-8s value %-8s %s (%s)\n", "peak of the memory, worst error", "1%", sprintf("%.1f%%", 100 * memory), memory <= 0.01 ? "met" : "MISSED", largest
  # Pairs of policies whose real times differ by more than the noise of both: are they in the same order?
  for (k = 1; k <= keys; k++) for (l = 1; l < k; l++) {
    split(order[k], a1); split(order[l], a2)
    if (a1[1] " " a1[2] " " a1[3] != a2[1] " " a2[2] " " a2[3]) continue
    d = middle[order[k]] / middle[order[l]] - 1
    if ((d < 0 ? -d : d) <= spread[order[k]] + spread[order[l]]) continue
    pairs++; same += ((d > 0) == (told[order[k]] > told[order[l]]))
  }
  if (pairs) { tau = (2 * same - pairs) / pairs
    printf "%-52s target %-8s value %-8.2f %s (%d pairs)\n", "order of policies, Kendall'"'"'s tau", "0.9", tau, (tau >= 0.9 ? "met" : "MISSED"), pairs }
  else print "order of policies: no two differ by more than the noise"
  exit (m > 0.03 || memory > 0.01 || worst > 0.1 || (pairs && tau < 0.9))
}' pairs || missed=1
figure 'seconds to calibrate one size and number of workers, all policies' '<= 300' $((calibrating / ($(cut -d' ' -f1-3,5 pairs | sort -u | wc -l))))
from=$(date +%s%N)
"$starling" simulate gpt2 --size layers=48,width=1600,heads=25 --machine epyc-2x64 --workers 32 --batch 80 --leaves 1 --shards 80 --steps 1 --json >many || exit 1
took=$((($(date +%s%N) - from) / 1000000))
figure "ms to simulate 3 steps of $(number_of tasks many) tasks" '<= 60000' $took
peak=$(number_of process_peak_bytes many)
figure 'MB that it takes' '<= 1000' $(((peak + 999999) / 1000000))
from=$SECONDS
"$starling" simulate gpt2 --machine dgx-h100 --nodes 1024 --ranks-per-node 8 --leaves 8192 --batch 8192 --sched dmdas --steps 1 --json >nodes || exit 1
figure 'seconds to simulate 1,024 nodes' '<= 600' $((SECONDS - from))
echo "took $((SECONDS - began)) s"
exit $missed
