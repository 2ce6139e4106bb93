#!/bin/sh
# Language models by the command: training on text and token files, stopping and resuming, scoring, and the messages
# for wrong data.
. "$(dirname "$0")/support/command.shlib"
same() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && b != "" && (a - b) ^ 2 < 1e-12) }'; }
le32() { printf '\\%03o\\%03o\\%03o\\%03o' $(($1 & 255)) $(($1 >> 8 & 255)) $(($1 >> 16 & 255)) $(($1 >> 24 & 255)); }
# A token file of 16-bit ids 0 .. kinds - 1 in turn, over and over.
make_ids() { # file, count, kinds, [magic, version, count in the header]
  { printf "$(le32 "${4:-20240520}")$(le32 "${5:-1}")$(le32 "${6:-$2}")"; head -c 1012 /dev/zero; } >"$1"
  printf "$(awk -v n="$2" -v k="$3" 'BEGIN { for (i = 0; i < n; i++) printf "\\%03o\\%03o", i % k % 256, i % k / 256 }')" >>"$1"
}
awk 'BEGIN { for (i = 0; i < 60; i++) print "line " i * 7 % 60 " of a text that is told again and again" }' >text.txt
small='--data text.txt --length 16 --batch 2 --workers 1 --learning-rate 1e-3 --rate-schedule constant --warmup 0'

# shellcheck disable=SC2086 # $small is several words, here and below
expect 'train on a text' 0 '^validation loss [0-9.]+ perplexity [0-9.]+ accuracy [01]\.[0-9]+$' train gpt2-nano $small --steps 8 --eval-every 4 --log-every 2 --out a
check 'the output has perplexity and tokens/s' grep -qE 'step 8 .* validation loss [0-9.]+ perplexity [0-9.]+ accuracy [01]\.[0-9]+.* [0-9]+ tokens/s' out
check 'the loss falls' awk -v first="$(field perplexity a/metrics.jsonl)" -v last="$(field validation_loss a/summary.json)" 'BEGIN { exit !(last > 0 && exp(last) < first) }'
check_json 'metrics.jsonl is JSON, line for line' a/metrics.jsonl
for name in loss accuracy perplexity tokens_per_s samples_per_s; do
  grep '"train"' a/metrics.jsonl | head -n 1 >line
  check "metrics: $name" grep -qE "\"$name\": *[0-9]" line
done
check 'the configuration has the length' grep -q '^length: 16' a/config.yaml
run eval a --split validation --json
check_json 'eval --json is JSON' out
check 'eval: the loss is that of train' same "$(field loss out)" "$(field validation_loss a/summary.json)"
check 'eval: the accuracy is that of train' same "$(field accuracy out)" "$(field validation_accuracy a/summary.json)"
check 'eval: perplexity is the exponential of the loss' awk -v l="$(field loss out)" -v p="$(field perplexity out)" 'BEGIN { exit !((exp(l) / p - 1) ^ 2 < 1e-10) }'
check 'eval: top-5 accuracy is not below accuracy' awk -v a="$(field accuracy out)" -v b="$(field top5_accuracy out)" 'BEGIN { exit !(b != "" && b >= a && b <= 1) }'
check 'eval: it counts tokens' test "$(($(field samples out) % 16))" = 0
expect 'eval of a model file alone' 0 '^train accuracy .* perplexity .* tokens' eval a/model.safetensors --data text.txt --split train
expect 'eval: another batch gives the same loss, to rounding' 0 '^validation accuracy' eval a --split validation --batch 5
# The seed of the run also masks the tokens that BERT restores.
run train bert-nano --size layers=1,width=16,heads=2 --data text.txt --length 16 --batch 4 --seed 7 --steps 2 --quiet --workers 1 --out masked
run eval masked --split validation --json
loss=$(field loss out)
run eval masked --split validation --batch 4 --json
check 'eval: the batch of the training, given again, has the masks of the seed' test -n "$loss" -a "$loss" = "$(field loss out)"
expect 'eval: a split without data' 1 'text.txt has no windows for test; --split' eval a
expect 'predict refuses a language model' 1 'a model of tokens.*starling generate' predict a none.png

