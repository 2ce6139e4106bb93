#!/bin/sh
# A run from its data to its files: files and output of train, eval and predict; stopping and resuming. Every error
# gives a clear message and the right exit code, and leaves no incomplete file.
. "$(dirname "$0")/support/command.shlib"
make_set data 300 60 8 3
small='--data data --batch 32 --workers 1'
same() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && b != "" && (a - b) ^ 2 < 1e-12) }'; }

# shellcheck disable=SC2086 # $small is several words, here and below
expect 'train a model' 0 '^test accuracy [01]\.[0-9]{4}$' train mlp $small --steps 40 --eval-every 10 --log-every 5 --learning-rate 1e-4 --out a
for file in .starling-run config.yaml environment.json plan.json metrics.jsonl model.safetensors checkpoints/step-00000040/checkpoint.json summary.json; do
  check "it leaves $file" test -s a/$file
done
check_json 'environment.json is JSON' a/environment.json
check_json 'summary.json is JSON' a/summary.json
check 'the summary has the mean time of a step' grep -qE '"step_s": *[0-9.e-]*[1-9]' a/summary.json
check 'nothing is predicted as no speed is known' sh -c '! grep -q predicted a/summary.json'
check_json 'metrics.jsonl is JSON, line for line' a/metrics.jsonl
check 'metrics: a line of training every 5 steps' test "$(grep -c '"split": *"train"' a/metrics.jsonl)" = 8
check 'metrics: a line of validation every 10 steps' test "$(grep -c '"split": *"validation"' a/metrics.jsonl)" = 4
for name in loss accuracy learning_rate samples_per_s gflops utilization peak_memory_bytes memory_bytes input_wait_s time_s epoch; do
  grep '"train"' a/metrics.jsonl | head -n 1 >line
  check "metrics: $name" grep -qE "\"$name\": *[0-9]" line
done
check 'the configuration also shows defaults' grep -q '^optimizer: adamw' a/config.yaml
check 'no temporary file is left' test -z "$(find a -name '*.tmp')"
expect '--config reads that configuration' 0 '^test accuracy' train --config a/config.yaml --out again
check 'it gives the same bytes' same_state a again

# Once bench has measured the machine, steps are predicted.
run bench mlp --steps 1 --workers 1
# shellcheck disable=SC2086
expect 'train predicts a step' 0 '^a step is predicted to take [0-9.]+ ms: [0-9.]+ % in kernels; calibration gave 0 % of the kernels. time$' train mlp $small --steps 20 --out foreseen
check 'it tells what came of it' grep -qE '^a step took [0-9.]+ ms on average, [0-9.]+ times the prediction$' out
check 'both are in the summary' same "$(sed -n 's/^a step took .* average, \([0-9.]*\) times.*/\1/p' out)" \
  "$(awk -v s="$(field step_s foreseen/summary.json)" -v p="$(field predicted_step_s foreseen/summary.json)" 'BEGIN { printf "%.2f", s / p }')"
# shellcheck disable=SC2086
expect '--sync has no prediction' 0 'test_accuracy' train mlp $small --steps 4 --sync local:2 --out apart --json
check 'its summary has none' sh -c '! grep -q predicted apart/summary.json'

expect 'eval of a run' 0 '^test accuracy' eval a
run eval a --json
check 'eval: the accuracy is that of train' same "$(field accuracy out)" "$(field test_accuracy a/summary.json)"
check_json 'eval --json is JSON' out
run eval a --split validation --json
check 'eval: the best validation accuracy' same "$(field accuracy out)" "$(field validation_accuracy a/summary.json)"
expect 'eval of a model file alone' 0 '^train accuracy' eval a/model.safetensors --data data --split train
expect 'eval of the last checkpoint' 0 'after step 40' eval a/checkpoints/step-00000040
expect 'predict: a line for each image of an IDX file' 0 't10k-images-idx3-ubyte\[59\]: class 2 [01]\.[0-9]+|\[59\]: 2 ' predict a data/t10k-images-idx3-ubyte
check 'predict: every image has its line' test "$(wc -l <out)" -eq 60
run predict a data/t10k-images-idx3-ubyte --json --top 3
check_json 'predict --json is JSON' out
expect 'predict: a file that is not an image' 1 'labels-idx1-ubyte' predict a data/t10k-labels-idx1-ubyte
expect 'predict: a missing file' 1 'none.png' predict a none.png
expect 'eval: a missing run' 1 'nowhere' eval nowhere
expect 'eval: not a model' 1 'data/t10k-labels-idx1-ubyte' eval data/t10k-labels-idx1-ubyte
LC_ALL=C sed 's/\\"\(mean\|deviation\)\\":\[\([0-9.e-]*\)\]/\\"\1\\": \2 /g' a/model.safetensors >older.safetensors
check 'a model file with one mean for all channels' sh -c '! cmp -s a/model.safetensors older.safetensors'
run eval older.safetensors --data data --json
check 'eval reads it, as older versions wrote it' same "$(field accuracy out)" "$(field test_accuracy a/summary.json)"
for size in height width channels classes; do
  LC_ALL=C sed "s/\\\\\"$size\\\\\":[0-9]/\\\\\"$size\\\\\":0/" a/model.safetensors >none.safetensors
  check "a model file with no $size" sh -c '! cmp -s a/model.safetensors none.safetensors'
  expect "eval: a model file with no $size is refused" 1 'none.safetensors: .* out of range; was it written by starling train' eval none.safetensors --data data
