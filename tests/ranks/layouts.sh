#!/bin/sh
# One digest: random layouts of 1 to 8 ranks (data x pipe x tensor, stages of ZeRO, uneven leaves, orders of a pipeline,
# micro-batches, recomputation, workers, policies, with and without memory that the ranks share) give the model, the
# losses and the optimizer state of one rank, with dropout, tied weights, masked tokens, clipping and label smoothing,
# in fp32 and bf16. Every second run stops half-way and goes on with another layout. One rank adds a last step to each
# run, so that checkpoints are alike to the byte. Half of the plans use sgd without clipping: with clipping, or with
# adamw, the test would not see that all gradients are too large by the same power of two. LAYOUTS: how many of each
# family and precision (1); FAMILIES, PRECISIONS: which; STEPS (4); SEED draws others.
. "$(dirname "$0")/../support/command.shlib"
. "$top/tests/support/ranks.shlib"
seed=${SEED:-$(date +%s)} steps=${STEPS:-4}
echo "# SEED=$seed"
options_of() { # family, precision, plan: model and options, of test size
  case $1 in
  gpt2) echo gpt2-nano --size layers=2,width=64,heads=4 --data text --length 16 --dropout 0.1 --folds 4 ;;
  words) echo gpt2-nano --size layers=2,width=64,heads=4 --data tokens --length 8 --dropout 0.1 --folds 4 ;;
  sequence) echo gpt2-nano --size layers=2,width=64,heads=4 --data text --length 16 --dropout 0.1 --folds 4 --sequence-parallel on ;;
  bert) echo bert-nano --size layers=2,width=64,heads=4 --data text --length 16 --dropout 0.1 --folds 4 ;;
  vit) echo vit-tiny --size layers=2,width=32,heads=4,patch=7,stem=0 --data data --smoothing 0.1 --folds 4 ;;
  mlp) echo mlp --size layers=4,hidden=32 --data data --folds 4 ;;
  resnet) echo resnet8 --size width=8,blocks=1-1 --data data ;;
  esac
  echo --precision "$2" --batch 16 --leaves 8 --shards 8 --val-fraction 0 --quiet --rate-schedule constant --warmup 2 --log-every 1
  [ "$2" = fp32 ] || echo --bf16-sums pairs
  if [ $((($3 + seed) % 2)) = 0 ]; then echo --clip 0.5; else echo --optimizer sgd --learning-rate 0.02 --clip 0; fi
}
# Draws a layout: number of ranks, near (ranks share memory) or apart, options. What the command refuses is not drawn.
draw() { # family, number of the draw
  awk -v family="$1" -v seed="$seed" -v draw="$2" '
    function pick(n) { return int(rand() * n) }
    function of(list, n) { n = split(list, word, " "); return word[1 + pick(n)] }
    BEGIN {
      srand(seed + 7919 * draw)
      for (i = 0; i < 10 + draw % 100; i++) rand()
      do {
        data = of("1 1 2 2 3 4 8"); pipe = of("1 1 1 2 2 3"); tensor = family == "resnet" ? 1 : of("1 1 2 2 3 4")
        micro = of("1 1 2 4 8")
      } while (data * pipe * tensor > 8 || micro > int(8 / data))
      sharing = pipe * tensor
      split(of("data,pipe,tensor tensor,pipe,data pipe,data,tensor"), name, ",")
      size["data"] = data; size["pipe"] = pipe; size["tensor"] = tensor
      text = data * sharing " " of("near apart") " --mesh "
      for (i = 1; i <= 3; i++) text = text (i > 1 ? "," : "") name[i] "=" size[name[i]]
      text = text " --micro-batches " micro " --zero " (data > 1 ? pick(4) : 0)
      text = text " --balance " (sharing == 1 && data == 2 && micro <= 2 ? of("even 5,3 2,6") : "even")
      if (pipe > 1) text = text " --pipe-order " of("1f1b gpipe zero-bubble eager-1f1b auto")
      chunks = pipe == 2 && micro % 2 == 0 ? of("1 2") : 1
      if (pipe > 1) text = text " --pipe-chunks " chunks
      shares = 1 + pick(3)
      for (i = 1; i < pipe * chunks; i++) shares = shares "," 1 + pick(3)
      text = text " --stages " (pipe > 1 && rand() < 0.5 ? shares : "auto")
      if (pipe > 1) text = text " --pipe-parts " 1 + pick(4)
      if (family != "mlp" && family != "resnet") text = text " --recompute " of("none none attention block")
      print text " --workers " 1 + pick(2) " --sched " of("eager lws prio dmda dmdas random")
    }'
}
start() { # layout, train's arguments; the command goes to the file commands
  layout=$1
  shift
  # MPICH: whether ranks of a host are as far apart as those of two
  case $layout in *' apart '*) export MPIR_CVAR_NOLOCAL=1 ;; *) export MPIR_CVAR_NOLOCAL=0 ;; esac
  echo "MPIR_CVAR_NOLOCAL=$MPIR_CVAR_NOLOCAL mpiexec -n ${layout%% *} starling train $* ${layout#* [a-z]* }" >>commands
  # shellcheck disable=SC2086 # words
  ranks "${layout%% *}" train "$@" ${layout#* [a-z]* }
}
one='1 near --mesh data=1 --stages auto --micro-batches 1 --zero 0 --balance even --workers 1'
losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([^,]*\),"accuracy":\([^,}]*\).*/\1 \2 \3/p' "$1/metrics.jsonl"; }
same_digest() {
  cmp model several/model.safetensors || return 1
  start "$one" --resume --out several --steps $((steps + 1))
  [ $code = 0 ] || return 1
  losses one >losses-one
  losses several >losses-several
  [ -s losses-one ] && diff losses-one losses-several && same_state one several
}

# Words: a vocabulary that is divided, and so few tokens that the gradients of its table are gathered.
awk 'BEGIN { srand(1); for (i = 0; i < 20000; i++) printf "w%d %s", int(rand() * rand() * 3000), i % 12 ? "" : "\n" }' >words
run tokenize words --tokenizer train --vocabulary 1100 --out tokens --quiet

drawn=0 plan=0
for family in ${FAMILIES:-gpt2 sequence words bert vit mlp resnet}; do
  for precision in ${PRECISIONS:-fp32 bf16}; do
    plan=$((plan + 1)) i=0
    # shellcheck disable=SC2046 # words, here and below
    set -- $(options_of "$family" "$precision" $plan)
    start "$one" "$@" --steps "$steps" --out one --force
    cp one/model.safetensors model
    [ $code != 0 ] || start "$one" --resume --out one --steps $((steps + 1))
    check "$family, $precision: one rank" test $code = 0
    while [ $i -lt "${LAYOUTS:-1}" ]; do
      i=$((i + 1)) drawn=$((drawn + 1))
      first=$(draw "$family" $drawn) next=''
      [ $((drawn % 2)) = 1 ] || next=$(draw "$family" $((drawn + 100000)))
      : >commands
      if [ -z "$next" ]; then start "$first" "$@" --steps "$steps" --out several --force; else
        start "$first" "$@" --steps $((steps / 2)) --out several --force
        [ $code != 0 ] || start "$next" --resume --out several --steps "$steps"
      fi
      name="$family, $precision, ranks $first${next:+, then $next}"
      if [ $code = 0 ] && same_digest >>out 2>&1; then ok "$name"; else
        not_ok "$name"
        sed 's/^/#   /' commands
      fi
    done
  done
done
finish
