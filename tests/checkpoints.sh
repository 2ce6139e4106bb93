#!/bin/sh
# Checkpoints of a run: when they are written, and which are kept. A checkpoint that is damaged, foreign or from another
# training is refused by name, and the previous checkpoint is used. tests/failures/full_disk.sh fills the disk,
# tests/ranks/kills.sh kills runs.
. "$(dirname "$0")/support/command.shlib"
make_set data 300 60 8 3
small='--data data --batch 32 --workers 1 --learning-rate 1e-4'
steps_of() { find "$1/checkpoints" -name 'step-*' | sed 's/.*step-0*//' | sort -n | tr '\n' ' '; }
losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([^,]*\),"accuracy":\([^,}]*\).*/\1 \2 \3/p' "$1/metrics.jsonl"; }

# shellcheck disable=SC2086 # $small is several words, here and below
expect 'a checkpoint every 7 steps' 0 '^test' train mlp $small --steps 40 --eval-every 15 --log-every 5 --checkpoint-every 7 --keep 4 --out a
check 'the last step has one too, and the newest 4 are kept' test "$(steps_of a)" = '21 28 35 40 '
expect '--checkpoint-every 0: only the last step' 0 '^test' train mlp $small --steps 12 --eval-every 5 --checkpoint-every 0 --out last
check 'there is one checkpoint' test "$(steps_of last)" = '12 '
expect '--checkpoint-minutes' 0 '^test' train mlp $small --steps 5 --eval-every 5 --checkpoint-every 0 --checkpoint-minutes 1e-9 --out clock
check 'each step had a checkpoint' test "$(steps_of clock)" = '3 4 5 '
expect '--keep 0 is refused' 2 'keep: 0 is out of range' train mlp $small --steps 5 --keep 0 --out none
check 'metrics have the seconds for checkpoints' grep -qE '"checkpoint_s":[0-9]' a/metrics.jsonl
check_json 'the manifest is JSON' a/checkpoints/step-00000040/checkpoint.json
check 'the manifest has the configuration' grep -q 'learning-rate: 0.0001' a/checkpoints/step-00000040/checkpoint.json
if command -v xxhsum >/dev/null && xxhsum -H3 /dev/null >out 2>&1; then
  check 'its checksums are those of xxhsum' grep -q "$(xxhsum -H3 a/checkpoints/step-00000040/part-00000.safetensors | sed 's/^XXH3_//' | cut -d' ' -f1)" a/checkpoints/step-00000040/checkpoint.json
else skip 'its checksums are those of xxhsum: no xxhsum'; fi

# Commands that read a model file also read a checkpoint.
expect 'eval of the newest checkpoint' 0 'mlp after step 40' eval a/checkpoints/step-00000040
expect 'eval of an older checkpoint' 0 'mlp after step 28' eval a/checkpoints/step-00000028
expect 'predict with a checkpoint' 0 '\[59\]' predict a/checkpoints/step-00000040 data/t10k-images-idx3-ubyte
expect 'convert of a checkpoint' 0 'mlp: ' convert a/checkpoints/step-00000040 --to starling --out converted.safetensors
expect 'the converted file is a model' 0 'mlp after step 40' eval converted.safetensors --data data
expect '--init from a checkpoint' 0 '^test' train mlp $small --steps 1 --init a/checkpoints/step-00000040 --out begun

# A run goes on by other kernels that give the same bits (tests/arm64.sh: on another processor), and by no others.
if grep -qw fma /proc/cpuinfo; then
  # shellcheck disable=SC2086 # several words, here and below
  expect 'a run by avx2 kernels' 0 '^test' train mlp $small --steps 4 --kernels avx2 --out whole
  run train mlp $small --steps 2 --kernels avx2 --out moved
  sed -i 's/kernels: avx2/kernels: neon/' moved/config.yaml # as from another processor
  expect 'one by kernels that do not run here goes on' 0 '^test' train --resume --steps 4 --out moved
  check 'to the same state' same_state whole moved
  run train mlp $small --steps 2 --kernels avx2 --out moved --force
  expect 'kernels of other bits are refused' 1 "kernels is 'base' here and 'avx2' in" train --resume --steps 4 --kernels base --out moved
else skip 'other kernels: no fused multiply-adds'; fi

# A run that is ending writes its last checkpoint while the next start waits for the directory's lock.
rm -rf run && cp -r a run && mv run/checkpoints/step-00000040 .
(
  flock 9
  : >locked
  sleep 8 # the next start waits for 10 s
  mv step-00000040 run/checkpoints/
) 9<>run/.starling-run &
wait_until test -e locked
expect 'the directory is locked when a run is resumed' 0 '^test' train --resume --steps 45 --out run
wait
check 'a checkpoint that comes meanwhile is used' grep -q 'resumed after step 40$' out
check 'and it stays' test -d run/checkpoints/step-00000040
rm -rf again && cp -r a again
run train --resume --steps 45 --out again
check 'with the bytes of a run that begins later' same_state again run

