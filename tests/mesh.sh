#!/bin/sh
# Predicted steps of meshes: simulate, graph, plan and scale with --mesh. The figures agree with each other and with
# figures counted by hand; an impossible mesh is refused with the reason.
. "$(dirname "$0")/support/command.shlib"
STARLING_SIM=$work/nowhere
export STARLING_SIM
less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && b != "" && a + 0 < b + 0) }'; }
close_to() { awk -v a="$1" -v b="$2" -v by="$3" 'BEGIN { d = b ? a / b - 1 : 9; exit !(d < by && d > -by) }'; } # numbers, relative difference
product() { awk -v a="$1" -v b="$2" 'BEGIN { print a * b }'; }

# A machine whose tasks' times are FLOPs over 100 GFLOP/s, and whose messages take nothing; another one with a slow
# network.
machine() { # name, rank's GB/s
  echo "name: $1"
  echo 'source: made up'
  echo 'cpu: {cores: 4, numa_domains: 1, gflops: {fp32: 100}, efficiency: 1, memory_gigabytes: 64, gigabytes_per_s: 4e5, overhead_us: 0.001}'
  echo "network: {latency_us: 0.01, gigabytes_per_s_per_rank: $2, gigabytes_per_s_per_node: $2, shared_memory: {gigabytes_per_s: 1e6, latency_us: 0.001}, topology: star}"
}
machine even 1e6 >even.yaml
machine slow 0.01 >slow.yaml
gpt='gpt2-nano --size layers=6,width=64,heads=4 --length 32 --batch 24 --workers 1 --shards 24'
# shellcheck disable=SC2086 # words
simulated() { run simulate $gpt --machine even.yaml "$@" --json; }

# ---- stages

simulated --leaves 1 --ranks-per-node 1 --mesh data=1,pipe=1
check 'without stages it is simulated by StarPU' grep -q 'nowhere' err
simulated --ranks-per-node 3 --mesh pipe=3 --micro-batches 12 --leaves 12
check 'stages need no simulator' test "$code" = 0
check_json 'the answer is JSON' out
many=$(number_of step_s out) flops=$(number_of step_flops out)
check 'all workers compute the whole step' close_to "$(product "$(number_of gflops out)" 1e9)" "$(awk -v f="$flops" -v s="$many" 'BEGIN { print f / s }')" 1e-6
check 'no rank is faster than its work' less "$(awk -v f="$flops" 'BEGIN { print f / 3e11 }')" "$many"
# Busy, exposed and bubble make up the step, since a rank has one worker.
awk -v b="$(number_of kernel_percent out)" -v e="$(number_of exposed_percent out)" -v w="$(number_of bubble_percent out)" \
  'BEGIN { s = b + e + w; exit !(s > 99.99 && s < 100.01) }' && ok 'the shares of the step add up' || not_ok 'the shares of the step add up'
check 'each rank has its line' test "$(grep -c '"part"' out)" = 3
# The bubble of equal stages, (3 - 1) / (12 + 3 - 1), is the least that these can have.
check 'the bubble is no less than that of equal stages' less 14.2 "$(number_of bubble_percent out)"
simulated --ranks-per-node 3 --mesh pipe=3 --micro-batches 3 --leaves 3
check 'fewer micro-batches make it larger' less 39.9 "$(number_of bubble_percent out)"
check 'and the step longer' less "$many" "$(number_of step_s out)"
simulated --ranks-per-node 3 --mesh pipe=3 --micro-batches 12 --leaves 12 --pipe-order gpipe
check 'all forward passes first take as long' close_to "$(number_of step_s out)" "$many" 0.1
gpipe=$(number_of predicted_peak_bytes out)
simulated --ranks-per-node 3 --mesh pipe=3 --micro-batches 12 --leaves 12
check 'but more memory' less "$(number_of predicted_peak_bytes out)" "$gpipe"
# --pipe-order auto: the fastest predicted step. On the slow network messages decide, on the even one the bubble.
chosen() { # what, simulate's arguments
  what=$1 least='' most=''
  shift
  for order in 1f1b zero-bubble eager-1f1b auto; do
    # shellcheck disable=SC2086
    run simulate $gpt "$@" --mesh pipe=3 --micro-batches 12 --leaves 12 --pipe-order $order --json
    seconds=$(number_of step_s out)
    [ $order = auto ] && break
    if [ -z "$least" ] || less "$seconds" "$least"; then least=$seconds; fi
    if [ -z "$most" ] || less "$most" "$seconds"; then most=$seconds; fi
  done
  check "$what: the orders differ" less "$(product "$least" 1.02)" "$most"
  check "$what: auto takes the fastest" less "$seconds" "$(product "$least" 1.0101)"
  check "$what: and names it" grep -qE '"order": "(1f1b|zero-bubble|eager-1f1b)"' out
}
chosen 'even' --machine even.yaml --ranks-per-node 3
chosen 'slow network' --machine slow.yaml --nodes 3
run graph gpt2-nano --length 32 --batch 24 --leaves 12 --micro-batches 12 --ranks 3 --mesh pipe=3 --machine even.yaml --pipe-order auto
check 'graph chooses an order, too' test "$code" = 0
simulated --ranks-per-node 3 --mesh pipe=3 --micro-batches 12 --leaves 12 --stages 1,1,4
check 'unequal stages take longer' less "$(product "$many" 1.2)" "$(number_of step_s out)"
simulated --ranks-per-node 3 --mesh pipe=3 --micro-batches 12 --leaves 12 --stages 1,1
check 'shares for another number of stages are refused' grep -q "2 shares ('1,1') for 3 runs of layers (--stages)" err
# shellcheck disable=SC2086
run simulate $gpt --machine slow.yaml --nodes 3 --mesh pipe=3 --micro-batches 12 --leaves 12 --json
check 'a slow network takes time' less "$(product "$many" 1.05)" "$(number_of step_s out)"
check 'which is exposed' less 5 "$(number_of exposed_percent out)"
simulated --ranks-per-node 3 --mesh pipe=3 --micro-batches 12 --leaves 12 --slow-node 2
check 'all ranks of a slow node are slow' close_to "$(number_of step_s out)" "$(product "$many" 2)" 0.01

