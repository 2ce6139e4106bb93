#!/bin/sh
# --restarts: a job that loses a rank starts again by itself and ends with the bytes of an undisturbed one; a rank that
# stands still ends the job with exit code 76 and a stall file with the stacks of all ranks; heartbeat.json says what
# the run does and how it ended. RESTARTS: number of ranks that are killed (default 2); RESTARTS_RANKS: of each job (2).
# RESTARTS_LOG: a file for the milliseconds from each kill to the next step.
. "$(dirname "$0")/../support/command.shlib"
[ -x "${MPIEXEC-}" ] || { echo '1..0 # SKIP no mpiexec'; exit 0; }
[ -r /proc/self/environ ] || { echo '1..0 # SKIP no /proc'; exit 0; }
make_set data 300 0 8 3
kills=${RESTARTS:-2} ranks=${RESTARTS_RANKS:-2} seed=${SEED:-$(date +%s)}
echo "# SEED=$seed"
draw() { seed=$(((seed * 1103515245 + 12345) % 2147483648)); drawn=$((seed / 65536 % $1)); }
options="--data data --batch 36 --leaves 6 --shards 6 --workers 1 --learning-rate 1e-4 --eval-every 50 --log-every 1 --checkpoint-every 5 --quiet"
ms() { echo $(($(date +%s%N) / 1000000)); }
beat() { field "$1" "$2/heartbeat.json" 2>/dev/null; } # field, run
stepped() { [ "$(beat state "$1")" != starting ] && [ "$(beat step "$1")" -gt "$2" ] 2>/dev/null; } # run, step
process_of() { # rank, run: the number of its process, by the heartbeat
  sed -n "s/.*{\"rank\": $1, \"host\": \"[^\"]*\", \"pid\": \([0-9]*\)}.*/\1/p" "$2/heartbeat.json"
}
start() { # steps, out, more arguments: in the background
  steps=$1 folder=$2
  shift 2
  # shellcheck disable=SC2086 # $options is several words
  $limit "$starling" train mlp $options --steps "$steps" --ranks "$ranks" --mpiexec "$MPIEXEC" --out "$folder" "$@" >out 2>err &
  job=$!
}
ends() { code=0; wait $job || code=$?; echo "exit code $code" >>out; }
gone() { ! kill -0 "$1" 2>/dev/null || [ "$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null)" = Z ]; }

# A job that nobody disturbs, started by the command itself.
length=$((40 + 100 * kills))
start $length undisturbed
ends
check 'train --ranks starts mpiexec' test $code = 0
check 'on that many ranks' grep -q "\"ranks\": *$ranks" undisturbed/environment.json
check_json 'heartbeat.json is JSON' undisturbed/heartbeat.json
check 'its state at the end' test "$(beat state undisturbed)" = ended
check 'its exit code' test "$(beat exit_code undisturbed)" = 0
check 'its last step' test "$(beat step undisturbed)" = $length
for name in steps from_step loss time host pid ranks launch; do check "it has $name" grep -q "\"$name\": ." undisturbed/heartbeat.json; done
check 'it has a process for each rank' test -n "$(process_of $((ranks - 1)) undisturbed)"

# The run directory says nothing of how to launch the next start, even if somebody wrote that into it.
cp -r undisturbed again
printf 'ranks: 5\nrestarts: 2\n' >>again/config.yaml
run train --resume --out again --steps $((length + 1))
check 'resumed without --ranks: one rank' test "$code $(field ranks again/heartbeat.json)" = '0 1'
check 'it says so, and what starts more' grep -q "^the run had $ranks ranks before, and has 1 now: give --ranks or --hosts again" out
code=0
$limit "$MPIEXEC" -n "$ranks" "$starling" train --resume --out again --steps $((length + 2)) >out 2>err || code=$?
check "resumed by the user's own mpiexec: its number of ranks" test "$code $(field ranks again/heartbeat.json)" = "0 $ranks"
run train --resume --out again --steps $((length + 3)) --ranks "$ranks" --mpiexec "$MPIEXEC"
check 'resumed with --ranks: that number' test "$code $(field ranks again/heartbeat.json)" = "0 $ranks"
check 'nothing is said of fewer' sh -c '! grep -q "has . now" out'

