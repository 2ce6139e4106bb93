#!/bin/sh
# starling simulate: steps on a machine that is not here, by StarPU's schedulers on SimGrid. The results are repeatable
# and agree with each other and with bounds computed by hand. report shows them; compare --machine compares policies on
# such a machine.
. "$(dirname "$0")/support/command.shlib"
sim=${STARLING_SIM:-$(dirname "$starling")/../build-simulated/starling-sim}
[ -x "$sim" ] || { echo "1..0 # SKIP no $sim (./quickstart simulate builds it)"; exit 0; }
STARLING_SIM=$sim
export STARLING_SIM
TMPDIR=$work/tmp
mkdir "$TMPDIR"
export TMPDIR
less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && b != "" && a + 0 < b + 0) }'; }
close_to() { awk -v a="$1" -v b="$2" -v by="$3" 'BEGIN { d = a / b - 1; exit !(d < by && d > -by) }'; } # numbers, relative difference

# A machine whose tasks' times can be counted by hand: no overhead, one rate.
cat >even.yaml <<'END'
name: even
source: made up
cpu: {cores: 4, numa_domains: 1, gflops: {fp32: 100}, efficiency: 1, memory_gigabytes: 64, gigabytes_per_s: 4e5, overhead_us: 0.001}
network: {latency_us: 1000, gigabytes_per_s_per_rank: 1, gigabytes_per_s_per_node: 1, shared_memory: {gigabytes_per_s: 10, latency_us: 1}, topology: star}
END
run simulate mlp --machine even.yaml --workers 1 --json
one=$(number_of step_s out)
check 'one worker computes at its peak' close_to "$(number_of gflops out)" 100 0.01
check 'it is at its bound' close_to "$one" "$(number_of bound_s out)" 0.01
run simulate mlp --machine even.yaml --workers 1 --nodes 2 --leaves 2 --out two --json
check 'two nodes take longer than half of the time' less "$(awk -v a="$one" 'BEGIN { print a / 2 }')" "$(number_of step_s out)"
"$starling" trace two --format csv --out two.csv >/dev/null 2>>err
# Reduce-scatter and allgather: twice the latency, a microsecond for the message, and half of the bytes at 1 GB/s. The
# node's bytes are those that it reads and writes.
awk -F, '$2 == "exchange" { n++; wanted = 2 * (1001000 + $13 / 4); took = $18 - $17; if (took < 0.999 * wanted || took > 1.001 * wanted) bad = 1 }
  END { exit bad || n < 6 }' two.csv && ok 'exchanges take latency and bytes' || not_ok 'exchanges take latency and bytes'

# Ranks of a node share the bandwidth of its memory: on a machine that only moves bytes, two ranks are not twice as
# fast.
cat >narrow.yaml <<'END'
name: narrow
source: made up
cpu: {cores: 4, numa_domains: 1, gflops: {fp32: 1e5}, efficiency: 1, memory_gigabytes: 64, gigabytes_per_s: 1, overhead_us: 0.001}
network: {shared_memory: {gigabytes_per_s: 1e3, latency_us: 0.001}}
END
run simulate mlp --machine narrow.yaml --leaves 2 --shards 4 --json
one=$(number_of step_s out)
run simulate mlp --machine narrow.yaml --leaves 2 --shards 4 --ranks-per-node 2 --json
check 'two ranks of a node share its memory' less "$(awk -v a="$one" 'BEGIN { print 0.75 * a }')" "$(number_of step_s out)"

# The same input gives the same output, byte for byte.
for i in 1 2; do "$starling" simulate lenet --machine laptop-gpu --sched dmdas --json 2>>err | sed '/process_peak_bytes/d' >same$i; done
check 'the same output, byte for byte' cmp same1 same2
check 'no folder is left behind' test -z "$(ls "$TMPDIR")"

