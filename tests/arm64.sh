#!/bin/sh
# arm64's kernels (NEON) give the bits of AVX2 and AVX-512: models and optimizer state after some steps of each family
# of networks, in fp32, bf16 and fp16, are the same bytes, and a run may go on on the other processor. Runs Starling for
# arm64 under qemu, as tools/build-arm64 leaves it. ARM64: that folder (default: build-arm64).
. "$(dirname "$0")/support/command.shlib"
folder=${ARM64:-$top/build-arm64}
[ -x "$folder/build/starling" ] || { echo "1..0 # SKIP no $folder: run tools/build-arm64 first"; exit 0; }
grep -qw fma /proc/cpuinfo || { echo '1..0 # SKIP kernels without fused multiply-adds have bits of their own'; exit 0; }
make_set images 48 12 8 3
make_set data 48 12 28 10
awk 'BEGIN { for (i = 0; i < 300; i++) print i, "the quick brown fox jumps over", i * i % 97, "lazy dogs" }' >text

# The names of the kernels are of the same length here, so files in which they are exchanged must be the same.
neon() { sed 's/\\"kernels\\":\\"neon\\"/\\"kernels\\":\\"avx2\\"/g' "$1"; }
arm64() { code=0; "$folder/starling" "$@" >out 2>err || code=$?; }
here() { code=0; "$starling" "$@" >out 2>err || code=$?; }

same() { # name, train's arguments
  network=$1
  shift
  rm -rf avx2 neon
  here train "$@" --steps 3 --val-fraction 0 --quiet --workers 1 --kernels avx2 --out avx2
  [ $code != 0 ] || arm64 train "$@" --steps 3 --val-fraction 0 --quiet --workers 1 --out neon
  [ $code = 0 ] || { not_ok "$network"; return; }
  neon neon/model.safetensors >renamed
  check "$network: the same model" cmp renamed avx2/model.safetensors
  check "$network: the same state" same_state avx2 neon
  check "$network: the same losses" test "$(losses avx2)" = "$(losses neon)"
}
losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([^,]*\),.*/\1 \2/p' "$1/metrics.jsonl"; }
same mlp mlp --size hidden=50 --data images --batch 12 --leaves 3 --optimizer adamw --clip 0.5
same lenet lenet --size channels=5,hidden=20 --data images --batch 8 --leaves 2
same 'resnet8, batch statistics' resnet8 --data images --batch 8
gpt2='gpt2-nano --size layers=2,width=48,heads=3 --data text --length 24 --batch 4 --leaves 2 --dropout 0.1'
# shellcheck disable=SC2086 # several words
{
  same 'gpt2, fp32' $gpt2
  same 'gpt2, bf16 by pairs' $gpt2 --precision bf16 --bf16-sums pairs
  same 'gpt2, bf16 by blocks' $gpt2 --precision bf16 --bf16-sums blocks
  same 'gpt2, fp16' $gpt2 --precision fp16
}
same bert bert-nano --size layers=1,width=48,heads=3 --data text --length 24 --batch 4
same 'vit, smoothing, lamb' vit-tiny --size layers=1,width=48,heads=3 --data data --batch 4 --smoothing 0.1 --optimizer lamb
same 'resnet8, bf16' resnet8 --data images --batch 8 --precision bf16 --bf16-sums pairs

# A run goes on on the other processor, and back.
options='mlp --size hidden=50 --data images --batch 12 --leaves 3 --val-fraction 0 --quiet --workers 1'
# shellcheck disable=SC2086
here train $options --steps 6 --out whole
here train $options --steps 2 --out moved --kernels "$(sed -n 's/.*"kernels": *"\([a-z0-9]*\)".*/\1/p' whole/plan.json | head -n 1)"
arm64 train --resume --steps 4 --out moved
if [ $code = 0 ]; then ok 'arm64 goes on with a run of this processor'; else not_ok 'arm64 goes on with a run of this processor'; fi
check 'by its own kernels' grep -q 'kernels: *neon' moved/config.yaml
here train --resume --steps 6 --out moved
if [ $code = 0 ]; then ok 'and back'; else not_ok 'and back'; fi
check 'the same model' cmp moved/model.safetensors whole/model.safetensors
check 'the same state' same_state whole moved
arm64 train mlp --data images --kernels avx2 --steps 1 --out refused
check 'kernels of another processor are refused' test $code != 0 -a ! -e refused
check 'with the kernels that run' grep -q "cannot run kernels 'avx2'; the best that runs here is 'neon'" err
here train mlp --data images --kernels neon --steps 1 --out refused
check 'here likewise' grep -q "cannot run kernels 'neon'" err

# Kernels against references, where tools/build-arm64 was told to build these tests.
for program in runtime/processors/isa codelets/half codelets/kernels/math codelets/kernels/product; do
  [ -x "$folder/build/tests/$program" ] || continue
  code=0
  "$folder/run" "$folder/build/tests/$program" >out 2>err || code=$?
  check "tests/$program" test $code = 0
done
finish
