#!/bin/sh
# One digest: random layouts of 1 to 8 ranks (data x pipe x tensor, stages of ZeRO, orders of a pipeline, micro-batches,
# recomputation, workers, policies) give the model and the losses of one rank, with dropout, tied weights, clipping,
# label smoothing and padding, in fp32 and bf16. Every second run stops half-way and goes on with another layout.
# LAYOUTS: how many of each family (1); FAMILIES, PRECISIONS: which; STEPS (4); SEED draws others.
. "$(dirname "$0")/../support/command.shlib"
. "$top/tests/support/ranks.shlib"
seed=${SEED:-$(date +%s)} steps=${STEPS:-4}
echo "# SEED=$seed"
options_of() { # family: model and options, of test size
  case $1 in
  gpt2) echo gpt2-nano --size layers=2,width=64,heads=4 --data text --length 16 --dropout 0.1 --clip 0.5 --folds 4 ;;
  bert) echo bert-nano --size layers=2,width=64,heads=4 --data text --length 16 --dropout 0.1 --clip 0.5 --folds 4 ;;
  vit) echo vit-tiny --size layers=2,width=32,heads=4,patch=7,stem=0 --data data --smoothing 0.1 --clip 0.5 --folds 4 ;;
  mlp) echo mlp --size layers=4,hidden=32 --data data --clip 0.5 --folds 4 ;;
  resnet) echo resnet8 --size width=8,blocks=1-1 --data data --clip 0.5 ;;
  esac
  echo --batch 16 --leaves 8 --shards 8 --val-fraction 0 --quiet --rate-schedule constant --bf16-sums pairs --log-every 1
}
# Draws a layout: number of ranks, then options. What the command refuses is not drawn.
draw() { # family, number of the draw
  awk -v family="$1" -v seed="$seed" -v draw="$2" '
    function pick(n) { return int(rand() * n) }
    function of(list, n) { n = split(list, word, " "); return word[1 + pick(n)] }
    BEGIN {
      srand(seed + 7919 * draw)
      for (i = 0; i < 10 + draw; i++) rand()
      do {
        data = of("1 1 2 2 3 4 8"); pipe = of("1 1 1 2 2 3"); tensor = family == "resnet" ? 1 : of("1 1 2 2 3 4")
        micro = of("1 1 2 4 8")
      } while (data * pipe * tensor > 8 || micro > int(8 / data))
      sharing = pipe * tensor
      text = data * sharing " --mesh data=" data ",pipe=" pipe ",tensor=" tensor " --micro-batches " micro
      text = text " --zero " (sharing == 1 && data > 1 ? pick(4) : 0)
      if (pipe > 1) text = text " --pipe-order " of("1f1b gpipe")
      if (family != "mlp" && family != "resnet") text = text " --recompute " of("none none attention block")
      print text " --workers " (data * sharing == 1 ? 1 + pick(2) : 1) " --sched " of("eager lws prio dmda dmdas random")
    }'
}
losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([^,]*\),"accuracy":\([^,}]*\).*/\1 \2 \3/p' "$1/metrics.jsonl"; }
same_digest() { cmp one/model.safetensors several/model.safetensors && [ "$(losses one)" = "$(losses several)" ] && [ -n "$(losses one)" ]; }

drawn=0 family_number=0
for family in ${FAMILIES:-gpt2 bert vit mlp resnet}; do
  family_number=$((family_number + 1))
  for precision in ${PRECISIONS:-fp32 bf16}; do
    # shellcheck disable=SC2046 # words, here and below
    ranks 1 train $(options_of "$family") --precision "$precision" --steps "$steps" --workers 1 --out one --force
    check "$family, $precision: one rank" test $code = 0
    i=0
    while [ $i -lt "${LAYOUTS:-1}" ]; do
      i=$((i + 1)) drawn=$((drawn + 1))
      layout=$(draw "$family" $drawn)
      if [ $((drawn % 2)) = 0 ]; then
        next=$(draw "$family" $((drawn + 100000)))
        # shellcheck disable=SC2086
        ranks ${layout%% *} train $(options_of "$family") --precision "$precision" --steps $((steps / 2)) --out several --force ${layout#* }
        # shellcheck disable=SC2086
        [ $code != 0 ] || ranks ${next%% *} train --resume --out several --steps "$steps" ${next#* }
        layout="$layout, then $next"
      else
        # shellcheck disable=SC2086
        ranks ${layout%% *} train $(options_of "$family") --precision "$precision" --steps "$steps" --out several --force ${layout#* }
      fi
      if [ $code = 0 ]; then check "$family, $precision, ranks $layout" same_digest
      else not_ok "$family, $precision, ranks $layout"; fi
    done
  done
done
finish
