#!/bin/sh
# starling convert and train --init: a model that is written in another format and read back has the same bytes; eval
# reads the files. If tensors do not fit, they are listed and nothing is written.
. "$(dirname "$0")/support/command.shlib"
make_set data 120 40 28 10
yes 'the quick brown fox jumps over the lazy dog' | head -c 20000 >text.txt

small='--data data --batch 20 --workers 1 --steps 3'
# shellcheck disable=SC2086 # several words
expect 'train a residual network' 0 '^test accuracy' train resnet8 $small --out r
expect 'convert it to torchvision' 0 '^resnet8: .* to r.tv' convert r --to torchvision --out r.tv
cp out converted
run convert r --to torchvision --out json.tv --json
check_json 'convert --json' out
check 'convert --json has the layout, the file and the numbers of the text' sh -c 'cmp r.tv json.tv && grep -q "\"to\": \"torchvision\"" out && grep -q "\"out\": \"json.tv\"" out && grep -qx "resnet8: $(sed -n "s/.*parameters\": \([0-9]*\).*/\1/p" out) parameters in $(sed -n "s/.*tensors\": \([0-9]*\).*/\1/p" out) tensors, to r.tv" converted'
expect 'convert does not overwrite a file' 1 'r.tv exists already' convert r --to torchvision --out r.tv
expect 'convert it back, with the model named' 0 '^resnet8' convert r.tv --model resnet8 --to starling --out r.sl
expect 'convert it to torchvision again' 0 '^resnet8' convert r.sl --to torchvision --out again.tv
check 'the round trip gives the same bytes' cmp r.tv again.tv
expect 'eval of the converted file' 0 '^test accuracy' eval r.tv --data data
make_set wide 20 40 33 10
expect 'a residual network evaluates images of another size' 0 '^test accuracy' eval r --data wide
run eval r.tv --data wide --json
check_json 'eval --json has the sizes' out
check 'all sizes are there' sh -c 'tr -d " \n" <out | grep -q "\"size\":{\"bottleneck\":0,.*\"blocks\":.1,1,1."'
expect 'a library without a layout for the model is refused' 1 'there is one for torchvision \(--to\)' convert r --to hf --out x
expect 'another depth: the tensors that do not fit are listed' 1 'missing  layer[0-9].*' convert r.tv --model resnet18 --to starling --out y
check 'all misfits are listed' test "$(grep -c missing err)" -gt 20
check 'misfits show both shapes' grep -q 'shape    conv1.weight (conv1.weight) is \[[0-9]*, 1, 3, 3\] in the file, the network wants \[64, .*, 7, 7\]' err
check 'nothing is written then' absent y

# Beginning with weights.
make_set three 120 40 28 3
# shellcheck disable=SC2086
expect '--init with another number of classes: the error shows both shapes' 1 'shape    fc.weight .fc.weight. is \[10, [0-9]*\] in the file, the network wants \[3, [0-9]*\]' train resnet8 --init r.tv --out f $small --data three
check 'the failure leaves no run' absent f
# shellcheck disable=SC2086
expect 'with --new-head it trains' 0 'r.tv and a new classifier; images are normalised as there' train resnet8 --init r.tv --new-head --out f $small --data three --rate-schedule constant
# shellcheck disable=SC2086
expect 'in bf16, too' 0 'r.tv and a new classifier' train resnet8 --init r.tv --new-head --precision bf16 --out narrow $small --data three --rate-schedule constant
check 'the configuration has --init' grep -q '^init: .*r.tv' f/config.yaml
expect 'the run resumes' 0 'resumed after step 3' train --resume --out f --steps 4
expect '--resume refuses --init' 2 'resume continues a run' train --resume --out f --init r.tv --steps 5
# shellcheck disable=SC2086
expect '--new-head without --init is refused' 2 'new-head needs --init' train resnet8 --new-head --out g $small
# shellcheck disable=SC2086
expect 'Starling'"'"'s own file' 0 'begins with .*r/model.safetensors' train resnet8 --init r/model.safetensors --out h $small