# Random ranks are killed, each some steps after the start or restart.
start $length run --restarts "$kills"
from=0
for kill in $(seq "$kills"); do
  draw 10
  until [ "$(grep -c '"train"' run/metrics.jsonl 2>/dev/null)" -gt $((from + drawn)) ] 2>/dev/null || ! kill -0 $job; do sleep 0.02; done
  draw "$ranks"
  rank=$drawn
  victim=$(process_of $rank run)
  began=$(ms)
  kill -KILL "$victim" 2>>err
  wait_until has_lines err "$kill" || break # the line of the restart, with the first step after it
  [ -z "${RESTARTS_LOG-}" ] || echo $(($(ms) - began)) >>"$RESTARTS_LOG"
  from=$(grep -c '"train"' run/metrics.jsonl)
done
ends
check "$kills ranks killed: the job ends" test $code = 0
check 'each restart has its line' test "$(grep -cE '^starling: restart [0-9]+ of [0-9]+: rank [0-9]+ \(process [0-9]+ of .*\) was killed by signal 9; .* from step [0-9]+; [0-9.]+ s from the loss to the next step$' err)" = "$kills"
check 'and nothing else is said' test "$(grep -c '' err)" = "$kills"
check 'mpiexec itself says nothing of it' test "$(grep -c TERMINATION out)" = 0
check 'the model of the undisturbed job' cmp undisturbed/model.safetensors run/model.safetensors
check 'its state' same_state undisturbed run

# Without a restart left, and without any.
start 1000000 lost --restarts 0 --checkpoint-every 0
wait_until stepped lost 2
check 'the state of a job at work' wait_until grep -q '"state": "training"' lost/heartbeat.json
victims=$(process_of 0 lost; process_of 1 lost)
kill -KILL "$(process_of 1 lost)"
ends
check 'a rank that is killed: exit code 76' test $code = 76
check 'it is named' grep -qE '^starling: rank 1 \(process [0-9]+ of .*\) was killed by signal 9; --restarts N' err
# mpiexec kills the other ranks, and may name one of these.
cat >liar <<EOF
#!/bin/sh
"$MPIEXEC" "\$@" | while IFS= read -r line; do
  case \$line in *' PID '*' RUNNING AT '*) echo "\$line" | sed "s/PID [0-9]*/PID \$(cat first)/" ;; *) echo "\$line" ;; esac
done
EOF
chmod +x liar
# The launcher reads the heartbeat every second, or later on a busy machine, and then watches the ranks.
watches() { ls -l "/proc/$(cat "/proc/$job/task/$job/children" | cut -d ' ' -f 1)/fd" /proc/$job/fd 2>/dev/null | grep -c 'pidfd'; }
watched() { [ "$(watches)" -ge "$ranks" ]; }
named() { grep -qE '^starling: rank 1 \(process [0-9]+ of .*\) was killed by signal 9' err; }
start 1000000 misnamed --checkpoint-every 0 --mpiexec ./liar
wait_until stepped misnamed 2
process_of 0 misnamed >first
check 'the launcher watches the ranks' wait_until watched
# mpiexec's proxy, the parent of the ranks, stands still for a while, so that the others end later, also on a busy
# machine.
victim=$(process_of 1 misnamed)
proxy=$(sed 's/.*) . //; s/ .*//' "/proc/$victim/stat")
kill -STOP "$proxy"
kill -KILL "$victim"
sleep 2
kill -CONT "$proxy"
ends
check 'the one that ended first is named, whatever mpiexec says' named
rm -rf misnamed
for victim in $victims; do check 'no process stays' wait_until gone "$victim"; done

# One rank alone, without mpiexec, before its first checkpoint.
# shellcheck disable=SC2086
$limit "$starling" train mlp $options --checkpoint-every 0 --steps 800 --restarts 1 --out single >out 2>err &
job=$!
wait_until stepped single 0
kill -KILL "$(process_of 0 single)" 2>>err
ends
check 'one rank, no checkpoint yet: it starts again' test $code = 0
check 'and says so' grep -qE '^starling: restart 1 of 1: rank 0 was killed by signal 9; 1 rank goes on from step 0; ' err
run train mlp --data data --batch 36 --leaves 6 --shards 6 --workers 1 --learning-rate 1e-4 --eval-every 50 --checkpoint-every 0 --steps 800 --quiet --out alone
check 'with the bytes of a run that nobody disturbs' cmp alone/model.safetensors single/model.safetensors

