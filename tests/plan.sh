#!/bin/sh
# starling plan: the proposed plan is as good as the best plan that an exhaustive search finds, fits in the memory, and
# has a command line that Starling accepts. If no plan fits, the error says how much memory is missing.
. "$(dirname "$0")/support/command.shlib"
sim=${STARLING_SIM:-$(dirname "$starling")/../build-simulated/starling-sim}
STARLING_SIM=$work/nowhere
export STARLING_SIM
TMPDIR=$work/tmp
mkdir "$TMPDIR"
export TMPDIR
at_most() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && b != "" && a + 0 <= b + 0) }'; }
close_to() { awk -v a="$1" -v b="$2" -v by="$3" 'BEGIN { d = b ? a / b - 1 : 9; exit !(d < by && d > -by) }'; } # numbers, relative difference

# ---- by predictions alone

expect 'without the simulator it predicts' 0 'starling-sim is not here' plan mlp --machine vm-2 --batch 256
check 'and names the command that builds it' grep -q 'quickstart simulate' out
for i in 1 2; do "$starling" plan lenet --machine laptop-gpu --json >same$i 2>>err; done
check 'the same output, byte for byte' cmp same1 same2
check_json 'the answer is JSON' same1
check 'it proposes several plans' test "$(grep -c '"command"' same1)" -ge 4

run plan mlp --machine vm-2 --batch 128 --json
command=$(sed -n 's/.*"command": "starling \(.*\)",*$/\1/p' out | head -n 1)
check 'the batch that is given stays' test "$(number_of batch out)" = 128
make_set set 256 64 28 10
# shellcheck disable=SC2086 # the words of a command line
expect 'its command line trains' 0 '' $command --data set --steps 1 --out one
check 'by that plan' test "$(number_of shards out)" = "" -a "$(number_of shards one/plan.json)" = "$(echo "$command" | sed 's/.*--shards=\([0-9]*\).*/\1/')"
run plan mlp --machine vm-2 --batch 128 --shards 8 --leaves 4 --json
check 'options that are given stay' test "$(grep -c '"shards": 8' out)" -ge 1 -a "$(grep -c '"shards"' out)" = "$(grep -c '"shards": 8' out)"

# Memory: with less of it the plan is another one, which keeps to it; with too little the amount is told.
gpt='gpt2 --size layers=4,width=256,heads=4 --length 256 --batch 32 --machine epyc-2x64'
# shellcheck disable=SC2086
run plan $gpt --json
free=$(number_of peak_bytes out)
room=$(awk -v b="$free" 'BEGIN { printf "%.3f", 0.8e-6 * b }')
# shellcheck disable=SC2086
run plan $gpt --json --memory "$room"
check 'with four fifths of the memory there is a plan' test "$code" = 0
sed -n 's/.*"peak_bytes": \([0-9]*\).*/\1/p' out >peaks
check 'all plans keep to it' awk -v most="$room" '$1 > 1e6 * most { bad = 1 } END { exit bad || NR < 2 }' peaks
expect 'too little memory is refused' 1 'GB are missing' plan mlp --machine vm-2 --batch 256 --memory 100
awk '{ for (i = 1; i < NF; i++) if ($(i + 1) ~ /^GB/) { g[++n] = $i } } END { d = g[1] - g[2] - g[3]; exit !(n >= 3 && g[3] > 0 && d < 0.0015 && d > -0.0015) }' err &&
  ok 'by the amount that is missing' || not_ok 'by the amount that is missing'
run plan mlp --machine vm-2 --batch 256 --memory 100 --json
check 'in JSON too' grep -q '"fits": false' out