# The example, on a text of our own.
if TEXT=text.txt RUN=example STARLING=$starling sh "$top/examples/kjv.sh" --steps 2 --eval-every 2 --length 16 --batch 2 --workers 1 >out 2>err; then code=0; else code=$?; fi
check 'examples/kjv.sh runs' test $code = 0
check 'examples/kjv.sh generates text' grep -q '^Ge1:1 In the beginning' out

# Writing text.
write() { # file for it, options
  file=$1
  shift
  run generate a --prompt 'line ' --workers 1 "$@"
  cp out "$file"
}
write one --tokens 20
check 'generate: prompt, 20 bytes and a newline' test "$code $(head -c 5 one) $(wc -c <one)" = '0 line  26'
write two --tokens 20
check 'generate: the same seed gives the same text' cmp one two
write two --tokens 20 --seed 2
check 'generate: another seed gives another text' test "$(cmp -s one two; echo $?)" = 1
write one --tokens 20 --temperature 0
write two --tokens 20 --temperature 0 --seed 2
check 'generate: temperature 0 does not depend on the seed' cmp one two
write two --tokens 20 --top-k 1 --seed 3
check 'generate: nor does top-k 1' cmp one two
write two --tokens 20 --top-p 0 --seed 4
check 'generate: nor does top-p 0' cmp one two
printf 'line ' >prompt
run generate a --prompt-file prompt --tokens 20 --temperature 0 --workers 1
check 'generate --prompt-file' cmp one out
run generate a --prompt-file prompt --tokens 20 --temperature 0 --workers 1 --quiet
check 'generate --quiet leaves out the prompt' test "line $(cat out)" = "$(cat one)"
run generate "$(newest a)" --prompt-file text.txt --tokens 3 --temperature 0 --workers 1 --json
check_json 'generate --json is JSON, even if the prompt is longer than the window' out
check 'generate --json counts tokens' grep -q '"prompt_tokens": *'"$(wc -c <text.txt | tr -d ' ')" out
expect 'generate without a prompt' 0 '.' generate a --tokens 3 --workers 1
expect 'generate: two prompts' 2 'exclude each other' generate a --prompt a --prompt-file prompt
expect 'generate: a missing prompt file' 1 'none' generate a --prompt-file none
expect 'generate: a missing tokenizer' 1 'none.json' generate a --tokenizer none.json
expect 'generate: a window longer than the positions' 2 'a window of 512 tokens, but the model has 256 positions.*--length' generate a --length 512 --prompt x --tokens 1
check 'generate: it writes nothing then' test ! -s out
make_set images 60 0 8 3
expect 'train a model of images' 0 '^step 1 ' train mlp --data images --batch 8 --steps 1 --workers 1 --out m
expect 'generate refuses a model of images' 1 'mlp, which does not predict next tokens' generate m

# Stopping and resuming gives the bytes of a run that was never stopped.
expect 'a run of half the steps' 0 '^validation' train gpt2-nano $small --steps 4 --eval-every 4 --log-every 2 --out b
expect 'the run resumed' 0 'resumed after step 4' train --resume --out b --steps 8
check 'the state is that of an undivided run' same_state a b
check 'the model is that of an undivided run' cmp a/model.safetensors b/model.safetensors
expect 'resume refuses another length' 1 'differs from that of b/checkpoints/step-00000008' train --resume --out b --length 8 --steps 9
tr a e <text.txt >other.txt
expect 'resume refuses another text' 1 'tokens of --data differ from those of the training in b/checkpoints/step-00000008' train --resume --out b --data other.txt --steps 9
check 'the refusals change nothing' same_state a b

# Token files, and a folder of them.
mkdir ids && make_ids ids/x_train.bin 200 200 && make_ids ids/x_val.bin 40 100 && make_ids ids/x_test.bin 50 50
expect 'train on a folder of token files' 0 'windows of 16 tokens of 256 kinds: 12 to train on, 2 to validate, 3 to test' train gpt2-nano $small --data ids --steps 2 --out c
check 'the model is tested on the test file' grep -qE '^test loss [0-9.]+ perplexity' out
expect 'eval on the folder' 0 '^test accuracy .* over 48 tokens' eval c
expect 'train on several files' 0 ': 1[0-9][0-9] to train on, 2 to validate' train gpt2-nano $small --data ids/x_val.bin,ids/x_train.bin,text.txt --steps 1 --out d
expect 'bench on a text' 0 '^samples/s' bench gpt2-nano --data text.txt --length 16 --batch 2 --steps 2 --no-measure --workers 1
expect 'graph of a text' 0 'windows of 16 tokens of 256 classes' graph gpt2-nano --data text.txt --length 16

