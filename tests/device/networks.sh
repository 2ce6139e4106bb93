#!/bin/sh
# The same bits on CPUs and GPUs: a small network of each family gives the same model, byte for byte, on any processors,
# under any policy, with any delays on the devices (with seed 1 a device also works only when it is waited for), and
# with any number of devices and ranks. 36 runs cover all pairs of these choices and of the families. COMBINATIONS=all:
# runs all combinations, for each of FAMILIES, but no command twice (a run on CPUs knows no devices). SAMPLE=N: runs N
# of the combinations, drawn with SEED (default: the time). STEPS: number of steps of each run (20).
. "$(dirname "$0")/training.shlib"
steps=${STEPS:-20}
# One line each: policy, family, processors, seed of delays, devices, ranks. The tables shift what sums modulo 3 would
# repeat; tried out, these leave the fewest pairs to runs on CPUs alone.
awk -v all="${COMBINATIONS:-}" -v families="${FAMILIES:-$families}" 'BEGIN {
  policies = split("eager lws dmda dmdas heteroprio random", policy)
  n = split(families, family)
  split("cpu gpu both", processors); split("0 1 2", seed); split("1 2 4", devices); split("1 2 3", ranks)
  if (all != "") {
    for (f = 1; f <= n; f++) for (p = 1; p <= policies; p++) for (i = 0; i < 81; i++)
      print policy[p], family[f], processors[i % 3 + 1], seed[int(i / 3) % 3 + 1], devices[int(i / 9) % 3 + 1], ranks[int(i / 27) + 1]
    exit
  }
  split("0 1 1 0", a); split("0 0 0 1", b); split("0 0 2 1", c)
  for (p = 0; p < 6; p++) for (f = 0; f < 6; f++) {
    k = 2 * int(p / 3) + int(f / 3) + 1
    print policy[p + 1], family[f % n + 1], processors[(p + f + a[k]) % 3 + 1], seed[(p + 2 * f) % 3 + 1],
      devices[(p + f + b[k]) % 3 + 1], ranks[(p + 2 * f + c[k]) % 3 + 1]
  }
}' >combinations
if [ -n "${SAMPLE:-}" ]; then
  seed=${SEED:-$(date +%s)}
  echo "# a sample of $SAMPLE, SEED=$seed"
  awk -v seed="$seed" 'BEGIN { srand(seed) } { print rand(), $0 }' combinations | sort | head -n "$SAMPLE" | cut -d ' ' -f 2- >sample
  mv sample combinations
fi
# Each value of a column beside each of every other column.
every_pair() {
  awk '{ for (i = 1; i <= NF; i++) { value[i " " $i]; for (j = 1; j < i; j++) pair[i " " $i " " j " " $j] } }
    END {
      for (u in value) for (v in value) { split(u, x); split(v, y); if (y[1] < x[1] && !(u " " v in pair)) { print "no run has " u " and " v; missing = 1 } }
      exit missing || NR < 36
    }' combinations
}
if [ -n "${SAMPLE:-}" ]; then skip 'pairs: a sample'; else check "$(grep -c . combinations) runs cover all pairs" every_pair; fi

for family in ${FAMILIES:-$families}; do
  train_small "$family" 1 --steps "$steps" --gpus 0 --workers 1 --sched eager
  check "$family: the reference, one CPU worker" test $code = 0 -a -s run/model.safetensors
  digest >"$family.wanted"
done
repeated=0
: >commands
while read -r policy family processors seed devices ranks; do
  # Ranks divide the devices, so of three ranks one or two may have none; with GPUs only, each rank needs one.
  case $processors in
  cpu) workers='1 --gpus 0' ;;
  gpu) workers=gpu; [ "$devices" -ge "$ranks" ] || devices=$ranks ;;
  both) workers=1 ;;
  esac
  name="$family, $policy, $processors, seed $seed, $devices GPUs, $ranks ranks"
  if [ "$ranks" != 1 ] && ! [ -x "$MPIEXEC" ]; then
    skip "$name: no MPI launcher"
    continue
  fi
  # A task runs where the policy puts it, or where the plan has it.
  [ "$seed" != 0 ] || workers="$workers --placement plan"
  command="$family $policy $ranks $workers"
  [ "$processors" = cpu ] || command="$command $devices $seed"
  if grep -qxF -e "$command" commands; then
    repeated=$((repeated + 1))
    continue
  fi
  echo "$command" >>commands
  export EMULATED_DEVICES="$devices" EMULATED_SEED="$seed" EMULATED_LAZY=$((seed == 1))
  # shellcheck disable=SC2086 # words
  train_small "$family" "$ranks" --steps "$steps" --workers $workers --sched "$policy"
  same() {
    echo "exit code $code, $(digest), wanted $(cat "$family.wanted")"
    [ $code = 0 ] && [ "$(digest)" = "$(cat "$family.wanted")" ]
  }
  check "$name" same
done <combinations
all=$(($(grep -c . combinations) - repeated + 1 + $(set -- ${FAMILIES:-$families}; echo $#)))
check "all combinations ran" test "$number" = "$all"

# Folds that divide a vocabulary: operations that no network above has.
awk 'BEGIN { srand(1); for (i = 0; i < 9000; i++) printf "w%d %s", int(rand() * rand() * 3000), i % 12 ? "" : "\n" }' >words
"$starling" tokenize words --tokenizer train --vocabulary 520 --out tokens --quiet >out 2>err
export EMULATED_DEVICES=1 EMULATED_SEED=1 EMULATED_LAZY=0
divided() { # leaves, workers
  # shellcheck disable=SC2086 # words
  $limit "$starling" train gpt2-nano --size layers=1,width=16,heads=2 --data tokens --length 8 --batch 4 --leaves $1 --steps 3 --val-fraction 0 --folds 2 --smoothing 0.1 --quiet --force --stall-timeout 600 --out run --workers $2 >out 2>err
}
divided 2 '1 --gpus 0' && wanted=$(digest)
same() { divided "$1" "$2" && [ -n "$wanted" ] && [ "$(digest)" = "$wanted" ]; }
check 'a vocabulary in folds, on a GPU' same 2 gpu
check 'a vocabulary in folds, by policy' same 2 '1 --sched random'
# One leaf: only its folds can divide the work.
divided 1 '1 --gpus 0' && wanted=$(digest)
export EMULATED_DEVICES=2
check 'two GPUs divide the folds: the bits of a CPU' same 1 gpu
run trace run --format csv --out tasks.csv
# Layers' names have no commas here. Columns: 4 worker, 7 layer, 8 operation, 9 phase.
gpus_of() { awk -F, -v layer="\"$1\"" '$2 == "task" && $7 == layer { n += !seen[$4]++ } END { print n + 0 }' tasks.csv; }
for layer in h.0.attn.qkv h.0.mlp.fc head; do check "$layer is computed on both" test "$(gpus_of $layer)" = 2; done
check 'each has its rows of the vocabulary' test "$(gpus_of wte.weight@0/2)$(gpus_of wte.weight@1/2)" = 11
# Two stages with a GPU each, whose messages are in parts.
if [ -x "$MPIEXEC" ]; then
  for family in lenet gpt2; do
    train_small $family 1 --steps 3 --gpus 0 --workers 1
    wanted=$(digest)
    train_small $family 2 --steps 3 --mesh pipe=2 --workers gpu --pipe-parts 3
    check "$family, 2 stages, each shard in 3 messages" test "$code" = 0 -a "$(digest)" = "$wanted"
  done
else
  skip 'stages with a GPU each: no MPI launcher'
fi
finish
