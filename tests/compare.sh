#!/bin/sh
# starling compare: a table of policies with their measurements, equal bytes, a bound that no policy beats, files
# for other programs; defaults that fit the time given; a table after Ctrl-C; and clear errors.
. "$(dirname "$0")/support/command.shlib"
if grep -q __asan_init "$starling"; then echo '1..0 # SKIP processes under a sanitizer take too long'; exit 0; fi
STARPU_HOME=$work/home
export STARPU_HOME
unset STARPU_HOSTNAME STARPU_CALIBRATE_MINIMUM
small='--batch 64 --steps 5 --repetitions 3 --workers 1'
odd="odd<b>&'name"
make_set "$odd" 64 32 8 3
# shellcheck disable=SC2086 # $small is several words, here and below
expect 'two policies' 0 '^(Take|No policy)' compare mlp $small --data "$odd" --policies lws --priorities both --out tables
check 'a line for each, with priorities and without' test "$(grep -cE '^(eager|lws) +(on|off) ' out)" = 4
check 'the same bytes' grep -q '^All left the same bytes' out
check 'every repetition is in the table' test "$(grep -cE '^(eager|lws),[01],[0-2],' tables/compare.csv)" = 12
check_json 'the figures are JSON' tables/compare.json
check 'eager against itself is 1' test "$(field ratio tables/compare.json)" = 1.0
for figure in step_s ratio_low ratio_high of_bound kernel_percent kernel_inflation; do
  check "figures: $figure" grep -qE "\"$figure\": [0-9]" tables/compare.json
done
page=tables/compare.html
check 'a page with a plot of ratios and one of shares' test "$(grep -c '^<svg ' $page)" = 2
check 'an interval and a point for each that ran' test "$(grep -c '<circle ' $page)" = 4
check 'which are files for papers too' sh -c 'grep -q "<circle " tables/compare-ratios.svg && grep -q ">dependency<" tables/compare-shares.svg'
check 'the verdict' grep -qE '<p>(Take|No policy)' $page
check 'the figures, a row each' test "$(grep -cE '^<tr><td>(eager|lws)</td><td>(on|off)</td>' $page)" = 4
check 'the command that repeats it, quoted for a shell and escaped' grep -qF "starling compare mlp --batch 64 --steps 5 --repetitions 3 --workers 1 --data &#39;odd&#60;b&#62;&#38;&#39;\\&#39;&#39;name&#39;" $page
check 'no markup from names' sh -c '! grep -q "<b>" "$1"' - $page
check 'no script, and nothing loaded' sh -c '! sed "s/ xmlns=\"[^\"]*\"//" "$1" | grep -qE "<script|src=|@import|url\(|https?:"' - $page
check 'machine and versions' grep -qE '<tr><td>libraries starpu</td><td class="meaning">[0-9.]+' $page
moves() { [ "$(field memory_nodes "$1")" != 1 ] || [ "$(grep -cE '"moved_bytes": 0' "$1")" = 4 ]; }
check 'with one memory nothing is moved' moves tables/compare.json
tells_energy() { grep -qE '"energy_j": [0-9]' "$1" || { grep -q '"energy_j": null' "$1" && grep -qE '"no_energy": "[^"]*RAPL' "$1" && grep -qE '<p class="note">Energy: .*RAPL' "$2"; }; }
check 'energy, or why it is not known' tells_energy tables/compare.json $page
adds_up() { awk -F, 'NR > 1 { s = 0; for (i = 6; i <= 11; i++) s += $i; if (s < 99.9 || s > 100.1) exit 1; n++ } END { exit !n }' "$1"; }
check 'kernels and causes add up to 100%' adds_up tables/compare.csv
none_beats_it() { grep -oE '"of_bound": [0-9.]+' "$1" | awk '{ if ($2 <= 0 || $2 > 1.05) exit 1; n++ } END { exit !n }'; }
check 'no policy beats the bound' none_beats_it tables/compare.json
expect 'priorities on only, as JSON' 0 '"verdict"' compare mlp $small --policies eager --priorities on --json
check_json 'that is JSON' out

# Models that lack samples.
expect 'they are calibrated first, which the estimate says' 0 '^mlp: eager, dmda\. About 3 repetitions of 5 steps each, in turn; this takes about .*, and calibrating before it$' compare mlp $small --policies dmda
check 'so dmda serves' grep -qE '^dmda +on +3 ' out
check 'and nothing is marked' sh -c '! grep -q Uncalibrated out'
run compare mlp $small --policies dmda --quiet
check '--quiet: the table alone, and no second calibrating' test "$code $(wc -c <err)" = '0 0'
expect 'then they serve' 0 '^dmda +on ' compare mlp $small --policies dmda --priorities on --out calibrated --bundle bundle.tar.gz
check 'which the figures say' grep -q '"uncalibrated": false' calibrated/compare.json
check 'a bundle of it' sh -c 'tar tzf bundle.tar.gz >names'
check 'in a folder of its own' test "$(cut -d/ -f1 names | sort -u)" = bundle
for file in README run.sh config.yaml environment.json topology.xml compare.json compare.csv compare.html; do check "with $file" grep -qx "bundle/$file" names; done
check 'and the models' grep -qE '^bundle/starpu/\.starpu/sampling/codelets/[0-9]+/starling_linear\.' names
mkdir far
tar xzf bundle.tar.gz -C far
check 'the figures are those that --out got' sh -c 'for f in csv json html; do cmp calibrated/compare.$f far/bundle/compare.$f || exit 1; done'
check_json 'where it ran is JSON' far/bundle/environment.json
check 'the options, defaults written out' grep -qx 'leaves: 1' far/bundle/config.yaml
check 'how much was measured, too' test "$(grep -cxE 'steps: 5|repetitions: 3' far/bundle/config.yaml)" = 2
check 'its script repeats it' env STARPU_HOME="$work/elsewhere" STARLING="$starling" far/bundle/run.sh --steps 3 --json
check 'the same policies' test "$(cut -d, -f1 far/bundle/repeated/compare.csv | sort -u | tr '\n' ' ')" = 'dmda eager policy '
check 'with the models of the machine that was measured' env STARPU_HOME="$work/nowhere" MODELS=original STARLING="$starling" far/bundle/run.sh --steps 3 --out again --json
check 'which count as calibrated' grep -q '"uncalibrated": false' again/compare.json
check 'from the bundle' absent nowhere
expect 'a bundle of another kind' 2 "'b.zip' is no name that ends in .tar.gz" compare mlp $small --bundle b.zip
expect 'a place that cannot be written is told at once' 1 'nowhere/b.tar.gz' compare mlp $small --bundle nowhere/b.tar.gz
expect '--uncalibrated goes on without' 0 '^Uncalibrated: .* 0 of [0-9]+ kinds of tasks' compare mlp $small --policies dmda --priorities on --machine shed --uncalibrated --out marked
check 'it is marked in the figures' grep -q '"uncalibrated": true' marked/compare.json
check 'and on the page' grep -q '<strong>Uncalibrated: ' marked/compare.html
expect '--calibrate calibrates first' 0 '"uncalibrated": false' compare mlp $small --policies dmda --priorities on --machine hut --calibrate --json

