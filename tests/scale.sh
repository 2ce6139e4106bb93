#!/bin/sh
# starling scale: figures agree with each other, with simulate and with figures computed by hand; a better network
# scales better; what-if, slow node, jitter and lost node have the effects that the page describes; two calls give the
# same output; errors; ranks of this machine.
. "$(dirname "$0")/support/command.shlib"
less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && b != "" && a + 0 < b + 0) }'; }
close_to() { awk -v a="$1" -v b="$2" -v by="$3" 'BEGIN { d = a / b - 1; exit !(d <= by && d >= -by) }'; } # numbers, relative difference
nth() { grep -oE "\"$1\": [-0-9.e+]+" "$3" | sed -n "$2s/.*: //p"; } # key, which, file: that number of the file

# ---- options
expect 'help lists its options' 0 '--what-if=KEY=VALUE' scale --help
expect 'neither machine nor ranks' 2 'give --machine NAME with --nodes to simulate, --ranks 1,2 to measure' scale mlp
expect 'nodes without a machine' 2 '--nodes is simulated: name a machine with --machine' scale mlp --nodes 1,2
expect 'a slow node of real ranks' 2 '--slow-node is simulated' scale mlp --ranks 1,2 --slow-node 2
expect 'a machine and ranks' 2 'give one of them' scale mlp --machine vm-2 --ranks 1,2
expect 'no node' 2 "'0' must be a whole number from 1 to 65536" scale mlp --machine vm-2 --nodes 0
expect 'numbers that descend' 2 'the numbers must ascend' scale mlp --machine vm-2 --nodes 2,1
expect 'an unknown machine' 2 'no-such-machine' scale mlp --machine no-such-machine
expect 'an unknown model' 2 "no model 'mpl'.*'mlp'" scale mpl --machine vm-2
expect 'a key that no machine has names one' 2 "no number of a machine is called 'network.latnecy_us'.*network.latency_us" \
  scale mlp --machine vm-2 --what-if network.latnecy_us=2x
expect 'and lists all' 2 'there are cpu.cores, .*price.node_hour' scale mlp --machine vm-2 --what-if nothing=1
expect 'a value out of range' 2 'cpu.efficiency .* from 0.001 to 1' scale mlp --machine vm-2 --what-if cpu.efficiency=7
expect 'a key of another topology' 2 "network.groups=64: the network of machine 'dgx-a100' is of another topology, without network.groups" \
  scale mlp --machine dgx-a100 --nodes 1,2 --what-if network.groups=64
expect 'a batch too small for the nodes' 2 'a batch of 8 has no sample for each of 16 leaves' scale mlp --machine vm-2 --nodes 1,16 --batch 8
expect 'a batch that does not grow by whole numbers' 2 'does not grow to a whole number for 3: give a multiple of 2' scale mlp --machine vm-2 --nodes 2,3 --weak --batch 33
expect 'a measurement has no place in a simulation' 2 '--allreduce is for measurements, and --machine simulates' scale mlp --machine vm-2 --allreduce mpi
expect 'a lost node needs checkpoints' 2 '--checkpoint-minutes more than 0' scale mlp --machine vm-2 --lost-node --checkpoint-minutes 0
expect 'hosts of a simulation' 2 '--hosts is for measurements, and --machine simulates' scale mlp --machine vm-2 --hosts a,b
expect 'more ranks than the hosts have' 2 '--ranks 4: --hosts a:2,b has 3 ranks; NAME:N gives' scale mlp --hosts a:2,b --ranks 1,4
expect 'a host that ssh takes for an option' 2 "'-oProxyCommand=x' begins with '-'" scale mlp --hosts -oProxyCommand=x
expect 'an mpiexec that is not there' 2 'there is no program /nowhere' scale mlp --ranks 1,2 --mpiexec /nowhere

