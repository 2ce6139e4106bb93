#!/bin/sh
# --precision bf16, fp16: the same bits over policies, workers, teams, ranks, micro-batches, recomputation and sets of
# instructions; checkpoints, evaluation, prediction, generated text and published files work; the memory is less, as
# predicted; the network learns.
. "$(dirname "$0")/../support/command.shlib"
at_most() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && b != "" && a + 0 <= b + 0) }'; }
make_set set 512 128 28 10
mkdir text
awk 'BEGIN { s = 7; srand(7); for (i = 0; i < 60000; i++) printf "%s", substr("the cat sat on a mat and ran ", int(20 * rand()) + 1, 3 + int(7 * rand())) }' >text/words.txt

# ---- the same bits

base='--quiet --force --gpus 0 --precision bf16 --bf16-sums pairs'
one_digest gpt2 "gpt2-nano --size layers=2,width=72,heads=3 --data text --length 37 --batch 4 --leaves 4 --dropout 0.1 --clip 0.5 --steps 4" \
  '--sched lws --workers 1' '--sched dmdas --workers 2' '--sched eager --workers 2' '--workers 1 --threads-per-worker 2' \
  '--micro-batches 2' '--recompute block' '--micro-batches 4 --recompute attention --sched prio'
one_digest lenet 'lenet --data set --batch 64 --leaves 2 --steps 4 --val-fraction 0' \
  '--sched eager --workers 1' '--sched dmda --workers 2' '--workers 1 --threads-per-worker 2'
one_digest resnet8 'resnet8 --data set --batch 32 --leaves 2 --steps 3 --val-fraction 0' '--workers 1' '--sched dmdas --workers 2'
one_digest vit 'vit-tiny --data set --batch 16 --leaves 2 --steps 2 --val-fraction 0' '--workers 1' '--sched lws --workers 2'
mpiexec=$(made_of MPIEXEC)
plan='gpt2-nano --size layers=2,width=72,heads=3 --data text --length 37 --batch 4 --leaves 4 --dropout 0.1 --clip 0.5 --steps 4'
# shellcheck disable=SC2086
"$starling" train $plan $base --out reference --workers 1 >out 2>err
check 'one rank' test $? = 0
parameters() { "$starling" convert "$1" --to hf --out "$2" >>out 2>>err; }
parameters reference one.d
on_ranks() { # name, ranks, stage of ZeRO, folder of the parameters that they must give
  name="$1 on $2 ranks, zero $3"
  if ! [ -x "$mpiexec" ]; then
    skip "$name: no MPI launcher"
    return
  fi
  rm -rf run ranks.d
  # shellcheck disable=SC2086
  $limit "$mpiexec" -n "$2" "$starling" train $plan $base --out run --workers 1 --threads-per-worker 1 --zero "$3" >out 2>err
  parameters run ranks.d
  check "$name" cmp ranks.d/model.safetensors "$4/model.safetensors"
}
for ranks in 2 3; do
  for zero in 0 1; do on_ranks gpt2 $ranks $zero one.d; done
done

run generate reference --prompt the --tokens 8 --gpus 0
check 'generate' test "$code" = 0

# The plan names the instruction set; the parameters are the same all the same.
if "$starling" info 2>/dev/null | grep -q avx512; then
  # shellcheck disable=SC2086
  "$starling" train $plan $base --out narrow --workers 1 --kernels avx2 >out 2>err
  parameters narrow narrow.d
  check 'AVX2 and AVX-512 give the same parameters' cmp one.d/model.safetensors narrow.d/model.safetensors
else skip 'AVX-512: this CPU has none'; fi
# By blocks, as AMX adds, every set of instructions gives the same bits, too; they are not those by pairs.
pairs=$base base='--quiet --force --gpus 0 --precision bf16 --bf16-sums blocks'
one_digest 'by blocks: gpt2' "$plan" '--sched lws --workers 1' '--sched dmdas --workers 2' '--workers 1 --threads-per-worker 2' \
  '--micro-batches 2 --recompute block'
by_pairs() { cmp -s blocks.d/model.safetensors one.d/model.safetensors; }
parameters reference blocks.d
check 'other ones than by pairs' test "$(by_pairs && echo same)" = ''
if "$starling" info 2>/dev/null | grep -q avx512; then
  # shellcheck disable=SC2086
  "$starling" train $plan $base --out narrow --workers 1 --kernels avx2 >out 2>err
  rm -rf narrow.d && parameters narrow narrow.d
  check 'by blocks: AVX2 and AVX-512 give the same parameters' cmp blocks.d/model.safetensors narrow.d/model.safetensors
