#!/bin/sh
# Emulated GPUs among the workers: choice of workers (--workers), times of tasks on GPUs, calibration, values that are
# not finite. Runs in a build for emulated GPUs (docs/how-to/emulated-gpus.md).
. "$(dirname "$0")/../support/command.shlib"
export EMULATED_DEVICES=1 EMULATED_SEED=0 STARPU_SUBALLOCATOR=0
for workers in 1x 0 -3 gpus ''' '''; do
  expect "--workers '$workers'" 2 'give cpu, gpu, both, auto or a number of CPU workers' bench mlp --workers "$workers"
done
expect '--workers cpu with GPUs' 2 'workers cpu uses no GPU' bench mlp --workers cpu --gpus 1
expect '--workers gpu without' 2 'workers gpu needs a GPU' bench mlp --workers gpu --gpus 0
if ! "$starling" info --json --no-measure 2>/dev/null | grep -q '"gpus": 1'; then
  expect 'no GPU' 1 'only GPUs may compute, but rank 0 has no GPU' bench mlp --workers gpu
  skip 'the rest needs a build for emulated GPUs'
  finish
fi
EMULATED_MEMORY=512 "$starling" info --no-measure >out 2>err
check 'info says whether MPI takes GPU memory' grep -qE '^MPI .*; takes GPU memory: (yes|no)$' out
check 'info describes the GPU' grep -qE '^GPU 0 .* at 0000:e0:00.0: 0.5 GB, 1 multiprocessors, compute capability [0-9]+\.[0-9], .*host to GPU [0-9.]+ GB/s' out
# run-program leaves give_way.so out under the thread sanitizer; this program only calls functions of such names.
check 'threads that have nothing to do give way' sh -c 'echo "${LD_PRELOAD-}" | grep -q give_way'
at_least() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a >= b) }'; }
same_bytes() { awk -v all="$1" -v steps="$2" -v each="$3" 'BEGIN { d = all / steps - each; exit !(d * d <= 1) }'; }
small='mlp --size hidden=64 --batch 32 --steps 8'

digest=
for workers in cpu gpu both 1 auto; do
  # shellcheck disable=SC2086
  run bench $small --workers $workers --json
  cp out "$workers.json"
  [ -n "$digest" ] || digest=$(grep state_digest out)
  check "--workers $workers: the bits of CPUs" test "$(grep state_digest out)" = "$digest"
done
check 'gpu: no CPU worker' grep -q '"workers": 0' gpu.json
check 'cpu: no GPU' grep -q '"gpus": 0' cpu.json
check 'both: a GPU beside the CPUs' sh -c "grep -q '\"gpus\": 1' both.json && ! grep -q '\"workers\": 0' both.json"
for how in '' '--sched dmdas'; do
  # shellcheck disable=SC2086
  run bench $small $how --json
  cp out "default${how#--sched }.json"
done
check 'with a GPU and no option: no CPU worker, as with gpu' grep -q '"workers": 0' default.json
check 'with a policy: both' sh -c "grep -q '\"gpus\": 1' defaultdmdas.json && ! grep -q '\"workers\": 0' defaultdmdas.json"
STARPU_NCPU=1 run bench mlp --size hidden=64 --batch 32 --steps 2 --json
check 'STARPU_NCPU=1: one CPU worker' grep -q '"workers": 1' out
# A kernel of the emulated device takes milliseconds, its launch microseconds.
check 'tasks on the GPU have the times of their kernels' at_least "$(number_of kernel_percent gpu.json)" 30
# shellcheck disable=SC2086
expect 'auto says what it measured' 0 'choice  *a step takes [0-9.e+-]* ms on GPUs, [0-9.e+-]* on CPUs, .*: (CPUs|both) compute from here on' bench $small --workers auto

