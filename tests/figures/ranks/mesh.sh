#!/bin/bash
# Figure: what a pipeline costs, and where it pays; what tensor ranks and folds cost. PARTS: which of (1 2 3).
# (1) This host: MODEL (gpt2) with BATCH (8) sequences of LENGTH (256) tokens on one rank of two workers, on two stages
# of one worker with MICRO (8) micro-batches, and on two ranks that divide samples, in turn, ROUNDS (3) times; medians.
# Targets over one rank: two ranks of samples 0.97; two stages 0.93, without the bubble, which is (n - 1) / (m + n - 1)
# of a step. The peak of each is within 3% of the prediction.
# (2) Two test hosts (tests/support/hosts.sh) with a link of RATE (1gbit): MODEL with batches of HOST_BATCHES (4 16)
# sequences of HOST_LENGTH (64) tokens, on two stages, and on two ranks that divide samples. Target with 256 tokens in a
# batch: the stages are 1.5 times as fast.
# (3) This host: as (1), on one rank of two workers without folds and with 2, 3 and 4 folds (FOLDS), and on two tensor
# ranks of one worker. Targets over one rank without folds: 4 folds 0.97, two ranks 0.93.
set -u
top=$(cd "$(dirname "$0")/../../.." && pwd)
. "$top/tests/figures/figure.shlib"
starling=${STARLING:-$top/build/starling}
export MPIEXEC=${MPIEXEC:-mpiexec.mpich} HOSTS=mesh$$
model=${MODEL:-gpt2} rounds=${ROUNDS:-3} micro=${MICRO:-8}
[ -x "$starling" ] || { echo "SKIP: no $starling: run ./quickstart first"; exit 77; }
command -v jq >/dev/null || { echo 'SKIP: no jq'; exit 77; }
work=$(mktemp -d)
trap '"$top/tests/support/hosts.sh" down 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
# shellcheck disable=SC2086 # several words
bench() { # file for the results, launcher in $launcher, then bench's options
  local to=$1
  shift
  timeout 900 $launcher "$starling" bench $model --no-measure --json --steps "${STEPS:-4}" "$@" 2>"$work/err" |
    jq -c '[.samples_per_s, .peak_memory_bytes, .predicted_peak_bytes, .exchange_s, .sent_bytes]' >>"$work/$to"
  [ "${PIPESTATUS[0]}" = 0 ] || { tail -n 3 "$work/err" >&2; exit 1; }
}
median_of() { jq -s "map(.[$2]) | sort | .[length / 2 | floor]" "$work/$1"; }
case " ${PARTS:-1 2 3} " in *' 1 '*)
  size="--batch ${BATCH:-8} --length ${LENGTH:-256}"
  for _ in $(seq "$rounds"); do
    # shellcheck disable=SC2086
    {
      launcher='' bench one $size --workers 2
      launcher="$MPIEXEC -n 2" bench pipe $size --workers 1 --mesh pipe=2 --micro-batches "$micro"
      launcher="$MPIEXEC -n 2" bench data $size --workers 1
    }
  done
  echo "$model, $size, one host:"
  for what in one pipe data; do
    off=$(ratio "$(median_of $what 1)" "$(median_of $what 2)")
    printf '  %-4s %.3f samples/s, peak of the largest rank %.0f MB\n' $what "$(median_of $what 0)" "$(awk -v b="$(median_of $what 1)" 'BEGIN { print b / 1e6 }')"
    figure "$what: peak over the prediction" 0.97..1.03 "$off"
  done
  value=$(awk -v a="$(median_of pipe 0)" -v b="$(median_of one 0)" -v m="$micro" 'BEGIN { printf "%.3f", a / b * (m + 1) / m }')
  figure '2 stages over 1 rank, without the bubble' '>= 0.93' "$value"
  value=$(ratio "$(median_of data 0)" "$(median_of one 0)")
  figure '2 ranks of samples over 1 rank' '>= 0.97' "$value" ;;
esac
case " ${PARTS:-1 2 3} " in *' 2 '*)
  batches=${HOST_BATCHES:-4 16}
  if ! { [ "$(id -u)" = 0 ] && "$top/tests/support/hosts.sh" up 2 "${RATE:-1gbit}"; }; then
    echo 'SKIP: part 2, which needs root, network namespaces, bridges and tbf'
    [ "${PARTS-}" != 2 ] || exit 77
    batches=''
  fi
  for batch in $batches; do
    for _ in $(seq "${HOST_ROUNDS:-2}"); do
      launcher="$top/tests/support/hosts.sh mpiexec -n 2" bench "pipe-$batch" --batch "$batch" --length "${HOST_LENGTH:-64}" --workers 1 --mesh pipe=2
      launcher="$top/tests/support/hosts.sh mpiexec -n 2" bench "data-$batch" --batch "$batch" --length "${HOST_LENGTH:-64}" --workers 1
    done
    echo "$model, batch $batch, ${HOST_LENGTH:-64} tokens each, two hosts of one worker, ${RATE:-1gbit}:"
    for what in pipe data; do
      printf '  %-4s %.3f samples/s, %.1f MB sent a step\n' $what "$(median_of $what-$batch 0)" "$(awk -v b="$(median_of $what-$batch 4)" 'BEGIN { print b / 1e6 }')"
    done
    value=$(ratio "$(median_of pipe-$batch 0)" "$(median_of data-$batch 0)")
    if [ $((batch * ${HOST_LENGTH:-64})) = 256 ]; then figure 'stages over samples' '>= 1.5' "$value"
    else figure 'stages over samples' - "$value"; fi
  done ;;
esac
case " ${PARTS:-1 2 3} " in *' 3 '*)
  size="--batch ${BATCH:-8} --length ${LENGTH:-256}"
  for _ in $(seq "$rounds"); do
    # shellcheck disable=SC2086
    {
      launcher='' bench whole $size --workers 2 --leaves 2
      for folds in ${FOLDS:-2 3 4}; do launcher='' bench "folds$folds" $size --workers 2 --leaves 2 --folds "$folds"; done
      launcher="$MPIEXEC -n 2" bench tensor $size --workers 1 --mesh tensor=2
    }
  done
  echo "$model, $size, one host, folds and tensor ranks:"
  for what in whole $(for folds in ${FOLDS:-2 3 4}; do echo "folds$folds"; done) tensor; do
    off=$(ratio "$(median_of "$what" 1)" "$(median_of "$what" 2)")
    printf '  %-7s %.3f samples/s, peak of the largest rank %.0f MB\n' "$what" "$(median_of "$what" 0)" "$(awk -v b="$(median_of "$what" 1)" 'BEGIN { print b / 1e6 }')"
    figure "$what: peak over the prediction" 0.97..1.03 "$off"
  done
  for folds in ${FOLDS:-2 3 4}; do
    value=$(ratio "$(median_of "folds$folds" 0)" "$(median_of whole 0)")
    figure "$folds folds over none, 1 rank" "$([ "$folds" = 4 ] && echo '>= 0.97' || echo -)" "$value"
  done
  value=$(ratio "$(median_of tensor 0)" "$(median_of whole 0)")
  figure '2 tensor ranks over 1 rank' '>= 0.93' "$value" ;;
esac
exit $missed
