#!/bin/sh
# Several ranks give the bytes of one rank, for every division of the leaves and every kind of sum over ranks. If
# ranks differ, fail, die or stand still, the job ends with one clear message. RANKS_STEPS: number of steps (default
# 6).
. "$(dirname "$0")/../support/command.shlib"
steps=${RANKS_STEPS:-6}
. "$top/tests/support/ranks.shlib"

# name, numbers of ranks, train's arguments: all give the bytes of one rank
same_bytes() {
  plan=$1 counts=$2
  shift 2
  ranks 1 train "$@" --steps "$steps" --val-fraction 0 --quiet --out one --force
  [ $code = 0 ] || { not_ok "$plan, 1 rank"; return; }
  for count in $counts; do
    ranks "$count" train "$@" --steps "$steps" --val-fraction 0 --quiet --out several --force
    if [ $code = 0 ]; then check "$plan, $count ranks" cmp one/model.safetensors several/model.safetensors
    else not_ok "$plan, $count ranks"; fi
  done
}
same_bytes 'lenet, 4 leaves' '2 3 4' lenet --data data --batch 128 --leaves 4
same_bytes 'lenet, 12 leaves, clipping, sgd' '3 5' lenet --data data --batch 96 --leaves 12 --clip 0.5 --optimizer sgd
same_bytes 'mlp, row blocks, lamb, micro-batches' 2 mlp --data data --batch 128 --leaves 4 --micro-batches 2 --row-blocks 2 --optimizer lamb
same_bytes 'resnet8, batchnorm over a leaf' '2 3' resnet8 --data data --batch 24 --leaves 6 --augment crop=2,flip
same_bytes 'resnet8, batchnorm over the batch' 2 resnet8 --data data --batch 16 --leaves 4 --batchnorm global
same_bytes 'gpt2-nano, dropout, recomputation' 2 gpt2-nano --data text --length 32 --batch 4 --leaves 4 --dropout 0.1 --recompute block
same_bytes 'bert-nano' 2 bert-nano --data text --length 32 --batch 4 --leaves 2
same_bytes 'zero 1: lenet, adamw' '2 3' lenet --data data --batch 96 --leaves 4 --optimizer adamw --zero 1
same_bytes 'zero 1: lenet, sgd, clipping' '2 3' lenet --data data --batch 96 --leaves 12 --clip 0.5 --optimizer sgd --zero 1
same_bytes 'zero 1: mlp, lamb, clipping, row blocks, micro-batches' '2 3' mlp --data data --batch 120 --leaves 6 --micro-batches 2 --row-blocks 2 --optimizer lamb --clip 0.5 --zero 1
same_bytes 'zero 1: resnet8, batchnorm over the batch' 2 resnet8 --data data --batch 16 --leaves 4 --batchnorm global --zero 1
same_bytes 'zero 1: gpt2-nano, dropout, clipping, recomputation' '2 3' gpt2-nano --data text --length 32 --batch 6 --leaves 3 --dropout 0.1 --clip 0.1 --recompute block --zero 1
run tokenize text --tokenizer train --vocabulary 900 --out tokens
for options in '' '--zero 1 --micro-batches 2'; do
  # shellcheck disable=SC2086 # $options is several words
  same_bytes "gpt2-nano, an embedding whose gradient is gathered $options" '2 3' gpt2-nano --data tokens --length 16 --batch 12 --leaves 6 --clip 0.1 $options
done
# MPICH can be told that no two ranks share memory: then everything goes by messages.
export MPIR_CVAR_NOLOCAL=1
same_bytes 'messages' 3 mlp --data data --batch 96 --leaves 6 --workers 1
same_bytes 'messages, zero 1, clipping' '2 3' mlp --data data --batch 96 --leaves 6 --workers 1 --clip 0.5 --optimizer adamw --zero 1
unset MPIR_CVAR_NOLOCAL

# A checkpoint resumes with divided or whole optimizer state, on any number of ranks.
for optimizer in adamw lamb; do
  resumes "$optimizer, divided by 3, 2, not, by 2, 3" \
    "mlp --data data --batch 120 --leaves 6 --clip 0.5 --optimizer $optimizer --val-fraction 0 --quiet" '3 --steps 2 --zero 1' \
    '2 --steps 4' '3 --steps 5 --zero 0' '2 --steps 6 --zero 1' '1 --steps 7' '3 --steps 7' '1 --steps 8 --zero 0'
done
begins_with 'zero 1 with --init' one/model.safetensors --zero 1
predicted() { ranks 2 bench mlp --optimizer adamw --batch 64 --leaves 2 --steps 2 --no-measure --json "$@" && field predicted_peak_bytes out; }
whole=$(predicted)
divided=$(predicted --zero 1)
check 'zero 1: the predicted memory is smaller' test -n "$divided" -a "$((whole - divided))" -gt 5000000

