#!/bin/sh
# Tensor ranks that also divide the positions of norms, residual sums and dropout (--sequence-parallel on): any number
# of them, alone and with stages of a pipeline, data ranks and ZeRO, give the bytes of one rank, in every precision,
# with clipping, dropout, tied weights, recomputation and micro-batches. The losses are those without
# --sequence-parallel, up to rounding.
. "$(dirname "$0")/../support/command.shlib"
. "$top/tests/support/ranks.shlib"

gpt2='gpt2-nano --size layers=2,width=64,heads=4 --folds 4 --data text --length 32 --batch 8 --leaves 8 --clip 0.1 --sequence-parallel on'
# shellcheck disable=SC2086 # several words, here and below
{
  same_bytes 'gpt2-nano, dropout, clipping' '1x1x3 2x1x2:--zero:3 1x2x2:--micro-batches:4:--pipe-order:zero-bubble' $gpt2 --dropout 0.1
  same_bytes 'gpt2-nano, recomputed' '1x2x2' $gpt2 --dropout 0.1 --recompute block
  same_bytes 'gpt2-nano, fp16, attention recomputed' '1x1x2:--micro-batches:2' $gpt2 --precision fp16 --recompute attention
}
same_bytes 'vit-tiny, bf16, 17 positions, row blocks' '1x2x2' vit-tiny --folds 2 --data data --batch 8 --leaves 8 --row-blocks 2 --sequence-parallel on --precision bf16 --bf16-sums pairs
same_bytes 'bert-nano, heads that the folds share unevenly' '1x1x3' bert-nano --size layers=2,width=80,heads=5 --folds 3 --data text --length 32 --batch 8 --leaves 4 --sequence-parallel on
awk 'BEGIN { srand(1); for (i = 0; i < 20000; i++) printf "w%d %s", int(rand() * rand() * 3000), i % 12 ? "" : "\n" }' >words
run tokenize words --tokenizer train --vocabulary 1100 --out tokens
# shellcheck disable=SC2086
same_bytes 'a vocabulary that is divided, too' '1x1x2' ${gpt2%--data*} --data tokens ${gpt2#*--data text} --dropout 0.1

# No ranks wait for each other: their predicted schedule says so if they do.
for mesh in 'tensor=2' 'tensor=3' 'tensor=4' 'pipe=2,tensor=2' 'data=2,tensor=2'; do
  for how in '' '--recompute block' '--recompute attention --micro-batches 2' '--zero 3'; do
    case $mesh,$how in data* | *,--r* | *,) ;; *) continue ;; esac
    count=1
    for size in $(echo "$mesh" | tr -dc '0-9,' | tr ',' ' '); do count=$((count * size)); done
    # shellcheck disable=SC2086
    run graph ${gpt2%--data*} --length 32 --batch 8 --leaves 4 --ranks $count --mesh $mesh $how --sequence-parallel on
    check "$mesh $how: the ranks end" sh -c "[ $code = 0 ] && grep -q 'scheduled together: a step of' out"
  done
done

# What it computes: the same losses up to rounding, other bytes.
losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([^,]*\),.*/\1 \2/p' "$1/metrics.jsonl"; }
near() { # run, run, relative difference
  losses "$1" >first && losses "$2" >second && [ -s first ] &&
    paste first second | awk -v most="$3" '$1 != $3 || $2 - $4 > most * $2 || $4 - $2 > most * $2 { bad = 1 } END { exit bad }'
}
for model in 'gpt2-nano --size layers=2,width=64,heads=4 --data text --length 32' 'bert-nano --data text --length 32' 'vit-tiny --data data'; do
  # shellcheck disable=SC2086
  set -- $model --folds 2 --batch 8 --leaves 4 --steps 8 --log-every 1 --val-fraction 0 --quiet --workers 1 --force
  ranks 1 train "$@" --out off
  ranks 1 train "$@" --sequence-parallel on --out on
  check "${model%% *}: the losses of 8 steps" near off on 2e-5
  check "${model%% *}: other bytes" sh -c '! cmp -s off/model.safetensors on/model.safetensors'
done

# Who computes what, and what it saves.
shape='gpt2-nano --size layers=2,width=64,heads=4 --data text --length 32 --batch 8 --ranks 2 --mesh tensor=2 --stage 1'
# shellcheck disable=SC2086
run graph $shape --sequence-parallel on
check 'a rank has half of the positions' grep -qE '^forward +h\.0\.ln_2 +layernorm +\[8, 16, 64\]' out
check 'and joins them for a product' grep -qE '^forward +h\.0\.ln_2 +sequence_join +\[8, 32, 64\]' out
held() { # options: predicted peak of one of four ranks
  run simulate gpt2-nano --length 128 --batch 16 --leaves 1 --machine dgx-a100 --ranks-per-node 4 --mesh tensor=4 --json "$@"
  sed -n "s/^  \"predicted_peak_bytes\": \([0-9]*\).*/\1/p" out
}
without=$(held) with=$(held --sequence-parallel on)
check "a rank holds less: $with of $without bytes" test "$with" -lt "$without"

# Checkpoints go from any mesh to any other.
resumes '2 ranks, 2 x 2, pipe x tensor, 4 ranks, 1 rank' \
  'gpt2-nano --rate-schedule constant --size layers=2,width=64,heads=4 --folds 4 --data text --length 16 --batch 8 --leaves 8 --val-fraction 0 --quiet --workers 1 --sequence-parallel on' '2 --steps 2 --mesh tensor=2' \
  '4 --steps 3 --mesh data=2,tensor=2' '4 --steps 4 --mesh pipe=2,tensor=2' '4 --steps 6 --mesh data=1,tensor=4' '1 --steps 8 --mesh data=1'
run plan gpt2-nano --length 32 --batch 16 --machine dgx-a100 --nodes 1 --sequence-parallel on
check 'plan tries ranks that divide no products, too' sh -c "[ $code = 0 ] && grep -qE '^1 .* batch 16' out"
run train gpt2-nano --data text --length 16 --batch 8 --sequence-parallel on --steps 2 --out refused
check 'refused without folds' sh -c "[ $code = 2 ] && grep -q 'this training has none: add --folds F or --mesh tensor=N' err"
ranks 1 train --resume --out on --sequence-parallel off
check 'refused: another way than at the first start' sh -c "[ $code != 0 ] && grep -q -e '--sequence-parallel is off here and on in' err"
finish
