#!/bin/sh
# Names in files that somebody else made. A name with control characters, such as escape sequences of terminals, or a
# name that is not UTF-8 is refused before any work is done, in every kind of file. No output contains such a name, and
# no name is written to a file that could then not be read.
. "$(dirname "$0")/support/command.shlib"
timelines=$(dirname "$starling")/tests/support/timelines
escape=$(printf '\033')
harmless() { ! grep -q "$escape" "$work/out" "$work/err"; }
refused() { # name, pattern, starling's arguments
  about=$1
  shift
  expect "$about: refused" "${wanted_code:-1}" "$@"
  check "$about: no output has it" harmless
}
make_set data 40 20 28 3
printf 'sandals\ncaf\303\251\nbag\n' >data/labels.txt
small='--data data --batch 8 --workers 1 --steps 1'

# labels.txt of a data set.
for bad in 'caf\351' 'bag\033[2J' 'c\302\233m' 'bag\342\200\256gab' 'bag\342\200\250'; do
  cp -r data bad
  # shellcheck disable=SC2059 # $bad is a format
  printf "sandals\n$bad\nshoe\n" >bad/labels.txt
  # shellcheck disable=SC2086 # $small is several words, here and below
  refused "labels.txt with $bad" 'bad/labels.txt: line 2 is not UTF-8 text or has control characters' train vit-tiny $small --data bad --out r
  check "labels.txt with $bad: no step was made, and no run is there" sh -c "! grep -q '^step\|^run' out && [ ! -e r ]"
  rm -r bad
done

# id2label of published weights.
# shellcheck disable=SC2086
expect 'train a model' 0 '^test' train vit-tiny --size stem=0,layers=1 $small --out run
expect 'publish it' 0 ' to hf' convert run --to hf --out hf
check 'the names are in config.json' grep -q '"0": "sandals"' hf/config.json
image=data/t10k-images-idx3-ubyte
expect 'predict with the published weights' 0 '(sandals|café|bag) 0\.[0-9]+' predict hf $image
sed -i 's/"0": "sandals"/"0": "\\u001b]0;taken\\u0007"/' hf/config.json
refused 'id2label, predict' 'hf/config.json: id2label.*class 0.*control characters' predict hf $image
refused 'id2label, predict --json' 'hf/config.json: id2label.*control characters' predict hf $image --json
refused 'id2label, convert' 'hf/config.json: id2label.*control characters' convert hf --to starling --out model
check 'id2label, convert: no file is written' absent model
# shellcheck disable=SC2086
refused 'id2label, train --init' 'hf/config.json: id2label.*control characters' train vit-tiny $small --init hf --out r
sed -i 's/"0": "[^"]*"/"0": "sandals"/' hf/config.json
expect 'the names as they were' 0 ' to model' convert hf --to starling --out model
expect 'the converted file can be read' 0 'sandals|café|bag' predict model $image

# Names of files: they may come from an archive, or from somebody else's config.yaml.
cp $image "odd$escape[2J"
expect 'predict on a file with an odd name' 0 '^odd\?\[2J\[0\]: ' predict model "odd$escape[2J"
check 'predict on a file with an odd name: no output has it' harmless
# shellcheck disable=SC2086
expect 'train on with the converted weights' 0 'begins with .*model;' train vit-tiny --size stem=0,layers=1 $small --init model --rate-schedule constant --out other
sed -i 's/^init: .*/init: "\\e[2Jmodel"/' other/config.yaml
expect 'resume with an odd name in config.yaml' 0 'begins with \?\[2Jmodel' train --resume --out other --steps 2
check 'resume with an odd name in config.yaml: no output has it' harmless

# A working folder whose path config.yaml cannot have: the message has path and remedy.
odd=$(printf 'od\351d\033[1m')
if mkdir "$odd" 2>/dev/null; then
  cp -r data "$odd"
  cd "$odd" || exit 99
  wanted_code=2
  no_config='config.yaml cannot have the path .*/od.d\?\[1m/data \(--data\), which is not UTF-8: rename the folder'
  # shellcheck disable=SC2086
  {
    refused 'a folder that is not UTF-8, --data' "$no_config" train mlp $small --out r
    check 'a folder that is not UTF-8: no run is there' absent r
    cd "$work" || exit 99
    mv model "$odd"
    ln -s "$odd/model" model
    refused 'a folder that is not UTF-8, --init' 'cannot have the path .*/od.d\?\[1m/model \(--init\), which' train vit-tiny $small --init model --out r
    rm model
    mv "$odd/model" model
  }
  unset wanted_code
