#!/bin/sh
# --restarts: a job that loses a rank starts again by itself and ends with the bytes of an undisturbed one;
# heartbeat.json says what the run does and how it ended. RESTARTS: number of ranks that are killed (2); RESTARTS_RANKS:
# ranks of each job (2). RESTARTS_LOG: a file for the milliseconds from each kill to the next step. A printed SEED draws
# the ranks and the moments.
. "$(dirname "$0")/../support/command.shlib"
. "$top/tests/ranks/launched.shlib"
kills=${RESTARTS:-2} seed=${SEED:-$(date +%s)}
echo "# SEED=$seed"
draw() { seed=$(((seed * 1103515245 + 12345) % 2147483648)); drawn=$((seed / 65536 % $1)); }
ms() { echo $(($(date +%s%N) / 1000000)); }

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
check 'each restart has its line' test "$(grep -cE '^starling: restart [0-9]+ of [0-9]+: rank [0-9]+ \(process [0-9]+ of .*\) was killed by signal 9; .* from step [0-9]+; the next step ended [0-9.]+ s after the rank was lost$' err)" = "$kills"
check 'and nothing else is said' test "$(grep -c '' err)" = "$kills"
check 'mpiexec itself says nothing of it' test "$(grep -c TERMINATION out)" = 0
check 'the model of the undisturbed job' cmp undisturbed/model.safetensors run/model.safetensors
check 'its state' same_state undisturbed run

# The launcher reads the heartbeat every second, or later on a busy machine, and then watches the ranks.
watches() { ls -l "/proc/$(cat "/proc/$job/task/$job/children" | cut -d ' ' -f 1)/fd" /proc/$job/fd 2>/dev/null | grep -c 'pidfd'; }
watched() { [ "$(watches)" -ge "$ranks" ]; }
# mpiexec's proxy, the parent of the ranks, stands still for a while, so that the others end later, also on a busy
# machine.
kill_alone() { # rank, its run
  wait_until watched
  victim=$(process_of "$1" "$2")
  proxy=$(sed 's/.*) . //; s/ .*//' "/proc/$victim/stat")
  kill -STOP "$proxy"
  kill -KILL "$victim"
  sleep 2
  kill -CONT "$proxy"
}

# Without a restart left, and without any.
start 1000000 lost --restarts 0 --checkpoint-every 0
wait_until stepped lost 2
check 'the state of a job at work' wait_until grep -q '"state": "training"' lost/heartbeat.json
victims=$(process_of 0 lost; process_of 1 lost)
kill_alone 1 lost
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
named() { grep -qE '^starling: rank 1 \(process [0-9]+ of .*\) was killed by signal 9' err; }
start 1000000 misnamed --checkpoint-every 0 --mpiexec ./liar
wait_until stepped misnamed 2
process_of 0 misnamed >first
check 'the launcher watches the ranks' wait_until watched
kill_alone 1 misnamed
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
  expect '--mpiexec: a program that starts nothing' 1 'has started no rank' train mlp $options --ranks 2 --mpiexec /bin/true --out never
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