# shellcheck disable=SC2086
run bench $small --workers 1 --out timed --json
moved=$(number_of moved_bytes out)
check 'data move' at_least "$moved" 1
expect 'trace names the links' 0 '^  moved .* MB   a step from memory 0 to 1, in [0-9.]+ copies' trace timed
check 'and the operations that read them' grep -Eq '^  of these .* MB   a step for [a-z_ ]+, in [0-9.]+ copies' out
run trace timed --json
bytes=$(grep -o '"bytes": [0-9]*' out | awk '{ n += $2 } END { print n }')
for_tasks=$(grep -o '"moved_bytes": [0-9]*' out | awk '{ n += $2 } END { print n }')
check 'bytes by operation add up to the same' test "$for_tasks" = "$bytes"
for_none=$(tr -d '\n' <out | grep -o '"operation": "", *"copies": [0-9]*, *"moved_bytes": [0-9]*' | grep -o '[0-9]*$')
check 'most are for tasks' at_least "$bytes" "$((2 * ${for_none:-0}))"
check 'products are among them' grep -Eq '"operation": "linear(_dw|_dx)?"' out
check 'the copies that it has are what the bus has counted' same_bytes "$bytes" "$(number_of steps out)" "$moved"
run report timed --json
check 'a report has them, a row for each direction' test "$(grep -o '"copies, memory [01] to [01]"' out | sort | uniq -c | awk '{ n += $1 } END { print n }')" = 2
check 'and says which operations they were for' sh -c "grep -Eq '\"moved_bytes\": *[1-9]' out"
run trace timed --format chrome --out trace.json
check 'a trace for browsers has them on tracks of their own' grep -q 'copies, memory 0 to 1' trace.json

# Two GPUs: placement by plan is the default, and changes no bit.
EMULATED_DEVICES=2
expect 'info measures the link between two GPUs' 0 '^GPU 1 .*; to other GPUs [0-9.]*[1-9]' info --no-measure
# shellcheck disable=SC2086
for placement in plan policy ''; do
  run bench $small --leaves 4 --shards 4 --workers gpu ${placement:+--placement $placement} --out placed --json
  cp out "placed-$placement.json"
  run trace placed --format csv --out "placed-$placement.csv"
done
check 'plan, policy and neither: the same bits' test "$(grep -h state_digest placed-*.json | sort -u | wc -l)" = 1
# Tasks that ran on another GPU than in the step before. Layers have no commas here.
moves() { awk -F, '$2 == "task" { if ($6 in on && on[$6] != $4) n++; on[$6] = $4 } END { print n + 0 }' "$1"; }
check 'by plan each task has its GPU' test "$(grep -c ',task,' "placed-plan.csv")" -gt 100 -a "$(moves placed-plan.csv)" = 0
check 'which is the default with two' test "$(moves placed-.csv)" = 0
check 'a policy moves tasks' test "$(moves placed-policy.csv)" -gt 0
EMULATED_DEVICES=1

run calibrate mlp --size hidden=64 --batch 32 --workers 1
check 'calibrate samples CPU and GPU' test $code = 0
check 'as many kinds of tasks on each' test "$(grep -c ' CPU  *[0-9]' out)" = "$(grep -c ' GPU  *[0-9]' out)"
check 'more than ten' test "$(grep -c ' GPU  *[0-9]' out)" -gt 10
run info --workers 1
run bench mlp --size hidden=64 --batch 32 --steps 2 --workers 1 --sched dmda --json
check 'with the speeds of CPUs and GPUs known, a step is predicted' at_least "$(number_of predicted_step_s out)" 0.00001
fast() { run bench mlp --size hidden=64 --batch 32 --steps 2 --workers 1 --gpu-kernels "$1" --json; }
for kernels in fast tf32; do
  fast $kernels
  check "$kernels kernels are not predicted by times of others" test "$(number_of calibrated_percent out | cut -d. -f1)" = 0
  run calibrate mlp --size hidden=64 --batch 32 --workers 1 --gpu-kernels $kernels
  fast $kernels
  check 'but by their own' at_least "$(number_of calibrated_percent out)" 50
done
run bench mlp --size hidden=64 --batch 32 --steps 2 --workers 1 --sched dmda --json
check 'dmda finds models of every kind' test -n "$(number_of kinds out)" -a "$(number_of kinds out)" = "$(number_of calibrated out)"

expect 'compare: CPUs and a GPU' 0 'dmda' compare mlp --size hidden=64 --batch 32 --steps 2 --repetitions 3 --policies eager,lws,dmda,dmdas,heteroprio --workers 1 --out compared
shares_of_bound() { grep -o '"of_bound": [0-9.]*' compared/compare.json | awk '$2 <= 0 || $2 > 1 { bad = 1 } END { exit bad || NR < 5 }'; }
check 'no policy is below the bound of both kinds' shares_of_bound

# A device with the times of given rates: a step takes at least as long as its largest kernel.
export EMULATED_TIMES="$work/times"
for rate in 100 0.02; do # the first fills the file
  # shellcheck disable=SC2086
  EMULATED_TIMED=$rate run bench $small --workers gpu --json
  check "kernels timed at $rate GHz" test $code = 0
  [ "$rate" = 0.02 ] || filled=$(grep -c . times)