# A signal to the launcher reaches the ranks.
for signal in TERM INT USR1; do
  rm -rf told
  start 1000000 told --restarts 3
  wait_until stepped told 2
  kill -$signal "$(pgrep -P "$job" -x starling || echo "$job")"
  ends
  check "SIG$signal to the launcher: exit code 75" test $code = 75
  check 'which the heartbeat has' test "$(beat exit_code told)" = 75
  check 'without a restart' test "$(grep -c restart err)" = 0
done

# A rank that stands still.
patience=$((4 + 2 * $(pace)))
start 1000000 stall --stall-timeout $patience
wait_until stepped stall 2
sleep $((patience + 1))
victim=$(process_of 1 stall)
kill -STOP "$victim"
ends
check 'a rank that stands still: exit code 76' test $code = 76
check 'it is named' grep -qE 'nothing has (moved|been heard) for .* (waits for|of) rank 1 ' err
check 'no process stays' wait_until gone "$victim"
check 'the heartbeat has the exit code' test "$(beat exit_code stall)" = 76
check 'the message names the stall file' grep -qE '; the stacks of all ranks are in .*stall-[0-9-]*.json' err
mv "$(find stall -name 'stall-*.json' | head -n 1)" file.json
check_json 'the stall file is JSON' file.json
check 'it has the message' grep -q '"message": *"starling: rank 0: nothing has ' file.json
check 'the late rank' sh -c "tr -d ' \n' <file.json | grep -q '\"late\":\[1\]'"
check 'that was stopped' grep -q '"process": *"stopped by a signal"' file.json
check 'whom the other waits for' sh -c "tr -d ' \n' <file.json | grep -q '\"waits_for\":\[1\]'"
check 'and the step and exchange' grep -qE '"(what|in)": *".*(exchange|step) [0-9]+' file.json
check 'a part of each rank' test "$(grep -c '"still_s"' file.json)" = "$ranks"
check 'with the stacks of its threads' test "$(grep -c '"stack": *\[' file.json)" -ge $((2 * ranks))
if nm "$starling" 2>/dev/null | grep -q ' main$'; then
  check 'down to main' test "$(grep -c '"main+0x' file.json)" = "$ranks"
  check 'with names of static functions' grep -q '"run+0x' file.json
else skip 'names: the program has no symbols'; fi
check 'and no part stays behind' test -z "$(find stall -name '.stall-*')"
# The job goes on until it has restarted, however long that takes; where other work begins meanwhile, ranks stand still
# for longer.
rm -rf stall
start 1000000 stall --stall-timeout $((5 * patience)) --restarts 1
wait_until has_lines stall/metrics.jsonl 10
kill -STOP "$(process_of 0 stall)"
check 'a rank that stands still, with --restarts: the job starts again, and says so' \
  wait_until grep -qE '^starling: restart 1 of 1: rank 0 stood still; ' err
kill -USR1 "$(pgrep -P "$job" -x starling || echo "$job")"
ends
check 'and goes on until it is told to stop' test $code = 75
check 'heartbeat and stall file go with --force' sh -c "'$starling' train mlp $options --steps 1 --out stall --force && test -z \"\$(find stall -name 'stall-*')\""

