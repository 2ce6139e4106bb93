#!/bin/sh
# starling tokenize: makes token files with every kind of tokenizer, one of which the test trains; turns them back into
# the text; gives clear messages for wrong input.
. "$(dirname "$0")/support/command.shlib"
data=$top/tests/runtime/text
little() { od -An -tu"$3" -j "$2" -N "$3" "$1" | tr -d ' '; } # file, byte, width
tokens_are() { [ "$(od -An -v -tu"$2" -j 1024 "$1" | tr -s ' \n' ' ' | sed 's/^ //; s/ $//')" = "$3" ]; }
awk 'BEGIN { for (i = 0; i < 4000; i++) print "line " i * 7 % 600 " of a text that is told again, and it'\''s told\tagain" }' >text.txt
printf 'caf\303\251 \377\376 \000 end' >odd.txt

expect 'tokenize with bytes' 0 'a/train.bin: 14 tokens of 16 bits' tokenize odd.txt --tokenizer bytes --out a
check 'the header is that of 16 bits' test "$(little a/train.bin 0 4) $(little a/train.bin 4 4) $(little a/train.bin 8 4)" = '20240520 1 14'
check 'the tokens are the bytes' tokens_are a/train.bin 2 '99 97 102 195 169 32 255 254 32 0 32 101 110 100'
expect 'tokenize --bits 32' 0 '14 tokens of 32 bits' tokenize odd.txt --tokenizer bytes --bits 32 --out a
check 'the header is that of 32 bits' test "$(little a/train.bin 0 4) $(little a/train.bin 4 4) $(little a/train.bin 8 4)" = '20240801 7 14'
check 'the tokens of 32 bits are the bytes' tokens_are a/train.bin 4 '99 97 102 195 169 32 255 254 32 0 32 101 110 100'
check_json 'the written tokenizer.json is JSON' a/tokenizer.json
run tokenize --decode a/train.bin --tokenizer a/tokenizer.json
check '--decode with it restores the text' cmp -s out odd.txt
expect '--decode --json of a text that is not UTF-8' 1 'a/train.bin is not UTF-8, which JSON needs: leave out --json' tokenize --decode a/train.bin --tokenizer bytes --json

# Old tokenizer.json, such as GPT-2's and BERT's, do not name the kind of their model.
for kind in BPE WordPiece; do
  file=$(grep -l "\"type\":\"$kind\"" "$data"/tokenizer_*.json | head -n 1)
  sed "s/\"type\":\"$kind\",//" "$file" >old.json
  run tokenize text.txt --tokenizer "$file" --out named
  expect "a $kind that its file does not name" 0 '' tokenize text.txt --tokenizer old.json --out unnamed
  check "a $kind: the same tokens" sh -c 'for f in named/*.bin; do cmp "$f" "un$f" || exit 1; done'
  rm -rf named unnamed
done
expect 'tokenize with a BPE' 0 'vocabulary 400, 0\.[0-9]+ tokens per byte' tokenize text.txt --tokenizer "$data/tokenizer_bpe.json" --out b
run tokenize --decode b/train.bin --tokenizer b
check '--decode restores the text of the BPE' cmp -s out text.txt
run tokenize --decode b/train.bin --tokenizer b --json
awk '{ gsub(/\t/, "\\t"); text = text $0 "\\n" } END { printf "{\n  \"text\": \"%s\"\n}\n", text }' text.txt >b.json
check '--decode --json' cmp out b.json
expect 'tokenize with a WordPiece' 0 'vocabulary [0-9]+' tokenize text.txt --tokenizer "$data/tokenizer_uncased.json" --out c
cp out c.said
expect '--decode restores the words of the WordPiece' 0 '^line 0 of a text that is told again , and it '"'"' s told again line 7 of' tokenize --decode c/train.bin --tokenizer c/tokenizer.json

