#!/bin/sh
# Another program shortens a mapped set of images (256 MB and more), while the set is opened or during training. The
# command ends with an error that names the file, and never trains on zeros in place of the lost data.
. "$(dirname "$0")/../support/command.shlib"
faults=$(cd "${top_builddir:-$(dirname "$starling")}" && pwd)/tests/support/faults.so
export UCX_MEM_EVENTS=n # UCX would put its own mmap before that of faults.so
images=data/train-images-idx3-ubyte n=1026 size=512
make() { # a file with holes: its pixels are zeros, and take no space
  mkdir -p data
  printf "\\0\\0\\010\\003$(be32 $n)$(be32 $size)$(be32 $size)" >$images
  truncate -s $((16 + n * size * size)) $images
  printf "\\0\\0\\010\\001$(be32 $n)" >data/train-labels-idx1-ubyte
  awk -v n=$n 'BEGIN { for (i = 0; i < n; i++) printf "\\%03o", i % 3 }' | { read -r bytes; printf "$bytes"; } >>data/train-labels-idx1-ubyte
}
options='train mlp --size hidden=4 --data data --batch 8 --workers 1 --steps 1000000 --val-fraction 0 --log-every 1'
named() { grep -qE "^starling: .*$images was cut short while it was being read, or its disk failed: restore the file" err; }
stands() { [ "$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null)" = T ]; }
make || { echo '1..0 # SKIP no files with holes'; exit 0; }

# shellcheck disable=SC2086 # $options and $limit are several words, here and below
$limit "$starling" $options --out a >out 2>err &
job=$!
check 'training begins' wait_while $job has_lines a/metrics.jsonl 3
truncate -s 1000000 $images
code=0
wait $job || code=$?
check 'cut short in training: exit code 1' test $code = 1
check 'cut short in training: the file is named' named
make
code=0
$limit "$starling" train --resume --out a --steps $(($(grep -c '"train"' a/metrics.jsonl) + 2)) --quiet >out 2>err || code=$?
check 'put back as it was: the run goes on' test $code = 0

if [ -e "$faults" ] && ! grep -qa __asan_init "$starling"; then
  # The process stops itself before it reads one of the pages.
  # shellcheck disable=SC2086
  env LD_PRELOAD="$faults${LD_PRELOAD:+:$LD_PRELOAD}" FAULT_CALL=page FAULT_UNDER=$images FAULT_N=1000 FAULT_HOW=stop "$starling" $options --out b >out 2>err &
  job=$!
  check 'it reads the images' wait_until stands $job
  truncate -s 1000000 $images
  kill -CONT $job
  code=0
  wait $job || code=$?
  check 'cut short while it is opened: exit code 1' test $code = 1
  check 'cut short while it is opened: the file is named' named
  check 'cut short while it is opened: there is no run' absent b
else
  skip "cut short while it is opened: no $faults, or sanitizers"
fi
finish