# Damage. Each time the run resumes from the checkpoint before, and ends with the bytes of the undisturbed run.
damaged() { # name, the warning's pattern, command that spoils the copy in spoilt/, the step that is used then
  rm -rf run && cp -r a run && rm -rf run/checkpoints/step-00000040 && spoilt=run/checkpoints/step-00000035
  eval "$3"
  expect "$1" 0 "warning: .*$2.*; the checkpoint of step $4 is used" train --resume --out run
  check "$1: it goes on from the one before" grep -q "resumed after step $4\$" out
  check "$1: the same state in the end" same_state a run
  check "$1: the same model" cmp a/model.safetensors run/model.safetensors
  losses a >a.losses && losses run >run.losses
  check "$1: the same losses" cmp a.losses run.losses
  check "$1: it was put aside" test -d run/checkpoints/refused-step-00000035
}
flip() { # file, offset: another byte there
  printf "\\$(printf %03o $((($(od -An -tu1 -j"$2" -N1 "$1") + 128) % 256)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
damaged 'cut short' 'step-00000035/part-00000.safetensors has 1000000 bytes where [0-9]+ were written' 'truncate -s 1000000 $spoilt/part-00000.safetensors' 28
damaged 'a flipped bit' 'step-00000035/part-00000.safetensors changed since it was written' 'flip $spoilt/part-00000.safetensors 5000000' 28
damaged 'a changed manifest' 'step-00000035/checkpoint.json: changed since it was written' "sed -i 's/\"cursor\": /&1/' \$spoilt/checkpoint.json" 28
damaged 'a missing part' 'step-00000035/part-00000.safetensors: No such file' 'rm $spoilt/part-00000.safetensors' 28
damaged 'no manifest' 'step-00000035 has no checkpoint.json' 'rm $spoilt/checkpoint.json' 28
damaged 'of a later format' 'of format starling-checkpoint-9; this version reads' "sed -i 's/starling-checkpoint-1/starling-checkpoint-9/' \$spoilt/checkpoint.json" 28
make_set large 40 0 28 3
expect 'a checkpoint of another model is refused' 0 '^step 1' train lenet --data large --batch 8 --workers 1 --steps 1 --out foreign
damaged 'of another model' '(is .* here and .* in|differs from that of) .*step-00000035' 'rm -r $spoilt && cp -r foreign/checkpoints/step-00000001 $spoilt' 28
damaged 'of another plan' 'seed is 1 here and 2 in .*step-00000035' '"$starling" train mlp $small --seed 2 --steps 1 --quiet --out seed >out && rm -r $spoilt && cp -r seed/checkpoints/step-00000001 $spoilt' 28

# A pipe in place of a file of the run is named, and nothing waits for it.
for file in config.yaml summary.json metrics.jsonl model.safetensors; do
  rm -rf run && cp -r a run && rm run/$file && mkfifo run/$file
  expect "a pipe in place of $file is refused" 1 "run/$file is a pipe, not a regular file: remove it" train --resume --out run --steps 45
  case $file in config.yaml | model.safetensors)
    expect "a pipe in place of $file: eval" 1 "run/$file is a pipe, not a regular file: remove it" eval run ;;
  esac
done
for file in checkpoint.json part-00000.safetensors; do
  rm -rf run && cp -r a run && rm run/checkpoints/step-00000040/$file && mkfifo run/checkpoints/step-00000040/$file
  expect "a pipe in place of $file: eval" 1 "$file is a pipe, not a regular file: remove it" eval run/checkpoints/step-00000040
  damaged "a pipe in place of $file" "step-00000035/$file is a pipe, not a regular file: remove it" "rm \$spoilt/$file && mkfifo \$spoilt/$file" 28
done

rm -rf run && cp -r a run
for step in 21 28 35 40; do flip "run/checkpoints/step-000000$step/part-00000.safetensors" 5000; done
expect 'a run without a whole checkpoint is refused' 1 'step-00000040/part-00000.safetensors changed since it was written.*; nor can a checkpoint before it be used: --force' train --resume --out run --steps 50
check 'the refusal changes no file' test "$(steps_of run)" = '21 28 35 40 '
rm -rf run && cp -r a run && mkdir run/checkpoints/.step-00000099.partial && touch run/checkpoints/.step-00000099.partial/part-00000.safetensors run/.timeline-0.safetensors.7-0.tmp
expect 'leftovers of a killed writer' 0 'resumed after step 40' train --resume --out run --steps 41
check 'leftovers are removed' absent run/checkpoints/.step-00000099.partial
check 'with the temporary of a timeline' absent run/.timeline-0.safetensors.7-0.tmp
mkdir older && touch older/.starling-run older/state.safetensors && cp a/config.yaml older
expect 'a run of an earlier version' 1 'older/state.safetensors is the state of a run of an earlier version' train --resume --out older
expect '--force starts it afresh' 0 '^test' train mlp $small --steps 1 --out run --force
check 'only new checkpoints are left' test "$(ls run/checkpoints)" = step-00000001