# ---- ranks of this machine
if command -v mpiexec.mpich >/dev/null || command -v mpiexec >/dev/null; then
  run scale mlp --ranks 1,2 --workers 1 --threads-per-worker 1 --steps 5 --batch 64 --json --out real
  check 'ranks 1 and 2 are measured' test "$code" = 0
  check 'a table of two' test "$(grep -c '"speedup"' out)" = 2
  check 'measured, not simulated' grep -q '"simulated": false' out
  check 'the first has an efficiency of 1' test "$(nth efficiency 1 out)" = 1.0
  check 'samples/s are batch over step' close_to "$(nth samples_per_s 2 out)" "$(awk -v s="$(nth step_s 2 out)" 'BEGIN { printf "%.12g", 64 / s }')" 1e-6
  check 'two ranks exchange' less 0 "$(nth exchange_s 2 out)"
  check 'page and table are there' test -s real/scale.html -a "$(grep -c '^0,' real/scale.csv)" = 2
  # An mpiexec that says which hosts it was given.
  printf '#!/bin/sh\necho "$@" >>"%s/calls"\nwhile [ "$1" != -n ]; do shift; done\nexec %s "$@"\n' "$work" "$(command -v mpiexec.mpich || command -v mpiexec)" >by
  chmod +x by
  run scale mlp --hosts a:2,b --mpiexec ./by --workers 1 --threads-per-worker 1 --steps 3 --batch 66 --price 3
  check 'hosts: 1, 2 and all of their ranks' test "$code" = 0 -a "$(grep -cE '^ +[123] +[12] ' "$work/out")" = 3
  check 'one rank is on the first host, two fill it, the third is on the next' \
    test "$(sed -n '/ bench /s/ -n.*//p' calls | tr '\n' ' ')" = '-hosts a:1 -hosts a:2 -hosts a:2,b:1 '
  check 'the price is that of the hosts that are used' awk '$1 ~ /^[123]$/ { cost[$1] = $NF; ms[$1] = $3; hosts[$1] = $2 }
    END { for (i in cost) if (cost[i] < 0.98 * hosts[i] * ms[i] / 3600 / 66 * 3 || cost[i] > 1.02 * hosts[i] * ms[i] / 3600 / 66 * 3) exit 1; exit length(cost) != 3 }' "$work/out"
  printf '#!/bin/sh\n[ "$2" != b ] || exit 1\n' >deaf
  chmod +x deaf
  expect 'a host on which nothing starts' 1 "--hosts: mpiexec starts nothing on b within 20 s; try 'ssh HOST true'" scale mlp --hosts a:2,b --mpiexec ./deaf
  expect 'what bench refuses is told' 2 'unknown scheduling policy' scale mlp --ranks 1,2 --sched no-such --steps 1
else
  skip 'ranks of this machine: no mpiexec'
fi

# ---- simulations
sim=${STARLING_SIM:-$(dirname "$starling")/../build-simulated/starling-sim}
if [ ! -x "$sim" ]; then
  skip "simulations: no $sim (./quickstart simulate builds it)"
  finish
fi
STARLING_SIM=$sim
export STARLING_SIM
machine() { # name, latency in us, GB/s, further lines
  cat <<END
name: $1
source: made up
cpu: {cores: 4, numa_domains: 1, gflops: {fp32: 100}, efficiency: 1, memory_gigabytes: 64, gigabytes_per_s: 4e5, overhead_us: 0.001$4}
network: {latency_us: $2, gigabytes_per_s_per_rank: $3, gigabytes_per_s_per_node: $3, topology: star}
END
}
machine slow 100 0.01 '' >slow.yaml
machine fast 0.001 1e6 ', watts: 100, idle_watts: 50' >fast.yaml
printf 'price: {node_hour: 3.6, currency: EUR}\n' >>fast.yaml

