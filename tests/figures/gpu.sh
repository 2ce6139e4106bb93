#!/bin/sh
# Figure: all measurements that need a real GPU, in 25 minutes, the most important first: bits against the CPU's, speed
# of the exact product, networks on GPUs, CPUs and both, beside PyTorch if python3 has it, policies. Each figure is
# written to OUT/figures.txt as soon as it is measured, with its output beside this file. A figure that fails or takes
# too long does not stop the others. It runs on a machine with a GPU and CUDA, from a bundle
# (tests/figures/gpu-bundle.sh) or a build:
#   starling-gpu/source/tests/figures/gpu.sh        RUN=starling-gpu/run is found by itself
#   RUN=./run-in-build tests/figures/gpu.sh         RUN PROGRAM ARGUMENT... starts a program of the build
# OUT: a folder (gpu-figures). MINUTES: 25. REHEARSE=1: networks of test size, on emulated GPUs: of RUN or, without it,
# of build-emulated, which ./quickstart check leaves (BUILD: another). ONLY: a pattern of names.
set -u
export CMOCKA_MESSAGE_OUTPUT=TAP
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-gpu-figures}
build=${BUILD:-$here/../../build-emulated}
if [ -n "${REHEARSE-}" ] && [ -z "${RUN-}" ] && [ -x "$build/starling" ]; then
  build=$(cd "$build" && pwd)
  mkdir -p "$out" || exit 1
  cat >"$out/run" <<END
#!/bin/sh
program=\$1
shift
LD_PRELOAD=$build/tests/support/give_way.so STARPU_SUBALLOCATOR=0 exec "$build/\$program" "\$@"
END
  chmod +x "$out/run"
  RUN=$(cd "$out" && pwd)/run
fi
RUN=${RUN:-$here/../../../run}
[ -x "$RUN" ] || { echo "SKIP: no $RUN: make a bundle by tests/figures/gpu-bundle.sh, or set RUN"; exit 77; }
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
began=$(date +%s) missed=0
left() { echo $((${MINUTES:-25} * 60 - ($(date +%s) - began))); }
say() { echo "$*" | tee -a "$out/figures.txt"; }
figure() { # name, target, value, 1 when met, 0 when missed, - for a figure without a target
  case $4 in 1) said=met ;; 0) said=MISSED missed=1 ;; *) said='' ;; esac
  say "$(printf '%-52s target %-14s value %-16s %s (%d s)' "$1" "$2" "$3" "$said" $(($(date +%s) - began)))"
}
# try NAME SECONDS PROGRAM ARGUMENT...: output in $out/NAME.txt, exit code in $code; 1 if there is no time for it.
try() {
  name=$1 limit=$2 log=$out/$1.txt code=0
  shift 2
  case $name in ${ONLY:-*}) ;; *) return 1 ;; esac
  [ "$(left)" -gt 20 ] || { say "$name: not run, the time is over"; missed=1; return 1; }
  [ "$(left)" -ge "$limit" ] || limit=$(left)
  timeout -k 10 "$limit" "$RUN" "$@" >"$log" 2>&1 || code=$?
  [ $code = 0 ] || say "$name: exit code $code: $(grep -v '^#' "$log" | tail -n 1 | cut -c1-160)"
}
number() { grep -o "\"$1\": [-0-9.e+]*" "$log" | head -n 1 | sed 's/.*: //'; }
greater() { awk -v a="${1:-0}" -v b="$2" 'BEGIN { print (a + 0 >= b + 0) }'; }

# ---- what machine ----------------------------------------------------------------------------------------------------
nvidia-smi >"$out/nvidia-smi.txt" 2>&1
try info 60 starling info --no-measure && grep -E '^(GPU |host|cores)' "$log" | tee -a "$out/figures.txt"

# ---- the same bits ---------------------------------------------------------------------------------------------------
try operations 300 tests/codelets/operations && {
  failed=$(grep -c '^not ok ' "$log") passed=$(grep '^ok ' "$log" | grep -vc '# SKIP')
  figure 'CUDA kernels, bit for bit those of the CPU' '0 wrong' "$failed of $((passed + failed))" $((failed == 0 && passed > 0 && code == 0))
}
try cuda_context 60 tests/runtime/processors/cuda_context && {
  passed=$(grep '^ok ' "$log" | grep -vc '# SKIP')
  figure 'contexts of CUDA workers' pass "exit $code" $((passed > 0 && code == 0))
}
if [ -n "${REHEARSE-}" ]; then
  families='mlp,--size,hidden=24 lenet,--size,channels=4+hidden=16 resnet8,--size,width=4+blocks=1-1 vit-tiny,--size,layers=1+width=16+heads=2+patch=4+stem=0 gpt2-nano,--size,layers=1+width=16+heads=2+positions=16,--length,8 bert-nano,--size,layers=1+width=16+heads=2+positions=16,--length,8'
  batch=12 steps=3