# A tokenizer beside the tokens: its vocabulary is the model's, and the run keeps it.
tokenizer=$top/tests/runtime/text/tokenizer_bpe.json
mkdir bpe && make_ids bpe/x.bin 300 290 && cp "$tokenizer" bpe/tokenizer.json
expect 'train on tokens with a tokenizer beside them' 0 'windows of 16 tokens of 400 kinds' train gpt2-nano $small --data bpe --steps 1 --out t
expect 'a vocabulary given by --size that is too small' 1 'has 400 tokens, but the model a vocabulary of 300' train gpt2-nano $small --size vocabulary=300 --data bpe --steps 1 --out v
expect 'also where it is the usual one' 1 'has 400 tokens, but the model a vocabulary of 256' train gpt2-nano $small --size vocabulary=256 --data bpe --steps 1 --out v
check 'the run has a copy of the tokenizer' cmp t/tokenizer.json "$tokenizer"
run generate t --prompt 'the beginning' --tokens 12 --workers 1
check 'generate uses that tokenizer' grep -q '^the beginning' out
run generate t --prompt 'the beginning' --tokens 12 --workers 1 --json
check 'the prompt has fewer tokens than bytes' test "$(field prompt_tokens out)" -lt 13
rm t/tokenizer.json
run generate t --prompt '12 13' --tokens 3 --temperature 0 --workers 1
check 'generate without a tokenizer prints ids' grep -qE '^12 13 [0-9]+ [0-9]+ [0-9]+$' out
expect 'without a tokenizer a prompt of words is refused' 2 'no token id at byte 0, and there is no tokenizer' generate t --prompt words --workers 1
expect 'generate --tokenizer' 0 '^words' generate t --prompt words --tokens 2 --tokenizer "$tokenizer" --workers 1
expect 'generate refuses a tokenizer with more tokens than the model' 2 'has 400 tokens, but the model a vocabulary of 256' generate a --prompt words --tokenizer "$tokenizer"
expect 'eval refuses tokens of another tokenizer' 1 'tokenizer.json has 400 tokens, but the model a vocabulary of 256' eval a --data bpe --split train
cp text.txt bpe/text.txt
expect 'a text beside a tokenizer is read as bytes' 0 'of 256 kinds' train gpt2-nano $small --data bpe/text.txt --steps 1 --out s
check 'that run has no copy of the tokenizer' absent s/tokenizer.json
echo '{' >bpe/tokenizer.json
expect 'a broken tokenizer is named' 1 'bpe/tokenizer.json' train gpt2-nano $small --data bpe --steps 1 --out bad-run

# Wrong data: the message names the file, and no run directory remains.
bad() { # what, code, pattern, data, [more options]
  name=$1 code_wanted=$2 pattern_wanted=$3 data=$4
  shift 4
  expect "$name" "$code_wanted" "$pattern_wanted" train gpt2-nano $small --steps 1 --out bad-run --data "$data" "$@"
  check "$name: nothing is left" absent bad-run
}
make_ids magic.bin 40 10 7
bad 'a wrong magic' 1 'magic.bin: not a token file, its magic is 7' magic.bin
make_ids version.bin 40 10 20240520 3
bad 'a wrong version' 1 'version.bin: version 3 at offset 4' version.bin
make_ids cut.bin 40 10 20240520 1 41
bad 'a count beyond the file' 1 'cut.bin: the header \(offset 8\) counts 41 tokens .* truncated' cut.bin
make_ids large.bin 400 300
bad 'an id beyond the vocabulary' 1 'large.bin: token 256 \(byte offset 1536\) is 256, beyond the vocabulary of 256' large.bin
head -c 12 text.txt >short.txt
bad 'a text that is too short' 2 'hold no window of 17: shorten .*--length' short.txt
bad 'a missing file' 1 "none.txt'" none.txt
mkdir empty
bad 'an empty folder' 1 'empty has neither .bin files' empty
expect 'without --data' 2 'gpt2-nano is a model of tokens: name a text.*--data' train gpt2-nano --steps 1 --out bad-run
expect 'a window longer than the positions' 1 'positions' train gpt2-nano $small --length 257 --steps 1 --out bad-run
check 'failures leave no directory' absent bad-run
finish