else skip 'by blocks: this CPU has no AVX-512'; fi
on_ranks 'by blocks: gpt2' 2 3 blocks.d
one_digest 'by blocks: resnet8' 'resnet8 --data set --batch 32 --leaves 2 --steps 3 --val-fraction 0' '--workers 1' '--sched dmdas --workers 2' \
  '--workers 1 --threads-per-worker 2'
one_digest 'by blocks: lenet' 'lenet --data set --batch 64 --leaves 2 --steps 4 --val-fraction 0' '--workers 1' '--sched dmda --workers 2'
one_digest 'by blocks: vit' 'vit-tiny --data set --batch 16 --leaves 2 --steps 2 --val-fraction 0' '--workers 1' '--sched lws --workers 2'
# shellcheck disable=SC2086
run train $plan ${base#--quiet } --out told --workers 1
check 'which training tells' grep -q '^products of bf16 add up by blocks, ' out
check 'and the configuration says' grep -q '^bf16-sums: *blocks' told/config.yaml
run eval reference --data set --json --gpus 0
check 'by blocks: eval' test "$code" = 0
cp -r reference again
# shellcheck disable=SC2086
run train vit-tiny --data set --batch 16 --leaves 2 --steps 2 --val-fraction 0 --quiet --gpus 0 --precision bf16 --bf16-sums pairs --out again --resume
check 'a run by blocks is not resumed by pairs' test "$code" = 1
check 'as the message says' grep -q "bf16_sums is 'pairs' here and 'blocks' in " err
run train vit-tiny --data set --quiet --gpus 0 --out again --resume
check 'without the option it goes on by blocks' test "$code" = 0
base=$pairs
# shellcheck disable=SC2086
"$starling" train $plan --quiet --force --gpus 0 --out fp32 --workers 1 >out 2>err
different() { ! same_state reference fp32; }
check 'fp32 gives other parameters' different

# ---- everything goes along

mlp='train mlp --data set --batch 64 --steps 8 --seed 3 --quiet --gpus 0 --checkpoint-every 4 --keep 9'
# shellcheck disable=SC2086
run $mlp --precision bf16 --out whole
check 'a run with checkpoints' test "$code" = 0
cp -r whole half && rm -rf half/checkpoints/step-00000008
# shellcheck disable=SC2086
run $mlp --precision bf16 --out half --resume
check 'resumes' test "$code" = 0
check 'to the same bytes' same_state whole half
expect 'an fp32 run begins with its parameters' 0 '' train mlp --init whole/model.safetensors --data set --steps 1 --quiet --gpus 0 --out onwards
run eval whole --data set --json --gpus 0
check 'eval' test "$code" = 0
expect 'predict' 0 '' predict whole set/t10k-images-idx3-ubyte --gpus 0

# ---- fp16: the loss is scaled

half='--quiet --force --gpus 0 --precision fp16'
bf16=$base base=$half
one_digest 'fp16: gpt2' "gpt2-nano --size layers=2,width=72,heads=3 --data text --length 37 --batch 4 --leaves 4 --dropout 0.1 --clip 0.5 --steps 4" \
  '--sched lws --workers 1' '--sched eager --workers 2' '--workers 1 --threads-per-worker 2 --kernels avx2' '--micro-batches 2 --recompute block'
one_digest 'fp16: resnet8' 'resnet8 --data set --batch 32 --leaves 2 --steps 3 --val-fraction 0' '--workers 1' '--sched dmdas --workers 2'
base=$bf16
plan='gpt2-nano --size layers=2,width=72,heads=3 --data text --length 37 --batch 4 --leaves 4 --dropout 0.1 --clip 0.5 --steps 4'
base=$half
# shellcheck disable=SC2086
"$starling" train $plan $base --out reference --workers 1 >out 2>err
parameters reference one16.d
on_ranks 'fp16: gpt2' 2 1 one16.d
base=$bf16
# A single target among 8,192 makes gradients of the loss of almost 1, which overflow when scaled by 65,536.
tiny='train gpt2-nano --size layers=1,width=16,heads=2,vocabulary=8192 --length 1 --data text --batch 1 --val-fraction 0.001 --steps 20 --seed 3 --gpus 0 --checkpoint-every 10 --keep 9 --log-every 1 --precision fp16'
# shellcheck disable=SC2086
run $tiny --out whole16
check 'fp16: a run with overflows' test "$code" = 0
check 'fp16: an overflow is told' grep -q 'step [0-9]*: gradients overflow fp16 at a loss scale of 65536; the step changes nothing but the scale, to 32768' err
grep '"train"' whole16/metrics.jsonl | head -n 1 >line
check 'fp16: metrics have the loss scale' grep -q '"loss_scale":65536' line
check 'fp16: and the overflows' test "$(grep -c '"overflows":1' whole16/metrics.jsonl)" -ge 1
cp -r whole16 half16 && rm -rf half16/checkpoints/step-00000020
# shellcheck disable=SC2086
run $tiny --out half16 --resume
check 'fp16: resumes with its loss scale to the same bytes' same_state whole16 half16
# shellcheck disable=SC2086
run $tiny --log-every 20 --out seldom16
cp -r seldom16 again16 && rm -rf again16/checkpoints/step-00000020
# shellcheck disable=SC2086
run $tiny --log-every 20 --out again16 --resume
overflows() { sed -n 's/.*"overflows":\([0-9]*\).*/\1/p' "$1/metrics.jsonl"; }
check 'fp16: a line of metrics has the overflows before the checkpoint, too' test "$(overflows seldom16)" -ge 1 -a "$(overflows seldom16)" = "$(overflows again16)"
run eval whole16 --data text --split validation --json --gpus 0
check 'fp16: eval' test "$code" = 0

# What scaling mends: with 8,192 tokens in a step and a vocabulary of 4,096, most gradients of the logits are below
# 3e-8, which fp16 rounds to 0.
vanishing='gpt2-nano --size layers=1,width=16,heads=2,vocabulary=4096 --length 64 --data text --batch 128 --val-fraction 0.002 --steps 20 --seed 3 --learning-rate 3e-3 --quiet --gpus 0'
learned() { # folder, options: the last loss
  # shellcheck disable=SC2086
  run train $vanishing --out "$@"
  grep '"train"' "$1/metrics.jsonl" | tail -n 1 >last
  field loss last >"$1.loss"
}
learned exact --precision fp32
learned scaled --precision fp16
learned unscaled --precision fp16 --loss-scale 1
apart() { awk -v a="$(cat "$1.loss")" -v b="$(cat exact.loss)" -v least="$2" -v most="$3" 'BEGIN { d = a - b; exit !(a > 0 && b > 0 && d >= least && d <= most) }'; }
check "fp16: with the loss scaled it learns as in fp32 ($(cat scaled.loss), $(cat exact.loss))" apart scaled -0.005 0.005
check "fp16: unscaled it learns less ($(cat unscaled.loss))" apart unscaled 0.05 9
# shellcheck disable=SC2086
expect 'fp16: a first scale that is no power of two is refused' 2 'a first loss scale of 3: expects a power of two from 2.-14 to 2.24' \
  train $vanishing --out odd --precision fp16 --loss-scale 3
cp -r unscaled changed
expect 'fp16: another first scale than at the start is refused' 1 'loss-scale' train --resume --out changed --steps 21 --loss-scale 2

# ---- memory, and what graph shows

for p in fp32 bf16; do
  run graph vit-tiny --batch 64 --precision $p --json
  number_of peak_bytes out >peak.$p
  number_of temporary_bytes out >temporary.$p
done
check 'activations take little more than half' at_most "$(cat temporary.bf16)" "$(awk '{ print 0.62 * $1 }' temporary.fp32)"
run graph gpt2-nano --precision bf16 --json
check 'graph names the types' grep -q BF16 out
run bench vit-tiny --batch 64 --precision bf16 --gpus 0 --steps 3 --no-measure --json
if grep -q __asan_init "$starling"; then
  skip 'the peak is as predicted: a sanitizer needs memory of its own'
else check 'the peak is as predicted' at_most "$(number_of peak_memory_bytes out)" "$(awk -v p="$(number_of predicted_peak_bytes out)" 'BEGIN { print 1.03 * p }')"; fi
expect 'an unknown precision is refused' 2 'choose fp32|bf16|fp16' train mlp --precision fp8 --data set --out none

# ---- it learns as in fp32

for p in fp32 bf16; do
  run train mlp --data set --batch 64 --steps 60 --seed 1 --smoothing 0.1 --quiet --gpus 0 --precision $p --out learn.$p
  grep '"train"' learn.$p/metrics.jsonl | tail -n 1 >last
  field loss last >loss.$p
done
close() { awk -v a="$(cat loss.fp32)" -v b="$(cat loss.bf16)" 'BEGIN { d = a - b; exit !(a > 0.1 && d < 0.02 && d > -0.02) }'; }
check "the loss is that of fp32 (fp32 $(cat loss.fp32), bf16 $(cat loss.bf16))" close
# A training goes on in another precision, from the same parameters and state.
run train mlp --data set --batch 32 --leaves 1 --steps 4 --val-fraction 0 --gpus 0 --precision bf16 --rate-schedule constant --out other
for precision in fp16 fp32; do
  rm -rf first second && cp -r other first && cp -r other second
  expect "bf16, then $precision" 0 "goes on in $precision; up to step 4 it was in bf16" train --resume --out first --steps 8 --precision $precision
  run train --resume --out second --steps 8 --precision $precision
  check "bf16, then $precision: twice the same" same_state first second
  check "bf16, then $precision: the configuration says it" grep -q "precision: *$precision" first/config.yaml
  expect "bf16, then $precision: it resumes without the option" 0 'resumed after step 8' train --resume --out first --steps 9
done
run train --resume --out other --steps 8
check 'bf16 alone has other bits' sh -c '! cmp -s other/model.safetensors first/model.safetensors'
expect 'fp32, then fp16' 0 'goes on in fp16; up to step 9 it was in fp32' train --resume --out first --steps 12 --precision fp16 --log-every 1
check 'the loss scale begins anew' grep -q '"loss_scale": *65536' first/metrics.jsonl
expect 'another learning rate is refused as before' 1 'learning-rate is' train --resume --out first --steps 13 --learning-rate 0.5

# Gradients that no loss scale keeps below 65,504: five layers multiply them by 16,384 each, and activations stay 1.
run train mlp --size hidden=1,layers=6 --data set --batch 8 --leaves 1 --steps 1 --val-fraction 0 --quiet --gpus 0 --out steep
head=$(($(od -An -tu8 -N8 steep/model.safetensors | tr -d ' ') + 8))
{
  head -c $head steep/model.safetensors
  head -c 3136 /dev/zero && printf '\000\000\200\077'                                                      # fc1: 0 x + 1
  for _ in 2 3 4 5 6; do printf '\000\000\200\106\000\374\177\306'; done                                # 16384 x - 16383
  printf '\000\000\200\077' && head -c 76 /dev/zero                                                       # fc7
} >steep.safetensors
expect 'an overflow at the least loss scale ends the run' 1 'step 31: gradients overflow fp16 even at a loss scale of 6.1.*--precision fp32' \
  train mlp --size hidden=1,layers=6 --data set --batch 8 --leaves 1 --steps 40 --val-fraction 0 --gpus 0 --precision fp16 --init steep.safetensors --out steepest
check 'each of the 31 overflows was told' test "$(grep -c 'the step changes nothing but the scale' err)" -ge 30
expect 'bf16 has the range' 0 '' \
  train mlp --size hidden=1,layers=6 --data set --batch 8 --leaves 1 --steps 2 --val-fraction 0 --quiet --gpus 0 --precision bf16 --init steep.safetensors --out steepest --force
# ---- auto

auto='lenet --data set --batch 64 --leaves 2 --steps 3 --val-fraction 0 --workers 1 --gpus 0 --force'
expect 'auto measures both, and says what it takes' 0 \
  '^precision  a step takes [0-9.e+-]* ms in fp32 and [0-9.e+-]* in bf16: (fp32|bf16)(,|$)' train $auto --precision auto --out auto
chosen=$(sed -n 's/^precision  .*: \(fp32\|bf16\).*/\1/p' out)
check 'the configuration has what it took' grep -qE "^precision: ['\"]?$chosen['\"]?$" auto/config.yaml
# shellcheck disable=SC2086
run train $auto --precision "$chosen" --quiet --out named
check 'the measured steps leave no trace' same_state auto named
if [ -x "$mpiexec" ]; then
  # shellcheck disable=SC2086
  $limit "$mpiexec" -n 2 "$starling" train $auto --precision auto --workers auto --out auto2 >out 2>err && code=0 || code=$?
  taken=$(sed -n 's/^precision  .*: \(fp32\|bf16\).*/\1/p' out)
  # shellcheck disable=SC2086
  run train $auto --precision "${taken:-none}" --quiet --out named
  check 'two ranks take the same' same_state auto2 named
else skip 'two ranks: no MPI launcher'; fi
expect 'a run goes on in what it took' 0 '' train --resume --out auto --steps 4 --quiet
expect 'auto and --resume' 2 'auto is for the start of a run' train --resume --out auto --steps 5 --precision auto
expect 'auto for a command that measures nothing' 2 'auto measures steps' graph lenet --precision auto
expect 'in JSON bench says what it took' 0 '"precision": "(fp32|bf16)"' \
  bench lenet --batch 64 --steps 2 --workers 1 --gpus 0 --no-measure --precision auto --json
expect 'bench takes it, too' 0 '^precision  a step takes' bench lenet --batch 64 --steps 2 --workers 1 --gpus 0 --no-measure --precision auto
finish