else
  families='mlp lenet resnet18 vit-tiny gpt2-nano bert-nano' batch=64 steps=10
fi
for family in $families; do
  # shellcheck disable=SC2046 # words
  set -- $(echo "$family" | tr ',' ' ' | tr '+' ',')
  network=$1 wanted=
  for workers in cpu gpu both; do
    try "bits-$network-$workers" 120 starling bench "$@" --batch $batch --leaves 4 --shards 4 --steps $steps --workers $workers --no-measure --json || continue
    digest=$(grep -o '"state_digest": "[0-9a-f]*"' "$log")
    [ $workers = cpu ] && { wanted=$digest; continue; }
    same=$([ -n "$digest" ] && [ "$digest" = "$wanted" ] && echo yes || echo no)
    figure "$network, parameters after $steps steps: $workers = cpu" yes "$same" "$([ "$same" = yes ] && echo 1 || echo 0)"
  done
done

# ---- the engine's tests ----------------------------------------------------------------------------------------------
for test in codelets/tasks tasks/starpu/program tasks/starpu/exchange tasks/starpu/calibration tasks/starpu/residence; do
  try "${test##*/}" 120 "tests/$test" && {
    failed=$(grep -c '^not ok ' "$log") passed=$(grep '^ok ' "$log" | grep -vc '# SKIP')
    figure "tests/$test on a GPU" '0 failed' "$failed of $((passed + failed))" $((failed == 0 && passed > 0 && code == 0))
  }
done

# ---- data larger than the GPU's memory -------------------------------------------------------------------------------
if try larger 120 starling bench mlp --size hidden=512 --batch 32 --optimizer adamw --row-blocks 8 --workers gpu --gpu-memory 4 --steps 10 --no-measure --json; then
  moved=$(number moved_bytes) least=$(number least_moved_bytes)
  figure 'state twice the memory: bytes copied over the least' '<= 1.2' "$(awk -v a="${moved:-0}" -v b="${least:-0}" 'BEGIN { printf "%.3f", (b > 0 ? a / b : 0) }')" \
    "$(awk -v a="${moved:-0}" -v b="${least:-0}" 'BEGIN { print (a > 0 && b > 0 && a <= 1.2 * b) }')"
fi

# ---- speed of the exact product --------------------------------------------------------------------------------------
# cuBLAS (--gpu-kernels fast) beside it, for the ratio.
if [ -n "${REHEARSE-}" ]; then width=64 target=-; else width=4096 target=42000; fi
rate_of() { # layer, operation: GFLOP/s in $log
  tr -d '\n' <"$log" | grep -o "{ *\"phase\": \"[a-z]*\", *\"layer\": \"$1\", *\"operation\": \"$2\"[^}]*" | grep -o '"gflops": [0-9.e+]*' | sed 's/.*: //' | head -n 1
}
for kernels in exact fast; do
  try "product-$kernels" 120 starling bench mlp --size layers=2,hidden=$width --batch $width --leaves 1 --shards 1 --steps 10 --workers gpu --gpu-kernels $kernels --no-measure --json || continue
  for operation in linear linear_dx linear_dw; do
    gflops=$(rate_of fc2 $operation)
    wanted=$target
    [ $kernels = exact ] || wanted=-
    figure "$kernels: $operation of $width cubed, GFLOP/s" "$wanted" "${gflops:-none}" "$([ "$wanted" = - ] && echo - || greater "$gflops" "$wanted")"
  done
