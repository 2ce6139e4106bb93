#!/bin/sh
# starling compare: a table of policies with their measurements, equal bytes, a bound that no policy beats, files for
# other programs; defaults that fit the given time; a table after Ctrl-C; clear errors.
. "$(dirname "$0")/support/command.shlib"
if grep -q __asan_init "$starling"; then echo '1..0 # SKIP processes under a sanitizer take too long'; exit 0; fi
STARPU_HOME=$work/home
export STARPU_HOME
unset STARPU_HOSTNAME STARPU_CALIBRATE_MINIMUM
small='--size hidden=32 --batch 64 --steps 5 --repetitions 3 --workers 1'
odd="odd<b>&'name"
make_set "$odd" 64 32 8 3
# shellcheck disable=SC2086 # $small is several words, here and below
expect 'compare of two policies' 0 '^(Take|No policy)' compare mlp $small --data "$odd" --policies lws --priorities both --out tables
check 'a line for each policy, with priorities and without' test "$(grep -cE '^(eager|lws) +(on|off) ' out)" = 4
check 'all policies give the same bytes' grep -q '^All policies ended with bit-identical parameters' out
check 'the CSV has every repetition' test "$(grep -cE '^(eager|lws),[01],[0-2],' tables/compare.csv)" = 12
check_json 'the figures are JSON' tables/compare.json
check 'the ratio of eager to itself is 1' test "$(field ratio tables/compare.json)" = 1.0
for figure in step_s ratio_low ratio_high of_bound kernel_percent kernel_inflation; do
  check "figures: $figure" grep -qE "\"$figure\": [0-9]" tables/compare.json
done
page=tables/compare.html
check 'the page has a plot of ratios and one of shares' test "$(grep -c '^<svg ' $page)" = 2
check 'the plot has an interval and a point for each policy that ran' test "$(grep -c '<circle ' $page)" = 4
check 'the plots are also written as files' sh -c 'grep -q "<circle " tables/compare-ratios.svg && grep -q ">dependency<" tables/compare-shares.svg'
check 'the page has the verdict' grep -qE '<p>(Take|No policy)' $page
check 'the page has a row of figures for each policy' test "$(grep -cE '^<tr><td>(eager|lws)</td><td>(on|off)</td>' $page)" = 4
check 'the page has the command that repeats it, quoted for a shell and escaped' grep -qF "starling compare mlp --size hidden=32 --batch 64 --steps 5 --repetitions 3 --workers 1 --data &#39;odd&#60;b&#62;&#38;&#39;\\&#39;&#39;name&#39;" $page
check 'names cannot insert markup' sh -c '! grep -q "<b>" "$1"' - $page
check 'the page has no script and loads nothing' sh -c '! sed "s/ xmlns=\"[^\"]*\"//" "$1" | grep -qE "<script|src=|@import|url\(|https?:"' - $page
check 'the page has machine and versions' grep -qE '<tr><td>libraries starpu</td><td class="meaning">[0-9.]+' $page
moves() { [ "$(field memory_nodes "$1")" != 1 ] || [ "$(grep -cE '"moved_bytes": 0' "$1")" = 4 ]; }
check 'with one memory node, no moved bytes are shown' moves tables/compare.json
tells_energy() { grep -qE '"energy_j": [0-9]' "$1" || { grep -q '"energy_j": null' "$1" && grep -qE '"no_energy": "[^"]*RAPL' "$1" && grep -qE '<p class="note">Energy: .*RAPL' "$2"; }; }
check 'energy is shown, or why it is unknown' tells_energy tables/compare.json $page
adds_up() { awk -F, 'NR > 1 { s = 0; for (i = 6; i <= 11; i++) s += $i; if (s < 99.9 || s > 100.1) bad = 1 } END { exit bad || NR < 5 }' "$1"; }
check 'kernels and causes add up to 100%' adds_up tables/compare.csv
none_beats_it() { grep -oE '"of_bound": [0-9.]+' "$1" | awk '$2 <= 0 || $2 > 1.05 { bad = 1 } END { exit bad || NR < 4 }'; }
check 'no policy beats the bound' none_beats_it tables/compare.json
# shellcheck disable=SC2086
expect 'compare needs records' 2 'leave --no-record out' compare mlp $small --no-record
expect '--priorities on --json' 0 '"verdict"' compare mlp $small --policies eager --priorities on --json
check_json 'that output is JSON' out

# A pipe that nobody reads: it is waited for until a signal comes.
mkdir pipes
mkfifo pipes/compare.csv
# shellcheck disable=SC2086
"$starling" compare mlp $small --policies eager --priorities on --out pipes >out 2>err &
job=$!
check 'a pipe in --out: the file before it is written' wait_while $job test -s pipes/compare.json
kill -TERM $job
code=0
wait $job || code=$?
check 'a pipe in --out: SIGTERM ends the wait for its reader' test $code = 130
check 'a pipe in --out: it is named' grep -q 'cannot write pipes/compare.csv: stopped by a signal before' err