# ---- tensor ranks, data

simulated --ranks-per-node 2 --mesh tensor=2 --leaves 2
two=$(number_of step_s out) flops=$(number_of step_flops out)
simulated --ranks-per-node 2 --mesh pipe=2 --folds 2 --micro-batches 24 --leaves 24
check 'each tensor rank computes what is not divided' less "$(number_of step_flops out)" "$flops"
simulated --ranks-per-node 4 --mesh data=2,tensor=2 --leaves 4
check 'twice the data ranks take half of the time' close_to "$(number_of step_s out)" "$(product "$two" 0.5)" 0.1
simulated --ranks-per-node 4 --mesh pipe=2,tensor=2 --micro-batches 4 --leaves 4
check 'four ranks share samples' test "$(grep -c '"part"' out)" = 4
for i in 1 2; do simulated --ranks-per-node 4 --mesh pipe=2,tensor=2 --micro-batches 4 --leaves 4 && sed '/process_peak_bytes/d' out >same$i; done
check 'the same output, byte for byte' cmp same1 same2

# GPUs: values of messages cross the links between host and GPUs.
expect 'a mesh of GPUs' 0 'data 2, pipe 2, tensor 4' simulate gpt2-nano --size layers=4,width=256,heads=4 --batch 16 --length 64 --machine dgx-a100 --nodes 2 --ranks-per-node 8 --workers gpu --mesh data=2,pipe=2,tensor=4
check 'has a line for each rank' test "$(grep -c '^stage [01], part [0-3] ' out)" = 8

# The timeline is one as of a real run.
# shellcheck disable=SC2086
expect 'timelines are written' 0 'bubble' simulate $gpt --machine even.yaml --ranks-per-node 2 --mesh pipe=2 --micro-batches 4 --leaves 4 --out run
check 'one for each rank' test -s run/timeline-0.safetensors -a -s run/timeline-1.safetensors
expect 'report reads them' 0 '' report run
check 'the page is there' test -s run/report.html
expect 'trace reads them' 0 'predicted' trace run

# ---- what cannot be

sixtyfour='simulate gpt2 --machine dgx-a100 --nodes 8 --ranks-per-node 8 --workers gpu'
# shellcheck disable=SC2086
expect 'a mesh for more GPUs than there are' 2 'data=8,pipe=8,tensor=4 is for 256 ranks .* and this job has 64: 64 ranks leave data=2' $sixtyfour --mesh data=8,pipe=8,tensor=4
# shellcheck disable=SC2086
expect 'one that does not divide them' 2 'pipe times tensor, 12, must divide the 64 ranks' $sixtyfour --mesh pipe=3,tensor=4
# shellcheck disable=SC2086
expect 'more stages than layers' 2 'a pipeline of 30 stages, and the model has only .*\(--mesh\)' simulate $gpt --leaves 30 --batch 30 --shards 30 --machine even.yaml --nodes 30 --mesh pipe=30 --size layers=1,width=64,heads=4
# shellcheck disable=SC2086
expect 'more ranks that share samples than a set holds' 2 'pipe=16 times tensor=16 is more than 128' simulate $gpt --leaves 256 --batch 256 --shards 256 --machine even.yaml --nodes 256 --mesh pipe=16,tensor=16
# shellcheck disable=SC2086
expect '64 ranks that share samples' 0 'stage 15, part 3' simulate $gpt --leaves 64 --batch 64 --shards 64 --machine even.yaml --nodes 64 --mesh pipe=16,tensor=4 --size layers=16,width=64,heads=4
# shellcheck disable=SC2086
expect 'more tensor ranks than folds' 2 'tensor=4 is more than the 2 folds of this training:' simulate $gpt --machine even.yaml --ranks-per-node 4 --mesh tensor=4 --folds 2
# shellcheck disable=SC2086
expect 'a policy' 2 'policies take no part: leave --sched out' simulate $gpt --machine even.yaml --ranks-per-node 2 --mesh pipe=2 --sched lws
# shellcheck disable=SC2086

