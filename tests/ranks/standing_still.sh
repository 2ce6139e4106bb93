#!/bin/sh
# A rank that stands still ends the job with exit code 76 and a stall file with the stacks of all ranks, or --restarts
# starts the job again. A host that cannot be reached ends the job with the host's name.
. "$(dirname "$0")/../support/command.shlib"
. "$top/tests/ranks/launched.shlib"
# A rank that stands still.
paced() { patience=$((4 + 2 * $(pace))); } # the stall timeout of the next job
paced
start 1000000 stall --stall-timeout $patience
wait_until stepped stall 2
sleep $((patience + 1))
victim=$(process_of 1 stall)
kill -STOP "$victim"
ends
check 'a rank that stands still: exit code 76' test $code = 76
check 'it is named' grep -qE 'no (progress|message) for .* (waits for|from) rank 1 ' err
check 'no process stays' wait_until gone "$victim"
check 'the heartbeat has the exit code' test "$(beat exit_code stall)" = 76
check 'the message names the stall file' grep -qE '; the stacks of all ranks are in .*stall-[0-9-]*.json' err
mv "$(find stall -name 'stall-*.json' | head -n 1)" file.json
check_json 'the stall file is JSON' file.json
check 'it has the message' grep -q '"message": *"starling: rank 0: no ' file.json
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
paced
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
paced
start 1000000 unreached --hosts "$reaches" --stall-timeout $patience
ends
check 'a host that cannot be reached: exit code 76' test $code = 76
check 'a warning names it' grep -qE "^starling: warning: after [0-9]+ s $missing" err
check 'and so does the error' grep -qE "^starling: $missing" err
check 'ssh does not stay' wait_until gone "$(cat reached)"
paced
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
finish