# A network whose optimizer state must be divided over several nodes.
cat >small.yaml <<'END'
name: small
source: made up
cpu: {cores: 4, numa_domains: 1, gflops: {fp32: 100}, efficiency: 1, memory_gigabytes: 0.35, gigabytes_per_s: 50, overhead_us: 1}
network: {latency_us: 2, gigabytes_per_s_per_rank: 10, gigabytes_per_s_per_node: 10, topology: star}
END
wide='mlp --size layers=8,hidden=2000 --batch 256 --machine small.yaml'
# shellcheck disable=SC2086
run plan $wide --zero 1 --json
nodes=$(number_of nodes_needed out)
check 'it says how many nodes could hold it' at_most 2 "$nodes"
# shellcheck disable=SC2086
expect 'they do' 0 'ZeRO 1' plan $wide --zero 1 --nodes "${nodes:-2}"
# shellcheck disable=SC2086
run plan $wide --json
fewer=$(number_of nodes_needed out)
check 'with the parameters divided, too, no more nodes are needed' at_most "$fewer" "$nodes"
# shellcheck disable=SC2086
expect 'they do, too' 0 'ZeRO 3' plan $wide --nodes "${fewer:-2}"
# shellcheck disable=SC2086
expect 'one less does not' 1 'GB are missing' plan $wide --nodes $((${fewer:-2} - 1))
code=0
(grep -q __asan_init "$starling" || ulimit -v 12000000; "$starling" plan gpt2 --size layers=96,width=12288,heads=96 --machine epyc-2x64 >out 2>err) || code=$?
check '175 thousand million parameters are refused, in little memory' test "$code" = 1
check 'more nodes could hold them' grep -qE '1[0-9] nodes could hold it: ZeRO 3 divides parameters and gradients' err
expect 'but not with ZeRO 1' 1 'no number of nodes can hold it with --zero 1: parameters and gradients.* --zero 3 divides' \
  plan gpt2 --size layers=96,width=12288,heads=96 --machine epyc-2x64 --zero 1

# Time, energy and price.
run plan mlp --machine vm-2 --batch 256 --samples 1000000 --price 3600 --json
check 'a price of 3600 an hour is a price of 1 a second' close_to "$(number_of price out)" "$(number_of seconds out)" 1e-6
check 'the samples take their number over the rate' close_to "$(number_of seconds out)" "$(awk -v r="$(number_of samples_per_s out)" 'BEGIN { print 1e6 / r }')" 1e-6
run plan lenet --machine laptop-gpu --samples 1000000 --json
check 'energy where the power is known' at_most 1 "$(number_of joules out)"
expect 'a time that is met' 0 'That is within' plan mlp --machine vm-2 --batch 256 --samples 1000000 --time 10h
expect 'a time that no number of nodes meets' 0 'no number of nodes is enough' plan mlp --machine vm-2 --batch 64 --samples 1000000 --time 1s
gpt='gpt2 --size layers=4,width=256,heads=4 --length 256 --batch 256 --machine epyc-2x64 --ranks-per-node 1 --json'
# shellcheck disable=SC2086
run plan $gpt --samples 1000000
whole=$(number_of seconds out)
within=$(awk -v s="$whole" 'BEGIN { printf "%.3fs", s / 1.9 }')
# shellcheck disable=SC2086
run plan $gpt --samples 1000000 --time "$within"
nodes=$(number_of nodes_needed out)
check 'half of the time takes several nodes' at_most 2 "$nodes"
# shellcheck disable=SC2086
run plan $gpt --samples 1000000 --time "$within" --nodes "${nodes:-2}"
check 'on which it is met' grep -q '"in_time": true' out

# Batch normalisation over the samples of a leaf: the search proposes no leaves of fewer than 16.
run plan resnet8 --machine dgx-a100 --batch 256 --json
few=$(sed -n 's/.*"command": "starling \(.*\)",*$/\1/p' out | sed -n 's/.*--leaves=\([0-9]*\).*/\1/p' | awk '$1 > 16' | wc -l)
check 'plans for batch normalisation' test "$(grep -c '"command"' out)" -ge 3
check 'have at least 16 samples in a leaf' test "$few" = 0

expect 'an unknown machine' 2 'no-such-machine' plan lenet --machine no-such-machine
expect 'an unknown model' 2 "no model 'letnet'" plan letnet --machine vm-2
expect 'no nodes' 2 'nodes' plan lenet --machine vm-2 --nodes 0
expect 'a time without a length' 2 '--time needs the length of the training: --samples' plan lenet --machine vm-2 --time 3h
expect 'a time without a unit' 2 'give a number and its unit' plan lenet --machine vm-2 --samples 10 --time 3
expect 'tokens of images' 2 'give --samples' plan lenet --machine vm-2 --tokens 10
expect 'more nodes than the machine has' 2 "no \`network\`" plan lenet --machine laptop-gpu --nodes 2
expect 'measuring several nodes' 2 'leave out --nodes' plan lenet --machine vm-2 --nodes 2 --run
# Half a minute: few plans and other policies, two to eight processes each.
few='mlp --size hidden=32 --batch 64 --row-blocks 1 --micro-batches 1 --recompute none'
# shellcheck disable=SC2086
run plan $few --run --json
check 'plans are measured on this machine' test "$code" = 0 -a "$(grep -c '"measured_step_s": [0-9.e-]*[1-9]' out)" -ge 3
check 'and judged' grep -q '"held": "[^"]' out
check 'all different plans, more than three' test "$(grep -c '"leaves"' out)" -gt 5 -a "$(grep -c '"leaves"' out)" = "$(grep -c '"measured_step_s"' out)"
# The policies of the measured plans of an output.
policies() { awk '/"sched":/ { gsub(/[",]/, ""); name = $2 } /"measured_step_s":/ { print name }' out | sort -u | tr '\n' ' '; }
check 'the fastest of them under the other policies too' test "$(policies)" = 'default eager prio '
# shellcheck disable=SC2086
run plan $few --leaves 1 --shards 2 --sched prio --run --json
check 'not if --sched names one' test "$(policies)" = 'prio '
check 'values that are given make one plan, the default one' test "$(grep -c '"leaves"' out)" = 2 -a "$(grep -c '"default": true' out)" = 2
expect 'a batch for fewer ranks' 2 'a larger --batch, or fewer --nodes' plan mlp --machine vm-2 --batch 2 --nodes 4
check 'no file is left behind' test -z "$(ls "$TMPDIR")"