# ---- graph

# shellcheck disable=SC2086
expect 'graph has the step of all stages' 0 'All 2 ranks that share samples, scheduled together: a step of' graph $gpt --ranks 2 --mesh pipe=2 --micro-batches 4 --leaves 4
# shellcheck disable=SC2086
run graph $gpt --ranks 2 --mesh pipe=2 --micro-batches 4 --leaves 4 --machine even.yaml --json
graph=$(sed -n '/"mesh": {/,/}/p' out | sed -n 's/.*"predicted_step_s": \([0-9.e-]*\).*/\1/p')
simulated --ranks-per-node 2 --mesh pipe=2 --micro-batches 4 --leaves 4
check 'it is that of simulate' close_to "$graph" "$(number_of step_s out)" 0.001

# shellcheck disable=SC2086
run graph $gpt --ranks 4 --mesh pipe=2,tensor=2 --micro-batches 4 --leaves 4 --json
check 'each rank that divides the model has its stage and part' test \
  "$(sed -n '/"stages": \[/,/\]/p' out | tr -d ' ,\n' | grep -oE '"stage":[0-9]"part":[0-9]' | tr -dc '0-9\n' | tr '\n' ' ')" = '00 01 10 11 '

# ---- plan

# Ranks that hold all of the model exceed the memory of a node; stages do not.
cat >small.yaml <<'END'
name: small
source: made up
cpu: {cores: 2, numa_domains: 1, gflops: {fp32: 100}, efficiency: 1, memory_gigabytes: 0.45, gigabytes_per_s: 50, overhead_us: 1}
network: {latency_us: 5, gigabytes_per_s_per_rank: 0.1, gigabytes_per_s_per_node: 0.1, topology: star}
END
large='gpt2-nano --size layers=8,width=512,heads=8 --length 32 --batch 16 --machine small.yaml --workers 1'
# shellcheck disable=SC2086
expect 'without stages it does not fit' 1 'does not fit on 4 nodes' plan $large --nodes 4 --zero 0 --mesh data=4
# shellcheck disable=SC2086
run plan $large --nodes 4 --zero 0 --json
check 'with stages it does' test "$code" = 0
check 'the command says so' grep -qE '"command": "srun --nodes 4 .*--mesh=(data=2,)?pipe=[24]' out
sed -n 's/.*"peak_bytes": \([0-9]*\).*/\1/p' out >peaks
check 'all plans keep to the memory' awk '$1 > 0.45e9 { bad = 1 } END { exit bad || NR < 1 }' peaks
# shellcheck disable=SC2086
run plan $large --nodes 4 --zero 0 --mesh pipe=2 --memory 1e6 --json
check 'a mesh that is given stays' test "$(grep -c '"mesh": ' out)" -ge 1 -a "$(grep -c '"mesh": ' out)" = "$(grep -c '"mesh": "data=2,pipe=2"' out)"
proposed=$(number_of predicted_step_s out)
words=$(sed -n 's/.*"command": "srun [^"]* starling train \(.*\)",*$/\1/p' out | head -n 1)
# shellcheck disable=SC2086
run simulate $words --machine small.yaml --nodes 4 --json
check 'simulate predicts the same step' close_to "$(number_of step_s out)" "$proposed" 0.001

# ---- scale

# shellcheck disable=SC2086
run scale $gpt --machine even.yaml --nodes 2,4 --mesh pipe=2 --micro-batches 4 --json
check 'scale takes meshes' test "$code" = 0 -a "$(grep -c '"step_s"' out)" -ge 2
# shellcheck disable=SC2086
expect 'and refuses counts that they do not divide' 2 'this job has 3' scale $gpt --machine even.yaml --nodes 2,3 --mesh pipe=2
finish
