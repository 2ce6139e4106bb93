#!/bin/sh
# A full disk, or a limit of file size, does not stop training: data that cannot be written are kept and written
# later. At the end a run that lacks its model, last checkpoint or metrics fails with exit code 74, leaves nothing
# half-written, and --resume completes it to the bytes of an undisturbed run.
. "$(dirname "$0")/../support/command.shlib"
make_set data 300 60 8 3
small='--data data --batch 32 --workers 1 --learning-rate 1e-4'
some="$small --eval-every 10 --log-every 5 --steps 20"
steps() { sed -n 's/.*"step":\([0-9]*\),.*"split":"'"$2"'".*/\1/p' "$1/metrics.jsonl" | tr '\n' ' '; } # run, split
losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([^,]*\),"accuracy":\([^,}]*\).*/\1 \2 \3/p' "$1/metrics.jsonl"; }
clean() { [ -z "$(find "$1" -name '.*tmp' -o -name '*partial')" ]; }
limited() { # name, limit of a file's size in units of 512 bytes, arguments: the exit code is that of what could not be written
  name=$1 blocks=$2 code=0
  shift 2
  (ulimit -f "$blocks" && UCX_TLS=tcp,self exec "$starling" "$@") >out 2>err || code=$? # UCX's shared memory counts as files
  check "$name: the exit code says so" test $code = 74
}
# shellcheck disable=SC2086 # $small and $some are several words, here and below
expect 'a run that nothing disturbs' 0 '^test' train mlp $some --out whole

# The model has 4 MB, a checkpoint 13 MB.
# shellcheck disable=SC2086
limited 'no room for the model' 2048 train mlp $some --out a
check 'it names the file and the remedy' grep -qE 'starling: .*a/model.safetensors: File too large; raise the limit.*; .starling train --resume --out .*a. then writes' err
check 'and said so when it happened' grep -q 'the model of step 10 waits in memory, training goes on' err
check 'nothing half-written is left' clean a
check 'it does not say that it is done' sh -c '! grep -q "^test" out && [ ! -e a/summary.json ]'
check 'all metrics are there' test "$(steps a train)$(steps a validation)" = '5 10 15 20 10 20 '
expect 'resumed with room' 0 '^test' train --resume --out a
check 'the same model' cmp whole/model.safetensors a/model.safetensors
check 'the same state' same_state whole a

# shellcheck disable=SC2086
limited 'room for the model alone' 16384 train mlp $some --out b
check 'it names the checkpoint and the remedy' grep -qE 'starling: step 20 has no checkpoint: cannot write .*b/checkpoints/.*: File too large; raise' err
check 'the model is there' cmp whole/model.safetensors b/model.safetensors
check 'and it is tested' sh -c 'grep -q "^test" out && [ -e b/summary.json ]'
check 'nothing half-written is left' clean b
# shellcheck disable=SC2086
limited 'no room, and nothing is validated' 2048 train mlp $some --val-fraction 0 --out c
expect 'resumed with room' 0 '^test' train --resume --out c
run eval c
check 'its model is of the last step' grep -q 'after step 20' out

head -c 300000 /dev/zero | tr '\0' a >text
for command in 'tokenize text --tokenizer bytes --out tokens' 'convert whole --to starling --out converted.safetensors'; do
  # shellcheck disable=SC2086
  limited "starling ${command%% *}" 64 $command
  check "starling ${command%% *}: it names the mend" grep -q 'File too large; raise the limit' err
  check "starling ${command%% *}: nothing is left" test -z "$(find . -name '*.tmp' -o -name train.bin -o -name converted.safetensors)"
done

# Published weights are several files.
expect 'a language model' 0 '' train gpt2-nano --size layers=1,width=64,heads=2 --data text --length 16 --batch 4 --steps 1 --workers 1 --quiet --out tokens.run
limited 'starling convert --to hf' 256 convert tokens.run --to hf --shard-size 1 --out hf
check 'starling convert --to hf: nothing is left' test ! -e hf
mkdir hf
limited 'into a folder that is there' 256 convert tokens.run --to hf --shard-size 1 --out hf
check 'it stays, and is empty' test -d hf -a -z "$(ls hf)"