# A model of words: generate writes spaces between them, and none before the rest of a word.
expect 'train on words' 0 'run directory' train gpt2-nano --size layers=1,width=16,heads=2 --data c --length 16 --batch 4 --steps 2 --workers 1 --out words
for seed in 1 2 3; do
  run generate words --tokens 12 --temperature 2 --seed $seed --workers 1
  tr -d '\n' <out | sed 's/^ //' >streamed
  run generate words --tokens 12 --temperature 2 --seed $seed --workers 1 --json
  check "generate: the text is that of --json, seed $seed" test "$(cat streamed)" = "$(sed -n 's/^ *"text": "\(##\)*\(.*\)",*$/\2/p' out | sed 's/\\\(.\)/\1/g; s/ \[SEP\]$//')"
done
check 'it has spaces' grep -q '[a-z] [a-z]' streamed
expect 'eval with another window' 0 'accuracy' eval words --data c --length 8 --split train --workers 1
# A BERT masks by the tokenizer's own mask, and never by a token that stands for text.
bert='train bert-nano --length 16 --batch 4 --steps 1 --workers 1 --quiet --force --out bert'
# shellcheck disable=SC2086
{
  expect "another mask than the tokenizer's" 1 "[[]MASK[]] is token [0-9]+ of .*tokenizer.json, but the model masks by token 1: give the model the sizes mask=[0-9]+" $bert --size layers=1,width=16,heads=2,mask=1 --data c
  expect 'the mask of the tokenizer' 0 '' $bert --size "layers=1,width=16,heads=2,mask=$(sed -n 's/.*sizes mask=\([0-9]*\).*/\1/p' err),specials=1" --data c
}
mkdir bare && cp c/train.bin bare
# shellcheck disable=SC2086
expect 'tokens without a tokenizer' 0 'run directory' ${bert%--quiet*} --force --out masked --size "layers=1,width=16,heads=2,mask=1,specials=1,vocabulary=$(sed -n 's/.*vocabulary \([0-9]*\).*/\1/p' c.said)" --data bare
expect 'a model that was trained with another mask is scored, with a warning' 0 'trained with another mask' eval masked --data c --split train --workers 1
awk 'BEGIN { for (i = 0; i < 6000; i++) printf "%s%s ", i * 7919 % 997, i * 104729 % 1009 }' >many.txt
expect 'learn more tokens than the published specials' 0 '' tokenize many.txt --tokenizer train --vocabulary 1100 --out many
# shellcheck disable=SC2086
{
  expect 'a tokenizer without a mask' 1 'has no [[]MASK[]], and its token 103, .*vocabulary=1101,mask=1100,specials=1' $bert --size layers=1,width=16,heads=2 --data many
  expect 'with a token of its own for the mask' 0 '' $bert --size layers=1,width=16,heads=2,vocabulary=1101,mask=1100,specials=1 --data many
}

expect 'learn a tokenizer' 0 '"vocabulary": *600' tokenize text.txt --tokenizer train --vocabulary 600 --out d --val-fraction 0.25 --json
check_json 'tokenize --json is JSON' out
check 'about a quarter of the tokens is for validation' awk -v t="$(field train_tokens out)" -v v="$(field validation_tokens out)" 'BEGIN { exit !(v > 0.2 * (t + v) && v < 0.3 * (t + v)) }'
{ "$starling" tokenize --decode d/train.bin --tokenizer d; "$starling" tokenize --decode d/val.bin --tokenizer d; } >both
check 'both parts together are the text' cmp -s both text.txt
cp d/tokenizer.json first.json
expect 'learn a tokenizer again' 0 learnt tokenize text.txt --tokenizer train --vocabulary 600 --out e
check 'it is the same tokenizer' cmp -s e/tokenizer.json first.json
expect 'an existing val.bin is refused' 1 'd/val.bin exists from before' tokenize text.txt --tokenizer d --out d

printf 'aaaa' >1.txt && printf 'bbbb' >2.txt && printf 'cccc' >3.txt
run tokenize 1.txt 2.txt 3.txt --tokenizer train --vocabulary 257 --out f --val-fraction 0.3
check 'the end token separates texts' tokens_are f/train.bin 2 '64 64 64 64 256 65 65 65 65'
check 'the last texts are for validation' tokens_are f/val.bin 2 '66 66 66 66'
expect 'train reads the token files' 0 'validation loss' train gpt2-nano --data d --length 16 --batch 2 --workers 1 --steps 2 --out run

expect 'without --tokenizer' 2 '--tokenizer PATH is needed' tokenize text.txt --out g
expect 'without --out' 2 '--out DIR is needed' tokenize text.txt --tokenizer bytes
expect 'without a text' 2 'an argument is missing' tokenize --tokenizer bytes --out g
expect '--tokenizer train without --vocabulary' 2 '--vocabulary N' tokenize text.txt --tokenizer train --out g
expect 'a missing text' 1 'cannot read none.txt' tokenize none.txt --tokenizer bytes --out g
expect 'a missing tokenizer' 1 'no tokenizer at none' tokenize text.txt --tokenizer none --out g
: >empty.txt
expect 'an empty text' 2 'too short' tokenize empty.txt --tokenizer bytes --out g
check 'an empty text leaves no token file' absent g/train.bin
expect '--decode of a file that is not a token file' 1 'text.txt is not a token file' tokenize --decode text.txt --tokenizer bytes
expect 'an id beyond the vocabulary' 1 'token [0-9]+ \(byte [0-9]+\) is [0-9]+, but the vocabulary of bytes has 256' tokenize --decode d/train.bin --tokenizer bytes
head -c 2000 a/train.bin >short.bin && head -c 1030 a/train.bin >short.bin
expect 'a token file cut short' 1 'short.bin has 1030 bytes, but 14 tokens' tokenize --decode short.bin --tokenizer bytes

# The order of the files: the old tokenizer goes first, the new one comes last, whenever the command is killed; the next
# start removes what that one left. Where a name cannot be written, no file is left, and the exit code says so.
faults=$(cd "${top_builddir:-$(dirname "$starling")}" && pwd)/tests/support/faults.so
if [ -e "$faults" ] && ! grep -qa __asan_init "$starling"; then
  printf 'the old text' >old.txt
  stands() { [ "$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null)" = T ]; }
  there() { (cd h && find . -type f ! -name '.*' | sort | tr -d '\n'); }
  renames() { # how, which one: tokenizes text.txt over an older set of old.txt, whose n-th renaming goes wrong
    rm -rf h
    run tokenize old.txt --tokenizer train --vocabulary 257 --out h --val-fraction 0.3
    code=0
    env LD_PRELOAD="$faults${LD_PRELOAD:+:$LD_PRELOAD}" FAULT_CALL=rename FAULT_UNDER="h/" FAULT_HOW="$1" FAULT_N="$2" \
      "$starling" tokenize text.txt --tokenizer train --vocabulary 600 --out h --val-fraction 0.25 >out 2>err &
  }
  for n in 1 2 3; do
    renames stop $n
    job=$!
    check "killed before renaming $n: it comes there" wait_until stands $job
    kill -KILL $job
    wait $job 2>/dev/null
    check "killed before renaming $n: the tokens are there, and no tokenizer" test "$(there)" = ./train.bin./val.bin
    new=$(if cmp -s h/train.bin d/train.bin; then echo train; fi; if cmp -s h/val.bin d/val.bin; then echo val; fi)
    # shellcheck disable=SC2086
    check "killed before renaming $n: which tokens are new" test "$(echo $new)" = "$(set -- '' train 'train val' && shift $((n - 1)) && echo "$1")"
    expect "killed before renaming $n: the next start" 0 learnt tokenize text.txt --tokenizer train --vocabulary 600 --out h --val-fraction 0.25
    check "killed before renaming $n: the next start completes the set, and nothing else is there" diff -r d h
    renames ENOSPC $n
    wait $! || code=$?
    check "renaming $n fails: exit code 74" test $code = 74
    check "renaming $n fails: the file is named, and the mend" grep -qE '^starling: cannot write h/(train.bin|val.bin|tokenizer.json): No space left on device; free some space' err
    check "renaming $n fails: no half of a set is left" test -z "$(find h -type f)"
  done
else
  skip "the order of the files: no $faults, or sanitizers"
fi
finish