# Models that lack samples.
expect 'missing models are calibrated first, and the estimate says so' 0 '^mlp: eager, dmda\. About 3 repetitions of 5 steps each, in turn; this takes about .*, and calibrating before it$' compare mlp $small --policies dmda
check 'dmda then runs' grep -qE '^dmda +on +3 ' out
check 'the result is not marked as uncalibrated' sh -c '! grep -q Uncalibrated out'
run compare mlp $small --policies dmda --quiet
check '--quiet: only the table, and no second calibration' test "$code $(wc -c <err)" = '0 0'
expect 'a comparison with calibrated models' 0 '^dmda +on ' compare mlp $small --policies dmda --priorities on --out calibrated --bundle bundle.tar.gz
check 'the figures say that they are calibrated' grep -q '"uncalibrated": false' calibrated/compare.json
check '--bundle writes an archive' sh -c 'tar tzf bundle.tar.gz >names'
check 'all its files are in one folder' test "$(cut -d/ -f1 names | sort -u)" = bundle
for file in README run.sh config.yaml environment.json topology.xml compare.json compare.csv compare.html; do check "with $file" grep -qx "bundle/$file" names; done
check 'it has the models' grep -qE '^bundle/starpu/\.starpu/sampling/codelets/[0-9]+/starling_linear\.' names
mkdir far
tar xzf bundle.tar.gz -C far
check 'it has the same figures as --out' sh -c 'for f in csv json html; do cmp calibrated/compare.$f far/bundle/compare.$f || exit 1; done'
check_json 'its description of the machine is JSON' far/bundle/environment.json
check 'it has the options, with defaults written out' grep -qx 'leaves: 1' far/bundle/config.yaml
check 'it has the numbers of steps and repetitions' test "$(grep -cxE 'steps: 5|repetitions: 3' far/bundle/config.yaml)" = 2
check 'its script repeats the comparison' env STARPU_HOME="$work/elsewhere" STARLING="$starling" far/bundle/run.sh --steps 3 --json
check 'with the same policies' test "$(cut -d, -f1 far/bundle/repeated/compare.csv | sort -u | tr '\n' ' ')" = 'dmda eager policy '
check 'with the models of the measured machine' env STARPU_HOME="$work/nowhere" MODELS=original STARLING="$starling" far/bundle/run.sh --steps 3 --out again --json
check 'these models count as calibrated' grep -q '"uncalibrated": false' again/compare.json
check 'the script used the models of the bundle' absent nowhere
export STARPU_CALIBRATE_MINIMUM=100000 # samples, which is more than calibrate's steps give
expect 'models that lack samples even then: exit code 3' 3 'starling calibrate mlp .* lack samples after [0-9]+ steps: .*--uncalibrated to compare all the same' \
  compare mlp --size hidden=32 --batch 4 --steps 2 --repetitions 3 --workers 1 --policies dmda --performance-models barn
check 'no table is printed' sh -c '! grep -qE "^(eager|dmda) " out'
unset STARPU_CALIBRATE_MINIMUM
expect 'a bundle with another ending is refused' 2 "'b.zip' does not end in .tar.gz" compare mlp $small --bundle b.zip
expect 'a bundle that cannot be written is refused at once' 1 'nowhere/b.tar.gz' compare mlp $small --bundle nowhere/b.tar.gz
expect '--uncalibrated compares without calibrating' 0 '^Uncalibrated: .* 0 of [0-9]+ kinds of tasks' compare mlp $small --policies dmda --priorities on --performance-models shed --uncalibrated --out marked
check 'the figures are marked as uncalibrated' grep -q '"uncalibrated": true' marked/compare.json
check 'the page is marked as uncalibrated' grep -q '<strong>Uncalibrated: ' marked/compare.html
expect '--calibrate calibrates first' 0 '"uncalibrated": false' compare mlp $small --policies dmda --priorities on --performance-models hut --calibrate --json

# Within the given minutes: the five default policies without a GPU, with as many steps and repetitions as fit.
expect 'without options: the default policies' 0 '^mlp: eager, (lws|prio|dmda|dmdas), (lws|prio|dmda|dmdas), (lws|prio|dmda|dmdas), (lws|prio|dmda|dmdas)\. About' compare mlp --size hidden=32 --batch 64 --workers 1 --gpus 0 --minutes 0 --out quick
check 'at least three repetitions each' test "$(grep -cE '^(eager|lws|prio|dmda|dmdas),1,[0-2],' quick/compare.csv) $(wc -l <quick/compare.csv)" = '15 16'
expect '--steps and --minutes leave the repetitions open' 0 '^mlp: eager, lws\. About [0-9]+ repetitions of 7 steps' compare mlp --size hidden=32 --batch 64 --workers 1 --minutes 0.05 --steps 7 --policies lws --out timed
check 'the repetitions fill the time' test "$(field repetitions timed/compare.json)" -ge 3