# A vision transformer without config.json: the size of its images follows from its positions, with a class token and
# with that of DeiT, too.
make_set eyes 40 0 16 3
for distilled in 0 1; do
  stem=$([ $distilled = 1 ] && echo ',stem=0,distilled=1')
  expect "train a vision transformer, distilled=$distilled" 0 'run directory' train vit-b16 --size "layers=1,width=16,heads=2,hidden=32,patch=4$stem" --data eyes --batch 8 --steps 1 --workers 1 --out "eyes$distilled"
  expect 'convert it' 0 '^vit' convert "eyes$distilled" --to hf --out "hv$distilled"
  rm "hv$distilled"/*.json
  expect 'without config.json' 0 '^vit' convert "hv$distilled" --to starling --size heads=2 --out "back$distilled.sl"
  expect 'convert it again' 0 '^vit' convert "back$distilled.sl" --to hf --out "hw$distilled"
  check 'the same weights' cmp "hv$distilled/model.safetensors" "hw$distilled/model.safetensors"
  check 'and images of 16 x 16' grep -q '"image_size": 16' "hw$distilled/config.json"
done

# A language model: written in several files with an index.
expect 'train a language model' 0 'run directory' train gpt2-nano --data text.txt --length 16 --batch 2 --steps 2 --out t --workers 1
expect 'convert it to Hugging Face' 0 '^gpt2-nano' convert t --to hf --out hf --shard-size 20
check 'config.json is there' grep -q '"n_head": 6' hf/config.json
check 'an index is there' test -s hf/model.safetensors.index.json
expect 'convert it back' 0 '^gpt2-nano' convert hf --to starling --out t.sl
expect 'parts of a file that is one' 2 '--shard-size divides the files of --to hf' convert hf --to starling --out t2.sl --shard-size 20
expect 'convert to Hugging Face again' 0 '^gpt2-nano' convert t.sl --to hf --out hf2 --shard-size 20
for f in hf/*; do check "$f has the same bytes" cmp "$f" "hf2/${f#hf/}"; done
expect 'convert it to Hugging Face in bf16' 0 '^gpt2-nano' convert t --to hf --out hb --dtype bf16
check 'config.json names the type' grep -q '"torch_dtype": *"bfloat16"' hb/config.json
bytes() { cat "$1"/*.safetensors | wc -c; }
check 'it has half the bytes' test "$(($(bytes hb) * 2 - $(bytes hf)))" -lt 40000 -a "$(($(bytes hb) * 2 - $(bytes hf)))" -gt -40000
expect 'train begins with it' 0 'begins with' train gpt2-nano --init hb --data text.txt --length 16 --batch 2 --steps 1 --out tb --workers 1
expect 'convert it back' 0 '^gpt2-nano' convert hb --to starling --out tb.sl
expect 'and again to bf16' 0 '^gpt2-nano' convert tb.sl --to hf --out hb2 --dtype bf16
check 'rounded once, the same bytes' cmp hb/model.safetensors hb2/model.safetensors
expect 'fp16' 0 '^gpt2-nano' convert t --to hf --out hh --dtype fp16
check 'config.json names it' grep -q '"torch_dtype": *"float16"' hh/config.json
expect 'a type that does not exist' 2 'dtype' convert t --to hf --out h8 --dtype int8
expect "Starling's own files are fp32" 2 'dtype is for published weights' convert hb --to starling --dtype bf16 --out tb2.sl
expect '--init with another --length' 0 'begins with' train gpt2-nano --init hf --data text.txt --length 8 --batch 2 --steps 1 --out t2 --workers 1
expect '--new-head for a tied head is refused' 2 'tied' train gpt2-nano --init hf --new-head --data text.txt --length 8 --batch 2 --steps 1 --out t3 --workers 1
expect 'a language model with a head of its own' 0 'run directory' train gpt2-nano --size untied=1,layers=1,width=36 --data text.txt --length 16 --batch 2 --steps 2 --rate-schedule constant --out u --workers 1
expect 'eval of it' 0 '^train accuracy' eval u --data text.txt --split train
expect 'convert it to Hugging Face' 0 '^gpt2-nano layers=1,width=36,untied=1: ' convert u --to hf --out uhf
check 'config.json says that the head is not tied' grep -q '"tie_word_embeddings": false' uhf/config.json
expect 'convert it back' 0 '^gpt2-nano layers=1,width=36,untied=1: ' convert uhf --to starling --out u.sl
expect 'and again' 0 '^gpt2-nano' convert u.sl --to hf --out uhf2
check 'the round trip gives the same bytes' cmp uhf/model.safetensors uhf2/model.safetensors
expect '--new-head for a head of its own trains' 0 'and a new classifier' train gpt2-nano --init uhf --new-head --data text.txt --length 8 --batch 2 --steps 1 --out u2 --workers 1
expect 'and in bf16' 0 'and a new classifier' train gpt2-nano --init uhf --new-head --data text.txt --length 8 --batch 2 --steps 1 --out u3 --workers 1 --precision bf16
expect 'a resumed run keeps the size' 0 'resumed after step 2' train --resume --out u --steps 3
sed -i 's/"n_head": 6/"n_head": 12/' hf/config.json
expect 'another number of heads is reported' 1 'n_head is 12, the network.s 6' convert hf --model gpt2-nano --to starling --out t4
expect 'such weights are a model of other sizes' 0 '^gpt2-nano heads=12: ' convert hf --to starling --out t4.sl
sed -i 's/model-00001/..\/hf2\/model-00001/' hf/model.safetensors.index.json
expect 'an index that names a file elsewhere is refused' 1 'weight_map.* is not the name of a file beside' convert hf --to starling --out t4
check 'the refusal writes nothing' absent t4
expect 'a missing file is refused' 1 'no model file or run directory none' convert none --to hf --out t5
finish
