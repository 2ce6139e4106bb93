#!/bin/sh
# Machines: info lists the machines that come with Starling, prints one of them, checks a file and describes this
# machine. graph predicts a step on a machine. calibrate --network measures the network between ranks, and the results
# become part of the description. tests/ranks/netns.sh measures between hosts.
. "$(dirname "$0")/support/command.shlib"
STARPU_HOME=$work/home
export STARPU_HOME
unset STARPU_HOSTNAME
docs=$top/docs/reference/machines.md

expect 'info --machines' 0 '^dgx-a100 +128 +9\.22 +8 of 19\.5 TFLOP/s, 86 GB +192 GB/s' info --machines
sed -n '2,$s/^\([^ ]*\) .*/\1/p' out | grep -v '^Of' >names
check 'there are eight or more' test "$(grep -c . names)" -ge 8
listed() { while read -r name; do grep -qF "| \`$name\` |" "$docs" || { echo "$name"; return 1; }; done <names; }
check 'docs/reference/machines.md has them all' listed
expect 'info --machines --json' 0 '"name": "summit"' info --machines --json
check_json 'info --machines --json is JSON' out
expect 'info --machine NAME: its file, with the sources' 0 '^# NVIDIA DGX A100' info --machine dgx-a100
check 'as it is in the sources' cmp out "$top/tools/machines/dgx-a100.yaml"
expect 'info --machine FILE: as Starling understands it' 0 '^    fp32: 19500$' info --machine="$top/tools/machines/dgx-a100.yaml"
cp out a.yaml
# Each key stands in the reference: the last part of its path in the tables.
described() {
  for key in $(sed -n 's/^ *\([a-z_0-9]*\):.*/\1/p' a.yaml); do
    grep -qE "^(\| )?.*\`([a-z_]+\.)?$key[\`.]|^\`$key\`:" "$docs" || { echo "$key"; return 1; }
  done
}
check 'docs/reference/machines.md has every key' described
expect 'and understands what it prints' 0 '^name: dgx-a100' info --machine a.yaml
check 'which stays the same' cmp out a.yaml
sed 's/cores: 128/cores: 4/' a.yaml >b.yaml
expect 'a contradiction: file, line, key' 2 'b.yaml, line [0-9]+: cpu.numa_domains: 8 domains of 4 cores' info --machine b.yaml
expect 'a machine that is not there: the nearest' 2 "neither a machine that comes .* nor a file; did you mean 'dgx-h100'\?" info --machine dgx-h10
expect 'graph --machine: likewise' 2 "did you mean 'gh200'\?" graph mlp --machine gh20

expect 'graph --machine: all cores and GPUs of a node' 0 '^predicted step on 42 workers .* and 6 GPUs' graph mlp --machine summit
check 'the title names the machine' grep -q '; predicted for summit' out
expect 'or as many as are asked for' 0 '^predicted step on 2 workers .* and 1 GPUs' graph mlp --machine summit --workers 2 --gpus 1
expect 'not more' 2 'summit: it has 6 GPUs, fewer than --gpus 7' graph mlp --machine summit --gpus 7
expect 'not more cores either' 2 'vm-2: it has 2 cores: too few for 3 workers' graph mlp --machine vm-2 --workers 3
expect 'no GPUs where there are none' 2 'vm-2: it has no GPU for --workers gpu' graph mlp --machine vm-2 --workers gpu
sed -e 's/^name: .*/name: half/' -e 's/fp32: 224/fp32: 112/' -e 's/gigabytes_per_s: 20/gigabytes_per_s: 10/' -e 's/overhead_us: 3/overhead_us: 6/' \
  "$top/tools/machines/vm-2.yaml" >half.yaml
step_of() { "$starling" graph mlp --json "$@" 2>err | sed -n 's/^  "step_s": \([^,]*\),/\1/p'; }
whole=$(step_of --machine vm-2) half=$(step_of --machine half.yaml)
check 'a machine of half the speed takes twice as long' awk -v a="$whole" -v b="$half" 'BEGIN { exit !(a > 0 && b > 1.99 * a && b < 2.01 * a) }'
printf 'machine: half.yaml\n' >c.yaml
check 'the machine may come from a configuration' test "$(step_of --config c.yaml)" = "$half"

expect 'info --machine --no-measure without earlier measurements' 3 "leave out --no-measure" info --no-measure --machine
expect 'info --machine: this machine' 0 '^  gigabytes_per_s: [1-9]' info --machine
cp out this.yaml
expect 'which is a valid description' 0 '^  cores: [1-9]' info --machine this.yaml
check 'and complete' cmp out this.yaml
run info --no-measure --json
check 'it knows the cores' grep -q "^  cores: $(number_of cores_usable out)$" this.yaml
expect 'info --machine --no-measure after that' 0 '^    fp32: [1-9]' info --machine --no-measure
for file in out this.yaml; do sed 's/process_megabytes: [0-9]*$/process/' $file >$file.other; done
check 'gives the same' cmp out.other this.yaml.other
check "and about the same memory of a process" awk '/process_megabytes/ { x[++n] = $2 } END { exit !(n == 2 && x[1] > 0 && x[1] < 1.05 * x[2] && x[2] < 1.05 * x[1]) }' out this.yaml
step=$(step_of --machine this.yaml)
check 'graph predicts for it' test -n "$step"

expect 'calibrate without a model' 2 'usage: starling calibrate MODEL' calibrate
expect 'calibrate --network with a model' 2 "unexpected argument 'mlp'" calibrate mlp --network
expect 'calibrate --network on one rank' 2 'start this command by mpiexec' calibrate --network
if [ -n "${MPIEXEC-}" ]; then
  code=0
  $limit "$MPIEXEC" -n 2 "$starling" calibrate --network >out 2>err || code=$?
  check 'calibrate --network on two ranks' test $code = 0
  keys='network shared_memory gigabytes_per_s latency_us '
  [ "$(nproc)" -lt 2 ] || keys="${keys}cpu_gigabytes_per_s " # what a sum takes from a core: where each rank has its own
  check 'prints a section' test "$(sed -n 's/^ *\([a-z_]*\):.*/\1/p' out | tr '\n' ' ')" = "$keys"
  check 'with figures' grep -qE '^    gigabytes_per_s: [0-9]*\.?[0-9]*[1-9]' out
  cp out section
  expect 'which info --machine then has' 0 '^network:$' info --machine --no-measure
  sed -n '/^network:/,$p' out >part
  check 'with the same figures' cmp part section
  cp out this.yaml
  expect 'as a valid description' 0 '^network:$' info --machine this.yaml
  code=0
  $limit "$MPIEXEC" -n 3 "$starling" calibrate --network --json --workers 1 >out 2>err || code=$?
  check 'three ranks, of which one has no partner; --json' test $code = 0
  check_json 'calibrate --network --json is JSON' out
else
  for what in 'calibrate --network on two ranks' 'info --machine after it' 'three ranks'; do skip "$what: no MPI launcher"; done
fi
finish