# Within the given minutes: the five default policies, with as many steps and repetitions as fit.
expect 'as typed: the policies that matter' 0 '^mlp: eager, (lws|prio|dmda|dmdas), (lws|prio|dmda|dmdas), (lws|prio|dmda|dmdas), (lws|prio|dmda|dmdas)\. About' compare mlp --batch 64 --workers 1 --minutes 0 --out quick
check 'three repetitions each at the least' test "$(grep -cE '^(eager|lws|prio|dmda|dmdas),1,[0-2],' quick/compare.csv) $(wc -l <quick/compare.csv)" = '15 16'
expect '--steps and --minutes leave the repetitions open' 0 '^mlp: eager, lws\. About [0-9]+ repetitions of 7 steps' compare mlp --batch 64 --workers 1 --minutes 0.2 --steps 7 --policies lws --out timed
check 'which fill the time' test "$(field repetitions timed/compare.json)" -ge 3

# Ctrl-C, which a terminal sends to the whole group of processes. The processes are: one that looks, one that times the tasks alone, then
# the policies, eager first.
begin() { # compare's arguments: started in a group of its own as $pid
  env --default-signal=INT setsid "$starling" compare mlp --batch 64 --workers 1 --steps 200 --repetitions 5 "$@" >out 2>err &
  pid=$! child='' children=0 folder=''
}
await_child() { # until its so many-th process runs, as $child; a minute each at most
  patience=$((600 * $1))
  while [ $children -lt "$1" ] && [ $patience -gt 0 ]; do
    patience=$((patience - 1))
    now=$(cat "/proc/$pid/task/$pid/children" 2>/dev/null | tr -d ' ')
    if [ -n "$now" ] && [ "$now" != "$child" ]; then child=$now children=$((children + 1)); fi
    [ -n "$folder" ] || folder=$(tr '\0' '\n' 2>/dev/null <"/proc/$now/cmdline" | grep -o '^/tmp/starling-compare-[^/]*' | head -n 1)
    sleep 0.1
  done
}
ended() { code=0; wait $pid || code=$?; }
if env --default-signal=INT true 2>/dev/null && [ -e /proc/self/task/$$/children ]; then
  begin --policies lws,prio --out partial
  await_child 5
  kill -s INT -- -$pid
  ended
  check 'Ctrl-C: exit code 130' test "$code" = 130
  check 'a table of what ran: no interval of one repetition' grep -qE '^(lws|prio) +on +1 .* \(- +\) ' out
  check 'and of what did not' grep -qE '^(lws|prio) +on   no figures: it had not run when the comparison was stopped' out
  check 'marked' grep -q '^Partial: stopped by a signal in repetition 1 of about 5' out
  check 'without a verdict' grep -q '^No verdict: that takes 3 repetitions' out
  check 'in the figures, too' grep -q '"partial": true' partial/compare.json
  check 'and on the page' grep -q '<strong>Partial: ' partial/compare.html
  check 'with what was measured' test "$(wc -l <partial/compare.csv)" = 3
  check 'its folder is gone' absent "${folder:-.}"
  begin --policies lws
  await_child 2
  kill -s TERM $pid
  ended
  check 'SIGTERM to it alone, before there is anything: a message' test "$code $(cat out; grep -v '^mlp: ' err)" = '130 starling: stopped by a signal before anything was measured'
  check 'the process that measured has ended' absent "/proc/$child"
  check 'and its folder is gone' absent "${folder:-.}"
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
  check 'that process is killed' absent "/proc/$child"
  check 'and its folder is gone' absent "${folder:-.}"
else
  for what in 'Ctrl-C' 'SIGTERM' 'a second Ctrl-C'; do skip "$what: no env --default-signal, or no list of children in /proc"; done
fi

expect 'an unknown policy' 2 "no policy 'best'; StarPU .* has .*eager" compare mlp --policies lws,best
expect 'an unknown model' 2 "mlq.*did you mean 'mlp'" compare mlq
expect '--sched is not for it' 2 'compare takes --policies lws' compare mlp --sched lws
expect 'what bench refuses' 2 'batch|leaves' compare mlp $small --batch 4 --leaves 9
finish