# No policy is below the bound, which is the same for all.
run compare resnet8 --machine laptop-gpu --json
check 'compare simulates the six policies' test "$code" = 0 -a "$(grep -c '"ratio"' out)" = 6
awk '/"bound_s"/ { bound = $2 + 0 } /"step_s"/ { n++; if (!(bound > 0 && $2 + 0 >= bound)) bad = 1 }
  END { exit bad || n != 6 }' out && ok 'none is below the bound' || not_ok 'none is below the bound'
bounds=$(grep -o '"bound_s": [0-9.e-]*' out | sort -u | wc -l)
check 'they have one bound' test "$bounds" = 1
step_of() { awk -v p="\"$1\"," '/"step_s"/ { step = $2 } /"policy":/ && $2 == p { gsub(/,/, "", step); print step; exit }' out; }
check 'dmdas uses the GPU better than eager' less "$(step_of dmdas)" "$(step_of eager)"
expect 'compare prints a table' 0 'dmda +on' compare lenet --machine laptop-gpu --policies dmda
check 'and who is the fastest' grep -q 'is the fastest of them' "$work/out"
expect 'an unknown policy' 2 "no policy 'mine'" compare lenet --machine laptop-gpu --policies mine
expect 'repetitions have no meaning' 2 '--repetitions is for measurements, and --machine simulates' compare lenet --machine vm-2 --repetitions 5

# Several GPUs: tasks that run where the plan has them copy little; policies do not keep a shard on its GPU.
cat >four.yaml <<'END'
name: four
source: made up
cpu: {cores: 4, numa_domains: 1, gflops: {fp32: 50}, efficiency: 1, memory_gigabytes: 64, gigabytes_per_s: 20, overhead_us: 1}
gpu: {count: 4, gflops: {fp32: 5000}, efficiency: 1, memory_gigabytes: 16, gigabytes_per_s: 500, overhead_us: 5, link: {gigabytes_per_s: 10, latency_us: 10}}
network: {shared_memory: {gigabytes_per_s: 10, latency_us: 1}}
END
for placement in plan policy; do
  run simulate resnet8 --machine four.yaml --workers gpu --batch 512 --leaves 4 --shards 4 --placement $placement --json
  cp out $placement.json
done
run simulate resnet8 --machine four.yaml --workers gpu --batch 512 --leaves 4 --shards 4 --json
check 'with several GPUs the plan places tasks' test "$(number_of step_s out)" = "$(number_of step_s plan.json)"
check 'it moves less than half of the bytes' less "$(awk -v b="$(number_of moved_bytes plan.json)" 'BEGIN { print 2 * b }')" "$(number_of moved_bytes policy.json)"
check 'and takes less time' less "$(number_of step_s plan.json)" "$(number_of step_s policy.json)"
expect 'compare has the plan beside the policies' 0 '^.placed by the plan. +on +[0-9.]+ +0[.]' compare resnet8 --machine four.yaml --workers gpu --batch 512 --leaves 4 --shards 4 --policies dmdas
run compare resnet8 --machine four.yaml --workers gpu --batch 512 --leaves 4 --shards 4 --policies dmdas --json
check 'with the same step' test "$(sed -n '/"placed_by_plan": {/,/"policies": \[/s/.*"step_s": \([0-9.e-]*\),/\1/p' out)" = "$(number_of step_s plan.json)"
# A rank's gradients leave its GPU for the exchange and come back, each in a slot of at most twice its bytes.
run simulate resnet8 --machine four.yaml --workers gpu --ranks-per-node 4 --batch 512 --leaves 4 --shards 4 --json
parameters=$("$starling" graph resnet8 --batch 64 | sed -n 's/.*; \([0-9]*\) parameters.*/\1/p')
echo "# $(number_of moved_bytes out) bytes moved for $parameters parameters"
check 'an exchange copies gradients' less 0 "$(number_of moved_bytes out)"
check 'not the slots of activations' less "$(number_of moved_bytes out)" $((4 * 4 * ${parameters:-0}))

