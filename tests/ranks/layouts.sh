#!/bin/sh
# One digest: layouts of 1 to 8 ranks (data x pipe x tensor, stages of ZeRO, uneven leaves, orders of a pipeline,
# stages by hand, micro-batches, recomputation, workers, policies, with and without memory that the ranks share) give
# the model, the losses and the optimizer state of one rank, with dropout, tied weights, masked tokens, clipping and
# label smoothing, in fp32 and bf16. Each run stops half-way and goes on with another layout; together the layouts
# cover all pairs of choices. One rank adds a last step to each run, so that checkpoints are alike to the byte. Half
# of the plans use sgd without clipping: with clipping, or with adamw, the test would not see that all gradients are
# too large by the same power of two. LAYOUTS=N: in place of the cover N runs of each family and precision, of which
# every second goes on with another layout; FAMILIES, PRECISIONS: which; STEPS (4); SEED draws others. APART: a launcher
# for the ranks that are apart; without it MPICH treats all ranks as if each had a host of its own.
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
# Draws runs, a line each: family, precision, the number of their plan, then one or two layouts: number of ranks, near
# (ranks share memory) or apart, options. What the command refuses is not drawn. Without LAYOUTS the layouts cover all
# pairs of choices: each one is that of 200 draws which has the most pairs that no layout had before.
draw() {
  awk -v seed="$seed" -v families="$1" -v precisions="$2" -v each="${LAYOUTS-}" '
    function pick(n) { return int(rand() * n) }
    function of(list, word) { return word[1 + pick(split(list, word, " "))] }
    # Draws a layout of the family: its text, and its choices c[1] ... c[columns].
    function layout(family, data, pipe, tensor, micro, sharing, name, size, i, shares) {
      do {
        data = of("1 1 2 2 3 4 8"); pipe = of("1 1 1 2 2 3"); tensor = family == "resnet" ? 1 : of("1 1 2 2 3 4")
        micro = of("1 1 2 4 8")
      } while (data * pipe * tensor > 8 || micro > int(8 / data))
      sharing = pipe * tensor
      split(of("data,pipe,tensor tensor,pipe,data pipe,data,tensor"), name, ",")
      size["data"] = data; size["pipe"] = pipe; size["tensor"] = tensor
      c[1] = family; c[2] = precision; c[3] = data; c[4] = pipe; c[5] = tensor; c[6] = micro
      c[7] = of("near apart")
      c[8] = data > 1 ? pick(4) : 0
      c[9] = sharing == 1 && data == 2 && micro <= 2 ? of("even 5,3 2,6") : "even"
      c[10] = pipe > 1 ? of("1f1b gpipe zero-bubble eager-1f1b auto") : ""
      c[11] = pipe == 2 && micro % 2 == 0 ? of("1 2") : 1
      c[12] = pipe > 1 ? of("1 3") : 1
      c[13] = pipe > 1 ? of("auto shares") : "auto"
      c[14] = family != "mlp" && family != "resnet" ? of("none none attention block") : ""
      shares = 1 + pick(3)
      for (i = 1; i < pipe * c[11]; i++) shares = shares "," 1 + pick(3)
      text = data * sharing " " c[7] " --mesh "
      for (i = 1; i <= 3; i++) text = text (i > 1 ? "," : "") name[i] "=" size[name[i]]
      text = text " --micro-batches " micro " --zero " c[8] " --balance " c[9]
      if (pipe > 1) text = text " --pipe-order " c[10] " --pipe-chunks " c[11] " --pipe-parts " c[12]
      text = text " --stages " (c[13] == "auto" ? "auto" : shares)
      if (c[14]) text = text " --recompute " c[14]
      text = text " --workers " 1 + pick(2) " --sched " of("eager lws prio dmda dmdas random")
      return text
    }
    function new_pairs(i, j, n) {
      for (i = 2; i <= columns; i++) for (j = 1; j < i; j++) n += (i " " c[i] " " j " " c[j]) in wanted
      return n
    }
    function cover(i, j) { for (i = 2; i <= columns; i++) for (j = 1; j < i; j++) delete wanted[i " " c[i] " " j " " c[j]] }
    function any(which) { for (which in wanted) return 1; return 0 }
    function keep(k) { for (k = 1; k <= columns; k++) best[k] = c[k] }
    function choose() { family = of(families); precision = of(precisions) }
    # The best of many layouts, of the family and precision if they are given.
    function greedy(fixed, i, n, most, line) {
      most = -1
      for (i = 0; i < 200 || most == 0; i++) {
        if (fixed && i > 400) break
        if (!fixed) choose()
        text = layout(family)
        if ((n = new_pairs()) > most) { most = n; line = text; keep() }
      }
      for (i = 1; i <= columns; i++) c[i] = best[i]
      family = c[1]; precision = c[2]
      cover()
      return line
    }
    function number_of(f, p, i, k) { # of the plan
      for (i = 1; i <= n_f; i++) for (k = 1; k <= n_p; k++) if (f == names[i] && p == kinds[k]) return (i - 1) * n_p + k
    }
    BEGIN {
      srand(seed); columns = 14
      for (i = 0; i < 10; i++) rand()
      n_f = split(families, names, " "); n_p = split(precisions, kinds, " ")
      if (each == "") {
        for (i = 0; i < 6000; i++) {
          choose(); layout(family)
          for (k = 2; k <= columns; k++) for (j = 1; j < k; j++) wanted[k " " c[k] " " j " " c[j]] = 1
        }
        while (any()) {
          first = greedy(0)
          print family, precision, number_of(family, precision) "|" first "|" greedy(1)
        }
      }
      for (i = 1; i <= n_f && each != ""; i++) for (k = 1; k <= n_p; k++) for (j = 0; j < each; j++) {
        family = names[i]; precision = kinds[k]
        print family, precision, number_of(family, precision) "|" layout(family) "|" (drawn++ % 2 ? layout(family) : "")
      }
    }'
}
start() { # layout, train's arguments; the command goes to the file commands
  layout=$1
  shift
  export MPIR_CVAR_NOLOCAL=0 # MPICH: 1: each rank is as far from the others as if it had a host of its own
  mpiexec=$near
  case $layout in
  *' apart '*) if [ -n "${APART-}" ]; then mpiexec=$APART; else MPIR_CVAR_NOLOCAL=1; fi ;;
  esac
  echo "MPIR_CVAR_NOLOCAL=$MPIR_CVAR_NOLOCAL $mpiexec -n ${layout%% *} starling train $* ${layout#* [a-z]* }" >>commands
  # shellcheck disable=SC2086 # words
  ranks "${layout%% *}" train "$@" ${layout#* [a-z]* }
}
near=$mpiexec
one='1 near --mesh data=1 --stages auto --micro-batches 1 --zero 0 --balance even --workers 1'
losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([^,]*\),"accuracy":\([^,}]*\).*/\1 \2 \3/p' "$1/metrics.jsonl"; }
same_digest() { # number of the plan
  cmp "model-$1" several/model.safetensors || return 1
  start "$one" --resume --out several --steps $((steps + 1))
  [ $code = 0 ] || return 1
  losses "one-$1" >losses-one
  losses several >losses-several
  [ -s losses-one ] && diff losses-one losses-several && same_state "one-$1" several
}