run scale mlp --machine slow.yaml --nodes 1,2,4 --workers 1 --batch 512 --json
cp out slow
check 'three counts' test "$code" = 0 -a "$(grep -c '"speedup"' slow)" = 3
check 'one node has an efficiency of 1' test "$(nth efficiency 1 slow)" = 1.0
check 'and no exchange' test "$(nth exchange_s 1 slow)" = 0.0
awk '/"losses_s"/ { inside = 1; sum = 0 } inside && /": / { v = $2; gsub(/[,}]/, "", v); sum += v } /}/ { if (inside) s[++n] = sum; inside = 0 }
  /"step_s"/ { v = $2; gsub(/,/, "", v); t[++m] = v }
  END { split("1 2 4", c, " "); for (i = 1; i <= 3; i++) { e = t[i] - t[1] / c[i]; d = s[i] - e; if (d > 0.01 * t[i] || d < -0.01 * t[i]) bad = 1 } exit bad || n != 3 || m != 3 }' slow &&
  ok 'losses add up to what a step takes more than in ideal scaling' || not_ok 'losses add up to what a step takes more than in ideal scaling'
check 'it stops paying at 2 nodes' grep -q '"stops_paying": 2' slow
check 'because of the exchange' grep -q 'in exchanges that no task hides' slow
run simulate mlp --machine slow.yaml --nodes 2 --leaves 4 --workers 1 --batch 512 --json
check 'a step is that of simulate' test "$(nth step_s 2 slow)" = "$(nth step_s 1 out)"

# At 1 MB/s and next to no latency, kernels and the number of buckets do not count: reduce-scatter and allgather between
# two nodes send each parameter once, 4 bytes each.
machine narrow 0.001 0.001 '' >narrow.yaml
parameters=$((784 * 1024 + 1024 + 1024 * 1024 + 1024 + 1024 * 10 + 10)) # of the mlp
run scale mlp --machine narrow.yaml --nodes 2 --workers 1 --batch 64 --json
check 'the exposed exchange is bytes over bandwidth' close_to "$(nth exchange_s 1 out)" "$(awk -v p=$parameters 'BEGIN { printf "%.12g", 4 * p / 1e6 }')" 0.005

run scale mlp --machine fast.yaml --nodes 1,2,4 --workers 1 --batch 512 --json
cp out fast
check 'a network without limits scales better' less "$(nth efficiency 3 slow)" "$(nth efficiency 3 fast)"
check 'nearly ideally' less 0.8 "$(nth efficiency 3 fast)"
check 'energy of a node with one busy core of four: 62.5 W' close_to "$(nth step_j 1 fast)" "$(awk -v s="$(nth step_s 1 fast)" 'BEGIN { printf "%.12g", 62.5 * s }')" 0.02
check 'cost of 1000 samples at the price of the file' close_to "$(nth cost_of_1000 2 fast)" "$(awk -v s="$(nth step_s 2 fast)" 'BEGIN { printf "%.12g", 2 * 3.6 / 3600 * s / 512 * 1000 }')" 1e-6
run scale mlp --machine fast.yaml --nodes 1,2 --workers 1 --batch 512 --price 7.2 --json
check '--price overrides it' close_to "$(nth cost_of_1000 2 out)" "$(awk -v c="$(nth cost_of_1000 2 fast)" 'BEGIN { printf "%.12g", 2 * c }')" 0.1

run scale mlp --machine slow.yaml --nodes 1,2,4 --workers 1 --batch 128 --weak --json
check 'weak scaling: the batch grows' test "$(nth batch 3 out)" = 512 -a "$(nth leaves 3 out)" = 4
check 'kernels take as long on each count' close_to "$(nth kernels 5 out)" "$(nth kernels 1 out)" 0.02

for i in 1 2; do
  "$starling" scale mlp --machine dgx-a100 --nodes 1,2 --batch 64 --what-if network.bandwidth=2x --jitter 5 --lost-node --json >same$i 2>>err
done
check 'the same output, byte for byte' cmp same1 same2