# Two ranks of a node that divide the optimizer's state: they share one copy of the parameters, as real ones do.
run simulate gpt2 --size layers=4,width=64,heads=2 --length 64 --batch 8 --leaves 2 --machine vm-2 --ranks-per-node 2 --workers 1 --json
cp out both.json
for zero in 1 3; do
  run simulate gpt2 --size layers=4,width=64,heads=2 --length 64 --batch 8 --leaves 2 --machine vm-2 --ranks-per-node 2 --workers 1 --zero $zero --json
  check "ranks that share parameters, ZeRO $zero" test "$code" = 0
  check 'copies of what they share take no time' close_to "$(number_of step_s out)" "$(number_of step_s both.json)" 0.02
done
# The exchange's thread takes processor time from the only worker, at most what the sums need: 4 bytes a parameter.
rate() { run simulate gpt2 --size layers=4,width=64,heads=2 --length 64 --batch 8 --leaves 2 --machine vm-2 --ranks-per-node 2 --workers 1 --what-if "network.shared_memory.cpu_gigabytes_per_s=$1" --json; }
parameters=$("$starling" graph gpt2 --size layers=4,width=64,heads=2 --length 64 --batch 8 | sed -n 's/.*; \([0-9]*\) parameters.*/\1/p')
rate 0.5
check 'exchanges take time from tasks' less "$(number_of step_s both.json)" "$(number_of step_s out)"
check 'but no more than their work' less "$(number_of step_s out)" "$(awk -v s="$(number_of step_s both.json)" -v n="${parameters:-0}" 'BEGIN { printf "%.9f", s + 1.1 * 4 * n / 0.5e9 }')"
rate 1e5
check 'or next to nothing' close_to "$(number_of step_s out)" "$(number_of step_s both.json)" 0.001

# A policy of one's own, compiled against the simulation's StarPU.
simmade() { sed -n "s/^$1 = //p" "$(dirname "$sim")/Makefile"; }
# shellcheck disable=SC2046 # words
library() { cc -std=gnu11 -shared -fPIC $(simmade DEPS_CFLAGS) "$1" -o "$2" 2>>err; }
if [ -e "$(dirname "$sim")/Makefile" ]; then
  check 'a policy compiles' library "$top/examples/08-own-policy/policy.c" own.so
  expect 'it schedules a simulation' 0 'policy own' simulate uneven --machine vm-2 --sched-lib ./own.so
  expect 'and is compared' 0 '^own +on' compare uneven --machine vm-2 --sched-lib ./own.so --policies own
  check 'a policy that keeps its tasks compiles' library "$top/examples/08-own-policy/skeleton/policy.c" stuck.so
  expect 'it ends the simulation with an error' 1 "scheduling policy 'own' has left [0-9]+ ready tasks lying" simulate uneven --machine vm-2 --sched-lib ./stuck.so
fi

# The timeline is one as of a real run.
expect 'the timeline is written' 0 'step time' simulate gpt2 --size layers=2,width=64,heads=2 --machine dgx-h100 --sched dmdas --out run
expect 'report reads it' 0 '' report run
check 'the page is there' test -s run/report.html
expect 'trace reads it' 0 'policy dmdas, 112 workers; 5 whole steps' trace run

# A model that this machine could not hold: 1.5 thousand million parameters.
run simulate gpt2 --size layers=48,width=1600,heads=25 --batch 8 --machine epyc-2x64 --workers 32 --json --steps 1
check 'it needs little memory here' less "$(number_of process_peak_bytes out)" 400000000
check 'its own memory is predicted' less 20000000000 "$(number_of predicted_peak_bytes out)"