# ---- by simulations

if [ ! -x "$sim" ]; then
  skip "the best of the simulated plans: no $sim (./quickstart simulate builds it)"
  finish
fi
STARLING_SIM=$sim
run plan lenet --machine vm-2 --batch 128 --json
check 'plans are simulated' grep -q '"simulated": true' out
cp out plan.json
best=$(number_of step_s out)
standard=$(sed -n '/^  "default": {/,/^  }/p' out | number_of step_s /dev/stdin)
check 'the best is at most as slow as the default plan' at_most "$best" "$standard"
run simulate lenet --machine vm-2 --batch 128 --steps 3 --json
check 'the default plan is that of simulate' close_to "$standard" "$(number_of step_s out)" 1e-6
run plan mlp --machine laptop-gpu --batch 64 --json
check 'with a GPU the default plan is that of train: only the GPU' sh -c 'sed -n "/^  \"default\": {/,/^  }/p" out | grep -q "workers=gpu\|workers gpu"'
# All plans of a grid: leaves, shards of each, row blocks, policies.
least=
tried=0
for leaves in 1 2 4; do
  for each in 1 2 4 8; do
    for sched in eager lws prio; do
      run simulate lenet --machine vm-2 --batch 128 --leaves $leaves --shards $((leaves * each)) --sched $sched --steps 3 --json
      step=$(number_of step_s out)
      [ -n "$step" ] && tried=$((tried + 1))
      least=$(awk -v a="${least:-9}" -v b="${step:-9}" 'BEGIN { print a < b ? a : b }')
    done
  done
done
check 'the grid was simulated' test $tried = 36
check "none of $tried plans is 3% faster" at_most "$best" "$(awk -v a="$least" 'BEGIN { print 1.03 * a }')"

# Pipelines: orders and chunks of layers are searched, and those that are given stay.
sed 's/^name: .*/name: four/; s/memory_gigabytes: [0-9.]*/memory_gigabytes: 4/' small.yaml >four.yaml
stages='mlp --size layers=8,hidden=1000 --machine four.yaml --nodes 4 --batch 256 --mesh pipe=4 --ranks-per-node 1 --micro-batches 8 --leaves 8 --shards 8 --row-blocks 1 --zero 0'
# shellcheck disable=SC2086
{
  run plan $stages --json
  cp out searched
  check 'a plan in zero-bubble order' grep -q 'pipe-order=zero-bubble' searched
  check 'one with two chunks of layers on a stage' grep -q 'pipe-chunks=2' searched
  run plan $stages --pipe-order 1f1b --pipe-chunks 1 --json
  cp out given
  check 'with an order and runs that are given' grep -q '"command": ".*--mesh=' given
  check 'the search proposes no others' sh -c '! grep -qE "zero-bubble|pipe-chunks=[24]" given'
}
run plan gpt2 --size layers=16,width=4096,heads=32 --length 1024 --machine dgx-a100 --nodes 4 --mesh pipe=4 --ranks-per-node 1 --batch 32 \
  --micro-batches 16 --leaves 16 --shards 16 --recompute block --workers gpu --precision bf16 --zero 0 --row-blocks 1 --json
check 'between stages on GPUs messages in parts' grep -q 'pipe-parts=4' out
first() { awk -F: '/"step_s"/ { print $2 + 0; exit }' "$1"; }
check 'the search finds a faster one' sh -c "awk -v a=$(first searched) -v b=$(first given) 'BEGIN { exit !(a > 0 && a < b) }'"
finish