# Ctrl-C, which a terminal sends to the whole group of processes. The processes are: one that looks, one that times the
# tasks alone, then the policies, eager first.
begin() { # compare's arguments: started in a group of its own as $pid
  env --default-signal=INT setsid "$starling" compare mlp --size hidden=32 --batch 64 --workers 1 --gpus 0 --steps 200 --repetitions 5 "$@" >out 2>err &
  pid=$! child='' children=0 folder=''
}
find_folder() {
  folder=$(tr '\0' '\n' 2>/dev/null <"/proc/$now/cmdline" | grep -o '^/tmp/starling-compare-[^/]*' | head -n 1)
  [ -n "$folder" ]
}
await_child() { # until its so many-th process runs, as $child; a minute each at most
  patience=$((600 * $1))
  while [ $children -lt "$1" ] && [ $patience -gt 0 ]; do
    patience=$((patience - 1))
    now=''
    # Nothing is started for this look: on a busy machine that may take as long as one of the processes.
    [ ! -r "/proc/$pid/task/$pid/children" ] || read -r now _ <"/proc/$pid/task/$pid/children"
    if [ -n "$now" ] && [ "$now" != "$child" ]; then child=$now children=$((children + 1)); fi
    [ -n "$folder" ] || find_folder
    sleep 0.1
  done
  for _ in $(seq 100); do # the last process may not have its own command line yet
    [ -z "$folder" ] && ! find_folder || break
    sleep 0.05
  done
}
ended() { code=0; wait $pid || code=$?; }
if env --default-signal=INT true 2>/dev/null && [ -e /proc/self/task/$$/children ]; then
  begin --policies lws,prio --out partial
  await_child 5
  kill -s INT -- -$pid
  ended
  check 'Ctrl-C: exit code 130' test "$code" = 130
  check 'Ctrl-C: a table of what ran, without an interval after one repetition' grep -qE '^(lws|prio) +on +1 .* \(- +\) ' out
  check 'Ctrl-C: policies that had not run are listed' grep -qE '^(lws|prio) +on   no figures: it had not run before the comparison was stopped' out
  check 'Ctrl-C: the table is marked as partial' grep -q '^Partial: stopped by a signal in repetition 1 of about 5' out
  check 'Ctrl-C: no verdict' grep -q '^No verdict: a verdict needs at least 3 repetitions' out
  check 'Ctrl-C: the figures are marked too' grep -q '"partial": true' partial/compare.json
  check 'Ctrl-C: the page is marked too' grep -q '<strong>Partial: ' partial/compare.html
  check 'Ctrl-C: the page has the measurements' test "$(wc -l <partial/compare.csv)" = 3
  check 'Ctrl-C: the temporary folder is removed' absent "${folder:-.}"
  begin --policies lws
  await_child 2
  kill -s TERM $pid
  ended
  check 'SIGTERM before the first measurement: a message' test "$code $(cat out; grep -v '^mlp: ' err)" = '130 starling: stopped by a signal before the first measurement'
  check 'SIGTERM: the measuring process has ended' absent "/proc/$child"
  check 'SIGTERM: the temporary folder is removed' absent "${folder:-.}"
  begin --policies lws
  await_child 4
  kill -s STOP "$child" # when all of its threads stand still it cannot end, which the first signal waits for
  for _ in $(seq 600); do
    cat "/proc/$child"/task/*/status | grep '^State:' | grep -qv 'T (stopped)' || break
    sleep 0.1
  done
  kill -s INT $pid
  for _ in $(seq 100); do # until SIGTERM waits for it
    case $(sed -n 's/^ShdPnd:[[:space:]]*//p' "/proc/$child/status") in *4000) break ;; esac
    sleep 0.05
  done
  kill -s INT $pid
  ended
  check 'a second Ctrl-C: no table' test "$code $(cat out)" = '130 '
  for _ in 1 2 3 4 5 6 7 8 9 10; do [ -e "/proc/$child" ] && sleep 0.2; done
  check 'a second Ctrl-C: the measuring process is killed' absent "/proc/$child"
  check 'a second Ctrl-C: the temporary folder is removed' absent "${folder:-.}"
else
  for what in 'Ctrl-C' 'SIGTERM' 'a second Ctrl-C'; do skip "$what: no env --default-signal, or no list of children in /proc"; done
fi

expect 'an unknown policy' 2 "no policy 'best'; StarPU .* has .*eager" compare mlp --policies lws,best
expect 'an unknown model' 2 "mlq.*did you mean 'mlp'" compare mlq
expect '--sched is refused' 2 'compare takes --policies lws' compare mlp --sched lws
expect 'errors of bench are passed on' 2 'batch|leaves' compare mlp $small --batch 4 --leaves 9
finish