done
check 'kernels of known sizes do not run again, wherever their data lie' test "$(grep -c . times)" -le $((filled + filled / 4))
largest=$(awk '$2 > most { most = $2 } END { print most / 0.02e9 }' times)
check 'the largest kernel takes a twentieth of a second at this rate, or more' at_least "$largest" 0.05
check 'and a step as long' at_least "$(number_of step_s out)" "$largest"

if [ -n "${MPIEXEC-}" ]; then
  divided() { # devices, then the numbers of GPUs of two ranks, and how many different GPUs they have
    EMULATED_DEVICES=$1 $limit "$MPIEXEC" -n 2 "$starling" info --no-measure --json >out 2>err || return 1
    [ "$(grep -o '"gpus": [0-9]*' out | grep -o '[0-9]*$' | tr '\n' ' ')" = "$2 " ] &&
      [ "$(grep -o '"address": "[^"]*"' out | sort -u | wc -l)" = "$3" ]
  }
  check 'two ranks have a GPU each' divided 2 '1 1' 2
  check 'of three GPUs one rank has two' divided 3 '1 2' 3
  check 'or they share the only one' divided 1 '1 1' 1
  code=0
  # shellcheck disable=SC2086
  $limit "$MPIEXEC" -n 2 "$starling" bench $small --leaves 4 --workers 1 --balance auto >out 2>err || code=$?
  check 'two ranks that share a GPU, leaves by measurement' grep -q '^balance .*a leaf takes .* ms on ranks 0 to 1' out
  # Unequal GPUs: the kernels of rank 1's take a tenth of the time. 16 leaves are worth being divided anew.
  code=0
  # shellcheck disable=SC2086
  $limit "$MPIEXEC" -n 1 env EMULATED_TIMED=0.01 "$starling" bench $small --batch 32 --leaves 16 --workers gpu --balance auto : \
    -n 1 env EMULATED_TIMED=0.1 "$starling" bench $small --batch 32 --leaves 16 --workers gpu --balance auto >out 2>err || code=$?
  check 'two ranks of unequal GPUs: the faster one gets more leaves' \
    awk '/^balance / && match($0, /[0-9]+, [0-9]+ leaves in place of 8, 8/) { split(substr($0, RSTART), leaves, /[, ]+/); found = leaves[1] + leaves[2] == 16 && leaves[2] > 2 * leaves[1] } END { exit !found }' out
else skip 'no MPI launcher'; fi

make_set data 96 32 8 3
expect 'a loss that is not finite: the operation on the GPU' 1 "step [0-9]+: the first value that is not finite comes from operation [a-z0-9_]+ of layer '" \
  train mlp --size hidden=64 --data data --batch 32 --optimizer sgd --learning-rate 1e30 --steps 20 --workers gpu --out bad

# Energy of GPUs, by a stand-in for NVML whose counter grows by 2 J at each look.
cat >nvml.c <<'end'
static int card;
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **device) { return *device = &card, !*address; }
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *energy) {
  static unsigned long long looks;
  return *energy = 2000 * ++looks, device != &card;
}
const char *nvmlErrorString(int code) { return code ? "error" : "none"; }
end
if ${CC:-cc} -shared -fPIC nvml.c -o libnvidia-ml.so.1 2>err; then
  energy() { LD_LIBRARY_PATH=$work${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} EMULATED_DEVICES=1 run "$@"; }
  network='mlp --size layers=2,hidden=24 --batch 12 --workers 1 --gpus 1 --steps 4'
  # shellcheck disable=SC2086 # words
  energy bench $network --json
  check 'bench: joules of a GPU, 2 in 4 steps' grep -q '"gpu_j": 0\.5' out
  # shellcheck disable=SC2086
  energy compare $network --policies eager --repetitions 3 --priorities on --json
  check 'compare: they are part of the energy of a policy' awk '/"energy_j":/ && $2 + 0 >= 0.5 { found = 1 } END { exit !found }' out
  told() { grep -q '"package_j"' out || grep -q '"part_energy": "of the GPUs only: no RAPL' out || grep -q '"part_energy": null' out; }
  check 'and where nothing is known of the packages, compare says so' told
else
  skip 'energy of GPUs: no compiler'
fi
finish
