#!/bin/sh
# If a disk or file server hangs in a call that reads (data, whole or mapped, weights, checkpoints), or in one that
# opens, locks or closes, a warning names call and file within --stall-timeout, and the command ends with exit code 76
# when it has waited for --disk-timeout. A run that had begun resumes to the same bytes.
. "$(dirname "$0")/../support/command.shlib"
. "$top/tests/failures/hangs.shlib"
# Reading, and the calls around it. With the files on their way there is no run yet, or an old one.
reads() { # name, call, part of the path, which one, pattern, starling's arguments
  about=$1 wanted_call=$2 wanted_path=$3 which=$4 pattern=$5 code=0
  shift 5
  paced 2
  # shellcheck disable=SC2086
  with_fault "$wanted_call" "$wanted_path" "$which" 1000000000 $limit "$starling" "$@" --stall-timeout $patience --disk-timeout $disk >out 2>err || code=$?
  check "$about: exit code 76" test $code = 76
  warns "$about" "$pattern" "$waits"
  check "$about: call and file are named" grep -qE "^starling: no progress for [0-9]+ s: $pattern does not return: the disk or file server hangs;" err
}
# shellcheck disable=SC2086
{
  reads 'the folder of the data' opendir data 1 'opendir of data' train mlp $options --out b
  reads 'opening images' open train-images 1 'open of data/train-images-idx3-ubyte' train mlp $options --out b
  reads 'reading labels' read train-labels 2 'read of data/train-labels-idx1-ubyte' train mlp $options --out b
  reads 'closing the best model' close model.safetensors 1 'close of .*model.safetensors' train mlp $options --out b
  rm -rf b
  reads 'the lock of the run directory' flock b/.starling-run 1 'flock of .*b/.starling-run' train mlp $options --out b
  reads 'a new folder' mkdir b/checkpoints 1 'mkdir of .*b/checkpoints' train mlp $options --out b --force
  reads 'weights to begin with' read whole/model 1 'read of whole/model.safetensors' train mlp $options --init whole/model.safetensors --out b --force
  reads 'a model to evaluate' read whole/model 1 'read of whole/model.safetensors' eval whole --data data
  rm -rf b
  cp -r whole b
  reads 'the checkpoint to resume' read step-00000020/part 1 'read of .*b/checkpoints/step-00000020/part-00000.*' train --resume --out b
  expect 'it resumes later' 0 '' train --resume --out b
}
# A mapped file: the access itself takes long, in the first thread while the file is checked, in the loader's when
# training has begun.
undisturbed_text
# shellcheck disable=SC2086
{
  check 'pages are read again in training' test "$accesses" -gt $((pages + 20))
  reads 'a page, while the text is checked' page text.txt 20 'read of text.txt' train $tokens --out t
  check 'there is no run yet' absent t
  reads 'a page, in training' page text.txt $((pages + (accesses - pages) / 2)) 'read of text.txt' train $tokens --out t
  check 'training had begun' test "$(grep -c '"train"' t/metrics.jsonl)" -gt 0
  check 'the stall file has the call' grep -qE '"in": *".*the next batch.*read of text.txt' t/stall-*.json
  expect 'the run with the text resumes' 0 '' train --resume --out t
  check 'the run with the text: the same model' cmp mapped.safetensors t/model.safetensors
}
finish