if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
  mkdir full
  cat >full.sh <<END
mount -t tmpfs -o size=\$1 none full || exit 99
"$starling" train mlp $small --steps 20 --eval-every 20 --checkpoint-every 5 --keep 9 --out full/run --quiet
code=\$?
find full | grep -E 'tmp|partial' && exit 98
ls full/run/checkpoints >kept
"$starling" eval full/run/checkpoints/step-00000010 >>kept 2>&1
exit \$code
END
  code=0
  unshare --mount sh full.sh 38m >out 2>err || code=$?
  check 'a full disk: no room for the last checkpoint' test $code = 74
  check 'it says what was not written, and the remedy' grep -qE 'no checkpoint was written, training goes on: .*to full/run/checkpoints: .*space' err
  check 'that the last step has none' grep -q 'step 20 has no checkpoint' err
  check 'and the checkpoints before are there, whole' sh -c 'head -n 2 kept | tr "\n" " " | grep -q "step-00000005 step-00000010 " && grep -q "after step 10" kept'
  code=0
  unshare --mount sh full.sh 2m >out 2>err || code=$?
  check 'a full disk: no room for the model' test $code = 74
  check 'and what it was' grep -q 'full/run/model.safetensors: No space left on device; free some space' err

  # The disk is full from a checkpoint on, until something waits; then it has room again. The job stands still while it
  # fills, so that much is left to learn: each better model is written.
  cat >room.sh <<END
trap '[ -z "\$job" ] || kill -KILL \$job 2>/dev/null' EXIT
mount -t tmpfs -o size=100m none full || exit 99
wait_until() {
  tries=$((hang_s * 10))
  until "\$@"; do
    tries=\$((tries - 1))
    [ \$tries -gt 0 ] || exit 98
    sleep 0.1
  done
}
"$starling" train mlp $small --learning-rate 1e-6 --eval-every 1 --log-every 1 --steps 1000000 --checkpoint-every 20 --out full/run >/dev/null 2>err &
job=\$!
wait_until test -e full/run/checkpoints/step-00000020/checkpoint.json
kill -STOP \$job
head -c 200m /dev/zero >full/filler 2>/dev/null
kill -CONT \$job
wait_until grep -q 'metrics wait in memory' err
wait_until grep -q 'the model of step' err
rm full/filler
wait_until grep -q 'has all metrics again' err
wait_until grep -q 'model.safetensors could be written now' err
kill -USR1 \$job
wait \$job
[ \$? = 75 ] || exit 97
cp -r full/run run
END
  code=0
  unshare --mount sh room.sh >out 2>&1 || code=$?
  check 'a disk that is full for a while: training goes on' test $code = 0
  step=$(steps run train | wc -w)
  check 'no line of metrics is missing' test "$(steps run train)" = "$(seq -s ' ' "$step") "
  check 'nor of validation' test "$(steps run validation)" = "$(seq -s ' ' "$step") "
  # In memory: each of these thousands of steps writes a better model, and a disk would take minutes.
  cat >same.sh <<END
mount -t tmpfs none full || exit 99
"$starling" train mlp $small --learning-rate 1e-6 --eval-every 1 --log-every 1 --checkpoint-every 20 --steps $step --out full/same || exit
cp -r full/same .
END
  code=0
  $limit unshare --mount sh same.sh >out 2>err || code=$?
  check 'the same steps on a disk with room' test $code = 0
  expect 'the run comes to its end' 0 'resumed after' train --resume --out run --steps "$step"
  losses run >run.losses && losses same >same.losses
  check 'the same losses' cmp run.losses same.losses
  check 'the same best model' cmp run/model.safetensors same/model.safetensors
  check 'the same state' same_state run same
else
  for what in 'no room for the last checkpoint' 'it says what was not written' 'that the last step has none' 'the checkpoints before are there' 'no room for the model' 'and what it was' 'a disk that is full for a while'; do
    skip "a full disk: $what: no mounts may be made here"
  done
fi
finish
