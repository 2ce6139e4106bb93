#!/bin/bash
# Figure: published throughputs beside simulated ones. Nothing is fitted to them: the machines' figures are those of
# data sheets (tests/figures/machines, starling info --machine NAME). There tf32's rate stands for fp32's by --what-if.
# Prints published, simulated and their ratio. Fails if the ratio of a row that is held is not between 0.8 and 1.25.
# Takes a quarter of a minute.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/figures/figure.shlib"
starling=${STARLING:-$top/build/starling}
export STARLING_SIM=${STARLING_SIM:-$top/build-simulated/starling-sim} STARPU_SILENT=1
if ! [ -x "$starling" ] || ! [ -x "$STARLING_SIM" ]; then
  echo 'SKIP: no starling or starling-sim: ./quickstart simulate builds them'
  exit 77
fi
machines=$top/tests/figures/machines failed=0
rate() { # GPUs of a node, nodes, samples a GPU, model and options: samples/s; MICRO: micro-batches (1)
  local each=$1 nodes=$2 batch=$3 ranks=$(($1 * $2)) micro=${MICRO:-1}
  shift 3
  "$starling" simulate "$@" --workers gpu --gpus 1 --nodes "$nodes" --ranks-per-node "$each" --batch $((batch * ranks)) \
    --leaves $((micro * ranks)) --shards $((micro * ranks)) --micro-batches "$micro" --steps 2 --json | sed -n 's/.*"samples_per_s": \([0-9.e+]*\).*/\1/p'
}
row() { # what, published (lowest, highest), simulated, 1: held
  [ -n "$4" ] || { failed=1; echo "MISSED: $1: the simulation failed"; return; }
  awk -v what="$1" -v low="$2" -v high="$3" -v got="$4" -v held="$5" 'BEGIN {
    best = got / high
    printf "%-52s %10s to %-10s %10.*f %7.2f of the highest\n", what, low, high, (got < 100 ? 2 : 0), got, best
    exit held && !(best > 0.8 && best < 1.25) }' || { failed=1; echo "MISSED: $1"; }
}
printf '%-52s %24s %10s\n' '' 'published' 'simulated'
# DLPerf: six frameworks (ResNet-50, 128 images a GPU) and two (BERT-base, 96 sequences of 128 tokens).
v100="--machine $machines/v100x8.yaml"
while read -r nodes gpus low high bert_low bert_high; do
  # shellcheck disable=SC2086 # words
  row "resnet50 fp32, $((nodes * gpus)) V100, images/s" "$low" "$high" "$(rate "$gpus" "$nodes" 128 resnet50 $v100)" 1
  # shellcheck disable=SC2086
  row "bert-base fp32, $((nodes * gpus)) V100, sequences/s" "$bert_low" "$bert_high" "$(rate "$gpus" "$nodes" 96 bert-base --length 128 $v100)" 1
done <<'END'
1 1 321.80 389.71 136.97 149.84
1 8 2458.74 2969.45 868.60 1158.51
2 8 4849.68 5906.55 1631.36 2257.71
4 8 9348.17 11711.18 3167.68 4455.97
END
# NVIDIA, DeepLearningExamples, ResNet-50 v1.5 for PyTorch: DGX-1 (V100 16 GB) in fp32, DGX A100 in tf32.
# shellcheck disable=SC2086
row 'resnet50 fp32, 8 V100 of a DGX-1, images/s' 2855 2855 "$(rate 8 1 128 resnet50 $v100)" 1
row 'resnet50 tf32, 1 A100, images/s' 938 938 "$(rate 1 1 256 resnet50 --machine dgx-a100 --what-if gpu.gflops.fp32=156000)" 0
row 'resnet50 tf32, 8 A100, images/s' 7248 7248 "$(rate 8 1 256 resnet50 --machine dgx-a100 --what-if gpu.gflops.fp32=156000)" 0
# llm.c, GPT-2 in bf16, windows of 1,024 tokens; thousands of tokens/s. A single GPU; then whole runs: GPT-2 124M saw
# 10 billion tokens in 90 minutes on 8 A100, 64 windows a GPU and step; GPT-2 1.6B saw 33.6 billion in 24 hours on 8
# H100, 128 windows a GPU and step in 8 micro-batches (here attention is recomputed, so that these fit into a GPU).
gpt2() { # what, published, GPUs, windows a GPU, model and options; HELD: 1 (default): held
  local what=$1 published=$2 each=$3 batch=$4 got
  shift 4
  got=$(rate "$each" 1 "$batch" "$@" --length 1024 --precision bf16)
  row "$what bf16, 1,000 tokens/s" "$published" "$published" "$(awk -v s="$got" 'BEGIN { print 1.024 * s }')" "${HELD:-1}"
}
gpt2 'gpt2, 1 A100' 231 1 16 gpt2 --machine dgx-a100
gpt2 'gpt2, 1 H100' 463 1 16 gpt2 --machine dgx-h100
gpt2 'gpt2, 8 A100' 1852 8 64 gpt2 --machine dgx-a100
HELD=0 MICRO=8 gpt2 'gpt2-xl, 8 H100' 388 8 128 gpt2-xl --machine dgx-h100 --recompute attention
# Lambda, deeplearning-benchmark: PyTorch in mixed precision on 1 to 8 H100 SXM of a node, the least and the most of
# six machines: ResNet-50, 1,280 images a GPU; BERT-base on SQuAD, 320 sequences of 384 tokens a GPU (here in 5
# micro-batches, and with the head of pretraining, which predicts a word at each position). On 8 GPUs BERT-base is
# published as over 11 times as fast as on one, which no machine can be, so that row is not held. Of the other rows only
# the scaling is held: PyTorch reaches a smaller share of the peak than the machine's `efficiency`.
lambda() { # what, GPUs, published (lowest, highest), published on one GPU, 1: the scaling is held, model and options
  local what=$1 gpus=$2 low=$3 high=$4 one=$5 held=$6 got
  shift 6
  got=$(MICRO=5 rate "$gpus" 1 "$@" --machine dgx-h100 --precision bf16)
  row "$what" "$low" "$high" "$got" 0
  if [ "$gpus" = 1 ]; then
    simulated_one=$got
  else
    row '  times as fast as on one' "$(ratio "$low" "$one")" "$(ratio "$high" "$one")" "$(ratio "$got" "$simulated_one")" "$held"
  fi
}
while read -r gpus low high; do
  lambda "resnet50 bf16, $gpus H100, images/s" "$gpus" "$low" "$high" 2791 1 1280 resnet50
