#!/bin/sh
# Random combinations of train's options. The options of a plan (model, precision, optimizer, leaves, accumulation, ways
# to exchange, ...) are trained twice, with random options that must not change the bits (ranks, mesh, ZeRO, workers,
# teams, policy, kernels, recomputation, state on disk, ...); the second time in two parts, the second of which resumes
# with others. Every start must either train or be refused: exit code 2, and a message. The models must be the same.
# COMBINATIONS: how many (6); STEPS of each (4); SEED draws others.
. "$(dirname "$0")/support/command.shlib"
. "$top/tests/support/ranks.shlib"
seed=${SEED:-$(date +%s)} steps=${STEPS:-4}
echo "# SEED=$seed"
# The sets of kernels that this processor has and that give the same bits.
sets=''
for set in avx2 avx512; do ! grep -qw "$(echo $set | sed 's/512/512f/')" /proc/cpuinfo || sets="$sets $set"; done
draw() { # number of the draw: a line of the plan, then three lines of other options
  awk -v seed="$seed" -v draw="$1" -v sets="$sets" '
    function pick(n) { return int(rand() * n) }
    function of(list, n, word) { n = split(list, word, " "); return word[1 + pick(n)] }
    function maybe(share, text) { return rand() < share ? " " text : "" }
    # Options that must not change the bits, for the plan that is drawn. A resumed run keeps what no option replaces, so
    # each line names what another number of ranks would refuse.
    function other(text, data, pipe, tensor) {
      data = fixed ? fixed : of("1 1 2 2 3")
      pipe = tensor = 1
      if (!fixed && rand() < 0.4) {
        pipe = of("1 2")
        tensor = folds > 1 ? 1 + pick(folds) : 1
        if (pipe * tensor > 2) data = 1
      }
      text = "--ranks " data * pipe * tensor
      if (!fixed) text = text " --mesh data=" data ",pipe=" pipe ",tensor=" tensor " --zero " pick(4)
      if (pipe > 1) text = text maybe(0.7, "--pipe-order " of("1f1b gpipe zero-bubble eager-1f1b auto")) maybe(0.3, "--pipe-parts " 1 + pick(3))
      text = text " --workers " 1 + pick(3) maybe(0.3, "--threads-per-worker " 1 + pick(2)) maybe(0.8, "--sched " of("eager lws ws prio dmda dmdas random"))
      text = text maybe(0.4, "--recompute " of("none attention block")) maybe(0.3, "--offload disk:offload")
      if (!fixed) text = text " --balance " (data == 2 && micro == 1 && pipe * tensor == 1 ? of("even auto 3," leaves - 3) : "even")
      text = text maybe(0.2, "--verify-every " 1 + pick(2)) maybe(0.2, "--log-every " 1 + pick(3))
      if (kernels) text = text maybe(0.5, "--kernels " of(kernels))
      return text maybe(0.2, "--calibrate")
    }
    BEGIN {
      srand(seed + 7919 * draw)
      for (i = 0; i < 10 + draw % 100; i++) rand()
      family = of("mlp lenet resnet vit gpt2 bert words")
      text["mlp"] = "mlp --data data --size layers=" 2 + pick(3) ",hidden=" 8 + pick(60)
      text["lenet"] = "lenet --data data --size channels=" 2 + pick(6) ",hidden=" 8 + pick(20)
      text["resnet"] = "resnet8 --data data --size width=" 4 + pick(8) ",blocks=" of("1 1-1 2-1")
      text["vit"] = "vit-tiny --data data --size layers=" 1 + pick(2) ",width=" 8 * (1 + pick(4)) ",heads=" of("1 2 4") of(",patch=7,stem=0 ,patch=4,stem=4 ,patch=14,stem=0")
      text["gpt2"] = "gpt2-nano --data text --length " 4 + pick(13) " --size layers=" 1 + pick(2) ",width=" 8 * (1 + pick(8)) ",heads=" of("1 2 4")
      text["bert"] = "bert-nano --data text --length " 4 + pick(13) " --size layers=" 1 + pick(2) ",width=" 8 * (1 + pick(8)) ",heads=" of("1 2 4")
      text["words"] = "gpt2-nano --data tokens --length " 4 + pick(5) " --size layers=1,width=" 8 * (1 + pick(6)) ",heads=" of("1 2")
      images = family ~ /mlp|lenet|resnet|vit/
      precision = of("fp32 fp32 bf16 bf16 fp16")
      plan = text[family] " --precision " precision maybe(0.5, "--optimizer " of("sgd adam adamw lamb") " --learning-rate 0.005")
      plan = plan maybe(0.3, "--clip 0." 1 + pick(9)) maybe(0.2, "--decay 0.1") maybe(0.2, "--smoothing 0.1") maybe(0.3, "--dropout 0." 1 + pick(5))
      plan = plan " --rate-schedule " of("constant constant step:--rate-step:2") " --warmup " pick(3) maybe(0.2, "--row-blocks " 1 + pick(4))
      if (images) plan = plan maybe(0.3, "--augment " of("flip crop=2 crop=3,flip"))
      if (family == "resnet") plan = plan maybe(0.5, "--batchnorm " of("leaf global"))
      folds = (!images || family == "vit" || family == "mlp") && rand() < 0.5 ? 1 + pick(3) : 0
      micro = of("1 1 2 4"); leaves = micro == 4 ? 12 : of("8 8 12")
      plan = plan " --batch " of("24 48 25 29") " --leaves " leaves " --shards " leaves * (1 + pick(2)) " --micro-batches " micro
      if (precision != "fp32") plan = plan maybe(0.4, "--bf16-sums " of("pairs blocks"))
      else plan = plan maybe(0.15, "--products " of("own openblas"))
      plan = plan (folds ? " --folds " folds maybe(0.3, "--sequence-parallel on") : "")
      # Ways to exchange whose bits depend on the number of ranks.
      fixed = rand() < 0.3 ? 2 + pick(2) : 0
      if (fixed) plan = plan " " of("--compress=bf16 --compress=topk=0.1 --sync=local:2 --sync=diloco:2 --allreduce=mpi")
      # Without --bf16-sums, the order of sums in bf16 depends on the kernels.
      kernels = plan ~ /openblas/ || (precision == "bf16" && plan !~ /bf16-sums/) ? "" : sets
      gsub(/:--/, " --", plan)
      gsub(/step:2/, "step 2", plan)
      print plan " --seed " 1 + pick(100)
      for (way = 0; way < 3; way++) print other()
    }'
}
# Whether the command trained, or was refused as it should be.
settled() { [ "$code" = 0 ] || { [ "$code" = 2 ] && grep -q '^starling: ' err; }; }
train() { # options
  echo "starling train $*" >>commands
  rm -f out err
  run train "$@" --out several --val-fraction 0 --quiet
}
# A checksum of a model file without its header, which names the kernels.
tensors_of() { tail -c +$(($(od -An -tu8 -N8 "$1/model.safetensors" | tr -d ' ') + 9)) "$1/model.safetensors" | cksum; }
same_bits() { [ -s several/model.safetensors ] && [ "$(tensors_of reference)" = "$(tensors_of several)" ]; }