# Words: a vocabulary that is divided, and so few tokens that the gradients of its table are gathered.
awk 'BEGIN { srand(1); for (i = 0; i < 20000; i++) printf "w%d %s", int(rand() * rand() * 3000), i % 12 ? "" : "\n" }' >words
run tokenize words --tokenizer train --vocabulary 1100 --out tokens --quiet

draw "${FAMILIES:-gpt2 sequence words bert vit mlp resnet}" "${PRECISIONS:-fp32 bf16}" >runs
check "$(grep -c . runs) runs are drawn" test -s runs
# The plans on one rank: the models, and the runs that have a step more.
cut -d '|' -f 1 runs | sort -u >plans
while read -r family precision plan <&3; do # mpiexec reads the standard input
  # shellcheck disable=SC2046 # words, here and below
  set -- $(options_of "$family" "$precision" "$plan")
  start "$one" "$@" --steps "$steps" --out "one-$plan" --force
  cp "one-$plan/model.safetensors" "model-$plan"
  [ $code != 0 ] || start "$one" --resume --out "one-$plan" --steps $((steps + 1))
  check "$family, $precision: one rank" test $code = 0
done 3<plans
while IFS='|' read -r of first next <&3; do
  # shellcheck disable=SC2086 # words
  set -- $of
  family=$1 precision=$2 plan=$3
  set -- $(options_of "$family" "$precision" "$plan")
  : >commands
  if [ -z "$next" ]; then start "$first" "$@" --steps "$steps" --out several --force; else
    start "$first" "$@" --steps $((steps / 2)) --out several --force
    [ $code != 0 ] || start "$next" --resume --out several --steps "$steps"
  fi
  name="$family, $precision, ranks $first${next:+, then $next}"
  if [ $code = 0 ] && same_digest "$plan" >>out 2>&1; then ok "$name"; else
    not_ok "$name"
    sed 's/^/#   /' commands
  fi
done 3<runs
finish