# ---- what-if
run scale mlp --machine slow.yaml --nodes 1,2 --workers 1 --batch 512 --what-if network.bandwidth=1x --json
check 'a bandwidth of 1x changes nothing' test "$(nth ratio 1 out)" = 1.0 -a "$(nth ratio 2 out)" = 1.0
run scale mlp --machine slow.yaml --nodes 1,2 --workers 1 --batch 512 --what-if network.bandwidth=10x --json
check 'ten times the bandwidth makes two nodes faster' less "$(nth ratio 2 out)" 0.9
check 'and one node none' test "$(nth ratio 1 out)" = 1.0
expect 'a table of both' 0 '^Changed: network.bandwidth=10x' scale mlp --machine slow.yaml --nodes 1,2 --batch 512 --what-if network.bandwidth=10x
step=$(number_of step_s slow)
run simulate mlp --machine slow.yaml --leaves 4 --workers 1 --batch 512 --what-if cpu.gflops.fp32=2x --json
check 'simulate takes it too' less "$(number_of step_s out)" "$(awk -v s="$step" 'BEGIN { printf "%.12g", 0.7 * s }')"

# ---- a slow node, jitter, a lost node
run scale mlp --machine slow.yaml --nodes 1,2 --workers 1 --batch 512 --slow-node 2 --json
check 'a node that is half as fast takes twice as long' close_to "$(nth ratio 1 out)" 2 0.01
check 'two nodes wait for it' less 1.01 "$(nth ratio 2 out)"
check 'the exchange itself is not slower' less "$(nth ratio 2 out)" 1.95
run simulate mlp --machine fast.yaml --nodes 2 --workers 1 --batch 512 --leaves 2 --slow-node 2 --json
check "the slow node's core is busy (62.5 W), the other node's for half of the time" close_to "$(number_of step_j out)" "$(awk -v s="$(number_of step_s out)" 'BEGIN { printf "%.12g", 118.75 * s }')" 0.02
run scale mlp --machine fast.yaml --nodes 1,2 --workers 1 --batch 512 --jitter 10 --json
check 'one rank waits for none' test "$(nth ratio 1 out)" = 1.0
check 'two wait for the slower: 10% of 1 / sqrt(pi)' close_to "$(nth ratio 2 out)" 1.0564 0.002
run scale mlp --machine fast.yaml --nodes 1,3 --workers 1 --batch 512 --lost-node --checkpoint-minutes 4 --json
cp out lost
left=$(nth samples_per_s 3 lost) # that of one node is null
run simulate mlp --machine fast.yaml --nodes 2 --leaves 3 --workers 1 --batch 512 --json
check 'what is left is the throughput of one node less' close_to "$left" "$(nth samples_per_s 1 out)" 1e-6
check 'two minutes of work are lost in the mean' close_to "$(nth lost_samples 2 lost)" "$(awk -v r="$(nth samples_per_s 2 lost)" 'BEGIN { printf "%.12g", 120 * r }')" 1e-6
expect 'in words' 0 'Of 3 nodes one lost: .* on 2, .*2 of 4 minutes in the mean' scale mlp --machine fast.yaml --nodes 1,3 --batch 512 --lost-node --checkpoint-minutes 4

# ---- a count that cannot be, and files
expect 'a count without figures has its reason' 0 '^ +2  no figures: machine .laptop-gpu. has no' scale lenet --machine laptop-gpu --nodes 1,2
run scale gpt2 --size layers=2,width=64,heads=2 --machine dgx-a100 --nodes 1,2 --batch 16 --ranks-per-node 2 --out out.d
check 'tokens/s of a language model' grep -q 'tokens/s' out
check 'ranks of all nodes' grep -qE '^ +2 +4 ' out
check_json 'scale.json is JSON' out.d/scale.json
check 'scale.csv has a row for each count' test "$(wc -l <out.d/scale.csv)" = 3
check 'all rows have as many fields' test "$(awk -F, '{ print NF }' out.d/scale.csv | sort -u | wc -l)" = 1
check 'scale.html has verdict, plots and command' test "$(grep -c '<svg' out.d/scale.html)" = 2 -a "$(grep -c 'starling scale gpt2 --size' out.d/scale.html)" = 1
finish