done <<'END'
1 2616 2791
2 5179 5532
4 10406 11053
8 20728 22101
END
while read -r gpus low high held; do
  lambda "bert-base bf16, 384 tokens, $gpus H100, sequences/s" "$gpus" "$low" "$high" 877 "$held" 320 bert-base --length 384
done <<'END'
1 812 877 0
2 1593 1670 1
4 3149 3328 1
8 9176 9928 0
END
# MLPerf Training 3.0, ResNet-50 on DGX H100: 13.466 minutes on 8, 2.664 on 64, 0.509 on 512 GPUs. Larger batches need
# more epochs, which a simulated step does not know.
eight=$(rate 8 1 128 resnet50 --machine dgx-h100 --precision bf16)
for nodes in 8 64; do
  got=$(rate 8 $nodes 128 resnet50 --machine dgx-h100 --precision bf16)
  published=$(awk -v n=$nodes 'BEGIN { printf "%.1f", 13.466 / (n == 8 ? 2.664 : 0.509) }')
  times=$(awk -v a="$got" -v b="$eight" 'BEGIN { print a / b }')
  row "resnet50 bf16, $((8 * nodes)) H100, times as fast as 8" "$published" "$published" "$times" 0
done
# Horovod: 90% of 512 times one GPU, ResNet-101, 64 images a GPU. The efficiency, in percent.
resnet101='resnet50 --size blocks=3-4-23-3'
# shellcheck disable=SC2086
one=$(rate 1 1 64 $resnet101 --machine $machines/p100x4.yaml)
# shellcheck disable=SC2086
all=$(rate 4 128 64 $resnet101 --machine $machines/p100x4.yaml)
row 'resnet101 fp32, 512 Pascal GPUs, % of 512 times one' 90 90 "$(awk -v a="$all" -v b="$one" 'BEGIN { print 100 * a / b / 512 }')" 1
# Up to 64 nodes of 8 H100, for which no published throughput of these models is at hand: the simulated one, and its
# ratio to that of one GPU times their number.
while read -r batch model; do
  one=''
  for nodes in 0 1 4 16 64; do
    gpus=$((nodes > 0 ? 8 * nodes : 1)) each=$((nodes > 0 ? 8 : 1))
    # shellcheck disable=SC2086 # words
    got=$(rate $each $((nodes > 0 ? nodes : 1)) "$batch" $model --machine dgx-h100 --precision bf16 </dev/null)
    [ -n "$got" ] || { failed=1; echo "MISSED: $model on $gpus H100: the simulation failed"; continue; }
    one=${one:-$got}
    awk -v what="${model%% *} bf16, $gpus H100, samples/s" -v got="$got" -v one="$one" -v n=$gpus 'BEGIN {
      printf "%-52s %24s %10.0f    %3.0f%% of %d times one\n", what, "none at hand", got, 100 * got / one / n, n }'
  done
done <<'END'
128 resnet50
64 bert-base --length 384
64 gpt2 --length 1024
END
exit $failed
