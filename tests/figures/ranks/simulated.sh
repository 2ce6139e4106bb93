#!/bin/bash
# Figure: simulated steps of two ranks beside measured ones: two ranks of one worker on this host, and two test hosts
# (tests/support/hosts.sh) of one core each with a link of 1 Gbit/s between them. calibrate --network measures shared
# memory and link, and calibrate the tasks; nothing is fitted to the measured steps. Also the step that bench predicts.
# ROUNDS: measurements of each step (3), in turn with the simulations, each after a new calibration; the medians count.
# MODELS: fewer of the models. Needs a quiet machine with two cores or more; hosts need root. Takes 16 minutes.
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
. "$top/tests/figures/figure.shlib"
starling=${STARLING:-$top/build/starling}
sim=${STARLING_SIM:-$top/build-simulated/starling-sim}
export STARLING_SIM=$sim STARPU_SILENT=1 MPIEXEC=${MPIEXEC:-mpiexec.mpich} HOSTS=simulated$$
[ -x "$starling" ] && [ -x "$sim" ] || { echo 'SKIP: no starling or starling-sim: ./quickstart simulate builds them'; exit 77; }
command -v jq >/dev/null || { echo 'SKIP: no jq'; exit 77; }
hosts=$top/tests/support/hosts.sh
work=$(mktemp -d "${TMPDIR:-/tmp}/simulated.XXXXXX")
trap '"$hosts" down; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work" || exit 1
mkdir one first second
process=$("$starling" info --machine 2>/dev/null | sed -n 's/^ *process_megabytes: //p')
describe() { # folder of models, cores, network
  printf '%s\n' 'name: here' 'source: measured' "times: $(echo "$work/$1"/.starpu/sampling/*-times.json)" \
    "cpu: {cores: $2, numa_domains: 1, gflops: {fp32: 100}, efficiency: 1, memory_gigabytes: 16, gigabytes_per_s: 20, overhead_us: 3, process_megabytes: $process}"
  cat "$3"
}
calibrate() { # folder of models, model and options
  rm -f "$work/$1"/.starpu/sampling/*-times.json
  # shellcheck disable=SC2086 # words
  STARPU_HOME=$work/$1 "${@:3}" "$starling" calibrate $2 --leaves 2 --gpus 0 --samples 20 --quiet >"calibrated-$1" 2>&1 </dev/null || { cat "calibrated-$1" >&2; return 1; }
}
add() { # where, model: appends a line of the files real and simulated
  echo "$1 ${2// /_} $(jq -r '"\(.step_s) \(.predicted_step_s)"' real) $(jq -r .step_s simulated)" >>pairs
}
on_this_host() { # model and options
  calibrate one "$1 --workers 2" env || return 1
  describe one 2 network-one >here.yaml
  # shellcheck disable=SC2086
  STARPU_HOME=$work/one "$MPIEXEC" -n 2 "$starling" bench $1 --leaves 2 --workers 1 --gpus 0 --no-measure --json >real 2>err </dev/null &&
    "$starling" simulate $1 --leaves 2 --machine here.yaml --ranks-per-node 2 --workers 1 --json >simulated 2>err </dev/null || { cat err >&2; return 1; }
  add host "$1"
}
on_two_hosts() { # model and options
  calibrate first "$1 --workers 1" "$hosts" on 1 & # both at once, as in a run
  calibrate second "$1 --workers 1" "$hosts" on 2 && wait $! || return 1
  describe first 1 network-hosts >here.yaml
  # shellcheck disable=SC2086
  STARPU_HOME=$work/first "$hosts" mpiexec -n 2 "$starling" bench $1 --leaves 2 --workers 1 --gpus 0 --no-measure --json >real 2>err </dev/null &&
    "$starling" simulate $1 --leaves 2 --machine here.yaml --nodes 2 --workers 1 --json >simulated 2>err </dev/null || { cat err >&2; return 1; }
  add hosts "$1"
}
STARPU_HOME=$work/one "$MPIEXEC" -n 2 "$starling" calibrate --network --workers 1 >network-one 2>err || { cat err; exit 1; }
two=1
if [ "$(id -u)" = 0 ] && "$hosts" up 2 1gbit; then
  STARPU_HOME=$work/first "$hosts" mpiexec -n 2 "$starling" calibrate --network --workers 1 >network-hosts 2>err || { cat err; exit 1; }
else
  two=0; echo 'two hosts: NOT RUN, no network namespaces, bridges or tbf here'; missed=1
fi
cat network-one network-hosts 2>/dev/null
while read -r model; do
  for _ in $(seq "${ROUNDS:-3}"); do
    on_this_host "$model" || exit 1
    [ $two = 0 ] || on_two_hosts "$model" || exit 1
  done
done <<END
${MODELS:-lenet --batch 256
gpt2-nano --batch 8
gpt2 --batch 4 --length 64}
END
printf '%-36s %12s %12s %12s\n' 'where, model' 'measured ms' 'predicted' 'simulated'
for key in $(cut -d' ' -f1,2 pairs | tr ' ' : | sort -u); do
  line() { awk -v k="$key" -v c="$1" '$1 ":" $2 == k { print $c }' pairs | median; }
  echo "$key $(line 3) $(line 4) $(line 5)" | tee -a medians |
    awk '{ printf "%-36s %12.2f %12.2f %12.2f   %+.1f%%, %+.1f%%\n", $1, 1e3 * $2, 1e3 * $3, 1e3 * $4, 100 * ($3 / $2 - 1), 100 * ($4 / $2 - 1) }'
done
error() { awk -v w="^$1:" -v c="$2" '$1 ~ w { e = $c / $2 - 1; print e < 0 ? -e : e }' medians; }
for where in host hosts; do
  [ $two = 1 ] || [ $where = host ] || continue
  what='two ranks of this host'; [ $where = host ] || what='two hosts, 1 Gbit/s'
  figure "$what: median error of the simulated step" '<= 0.05' "$(error $where 4 | median)"
  figure "$what: largest" '<= 0.1' "$(error $where 4 | sort -g | tail -n 1)"
  figure "$what: median error of the predicted step" '<= 0.05' "$(error $where 3 | median)"
done
exit $missed
