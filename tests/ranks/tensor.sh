#!/bin/sh
# Ranks that divide the products of a layer (--mesh tensor=N): any number of them, alone and together with stages of a
# pipeline and with ranks that divide samples, give the bytes of one rank that computes the same folds, in every
# precision, with clipping, dropout, tied weights, masks, recomputation and micro-batches. Checkpoints go from any mesh
# to any other; model files hold whole tensors. A model or mesh that cannot be divided so is refused with the reason.
. "$(dirname "$0")/../support/command.shlib"
. "$top/tests/support/ranks.shlib"

same_bytes 'mlp, sgd, clipping' '1x1x2 1x1x3 2x1x2' mlp --size layers=3,hidden=40 --folds 3 --data data --batch 96 --leaves 12 --clip 0.5 --optimizer sgd
same_bytes 'vit-tiny, row blocks' '1x1x2 1x2x2' vit-tiny --folds 2 --data data --batch 8 --leaves 8 --smoothing 0.1 --row-blocks 2
same_bytes 'bert-nano, heads that the folds share unevenly' '1x1x2 1x1x3' bert-nano --size layers=2,width=80,heads=5 --folds 3 --data text --length 32 --batch 8 --leaves 4
# Folds change the rounding and nothing else: the losses of some steps are those of the undivided network.
losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([^,]*\),"accuracy".*/\1 \2/p' "$1/metrics.jsonl"; }
near() { awk -v n=3 'NR <= n { a[$1] = $2; next } { d = a[$1] - $2; if (!(a[$1] > 0) || d * d > 1e-8 * a[$1] * a[$1]) bad = 1; seen++ } END { exit bad || seen != n }' "$@"; }
for model in 'mlp --size layers=3,hidden=40 --data data --batch 96' 'lenet --data data --batch 32' 'vit-tiny --data data --batch 8' 'gpt2-nano --size layers=2,width=64,heads=4 --data text --length 32 --batch 8' \
  'bert-nano --size layers=2,width=64,heads=4 --data text --length 32 --batch 8'; do
  for folds in 1 2 4; do
    # shellcheck disable=SC2086
    run train $model --optimizer sgd --learning-rate 0.01 --clip 0 --folds $folds --steps 3 --log-every 1 --val-fraction 0 --workers 1 --quiet --force --out "of$folds"
    losses "of$folds" >"losses$folds"
    [ $folds = 1 ] || check "${model%% *}: $folds folds have the losses of one" near losses1 "losses$folds"
  done
done
gpt2='gpt2-nano --size layers=2,width=64,heads=4 --folds 4 --data text --length 32 --batch 8 --leaves 8 --dropout 0.1 --clip 0.1'
# shellcheck disable=SC2086 # several words, here and below
{
  same_bytes 'gpt2-nano, tied weights, dropout, clipping' '1x1x2 1x1x3 1x1x4 2x1x2 1x2x2:--pipe-order:gpipe 1x2x2:--micro-batches:4:--pipe-order:zero-bubble 1x1x2:--micro-batches:2:--sched:dmdas' $gpt2
  same_bytes 'gpt2-nano, recomputed' '1x1x2 1x2x2' $gpt2 --recompute block
  same_bytes 'gpt2-nano, attention recomputed' '1x1x2' $gpt2 --recompute attention --micro-batches 2
  same_bytes 'gpt2-nano, bf16' '1x1x4 1x2x2' $gpt2 --precision bf16 --bf16-sums pairs
  same_bytes 'gpt2-nano, fp16' '1x1x2' $gpt2 --precision fp16
}