else skip 'a folder that is not UTF-8: it cannot be made'; fi

# Names that the command line gives: a script may have them from an archive.
odd="x$escape[2J"
shown='x\?\[2J'
plain() { # name, pattern, starling's arguments
  about=$1 pattern=$2
  shift 2
  expect "$about: the name is shown" 0 "$pattern" "$@"
  check "$about: no output has the escape" harmless
}
# shellcheck disable=SC2086
plain 'train --out' "^run directory $shown" train mlp $small --out "$odd"
plain 'report --out' "^$shown/page" report "$odd" --out "$odd/page"
plain 'report, into the run directory' "^$shown/report.html" report "$odd"
plain 'convert --out' "to $shown/published" convert run --to hf --out "$odd/published"
echo 'a text of some words' >words.txt
plain 'tokenize --out' "^$shown/train.bin" tokenize words.txt --tokenizer bytes --out "$odd"
mkdir -p pictures/a pictures/b
printf '\211\120\116\107\015\012\032\012\000\000\000\015\111\110\104\122\000\000\000\002\000\000\000\001\010\000\000\000\000\321\111\040\126\000\000\000\013\111\104\101\124\170\332\143\160\164\002\000\000\307\000\204\202\237\054\112\000\000\000\000\111\105\116\104\256\102\140\202' >pictures/a/1.png
cp pictures/a/1.png pictures/b/1.png
cp words.txt "pictures/b/$odd.png"
plain 'import --out' "^$shown-set: images of" import images pictures --skip-bad --out "$odd-set"
check 'import: a file that is left out' grep -qE "^left out: .*$shown.png" out
if command -v pkg-config >/dev/null; then plain 'lesson' "^$shown-lesson: lesson" lesson 7 "$odd-lesson"; else skip 'lesson: no pkg-config'; fi

# Class names of a model file. In its header an escape has seven bytes, as many as "sandals".
size() { wc -c <"$1"; }
same_length() { test "$(size "$1")" = "$(size "$2")" && ! cmp -s "$1" "$2"; }
LC_ALL=C sed 's/\\"sandals\\"/\\"\\\\u001b\\"/' model >odd
check 'the model file has an escape in place of a name' same_length odd model
refused 'a class name of a model file, predict' 'odd: a class name has control characters' predict odd $image
refused 'a class name of a model file, eval' 'odd: a class name has control characters' eval odd --data data

# The texts of a timeline: the model, the policy, operations, layers.
if [ -x "$timelines" ]; then
  mkdir lines
  check 'timelines' "$timelines" lines 1000
  expect 'trace' 0 'policy lws' trace lines
  for name in '<b>model<.b>' 'layernorm' 'block0.attention'; do
    cp -r lines bad
    # as many bytes: an escape has seven
    more=$(printf '%s' "$name" | sed 's/\\//; s/^.......//')
    LC_ALL=C sed "s/$name/\\\\\\\\u001b$more/" lines/timeline-1.safetensors >bad/timeline-1.safetensors
    check "$name in a timeline: the file keeps its length" same_length bad/timeline-1.safetensors lines/timeline-1.safetensors
    refused "$name in a timeline, trace" 'timeline-1.safetensors: .*control characters' trace bad
    refused "$name in a timeline, trace --json" 'timeline-1.safetensors: .*control characters' trace bad --json
    refused "$name in a timeline, report" 'timeline-1.safetensors: .*control characters' report bad --out page
    for format in chrome paje csv; do
      refused "$name in a timeline, $format" 'timeline-1.safetensors: .*control characters' trace bad --format $format --out page
    done
    check "$name in a timeline: no file is written" absent page
    rm -r bad
  done
else
  skip "a timeline: no $timelines"
fi

# Folders that become classes.
mkdir -p "photos/a$escape[2J" photos/b
wanted_code=2
refused 'a folder of images' 'a folder.s name becomes the name of a class, and this one is not UTF-8 or has control characters' import images photos --out set
finish