expect 'no machine' 2 '--machine is missing: name the machine to simulate' simulate lenet
expect 'an unknown machine' 2 "no-such-machine" simulate lenet --machine no-such-machine
expect 'an unknown model' 2 "no model 'letnet'" simulate letnet --machine vm-2
expect 'an unknown policy of the simulation' 2 "unknown scheduling policy 'mine'" simulate lenet --machine vm-2 --sched mine
expect 'a machine without a network is one node' 2 "no \`network\`" simulate lenet --machine laptop-gpu --nodes 2 --leaves 2
expect 'GPUs that do not divide' 2 'does not divide the 8 GPUs' simulate lenet --machine dgx-a100 --ranks-per-node 3 --leaves 3
expect 'more workers than cores' 2 'a rank on .vm-2. has 2 cores' simulate lenet --machine vm-2 --workers 3
expect 'teams that need more cores than there are' 2 '--workers 2 --threads-per-worker 2: a rank on .vm-2. has 2 cores' simulate lenet --machine vm-2 --workers 2 --threads-per-worker 2
expect 'a team that is larger than the rank' 2 '--threads-per-worker 3: a rank on .vm-2. has 2 cores' simulate lenet --machine vm-2 --threads-per-worker 3
expect 'only GPUs, where there are none' 2 '--workers gpu: a rank on .vm-2. has no GPU' simulate lenet --machine vm-2 --workers gpu
STARPU_NCPU=1 STARPU_NCUDA=0 expect 'variables of StarPU are about this machine' 0 '2 CPU workers' simulate lenet --machine vm-2
expect 'compare: options of measurements' 2 '--compress is for measurements, and --machine simulates' compare lenet --machine vm-2 --compress bf16
expect 'compare: options of simulations' 2 '--nodes is simulated: name a machine' compare lenet --nodes 2
expect 'compare: a mesh without policies' 2 '--mesh pipe=2: StarPU.s policies take no part' compare mlp --machine epyc-2x64 --nodes 2 --mesh pipe=2
expect 'compare: priorities have an option' 2 'compare takes --priorities off' compare lenet --machine vm-2 --no-priorities

# Energy: cores and GPUs that no worker uses are idle.
cat >power.yaml <<'END'
name: power
source: made up
cpu: {cores: 4, numa_domains: 1, gflops: {fp32: 100}, efficiency: 1, memory_gigabytes: 64, gigabytes_per_s: 4e5, overhead_us: 0.001, watts: 140, idle_watts: 100}
gpu: {count: 2, gflops: {fp32: 1000}, efficiency: 1, memory_gigabytes: 16, gigabytes_per_s: 4e5, overhead_us: 0.001, watts: 300, idle_watts: 50, link: {gigabytes_per_s: 1e4, latency_us: 0.001}}
END
run simulate mlp --machine power.yaml --gpus 1 --workers gpu --leaves 1 --shards 1 --json
check 'one busy GPU of two: 100 + 50 + 300 W at most' awk -v w="$(awk -v j="$(number_of step_j out)" -v s="$(number_of step_s out)" 'BEGIN { print j / s }')" 'BEGIN { exit !(w > 400 && w <= 450.001) }'
run simulate mlp --machine power.yaml --gpus 0 --workers 1 --json
check 'one busy core of four: 110 W, and idle GPUs' close_to "$(number_of step_j out)" "$(awk -v s="$(number_of step_s out)" 'BEGIN { print 210 * s }')" 0.01

# A torus: a small job uses few of its nodes, and there are no more.
sed 's/topology: star/topology: torus, extents: [64]/; s/latency_us: 1000/latency_us: 1/' even.yaml >torus.yaml
sed 's/latency_us: 1000/latency_us: 1/' even.yaml >star.yaml
for network in star torus; do
  run simulate mlp --machine $network.yaml --workers 1 --nodes 2 --leaves 2 --json
  cp out $network
done
check 'two nodes of a torus are as fast as two of a star' close_to "$(number_of step_s torus)" "$(number_of step_s star)" 1e-6
expect 'more nodes than a torus has' 2 '--nodes 65: the network of .even. joins 64 nodes' simulate mlp --machine torus.yaml --nodes 65 --batch 128

expect 'fewer leaves than ranks' 2 '1 leaves cannot be divided among 2 ranks' simulate lenet --machine epyc-2x64 --nodes 2 --leaves 1
expect 'only GPUs' 0 '0 CPU workers .* and 8 GPUs' simulate lenet --machine dgx-a100 --workers gpu
# bf16: at the machine's rate for it, with less memory; never beyond its peak.
for p in fp32 bf16; do
  run simulate gpt2 --size layers=2 --batch 16 --length 256 --machine dgx-a100 --gpus 1 --workers gpu --precision $p --steps 1 --json
  number_of step_s out >step.$p
  number_of predicted_peak_bytes out >peak.$p