done
head -c 1000 a/model.safetensors >cut.safetensors
expect 'eval: a truncated model' 1 'cut.safetensors' eval cut.safetensors --data data
# A tensor's name with an escape sequence of terminals, \u001b in JSON: as long as the name was.
LC_ALL=C sed 's/"fc1.weight":/"fc1.\\u001b":/' a/model.safetensors >armed.safetensors
check 'a model file with an escape sequence in a name' grep -qa 'fc1.\\u001b' armed.safetensors
expect 'eval: it is refused' 1 'armed.safetensors' eval armed.safetensors --data data
check 'eval: the message has no escape sequence' sh -c '! LC_ALL=C grep -q "$(printf "\\033")" out err'
make_set other 60 30 9 3
expect 'eval: images of another size' 1 'other has images of 9x9x1, the model .* takes 8x8x1' eval a --data other
expect '--quiet prints only the result' 0 '^test accuracy' train mlp $small --steps 2 --out q --quiet
check 'the result is one line' test "$(wc -l <out)" -eq 1
expect '--json prints only the summary' 0 '"test_accuracy"' train mlp $small --steps 2 --out q --force --json
check_json 'the summary is JSON' out
expect 'train without validation' 0 '^test accuracy' train mlp $small --steps 2 --val-fraction 0 --out q --force
expect 'the run has a timeline' 0 '^rank 0 of 1: mlp, .*; 2 whole steps' trace q
run trace q --json
cp out summary
run trace q --format csv --out q.csv
# Workers' counters are kept apart from the records.
check 'tasks and times in the timeline are those of the counters of the workers, to 1%' awk -F, -v counted="$(sed -n 's/.*"busy_s": *\([^,}]*\).*/\1/p' summary | tr '\n' ' ')" \
  -v tasks="$(field tasks summary)" 'NR > 1 && $2 == "task" { busy += $NF - $(NF - 1); n++ }
  END { k = split(counted, c, " "); for (i = 1; i <= k; i++) want += 1e9 * c[i]; exit !(k && n == tasks && busy > 0.99 * want && busy < 1.01 * want) }' q.csv
expect 'train without --out' 0 'run directory runs/mlp-[0-9]{8}-' train mlp $small --steps 1
for options in '--optimizer sgd --momentum 0.5' '--clip 1 --decay 0.1' '--rate-schedule cosine --warmup 3' '--batchnorm global --leaves 2' '--shards 4 --row-blocks 2'; do
  # shellcheck disable=SC2086
  expect "train $options" 0 '^test accuracy' train mlp $small --steps 6 $options --out q --force
done

# Existing directories.
expect 'an existing run is refused' 1 'the run directory a exists; --resume' train mlp $small --steps 1 --out a
mkdir mine && echo precious >mine/file
expect '--force leaves a foreign directory alone' 1 'mine is not a run directory' train mlp $small --steps 1 --out mine --force
check 'its files are unchanged' test "$(cat mine/file)" = precious