# Leaves of another number on each rank, as listed and as measured: beside a rank that stands still two thirds of the
# time. What it gets depends on what else the machine does; tests/figures/ranks/balance.sh has the figures.
cat >slow <<'END'
#!/bin/sh
"$@" &
child=$!
while kill -STOP $child 2>/dev/null; do
  sleep 0.1
  kill -CONT $child 2>/dev/null
  sleep 0.05
done
wait $child
END
chmod +x slow
set -- train lenet --data data --batch 96 --leaves 12 --steps "$steps" --quiet --force
ranks 1 "$@" --out one
ranks 3 "$@" --balance 2,9,1 --out several
check 'uneven leaves, listed' cmp one/model.safetensors several/model.safetensors
check 'uneven leaves, listed: environment.json has them' grep -A 4 '"balance"' several/environment.json
ranks 3 "$@" --balance 2,9,1 --zero 1 --out several
check 'uneven leaves, zero 1' cmp one/model.safetensors several/model.safetensors
with_slow() { # train's arguments
  code=0
  $limit "$mpiexec" -n 1 "$starling" train lenet "$@" : -n 1 ./slow "$starling" train lenet "$@" >said 2>err || code=$?
}
set -- --data data --batch 96 --workers 1 --steps 240 --eval-every 80 --force
ranks 1 train lenet "$@" --leaves 12 --quiet --out one
with_slow "$@" --leaves 12 --balance auto --out several
check 'uneven leaves, measured' cmp one/model.safetensors several/model.safetensors
check 'uneven leaves, measured: the output has the measurements and the leaves' grep -E '^balance: a leaf takes .* ms on ranks 0 to 1 .*; [0-9]+, [0-9]+ leaves (in place of 6, 6: |stay)' said
check 'uneven leaves, measured: environment.json has them too' grep '"leaf_s"' several/environment.json
with_slow "$@" --leaves 12 --balance auto --zero 1 --out several
check 'uneven leaves, measured, zero 1: the state stays with its ranks' cmp one/model.safetensors several/model.safetensors
check 'uneven leaves, measured, zero 1: the output has the leaves' grep -E '; [0-9]+, [0-9]+ leaves (in place of 6, 6: |stay)' said
with_slow "$@" --leaves 2 --balance auto --out several
check 'two leaves on two ranks cannot be divided differently' grep -E '; 1, 1 leaves stay' said

# Sums by MPI's collectives: those of the tree, to rounding, and said so.
set -- train lenet --data data --batch 96 --leaves 12 --steps "$steps" --force
ranks 2 "$@" --out one --clip 10
for zero in 0 1; do
  ranks 2 "$@" --out several --allreduce mpi --zero $zero --clip 10
  check "MPI, zero $zero: the promise that is given up is named" grep 'warning: --allreduce mpi gives up' err
  for field in validation_loss test_loss; do
    check "MPI, zero $zero: $field" awk -v a="$(field $field one/summary.json)" -v b="$(field $field several/summary.json)" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < (1e-4 * a) ^ 2) }'
  done
done

# Compression between nodes: fewer bytes sent, nearly the same loss, the same bits in a second run; within a node there
# is none.
set -- "$@" --steps 15 --optimizer sgd --learning-rate 0.02
ranks 2 "$@" --out several --compress bf16
check 'compress: no effect within a node' grep 'all ranks are on one node' err
export MPIR_CVAR_NOLOCAL=1
sent() { ranks 2 bench mlp --batch 64 --leaves 2 --steps 2 --no-measure --json "$@" && field sent_bytes out; }
whole=$(sent)
ranks 2 "$@" --out one
for way in 'bf16 0.6 0.02' 'topk=0.05 0.2 0.3'; do
  # shellcheck disable=SC2086 # $way is three words
  set -- $way -- "$@"
  how=$1 part=$2 near=$3
  shift 4
  bytes=$(sent --compress "$how")
  check "compress $how: bytes" awk -v a="$bytes" -v b="$whole" -v r="$part" 'BEGIN { exit !(a > 0 && a < r * b) }'
  for zero in 0 1; do
    ranks 2 "$@" --out several --zero $zero --compress "$how"
    check "compress $how: the promise that is given up is named" grep 'gives up the promise of the same bits' err
    check "compress $how, zero $zero: bytes of all steps" awk -v a="$(field sent_bytes several/summary.json)" -v b="$(field sent_bytes one/summary.json)" -v r="$part" -v zero=$zero 'BEGIN { exit !(a > 0 && a < (zero ? (1 + r) / 2 : r) * b) }' # parameters are sent whole
    check "compress $how, zero $zero: the loss" awk -v a="$(field validation_loss one/summary.json)" -v b="$(field validation_loss several/summary.json)" -v r="$near" 'BEGIN { exit !(a > 0 && a != b && b < (1 + r) * a) }'
    cp several/model.safetensors before
    ranks 2 "$@" --out several --zero $zero --compress "$how"
    check "compress $how, zero $zero: again" cmp before several/model.safetensors
  done