done
less() { awk -v a="$(cat "$1")" -v b="$(cat "$2")" -v f="$3" 'BEGIN { exit !(a > 0 && a < f * b) }'; }
check 'bf16 is faster on a GPU' less step.bf16 step.fp32 0.7
check 'and takes less memory' less peak.bf16 peak.fp32 0.8
number_of percent_of_peak out >percent
echo 100 >whole
check 'but no more than its peak' less percent whole 1
run simulate gpt2 --size layers=2 --batch 16 --length 256 --machine dgx-a100 --gpus 1 --workers gpu --gpu-kernels tf32 --steps 1 --json
number_of step_s out >step.tf32
check 'tf32 is faster on a GPU' less step.tf32 step.fp32 0.8
number_of percent_of_peak out >percent
check 'but no more than its peak, either' less percent whole 1
expect 'a GPU without TF32' 2 'summit. describes no GPU with TF32 .*--gpu-kernels exact' simulate lenet --machine summit --gpu-kernels tf32
# The memory of a rank: its program, and the process, which info measures.
run simulate mlp --machine vm-2 --what-if cpu.process_megabytes=50 --steps 1 --json
peak=$(number_of predicted_peak_bytes out)
run simulate mlp --machine vm-2 --what-if cpu.process_megabytes=150 --steps 1 --json
check "the process counts in a rank's memory" test "$(number_of predicted_peak_bytes out)" = $((peak + 100000000))
run info --machine --workers 1
cp out this.yaml
run bench mlp --workers 1 --gpus 0 --steps 5 --no-measure --json
number_of peak_memory_bytes out >peak.real
run simulate mlp --machine this.yaml --workers 1 --steps 1 --json
check 'the predicted memory is within 3% of the real one' close_to "$(number_of predicted_peak_bytes out)" "$(cat peak.real)" 0.03
# The times that calibrate measures here: a simulation finds every kind of task among them, by its footprint.
small='gpt2-nano --size layers=1,width=32,heads=2 --batch 4 --length 16 --clip 1'
# shellcheck disable=SC2086 # words
run calibrate $small --workers 1 --gpus 0 --samples 10 --quiet
times=$(find "${STARPU_HOME:-$HOME}" -name '*-1x1-times.json' | head -n 1)
printf '%s\n' 'name: here' 'source: measured' "times: $times" \
  'cpu: {cores: 1, numa_domains: 1, gflops: {fp32: 100}, efficiency: 1, memory_gigabytes: 4, gigabytes_per_s: 20, overhead_us: 3}' >here.yaml
# shellcheck disable=SC2086
run simulate $small --machine here.yaml --workers 1 --json
check 'every kind of task has a measured time' test "$(number_of kinds out)" -gt 20 -a "$(number_of kinds out)" = "$(number_of measured_kinds out)"
# Times vary as much as they were measured to vary: from step to step, but not from run to run.
varied() { # deviation, steps
  sed "s/\(\"cpu_deviation\": \)[-+0-9.e]*/\1$1/" "$times" >varied.json
  sed "s,^times: .*,times: $work/varied.json," here.yaml >varied.yaml
  # shellcheck disable=SC2086
  run simulate $small --machine varied.yaml --workers 1 --steps "$2" --json
}
check 'calibrate keeps deviations' test "$(grep -c cpu_deviation "$times")" -gt 20
varied 0 1
mean=$(number_of step_s out)
varied 0 41
check 'without deviations, all steps take the same time' close_to "$(number_of step_s out)" "$mean" 1e-4
varied 0.5 41
grep -v process_peak_bytes out >first
check 'with deviations, the median step is near that of the means' close_to "$(number_of step_s out)" "$mean" 0.1
check 'but it is another one' test "$(number_of step_s out)" != "$mean"
varied 0.5 41
grep -v process_peak_bytes out >second
check 'a second simulation gives the same' cmp second first
# Each policy needs its own time to start a task.
# shellcheck disable=SC2086
run calibrate $small --workers 1 --gpus 0 --samples 10 --sched dmda --json
check 'calibrate shows the policy' grep -q '"sched": "dmda"' out
check 'and its time to start a task' sh -c 'echo "$1" | awk "{ exit !(\$1 > 1e-7 && \$1 < 0.1) }"' - "$(number_of start_s out)"
check 'times keep those of both policies' sh -c 'grep -q "\"lws\": " "$1" && grep -q "\"dmda\": " "$1"' - "$times"
sed 's/\("cpu_deviation": \)[-+0-9.e]*/\10/; s/\("dmda": \)[-+0-9.e]*/\10.001/' "$times" >slow.json
sed "s,^times: .*,times: $work/slow.json," here.yaml >slow.yaml
for policy in lws dmda; do
  # shellcheck disable=SC2086
  run simulate $small --machine slow.yaml --workers 1 --sched $policy --json
  number_of step_s out >step.$policy