# Stopping and resuming gives the bytes of a run that was never stopped.
expect 'a run of half the steps' 0 '^test' train mlp $small --steps 20 --eval-every 10 --log-every 5 --learning-rate 1e-4 --out b
expect 'the run resumed' 0 'resumed after step 20' train --resume --out b --steps 40
check 'the state is that of an undivided run' same_state a b
check 'the model is that of an undivided run' cmp a/model.safetensors b/model.safetensors
check 'no line of metrics occurs twice' test "$(grep -c '"split": *"train"' b/metrics.jsonl)" = 8
cp -r b before
expect 'a plan for this machine' 0 '^plan +1 leaves, [0-9]+ shards: predicted' train lenet --data data --batch 32 --workers 2 --plan machine --steps 4 --val-fraction 0 --out suits
shards=$(sed -n 's/^plan *[0-9]* leaves, \([0-9]*\) shards.*/\1/p' out)
expect 'the same plan by its numbers' 0 '' train lenet --data data --batch 32 --workers 2 --leaves 1 --shards "$shards" --steps 4 --val-fraction 0 --out numbers
check 'gives the same bytes' cmp suits/model.safetensors numbers/model.safetensors
expect 'and --resume keeps it on another number of workers' 0 'resumed after step 4' train --resume --out suits --workers 1 --steps 5
expect 'resume refuses another plan' 1 'batch is 64 here and 32 in b/checkpoints/step-00000040' train --resume --out b --batch 64 --steps 50
check 'the refusal changes nothing' diff -r before/checkpoints b/checkpoints
expect 'resume refuses another optimizer' 1 '--optimizer is sgd here and adamw in b/checkpoints/step-00000040' train --resume --out b --optimizer sgd --steps 50
expect 'resume refuses other constants of the optimizer' 1 '--beta1 is 0.5 here and 0.9 in b/checkpoints/step-00000040' train --resume --out b --beta1 0.5 --steps 50
expect 'resume refuses other data' 1 'differs from that of|another size' train --resume --out b --data other --steps 50
# shellcheck disable=SC2086
expect 'an option without effect: a warning' 0 'warning: --momentum has no effect: the optimizer has no such constant' train mlp $small --optimizer adamw --momentum 0.5 --dropout 0.1 --recompute block --rate-gamma 0.5 --loss-scale 4 --verify-every 3 --steps 1 --out unused
for option in dropout recompute rate-gamma loss-scale verify-every; do check "and for $option" grep -q "warning: --$option has no effect" err; done
# shellcheck disable=SC2086
run train mlp $small --optimizer sgd --momentum 0.5 --rate-schedule step --rate-gamma 0.5 --steps 1 --out used
check 'none where they have one' test "$code $(grep -c 'no effect' err)" = '0 0'
# shellcheck disable=SC2086
run train mlp $small --precision bf16 --steps 2 --out narrow
expect "eval: OpenBLAS's products are in fp32" 1 "OpenBLAS's products are in fp32, and the model's precision is bf16" eval narrow --products openblas
expect 'resume and force' 2 'resume and --force exclude each other' train --resume --force --out b --steps 50
expect 'resume refuses a folder without a run' 1 'no run in nowhere' train --resume --out nowhere
expect 'train with augmentation' 0 '^test' train mlp $small --steps 20 --augment crop=2,flip --out augmented
expect 'train with augmentation, half the steps' 0 '^test' train mlp $small --steps 9 --augment flip,crop=2 --out halves
expect 'the augmented run resumed' 0 'resumed after step 9' train --resume --out halves --steps 20
check 'the augmented run ends as if never stopped' same_state augmented halves
expect 'resume refuses another augmentation' 1 '--augment is crop=0, flip no here and crop=2, flip yes in' train --resume --out halves --augment none --steps 30
expect 'a border as large as the image is refused' 2 'border of 8 pixels' train mlp $small --steps 1 --augment crop=8 --out v
expect 'an unknown augmentation is refused' 2 "'turn' in 'flip,turn'" train mlp $small --steps 1 --augment flip,turn --out v
"$starling" train mlp $small --steps 1000000 --eval-every 20 --learning-rate 1e-4 --out c >out 2>err &
process=$!
wait_until test -e c/checkpoints/step-00000020
kill -TERM $process
code=0
wait $process || code=$?
check 'SIGTERM ends the run with exit code 75' test $code = 75
check 'the output says how to resume' grep -q 'starling train --resume --out c' out
step=$(sed -n 's/^stopped by a signal after step \([0-9]*\).*/\1/p' out)
expect 'the run resumes after the last step' 0 "resumed after step $step\$" train --resume --out c --steps $((step + 3))

# --until
expect '--until with a bound that is reached' 0 '^test accuracy' train mlp $small --until accuracy=0.5 --out u
check 'the summary says that it was reached' grep -qE '"reached": *true' u/summary.json
expect '--until with a bound that is missed is a failure' 1 'loss=1e-30 was not reached in 5 steps' train mlp $small --until loss=1e-30 --steps 5 --out u --force
check 'the model is kept then' test -s u/model.safetensors
expect '--until without validation is refused' 2 'sets no images aside' train mlp $small --until accuracy=0.5 --val-fraction 0 --out v
check 'the refusal leaves no directory' absent v

# A loss that is not finite.
expect 'a loss that is not finite names step and operation' 1 "step [0-9]+: .*(operation [a-z0-9_]+ of layer|tensor) '" train mlp $small \
  --optimizer sgd --learning-rate 1e30 --steps 20 --out n