done
# A run that goes back to a checkpoint forgets what it has not sent of later gradients, as a resumed run does.
make_set odd 300 60 8 3
printf '\1' | dd of=odd/train-labels-idx1-ubyte bs=1 seek=305 conv=notrunc 2>/dev/null
odd='train mlp --data odd --batch 4 --leaves 2 --workers 1 --steps 120 --eval-every 1000 --checkpoint-every 10 --keep 20 --val-fraction 0 --compress topk=0.25 --quiet'
# shellcheck disable=SC2086
ranks 2 $odd --on-spike rollback --out back
check 'compress: a run that goes back' test $code = 0 -a "$(grep -c 'goes back to the checkpoint' err)" -gt 0
# shellcheck disable=SC2086
ranks 2 $odd --on-spike stop --out stopped
check 'compress: the same run stops there' test $code = 65
ranks 2 train --resume --out stopped --on-spike rollback
check 'compress: resumed, it ends with the same model' cmp back/model.safetensors stopped/model.safetensors

# Hosts with different versions of a file of weights: all ranks begin with rank 0's, and score them.
for host in 1 2; do
  mkdir -p "host$host"
  run train mlp --data data --batch 96 --leaves 2 --steps $((3 * host)) --val-fraction 0 --quiet --out made --force
  cp made/model.safetensors "host$host/m.safetensors"
done
on_hosts() { # folders of rank 0 and rank 1, then starling's arguments
  one=$1 other=$2 code=0
  shift 2
  $limit "$mpiexec" -n 1 -wdir "$work/$one" "$starling" "$@" : -n 1 -wdir "$work/$other" "$starling" "$@" >out 2>err || code=$?
}
for other in host1 host2; do
  on_hosts host1 $other train mlp --data "$work/data" --batch 96 --leaves 2 --steps 3 --val-fraction 0 --workers 1 --init m.safetensors --quiet --force --out "$work/on-$other"
  check "--init on $other: exit code" test $code = 0
  on_hosts host1 $other eval m.safetensors --data "$work/data" --workers 1 --json
  grep -E '"(loss|accuracy)":' out >"scored-$other" # MPI's transport may write warnings, too
done
check '--init: all ranks begin with the weights of rank 0' cmp on-host1/model.safetensors on-host2/model.safetensors
check 'eval: all ranks score the weights of rank 0' sh -c 'test -s scored-host1 && cmp scored-host1 scored-host2'
unset MPIR_CVAR_NOLOCAL

# Each epoch uses every sample once, and evaluation counts every one, even if batch and ranks do not divide their
# number.
run train mlp --data data --batch 50 --leaves 3 --epochs 1 --quiet --out one --force
ranks 3 train mlp --data data --batch 50 --leaves 3 --epochs 1 --quiet --out several --force
for field in validation_loss validation_accuracy test_loss test_accuracy test_samples; do
  wanted=$(field $field one/summary.json)
  check "uneven ends: $field" test -n "$wanted" -a "$wanted" = "$(field $field several/summary.json)"
done
ranks 3 eval several --json
cp out of_three
run eval several --json
check 'eval on 3 ranks' sh -c 'grep -q "\"loss\"" out && cmp out of_three'