# --resume refuses options that would change the training, and names them; it accepts the others.
for option in 'learning-rate 2e-4' 'decay 0.5' 'clip 1' 'smoothing 0.2' 'batchnorm global' 'rate-schedule cosine' 'warmup 3' 'beta2 0.9'; do
  # shellcheck disable=SC2086
  expect "--$option is refused" 1 "--${option% *} is ${option#* } here and .* in a/checkpoints/step-00000040|--${option% *} is [0-9.e-]* here" train --resume --out a --steps 50 --${option% *} ${option#* }
done
expect '--seed is refused' 1 'seed is 3 here and 1 in' train --resume --out a --steps 50 --seed 3
expect 'an end before the step that the run has reached is refused' 2 'has made 40 steps already, and --steps or --epochs ends it after 30' train --resume --out a --steps 30
expect 'a run with a falling schedule' 0 '^test' train mlp $small --steps 12 --rate-schedule cosine --checkpoint-every 5 --out cosine
rm -r cosine/checkpoints/step-00000012
expect 'another length of a falling schedule is refused' 1 'cosine schedule has 14 steps here \(--steps, --epochs\) but 12 in' train --resume --out cosine --steps 14
expect 'without the option it resumes' 0 'resumed after step 10' train --resume --out cosine --checkpoint-every 4 --keep 9 --log-every 2
check 'another --checkpoint-every is accepted' test "$(steps_of cosine)" = '5 10 12 '

# Signals.
for signal in USR1 TERM; do
  rm -rf s
  "$starling" train mlp $small --steps 1000000 --eval-every 1000000 --log-every 7 --out s >out 2>err &
  process=$!
  wait_until has_lines s/metrics.jsonl 2
  kill -$signal $process
  code=0
  wait $process || code=$?
  check "SIG$signal: the code of a checkpoint" test $code = 75
  step=$(sed -n 's/^stopped by a signal after step \([0-9]*\).*/\1/p' out)
  check "SIG$signal: it is there" test "$(steps_of s)" = "$step "
done
rm -rf r && cp -r s r
expect 'a stopped run resumes' 0 "resumed after step $step\$" train --resume --out s --steps $((step + 9))
expect 'the same run without a stop' 0 '^test' train mlp $small --steps $((step + 9)) --eval-every 1000000 --log-every 7 --out one
check 'both have the same state' same_state s one
losses s >s.losses && losses one >one.losses
check 'both have the same losses, though the stop came between two lines' cmp s.losses one.losses

# A signal to one of two ranks stops both at one step; one rank goes on from there.
if [ -x "${MPIEXEC-}" ]; then
  rm -rf s one
  options="--data data --batch 36 --leaves 6 --shards 6 --workers 1 --learning-rate 1e-4 --eval-every 1000000 --log-every 7"
  # shellcheck disable=SC2086
  $limit "$MPIEXEC" -n 2 "$starling" train mlp $options --steps 1000000 --out "$work/s" >out 2>err &
  process=$!
  wait_until has_lines s/metrics.jsonl 2
  for pid in $(pgrep -f "^$starling train .*--out $work/s\$"); do
    [ "$(cat /proc/"$pid"/comm 2>/dev/null)" != starling ] || rank=$pid
  done
  kill -USR1 "$rank"
  code=0
  wait $process || code=$?
  check 'two ranks stop together' test $code = 75
  step=$(sed -n 's/^stopped by a signal after step \([0-9]*\).*/\1/p' out)
  check 'each rank wrote a part' test -s "$(newest s)/part-00001.safetensors"
  expect 'one rank resumes the run of two' 0 "resumed after step $step\$" train --resume --out s --steps $((step + 9))
  # shellcheck disable=SC2086
  expect 'the same run on one rank without a stop' 0 '^test' train mlp $options --steps $((step + 9)) --out one
  check 'both have the same state' same_state s one
else
  for what in 'two ranks stop together' 'each rank wrote a part' 'one rank resumes the run of two' 'the same run on one rank without a stop' 'both have the same state'; do
    skip "$what: no mpiexec"
  done
fi

# The best model is that of the checkpoint, also after a kill between a better model and the checkpoint that names it.
best="$small --eval-every 2 --checkpoint-every 4 --keep 20"
model_is() { run eval "$1" && grep -q "(mlp after step $2)" out; } # run, step
# shellcheck disable=SC2086
expect 'a run with a best model and its checkpoint' 0 '^test' train mlp $best --steps 4 --out k
first=$(field best_step k/summary.json)
cp k/model.safetensors first
expect 'a run that finds a better model' 0 '^test' train --resume --out k --steps 40
check 'no superseded model stays' test -z "$(find k -name 'model.safetensors.*')"
later=$(field best_step k/summary.json)
check 'the best model has changed' test "$later" -gt "$first"
cp -r k gone
for run in k gone; do
  for step in $(steps_of $run); do [ "$step" = 4 ] || rm -r "$(printf '%s/checkpoints/step-%08d' $run "$step")"; done
done
cp a/checkpoints/step-00000028/part-00000.safetensors k/model.safetensors.step-3 # of a checkpoint that is gone
cp first "k/model.safetensors.step-$first"
expect 'resume from the checkpoint before the better model' 0 '^test' train --resume --out k --steps 4
check 'the model is the one that the checkpoint names' cmp first k/model.safetensors
check 'the summary names its step' test "$(field best_step k/summary.json)" = "$first"
check 'no superseded model stays after resuming' test -z "$(find k -name 'model.safetensors.*')"
expect 'if the named model is gone, a warning says so' 0 'the best model .step [0-9]*. named by the checkpoint is missing' train --resume --out gone --steps 6
check 'the summary then names the model that exists' model_is gone "$(field best_step gone/summary.json)"
# A checkpoint of many ranks has many files, all of them open at once: the soft limit of open files is raised.
# shellcheck disable=SC2086
sh -c 'ulimit -Sn 64; exec "$@"' sh "$starling" train mlp $small --steps 1000000 --out files --quiet >out 2>err &
job=$!
check 'a run under a soft limit of 64 open files' wait_while $job test -e files/heartbeat.json
check 'raises it' test "$(awk '/^Max open files/ { print ($4 == $5) }' /proc/$job/limits)" = 1
kill -KILL $job
wait $job 2>/dev/null

# A best model that is lost, with the checkpoint of its own step: it is written again.
# shellcheck disable=SC2086
expect 'a run with a checkpoint after each validation' 0 '^test' train mlp $small --learning-rate 0.02 --eval-every 2 --checkpoint-every 2 --keep 20 --steps 40 --out lost
best_step=$(field best_step lost/summary.json)
check 'the best model is not the last one' test "$best_step" -lt 40
cp lost/model.safetensors whole.safetensors
for step in $(steps_of lost); do [ "$step" -le "$best_step" ] || rm -r "$(printf 'lost/checkpoints/step-%08d' "$step")"; done
rm lost/model.safetensors lost/summary.json
expect 'resume without the best model' 0 'is written again, since the checkpoint holds its parameters' train --resume --out lost --steps 40
check 'the best model is the same' cmp whole.safetensors lost/model.safetensors
check 'the summary names its step' test "$(field best_step lost/summary.json)" = "$best_step"
# shellcheck disable=SC2086
"$starling" train mlp $small --eval-every 1 --checkpoint-every 20 --steps 100000 --out killed --quiet >out 2>err &
job=$!
wait_until test -e killed/checkpoints/step-00000020/checkpoint.json
wait_until sh -c 'tail -n 1 killed/metrics.jsonl | grep -qE "\"step\":(2[5-9]|[3-9][0-9]|[0-9]{3})"'
kill -KILL $job
wait $job 2>/dev/null
expect 'a run killed after a checkpoint resumes' 0 'resumed after step' train --resume --out killed --steps 20
named=$(field best_step killed/summary.json)
check 'the best model of the checkpoint exists' model_is killed "$named"

# The bound of --until is met by a validation whose loss is not the best: a resumed run remembers it.
awk 'BEGIN { srand(7); for (i = 0; i < 400; i++) printf "%s", substr("the cat sat on a mat and ran ", int(20 * rand()) + 1, 3 + int(7 * rand())) }' >few.txt
expect 'a run with --until' 0 '' train gpt2-nano --size layers=1,width=64,heads=2 --length 16 --data few.txt --batch 4 --val-fraction 0.3 --workers 1 --learning-rate 3e-3 --steps 150 --eval-every 5 --until accuracy=0.41 --quiet --out until
last=$(number_of steps until/summary.json)
check 'it ends early, after its best validation' test "$last" -lt 150 -a "$(number_of best_step until/summary.json)" -lt "$last"
run train --resume --out until
check 'resumed, it has nothing left to do' test "$code" = 0 -a "$(number_of steps until/summary.json)" = "$last"
finish