expect 'a loss that is not finite in validation names them too' 1 "evaluation: step 1: .*(operation [a-z0-9_]+ of layer|tensor) '" train mlp $small \
  --optimizer sgd --learning-rate 1e30 --steps 20 --eval-every 1 --out nv
check 'no model with such parameters is kept' absent nv/model.safetensors

# Wrong data: the message names the file, and no run directory remains.
bad() { # what, pattern, command that spoils the copy in bad/
  rm -rf bad && cp -r data bad
  (cd bad && eval "$3")
  # shellcheck disable=SC2086
  expect "$1" 1 "$2" train mlp $small --data bad --steps 1 --out bad-run
  check "$1: nothing is left" absent bad-run
}
bad 'truncated images' 'train-images' 'head -c 1000 train-images-idx3-ubyte >x && mv x train-images-idx3-ubyte'
bad 'a header that promises more than the file has' 'train-images' 'printf "\377" | dd of=train-images-idx3-ubyte bs=1 seek=6 conv=notrunc 2>/dev/null'
bad 'bytes after the last image' 'train-images' 'echo more >>train-images-idx3-ubyte'
bad 'labels in place of images' 'train-images' 'cp train-labels-idx1-ubyte train-images-idx3-ubyte'
bad 'a label out of range' 't10k-labels' 'printf "\310" | dd of=t10k-labels-idx1-ubyte bs=1 seek=10 conv=notrunc 2>/dev/null'
bad 'different counts of images and labels' '(300|60).*(60|300)' 'cp t10k-labels-idx1-ubyte train-labels-idx1-ubyte'
bad 'missing labels' 'bad' 'rm train-labels-idx1-ubyte'
if command -v gzip >/dev/null; then
  bad 'truncated gzip' 'train-images.*gz' 'gzip train-images-idx3-ubyte && head -c 2000 train-images-idx3-ubyte.gz >x && mv x train-images-idx3-ubyte.gz'
  bad 'gzip with a wrong byte' 'train-images.*gz' \
    'gzip train-images-idx3-ubyte && printf "\377\377\377" | dd of=train-images-idx3-ubyte.gz bs=1 seek=1500 conv=notrunc 2>/dev/null'
  rm -rf zipped && cp -r data zipped && gzip zipped/*
  expect 'intact gzip' 0 '^test accuracy' train mlp $small --data zipped --steps 1 --out z
else
  for what in 'truncated gzip' 'gzip with a wrong byte' 'intact gzip'; do skip "$what: no gzip"; done
fi
expect 'a missing folder' 1 'none' train mlp --data none --steps 1 --out bad-run
make_set tiny 60 0 2 3
expect 'images too small for the model: the layer is named' 1 "layer '" train lenet --data tiny --batch 8 --steps 1 --out bad-run
check 'failures leave no directory' absent bad-run

# Classes that have other numbers in the data than in the model.
make_set animals 64 32 8 3
printf 'bird\ncat\ndog\n' >animals/labels.txt
make_set some 64 32 8 2
printf 'bird\ndog\n' >some/labels.txt
expect 'train with names of classes' 0 '' train mlp --size hidden=16 --data animals --batch 16 --steps 2 --workers 1 --quiet --out named
expect 'eval: a class has another number' 1 "class 'dog' is number 1 of .*some, but number 2 of the model" eval named --data some --workers 1
printf 'bird\ncat\n' >some/labels.txt
expect 'eval: fewer classes, with the same numbers' 0 'accuracy' eval named --data some --workers 1
printf 'n01\nn02\n' >some/labels.txt
expect 'eval: other names are no contradiction' 0 'accuracy' eval named --data some --workers 1
expect 'eval: the window of images' 2 '--length is the window of a model of tokens' eval named --data animals --length 8 --workers 1

# Constants with which Adam would divide by zero.
expect '--beta1 1' 2 'beta1' train mlp --data animals --optimizer adamw --beta1 1 --steps 1 --out bad-run
expect '--eps 0' 2 'eps' train mlp --data animals --optimizer adamw --eps 0 --steps 1 --out bad-run

# Folders that cannot be written.
expect 'a directory below a file' 1 'mine/file' train mlp $small --steps 1 --out mine/file/run
expect 'a directory that cannot be made' 1 '/proc/' train mlp $small --steps 1 --out /proc/none/run
if [ "$(id -u)" = 0 ]; then skip 'a folder without permission: root may write anywhere'
else
  mkdir locked && chmod 555 locked
  expect 'a folder without permission' 1 'locked' train mlp $small --steps 1 --out locked/run
fi
finish