done
# At gpt2's shapes: a block's four products, of batch x length rows.
if [ -n "${REHEARSE-}" ]; then shapes='gpt2-nano --size layers=1,width=16,heads=2,positions=16 --batch 4 --length 8'; else shapes='gpt2 --batch 32 --length 64'; fi
for kernels in exact fast; do
  # shellcheck disable=SC2086 # words
  try "shapes-$kernels" 120 starling bench $shapes --leaves 1 --shards 1 --steps 10 --workers gpu --gpu-kernels $kernels --no-measure --json || continue
  for layer in h.0.attn.qkv h.0.attn.proj h.0.mlp.fc h.0.mlp.proj; do
    for operation in linear linear_dx linear_dw; do
      gflops=$(rate_of $layer $operation)
      figure "$kernels: $operation of gpt2's $layer, GFLOP/s" - "${gflops:-none}" -
    done
  done
done

# ---- networks, and PyTorch -------------------------------------------------------------------------------------------
if [ -n "${REHEARSE-}" ]; then
  networks='gpt2-nano,4,--size,layers=1+width=16+heads=2+positions=16,--length,8 resnet8,4,--size,width=4+blocks=1-1'
else
  networks='gpt2,32,--length,64 gpt2,4,--length,1024 resnet50,64 vit-b16,32 bert-base,32 gpt2-nano,64 lenet,1024'
fi
python=$(command -v python3 || true)
[ -z "$python" ] || "$python" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null || python=
for entry in $networks; do
  # shellcheck disable=SC2046 # words
  set -- $(echo "$entry" | tr ',' ' ' | tr '+' ',')
  network=$1 batch=$2
  shift 2
  # One shard of all samples, for a GPU, also with cuBLAS; then the plan by default, which has smaller tasks; in bf16.
  one='--leaves 1 --shards 1'
  hows='gpu fast tf32 default bf16 bf16-fast'
  case $network in gpt2* | lenet | resnet*) hows="$hows both" ;; esac
  ours=0 narrow=0
  for how in $hows; do
    case $how in
    gpu) options="$one --workers gpu" ;;
    fast) options="$one --workers gpu --gpu-kernels fast" ;;
    tf32) options="$one --workers gpu --gpu-kernels tf32" ;;
    default) options='--workers gpu' ;;
    bf16) options="$one --workers gpu --precision bf16" ;;
    bf16-fast) options="$one --workers gpu --precision bf16 --gpu-kernels fast" ;;
    both) options='--workers both' ;;
    esac
    # shellcheck disable=SC2086 # words
    try "speed-$network-$batch-$how" 60 starling bench "$network" --batch "$batch" "$@" $options --no-measure --json || continue
    rate=$(number samples_per_s)
    figure "$network, batch $batch, $how, samples/s" - "${rate:-none}" -
    [ "$how" = fast ] && ours=${rate:-0}
    [ "$how" = bf16-fast ] && narrow=${rate:-0}
  done
  [ -n "$python" ] && [ -z "${REHEARSE-}" ] && [ "$(left)" -gt 60 ] || continue
  length=
  [ "${1-}" != --length ] || length="--length $2"
  peers='fp32 bf16'
  [ "$network" != gpt2 ] || peers='fp32 bf16 compiled' # which takes a minute
  for how in $peers; do
    case $how in fp32) options= ;; bf16) options=--bf16 ;; compiled) options='--bf16 --compile' ;; esac
    # shellcheck disable=SC2086 # words
    timeout -k 10 90 "$python" "$here/peers/torch_speed.py" "$network" "$batch" 8 20 --device cuda $length $options >"$out/torch-$network-$batch-$how.txt" 2>&1
    theirs=$(awk 'END { print $1 + 0 }' "$out/torch-$network-$batch-$how.txt")
    figure "$network, batch $batch, PyTorch in $how, samples/s" - "$theirs" -
    case $how in
    fp32) figure "$network, batch $batch, fast beside PyTorch" - "$(awk -v a="$ours" -v b="$theirs" 'BEGIN { if (b > 0) printf "%.2f", a / b; else printf "none" }')" - ;;
    bf16) figure "$network, batch $batch, bf16-fast beside PyTorch" - "$(awk -v a="$narrow" -v b="$theirs" 'BEGIN { if (b > 0) printf "%.2f", a / b; else printf "none" }')" - ;;
    esac
  done
done

# ---- policies --------------------------------------------------------------------------------------------------------
small=${REHEARSE:+"--size channels=4,hidden=16 --batch 12 --repetitions 3 --steps 2 --policies eager,dmdas"}
# shellcheck disable=SC2086 # words
try policies 240 starling compare lenet ${small:---minutes 3} && sed 's/^/  /' "$log" | tee -a "$out/figures.txt"
say "$(($(date +%s) - began)) s in all"
exit $missed