# Words: a vocabulary that is divided, and so few tokens that the gradients of its table are gathered.
awk 'BEGIN { srand(1); for (i = 0; i < 20000; i++) printf "w%d %s", int(rand() * rand() * 3000), i % 12 ? "" : "\n" }' >words
run tokenize words --tokenizer train --vocabulary 1100 --out tokens --quiet
i=0 compared=0
while [ $i -lt "${COMBINATIONS:-6}" ]; do
  i=$((i + 1)) refused=''
  : >commands
  mkdir offload
  draw $i >drawn
  {
    read -r plan
    read -r first
    read -r second
    read -r third
  } <drawn
  name="combination $i of seed $seed: $plan"
  # shellcheck disable=SC2086 # words, here and below
  for start in 1 2 3; do
    case $start in
    1) train $plan $first --steps "$steps" --force ;;
    2) train $plan $second --steps $((steps / 2)) --force ;;
    3) train --resume $third --steps "$steps" ;;
    esac
    settled || break
    if [ "$code" != 0 ]; then
      refused="$refused; $(head -n 1 err | cut -c1-110)"
      break
    fi
    [ $start != 1 ] || { rm -rf reference && mv several reference; }
  done
  if settled && [ -n "$refused" ]; then ok "$name: refused$refused"
  elif settled && compared=$((compared + 1)) && same_bits >>out 2>&1; then ok "$name: the same bits"
  else
    not_ok "$name"
    sed 's/^/#   /' commands
  fi
  rm -rf several offload
done
echo "# $compared of $i combinations were trained and compared"
check 'some are not refused' test $compared -gt 0
finish