done
check 'a simulation takes that of its policy' \
  close_to "$(cat step.dmda)" "$(awk -v tasks="$(number_of tasks out)" '{ print $1 + 0.001 * tasks }' step.lws)" 0.02
# A real run plans its memory without measured times, so a simulation does, too.
peak_of() { # machine
  run simulate lenet --batch 64 --shards 8 --workers 2 --machine "$1" --steps 1 --json
  number_of predicted_peak_bytes out
}
run calibrate lenet --batch 64 --shards 8 --workers 2 --gpus 0 --samples 10 --quiet
lenet=$(find "${STARPU_HOME:-$HOME}" -name '*-2x1-times.json' | head -n 1)
sed "s/cores: 1/cores: 2/; s,^times: .*,times: $lenet," here.yaml >lenet.yaml
awk '/"cpu_s"/ && n++ % 3 == 0 { sub(/: [-+0-9.e]*/, ": 0.01") } { print }' "$lenet" >odd.json
sed "s,^times: .*,times: $work/odd.json," lenet.yaml >odd.yaml
peak_of lenet.yaml >peak.lenet
step=$(number_of step_s out)
peak_of odd.yaml >peak.odd
check 'other times of tasks, other steps' test "$(number_of step_s out)" != "$step"
check 'but the same plan of the memory' cmp peak.lenet peak.odd
sed 's/cores: 1/cores: 2/' here.yaml >team.yaml
# shellcheck disable=SC2086
run simulate $small --machine team.yaml --workers 1 --threads-per-worker 2 --json
check 'times of single cores are none of teams' test "$(number_of measured_kinds out)" = 0
check 'a warning says so' grep -q 'times are those of CPU workers with 1 thread' err
check 'no temporary folder is left' test -z "$(ls "$TMPDIR")"
"$starling" compare gpt2 --machine vm-2 --steps 100000 --json >out 2>err &
job=$!
check 'compare: it simulates' wait_while $job sh -c 'ls "$TMPDIR"/starling-simulation.*/* | grep -q xml'
kill -TERM $job
code=0
wait $job || code=$?
check 'SIGTERM ends a comparison with exit code 130' test $code = 130
check 'and its simulation' wait_until sh -c 'test -z "$(ls "$TMPDIR")"'
for signal in INT TERM; do
  "$starling" simulate gpt2 --machine vm-2 --steps 100000 --json >out 2>err &
  job=$!
  check "SIG$signal: it runs" wait_while $job sh -c 'ls "$TMPDIR"/starling-simulation.*/* | grep -q xml'
  sleep 0.5
  kill -$signal $job
  code=0
  wait $job || code=$?
  check "SIG$signal: ends it" test $code -gt 128
  check "SIG$signal: no temporary folder is left" test -z "$(ls "$TMPDIR")"
done
STARLING_SIM=$work/nowhere
expect 'without the program' 1 'nowhere: No such file' simulate lenet --machine vm-2
finish