# A vocabulary of so many tokens that head, loss, accuracy and embedding are divided, too.
awk 'BEGIN { srand(1); for (i = 0; i < 20000; i++) printf "w%d %s", int(rand() * rand() * 3000), i % 12 ? "" : "\n" }' >words
run tokenize words --tokenizer train --vocabulary 1100 --out tokens
check 'a text of 1,100 tokens' test $code = 0
many='gpt2-nano --size layers=2,width=64,heads=4 --folds 4 --data tokens --length 32 --batch 8 --leaves 8'
# shellcheck disable=SC2086
{
  same_bytes '1,100 tokens, tied weights, dropout, clipping' '1x1x2 1x1x3 1x1x4 2x1x2 1x2x2 1x2x2:--micro-batches:4 1x2x1 1x3x2:--pipe-order:gpipe' $many --dropout 0.1 --clip 0.1
  same_bytes '1,100 tokens, a head of its own' '1x1x2 1x2x2' ${many%% *} --size layers=2,width=64,heads=4,untied=1 ${many#*heads=4}
  same_bytes '1,100 tokens, row blocks, smoothing' '1x1x2' $many --row-blocks 2 --smoothing 0.1
  same_bytes '1,100 tokens, bf16' '1x1x4 1x2x2' $many --precision bf16 --bf16-sums pairs
  same_bytes '1,100 tokens, fp16, recomputed' '1x1x2' $many --precision fp16 --recompute block
  # So few tokens that the gradients of the table are gathered.
  same_bytes '1,100 tokens, gathered gradients' '1x2x1 1x2x2 1x2x3:--micro-batches:2 2x1x2 2x2x2' ${many%--length*} --length 4 --batch 8 --leaves 8 --clip 0.1
  same_bytes 'bert, 1,100 tokens' '1x1x2 1x2x2' bert-nano --size layers=2,width=64,heads=4,vocabulary=1101,mask=1100,specials=1 --folds 4 --data tokens --length 32 --batch 8 --leaves 8 --learning-rate 0.01
}
run graph gpt2-nano --size layers=2,width=64,heads=4 --data tokens --length 32 --batch 8 --ranks 2 --mesh tensor=2 --stage 1
check 'a rank has half of the head' grep -qE '^forward +head +linear +\[8, 32, 550\]' out
check 'and half of the table' grep -qE '^update +wte.weight@1/2 ' out
run graph gpt2-nano --size layers=2,width=80,heads=5 --data tokens --length 32 --batch 8 --folds 5
check 'fewer than 256 tokens for each fold: not divided' grep -qE '^forward +head +linear +\[8, 32, 1100\]' out

# Sums of which each rank adds up a part of the positions.
# shellcheck disable=SC2086
{
  same_bytes 'sums by parts, dropout, clipping' '1x1x3 2x1x3:--zero:3 1x2x3:--micro-batches:4:--pipe-order:zero-bubble' $gpt2 --fold-sums parts
  same_bytes 'sums by parts, bf16, recomputed' '1x1x4' $gpt2 --fold-sums parts --precision bf16 --bf16-sums pairs --recompute block
  same_bytes 'sums by parts, 1,100 tokens, row blocks' '1x1x3' $many --fold-sums parts --row-blocks 2
}
shown() { # positions, ranks, options: the number of sums that are joined from parts
  positions=$1 n=$2
  shift 2
  run graph gpt2-nano --size "layers=1,width=384,heads=12,positions=$positions" --length "$positions" --batch 8 --ranks "$n" --mesh "tensor=$n" --folds 12 --stage 1 "$@"
  grep -cE '^(forward|backward) +h.0.[a-z.]+ +sequence_join ' out
}
check 'parts by default: large samples on 5 ranks' test "$(shown 352 5)" = 4
check 'not on 4' test "$(shown 352 4)" = 0
check 'with GPUs larger samples on 3' test "$(shown 1408 3 --gpus 1 --workers 1)" = 4
check 'not on 2' test "$(shown 1408 2 --gpus 1 --workers 1)" = 0
check 'nor smaller ones' test "$(shown 352 3 --gpus 1 --workers 1)" = 0
check 'whole sums, asked for' test "$(shown 352 5 --fold-sums whole)" = 0
check 'parts, asked for' test "$(shown 32 3 --fold-sums parts)" = 4

# By default a fold for each rank; without folds the bits are those of before.
# shellcheck disable=SC2086
set -- ${gpt2%--folds*} ${gpt2#*--folds 4} --steps 3 --val-fraction 0 --quiet --workers 1 --force
ranks 1 train "$@" --out none
ranks 1 train "$@" --folds 1 --out one
check 'one fold: the bytes of none' cmp none/model.safetensors one/model.safetensors
ranks 1 train "$@" --folds 2 --out one
check 'two folds: other bytes' sh -c '! cmp -s none/model.safetensors one/model.safetensors'
ranks 2 train "$@" --mesh tensor=2 --out several
check 'by default a fold for each rank' cmp one/model.safetensors several/model.safetensors
tensors() { head -c 20000 "${2:-$1/model.safetensors}" | tr -d '\000' | grep -ao '"[a-z_0-9.]*weight":{"dtype":"F32","shape":[^]]*]' | sort; }
check 'model files hold whole tensors' test "$(tensors several)" = "$(tensors none)" -a -n "$(tensors none)"

# Validation, the best model and its test: all ranks divide the samples then, and fetch the parameters of other ranks.
set -- train gpt2-nano --size layers=2,width=64,heads=4 --folds 2 --data text --length 32 --batch 8 --leaves 8 --steps 12 --eval-every 2 --val-fraction 0.2 --workers 1 --force
result() { sed -n 's/.*"\(best_step\|best_accuracy\|best_loss\|test_accuracy\|test_loss\)": *\([-0-9.e]*\).*/\1 \2/p' "$1/summary.json"; }
losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([^,]*\),"accuracy":\([^,}]*\).*/\1 \2 \3/p' "$1/metrics.jsonl"; }
ranks 1 "$@" --out one
ranks 2 "$@" --mesh tensor=2 --verify-every 3 --out several
check 'validated: exit code' test $code = 0
check 'validated: the best model' cmp one/model.safetensors several/model.safetensors
check 'validated: its figures' test "$(result several)" = "$(result one)" -a -n "$(result one)"
check 'the same losses' test "$(losses several)" = "$(losses one)" -a -n "$(losses one)"
scored() { "$starling" eval "$1" --data text --split validation 2>>err | grep -o 'accuracy [0-9.]*'; }
check 'eval has the model' test -n "$(scored one)" -a "$(scored several)" = "$(scored one)"
newest_of() { echo "$1"/checkpoints/step-* | tr ' ' '\n' | tail -n 1; }
check 'eval has the same model of a checkpoint' test -n "$(scored "$(newest_of one)")" -a "$(scored "$(newest_of several)")" = "$(scored "$(newest_of one)")"
run convert "$(newest_of several)" --to starling --out whole.safetensors
check 'convert joins the parts of a checkpoint' test $code = 0 -a "$(tensors . whole.safetensors)" = "$(tensors several)"
run convert several --to hf --out published
check 'published weights: exit code' test $code = 0
run convert one --to hf --out likewise
check 'published weights: the same ones' cmp published/model.safetensors likewise/model.safetensors

# The same with a divided vocabulary; then text from it, and weights for others.
set -- train gpt2-nano --size layers=2,width=64,heads=4 --folds 2 --data tokens --length 32 --batch 8 --leaves 8 --steps 6 --eval-every 2 --val-fraction 0.2 --workers 1 --force
ranks 1 "$@" --out one
ranks 2 "$@" --mesh tensor=2 --verify-every 3 --out several
check 'vocabulary, validated: exit code' test $code = 0
check 'vocabulary, validated: the best model' cmp one/model.safetensors several/model.safetensors
check 'vocabulary, validated: its figures' test "$(result several)" = "$(result one)" -a -n "$(result one)"
check 'vocabulary: the same losses' test "$(losses several)" = "$(losses one)" -a -n "$(losses one)"
scored_of() { "$starling" eval "$1" --data tokens --split validation 2>>err | grep -o 'accuracy [0-9.]*.*'; }
check 'vocabulary: eval has the same model of a checkpoint' test -n "$(scored_of "$(newest_of one)")" -a "$(scored_of "$(newest_of several)")" = "$(scored_of "$(newest_of one)")"
for from in one "$(newest_of one)" "$(newest_of several)"; do
  run generate "$from" --prompt w1 --tokens 20 --temperature 0 --quiet
  cp out "text-$(basename "$from" | tr -d 0)"
  check "vocabulary: text of $(basename "$from")" test $code = 0 -a -s out
done
run convert several --to hf --out others
check 'vocabulary: published weights, exit code' test $code = 0
ranks 2 "$@" --init others --mesh tensor=2 --out begun
check 'vocabulary: --init with them' test $code = 0

# From any mesh to any other, and to one rank.
resumes '1x1x3, 2 x 2, pipe x tensor, 1 rank, 2 ranks of samples, tensor=2, 1 rank' \
  'gpt2-nano --rate-schedule constant --size layers=2,width=64,heads=4 --folds 4 --data text --length 16 --batch 12 --leaves 12 --clip 0.5 --val-fraction 0 --quiet --workers 1' '3 --steps 2 --mesh tensor=3' \
  '4 --steps 3 --mesh data=2,tensor=2' '4 --steps 4 --mesh pipe=2,tensor=2' '1 --steps 5 --mesh data=1' '2 --steps 6 --mesh data=2' '2 --steps 7 --mesh data=1,tensor=2' '1 --steps 8 --mesh data=1'
set -- train gpt2-nano --size layers=2,width=64,heads=4 --data text --length 16 --batch 8 --leaves 4 --steps 3 --val-fraction 0 --quiet --workers 1 --force
ranks 1 "$@" --out first
ranks 1 "$@" --folds 2 --init first/model.safetensors --out one
ranks 2 "$@" --init first/model.safetensors --mesh tensor=2 --out several
check '--init' cmp one/model.safetensors several/model.safetensors
ranks 1 "$@" --folds 2 --init published --out one
ranks 2 "$@" --init published --mesh tensor=2 --out several
check '--init with published weights' cmp one/model.safetensors several/model.safetensors

# What lies where.
run graph gpt2-nano --mesh tensor=2 --ranks 2 --stage 1
check 'graph: who sends partial sums' grep -qE '^h\.0\.attn\.proj:linear +stage 0, part 0 +stage 0, part 1 +send' out
check 'graph: and who sends them back' grep -qE '^h\.0\.attn\.proj:linear +stage 0, part 1 +stage 0, part 0 +send' out

# What cannot be, and why.
refused() { # name, ranks, pattern, options
  name=$1 count=$2 pattern=$3
  shift 3
  ranks "$count" train "$@" --steps 2 --quiet --workers 1 --force --out refused
  check "refused: $name" sh -c "[ $code = 2 ] && grep -qE -e '$pattern' err"
}
refused 'an unknown dimension' 2 'none of data=N, pipe=N and tensor=N' mlp --data data --batch 96 --mesh tensors=2
refused 'more folds than heads' 1 "5 folds divide layer .h.0.attn. \(attention\), which has only 4 heads: .* \(--folds, --mesh tensor=N\)" gpt2-nano --size layers=2,width=64,heads=4 --data text --length 16 --batch 8 --folds 5
refused 'more ranks than folds' 4 '--mesh tensor=4 is more than the 2 folds of this training' gpt2-nano --size layers=2,width=64,heads=4 --data text --length 16 --batch 8 --folds 2 --mesh tensor=4
refused 'no layer to divide' 2 'no layer of this model can be divided' resnet8 --data data --batch 8 --mesh tensor=2
refused 'lamb' 2 'lamb takes norms of whole parameters' mlp --data data --batch 8 --mesh tensor=2 --optimizer lamb
ranks 1 train --resume --out several --mesh data=1 --folds 4
check 'refused: other folds than at the first start' sh -c "[ $code != 0 ] && grep -q -e '--folds is 4 here and 2 in' err"
finish