# Ends with one message.
once() { # name, pattern: the run failed, and said this in one line
  if [ $code != 0 ] && [ "$(grep -cE "$2" err)" = 1 ] && [ "$(grep '^starling: ' err | grep -vc 'warning: ')" = 1 ]; then ok "$1"; else not_ok "$1"; fi
}
ranks 3 train mlp --data data --leaves 2 --out x
once 'fewer leaves than ranks' '3 ranks cannot share a batch of 2 leaves'
ranks 2 train mlp --data data --leaves 4 --compress half --out x
once 'an unknown compression' "unknown compression 'half': choose none, bf16, topk or topk=FRACTION, 0 < FRACTION <= 0.25 \(--compress\)"
ranks 2 train mlp --data data --leaves 4 --compress bf16 --allreduce mpi --out x
once 'compression with --allreduce mpi' 'compress bf16 needs --allreduce tree'
ranks 2 train mlp --data data --leaves 4 --balance 3,2 --out x
once 'leaves that do not add up' '2 ranks take even, auto, or 2 numbers .* add up to the 4 leaves'
ranks 2 train mlp --data nowhere --out x
once 'no data on any rank' 'nowhere'
code=0
$limit "$mpiexec" -n 1 "$starling" train mlp --data data --batch 64 --steps 5 --out x : -n 1 "$starling" train mlp --data missing --batch 64 --steps 5 --out x >out 2>err || code=$?
once 'no data on one rank' 'rank 1 of 2 .*missing'
code=0
$limit "$mpiexec" -n 1 "$starling" train mlp --data data --batch 64 --steps 5 --out x : -n 1 "$starling" train mlp --data data --batch 64 --steps 5 --out x --decay 0.3 >out 2>err || code=$?
once 'another option on one rank' 'rank 1: .*decay: 0.3.*rank 0'
code=0
$limit "$mpiexec" -n 1 "$starling" train mlp --data data --batch 64 --steps 5 --out x : -n 1 "$starling" train mlp --data data --batch 64 --steps 5 --out x --zero 1 >out 2>err || code=$?
once 'state divided on one rank only' 'rank 1: .*zero: 1.*rank 0'
code=0
$limit "$mpiexec" -n 1 "$starling" train mlp --data data --batch 64 --steps 5 --out x --workers gpu : -n 1 "$starling" train mlp --data data --batch 64 --steps 5 --out x >out 2>err || code=$?
once 'GPUs alone on one rank, which has none' 'rank 0 has no GPU'
cp "$starling" another && printf x >>another
code=0
$limit "$mpiexec" -n 1 "$starling" train mlp --data data --batch 64 --steps 5 --out x : -n 1 ./another train mlp --data data --batch 64 --steps 5 --out x >out 2>err || code=$?
once 'another build on one rank' 'rank 1: .*program:'
code=0
$limit "$mpiexec" -n 1 "$starling" train mlp --data data --batch 64 --steps 5 --out x : -n 1 "$starling" train mlp --data data --bacth 64 --steps 5 --out x >out 2>err || code=$?
once 'a wrong command line on one rank' 'rank 1 of 2 .*unknown option --bacth'
ranks 2 train mlp --data data --bacth 64 --steps 5 --out x
once 'a wrong command line on all ranks' '^starling: unknown option --bacth'
check 'none of these failures left a directory' test ! -e x

# A rank that stands still is named, and one that dies ends the job, soon.
start() { # train's arguments: in the background, until it has made steps
  rm -rf long
  $limit "$mpiexec" -n 3 "$starling" train mlp --data data --batch 60 --epochs 100000 --log-every 1 --out long "$@" >out 2>err &
  job=$!
  wait_until begun_or_ended
  has_lines long/metrics.jsonl 3
}
begun_or_ended() { has_lines long/metrics.jsonl 3 || ! kill -0 $job 2>/dev/null; }
# Likewise, until each rank has said where it is, which it does once a second. Where other work holds a rank up for
# longer than $patience, that is doubled.
start_watched() {
  until start --stall-timeout $patience "$@" && sleep 3 && kill -0 $job 2>/dev/null; do
    [ $patience -lt 1000 ] || return 1
    kill $job 2>/dev/null
    wait $job
    patience=$((2 * patience))
  done
}
# The processes of the three ranks, in $processes, and rank 1's in $victim.
ranks_of_job() {
  processes=$(for rank in 0 1 2; do rank_of $job $rank; done)
  victim=$(rank_of $job 1)
}
gone() { for pid in $processes; do ! kill -0 "$pid" 2>/dev/null || return 1; done; }
none_is_left() { # name: there were three ranks, and none is left
  check "$1" test "$(echo "$processes" | grep -c .)" = 3
  check "$1: no process is left" wait_until gone
}
patience=$((4 + 2 * $(pace))) # seconds in which every rank that runs has its turn
for sums in tree mpi; do
  start_watched --allreduce $sums
  ranks_of_job
  kill -STOP "$victim"
  code=0
  wait $job || code=$?
  once "a rank that stands still is named, with its last step ($sums)" "no (progress|message) for .* (waits for|from) rank 1 \(.* last heard from .* ago in step [0-9]+, "
  none_is_left "a rank that stands still ($sums)"
done
start
ranks_of_job
kill -KILL "$victim"
code=0
wait $job || code=$?
check 'a killed rank ends the job' test $code != 0
none_is_left 'a killed rank'
start
ranks_of_job
kill -TERM "$victim"
code=0
wait $job || code=$?
check 'SIGTERM to one rank: all stop after the same step, and end with 75' test $code = 75
finish
