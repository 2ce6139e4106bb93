#!/bin/sh
# starling compare: a table of policies with their measurements, equal bytes, a bound that no policy beats, files
# for other programs, and clear errors.
. "$(dirname "$0")/support/command.shlib"
if grep -q __asan_init "$starling"; then echo '1..0 # SKIP processes under a sanitizer take too long'; exit 0; fi
STARPU_HOME=$work/home
export STARPU_HOME
unset STARPU_HOSTNAME STARPU_CALIBRATE_MINIMUM
small='--batch 64 --steps 5 --repetitions 3 --workers 1'
odd="odd<b>&'name"
make_set "$odd" 64 32 8 3
# shellcheck disable=SC2086 # $small is several words, here and below
expect 'two policies' 0 '^(Take|No policy)' compare mlp $small --data "$odd" --policies lws --out tables
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
expect 'they are refused' 3 'have samples of 0 of [0-9]+ kinds of tasks: .starling calibrate mlp --batch=64 --workers=1. calibrates them' compare mlp $small --policies dmda --priorities on
mend=$(sed -n "s/.*'starling \(calibrate [^']*\)'.*/\1/p" err)
expect 'the command that is named calibrates them' 0 'are stored' $mend
expect 'then they serve' 0 '^dmda +on ' compare mlp $small --policies dmda --priorities on --out calibrated --bundle bundle.tar.gz
check 'and nothing is marked' grep -q '"uncalibrated": false' calibrated/compare.json
check 'a bundle of it' sh -c 'tar tzf bundle.tar.gz >names'
check 'in a folder of its own' test "$(cut -d/ -f1 names | sort -u)" = bundle
for file in README run.sh config.yaml environment.json topology.xml compare.json compare.csv compare.html; do check "with $file" grep -qx "bundle/$file" names; done
check 'and the models' grep -qE '^bundle/starpu/\.starpu/sampling/codelets/[0-9]+/starling_linear\.' names
mkdir far
tar xzf bundle.tar.gz -C far
check 'the figures are those that --out got' sh -c 'for f in csv json html; do cmp calibrated/compare.$f far/bundle/compare.$f || exit 1; done'
check_json 'where it ran is JSON' far/bundle/environment.json
check 'the options, defaults written out' grep -qx 'leaves: 1' far/bundle/config.yaml
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

expect 'an unknown policy' 2 "no policy 'best'; StarPU .* has .*eager" compare mlp --policies lws,best
expect 'an unknown model' 2 "mlq.*did you mean 'mlp'" compare mlq
expect '--sched is not for it' 2 'compare takes --policies lws' compare mlp --sched lws
expect 'what bench refuses' 2 'batch|leaves' compare mlp $small --batch 4 --leaves 9
finish