# A host that cannot be reached: ssh does not return.
cat >ssh <<EOF
#!/bin/sh
echo \$\$ >"$work/reached"
exec sleep 1000
EOF
chmod +x ssh
HYDRA_LAUNCHER=ssh HYDRA_LAUNCHER_EXEC=$work/ssh
export HYDRA_LAUNCHER HYDRA_LAUNCHER_EXEC
reaches="localhost:$((ranks - 1)),nowhere"
missing="1 of $ranks ranks has not started, on nowhere \\(does 'ssh nowhere true' work\\?\\)\$"
start 1000000 unreached --hosts "$reaches" --stall-timeout $patience
ends
check 'a host that cannot be reached: exit code 76' test $code = 76
check 'a warning names it' grep -qE "^starling: warning: after [0-9]+ s $missing" err
check 'and so does the error' grep -qE "^starling: $missing" err
check 'ssh does not stay' wait_until gone "$(cat reached)"
start 1000000 unreached --hosts "nowhere:$ranks" --stall-timeout $patience
ends
check 'only hosts that cannot be reached: exit code 76' test $code = 76
check 'with the error' grep -qE "^starling: $ranks of $ranks ranks have not started, on nowhere " err
rm reached
start 1000000 unreached --hosts "$reaches" --stall-timeout 0
wait_until test -s reached
kill -TERM "$(pgrep -P "$job" -x starling || echo "$job")"
ends
check 'SIGTERM meanwhile: exit code 143' test $code = 143
check 'the signal is named' grep -qE '^starling: stopped by signal 15 \(Terminated\) during the start: [0-9]+ of [0-9]+ ranks ha(s|ve) not started' err
check 'no other signal is' sh -c '! grep -q "killed by signal" err'
unset HYDRA_LAUNCHER HYDRA_LAUNCHER_EXEC

# What cannot be.
# shellcheck disable=SC2086
{
  expect '--restarts without --out' 2 "--restarts continues from a run's checkpoints, so it needs --out DIR" train mlp $options --restarts 1
  expect '--hosts: no number' 2 "--hosts: 'b:x' is not NAME or NAME:RANKS" train mlp $options --hosts a,b:x
  expect '--hosts: no name' 2 "--hosts: '' is not NAME or NAME:RANKS" train mlp $options --hosts a,,b
  expect '--hosts: no rank' 2 "--hosts: 'a:0' is not NAME or NAME:RANKS" train mlp $options --hosts a:0
  expect '--hosts: too few' 2 '--ranks 5, but --hosts a:2,b has room for only 3' train mlp $options --hosts a:2,b --ranks 5
  expect '--mpiexec: no program' 2 'there is no program no/such; --mpiexec names another' train mlp $options --ranks 2 --mpiexec no/such
  expect '--ranks 0' 2 'ranks' train mlp $options --ranks 0
  expect 'a model that is none' 2 'nosuch' train nosuch $options --ranks 2 --mpiexec "$MPIEXEC" --restarts 2 --out none
}
check 'is not tried again' test "$(grep -c restart err)" = 0
printf 'mpiexec: ./evil\nranks: 2\n' >evil.yaml
printf 'hosts: -oProxyCommand=evil\n' >hosts.yaml
# shellcheck disable=SC2086
{
  expect 'a configuration names no program' 2 "'mpiexec' is for the command line only" train mlp $options --config evil.yaml
  expect 'nor hosts' 2 "'hosts' is for the command line only" train mlp $options --config hosts.yaml
  expect '--hosts: an option of ssh' 2 "--hosts: '-oProxyCommand=x' begins with '-'" train mlp $options --hosts a,-oProxyCommand=x
}
code=0
# shellcheck disable=SC2086
$limit "$MPIEXEC" -n 1 "$starling" train mlp $options --ranks 2 >out 2>err || code=$?
check 'mpiexec inside mpiexec' grep -q 'start mpiexec, but mpiexec already started this process' err

# A rank that fails before it meets the others ends the job, with its message.
code=0
$limit "$MPIEXEC" -n 1 "$starling" eval no/such --stall-timeout 0 : -n 1 "$starling" eval undisturbed --stall-timeout 0 >out 2>err || code=$?
check 'eval: no model on rank 0: the job ends' test $code != 0
check 'and names it' grep -q 'no/such' err
code=0
$limit "$MPIEXEC" -n 1 "$starling" train mlp --data data --init undisturbed/model.safetensors --stall-timeout 0 --steps 1 --out x : \
  -n 1 "$starling" train mlp --data data --init no/such --stall-timeout 0 --steps 1 --out x >out 2>err || code=$?
check 'train: no weights on rank 1: the job ends' test $code != 0
check 'and names them' grep -q 'rank 1 .*no/such' err
finish
