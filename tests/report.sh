#!/bin/sh
# starling report: the page needs no other file and agrees with `starling trace`, whatever the names in it. A
# headless browser uses the page (wheel, drag, keys, search, click) at two widths, light and dark, without an error
# and in time.
. "$(dirname "$0")/support/command.shlib"
timelines=$(dirname "$starling")/tests/support/timelines

make_set data 64 32 8 3
expect 'train a model' 0 '^test accuracy' train mlp --data data --batch 32 --steps 12 --eval-every 4 --log-every 2 --workers 1 --out a
expect 'report of the run' 0 '^a/report\.html$' report a
check 'the page exists' test -s a/report.html
expect 'report --out' 0 '^elsewhere\.html$' report a --out elsewhere.html
check 'it is the same page' cmp a/report.html elsewhere.html
run report a --out elsewhere.html --quiet
check 'report --quiet prints nothing' test "$code" = 0 -a ! -s out
expect 'a folder without a timeline' 1 "there is no timeline in data.* 'starling train MODEL --out DIR' and 'starling bench MODEL --out DIR' leave one" report data
expect 'no such folder' 1 'cannot read nowhere' report nowhere
expect 'a page that cannot be written' 1 'nowhere/page.html' report a --out nowhere/page.html
# What is open already is written on.
"$starling" report a --out /dev/stdout --quiet 2>err | cat >piped.html
check 'report into a pipe' cmp a/report.html piped.html
echo before >log
code=0
"$starling" report a --out /dev/stdout --quiet >>log 2>err || code=$?
check 'report by >>' test $code = 0
check 'report by >>: what was there stays' test "$(head -n 1 log)" = before
tail -n +2 log >rest.html
check 'report by >>: the page follows' cmp a/report.html rest.html
for file in metrics.jsonl timeline-0.safetensors; do
  rm -rf pipes && cp -r a pipes && rm pipes/$file && mkfifo pipes/$file
  expect "a pipe in place of $file is refused" 1 "pipes/$file is a pipe, not a regular file: remove it" report pipes
done
cp -r a torn
printf '{"step": 99, "los' >>torn/metrics.jsonl
expect 'a torn last line of metrics is ignored' 0 'torn/report.html' report torn
printf '\n{"step": 100, "loss": 1}\n' >>torn/metrics.jsonl
expect 'a torn line in the middle of metrics is refused' 1 'torn/metrics.jsonl, line [0-9]+, is no JSON object' report torn
cp a/report.html report.before
expect 'train --force' 0 '^test accuracy' train mlp --data data --batch 32 --steps 1 --workers 1 --out a --force
check '--force removes the page of the earlier run' absent a/report.html
cp report.before a/report.html

# The machine's peaks: measured once, known to later runs with as many workers.
export STARPU_HOME="$work/home"
mkdir home
expect 'a run on a machine without known peaks' 0 '^step time' bench mlp --batch 32 --steps 3 --workers 1 --no-measure --out unknown
expect 'the report says how to measure the peaks' 0 "starling bench MODEL' measures them" report unknown --json
expect 'bench measures the peaks' 0 '^memory +[0-9.]+ GB/s' bench mlp --batch 32 --steps 3 --workers 1 --out known
expect 'bench --no-measure' 0 '^step time' bench mlp --batch 32 --steps 3 --workers 1 --no-measure --out later
expect 'train on the same machine' 0 '^test accuracy' train mlp --data data --batch 32 --steps 3 --workers 1 --out trained
if command -v jq >/dev/null; then
  for run in known later trained; do "$starling" report $run --json | jq -c .roofline >$run.roofline; done
  check 'bench --no-measure knows the peaks' sh -c 'jq -e ".peak_gflops > 0 and .peak_gigabytes_per_s > 0" known.roofline'
  check 'later runs have the same peaks' cmp known.roofline later.roofline
  check 'the training knows the peaks too' sh -c 'for f in known trained; do jq "[.peak_gflops, .peak_gigabytes_per_s]" $f.roofline >$f.peaks; done; cmp known.peaks trained.peaks'
  run report known --json --out known.json
  check 'the report compares operations with the roofline' sh -c 'jq -e ".roofline as \$r | .operations | all(
    ([.flops / \$r.peak_gflops, .bytes / \$r.peak_gigabytes_per_s] | max * 1e-9) as \$roof | (\$roof - .roof_seconds | fabs) <= 1e-6 * \$roof)" known.json'
  check 'the memory in use fits into the slots, and is 0 at the end' sh -c 'jq -e ".timelines | length > 0 and all(
    .memory | .slots_bytes >= (.bytes | max) and (.bytes | max) > 0.3 * .slots_bytes and .bytes[-1] == 0)" known.json'
  check 'the answer mentions the roofline too' grep -qE 'All kernels together came to [0-9]+ % of this machine.s roofline' known.json
else
  skip 'peaks: no jq'
fi

# Names that end a script, open a tag or begin a comment.
odd='odd</script><b>&"name'
mkdir -p "$odd"
check 'a run with hostile names' "$timelines" "$odd" 2000
run report "$odd"
check 'the report of that run' test "$code" = 0
page=$odd/report.html
check 'the page has only its own scripts' test "$(grep -c '<script' "$page")" = 2
check 'each script ends at its own end tag' test "$(grep -c '</script' "$page")" = 2
# shellcheck disable=SC2016
check 'nothing in the page loads anything' sh -c '! grep -vE "^\\{\"format\"" "$1" | grep -qEi "https?:|src=|@import|(^|[^a-z])url\\(|href=\"[^\"d]|fetch\\(|XMLHttp|import\\("' - "$page"
check 'the page forbids all loading' grep -q "Content-Security-Policy\" content=\"default-src 'none'" "$page"
sed -n '/^{"format"/p' "$page" >embedded
check 'the data are one line' test "$(wc -l <embedded)" = 1
check 'the data have no <' sh -c '! grep -q "<" embedded'
check_json 'the data are JSON' embedded
expect 'starling trace prints the hidden share of the exchange' 0 'exchange +0\.500 ms +of a step under way: 0\.000 hidden \(0\.0 %\), 0\.500 exposed' trace "$odd"
run report "$odd" --json
cp out printed
check_json 'report --json is JSON' printed
expect 'report --json --out' 0 '^data\.json$' report "$odd" --json --out data.json
if command -v jq >/dev/null; then
  check 'the data in the page are those of --json' sh -c 'jq -S . embedded >x && jq -S . printed >y && jq -S . data.json >z && cmp x y && cmp y z'
  check 'the hostile name of the run is unchanged' test "$(jq -r .run embedded)" = "$odd"
  check 'the hostile name of a layer is unchanged' test "$(jq -r '.texts[.timelines[0].nodes.layer[0]]' embedded)" = "</script><script>document.title='taken'</script>"
  run trace "$odd" --json
  check 'the totals are those of starling trace' sh -c 'jq -S .totals embedded >x && jq -S . out >y && cmp x y'
  # Columns against trace's sums, to 1%: kernels, each cause, tasks; of this run they are also known.
  jq -r 'def near(a; b): (a - b) as $d | ($d * $d) <= 1e-4 * b * b + 1e-12;
    . as $all | [range(.totals | length)] | map(. as $k | $all.totals[$k] as $t | $all.timelines[$k] as $l | ($t.window_s * ($t.workers | length)) as $whole
      | ([range($l.rows.name | length) | select($l.rows.kind[.] == 0) | $l.records.time[$l.rows.first[.]:$l.rows.last[.]] | add] | add * 1e-9) as $busy
      | near($busy; $t.kernel_percent / 100 * $whole)
        and ([range($all.causes | length)] | all(. as $c | near([range($l.idle.time | length) | select($l.idle.cause[.] == $c) | $l.idle.time[.]] | add // 0 | . * 1e-9;
          $t.idle_percent[$all.causes[$c]] / 100 * $whole)))
        and ($l.records.node | length) == $t.tasks + $t.exchanges and near($t.kernel_percent; 100 * 100 * 250 / (250 * 110 + 600))
        and near($t.exchange.under_way_s; $t.steps * 500e-6) and near($t.exchange.exposed_s; $t.idle_percent.exchange / 100 * $t.window_s)
        and near($t.exchange.hidden_s + $t.exchange.exposed_s; $t.exchange.under_way_s)) | all' embedded >agree 2>err
  check 'kernels and causes of the columns add up to the totals, to 1%' test "$(cat agree)" = true
else
  for what in 'the data in the page' 'the name' 'a layer' 'the totals' 'columns'; do skip "$what: no jq"; done
fi

# Plots as files: each is well-formed XML, and there are files only for known data.
if command -v python3 >/dev/null; then is_xml() { python3 -c 'import sys, xml.dom.minidom; [xml.dom.minidom.parse(f) for f in sys.argv[1:]]' "$@"; }
elif command -v xmllint >/dev/null; then is_xml() { xmllint --noout "$@"; }
else is_xml() { return 3; }; fi
expect 'report --svg' 0 '^plots/loss\.svg$' report trained --out x.html --svg plots
check 'all plots exist for a training on a machine with known peaks' test "$(cd plots && echo *)" = 'idle.svg loss.svg roofline.svg throughput.svg timeline.svg'
expect 'report --svg of bench on a machine without known peaks' 0 '^some/idle\.svg$' report unknown --out x.html --svg some
check 'only two plots exist then' test "$(cd some && echo *)" = 'idle.svg timeline.svg'
run report "$odd" --out x.html --svg odd-plots --quiet
check 'report --svg --quiet prints nothing' test "$code" = 0 -a ! -s out
is_xml plots/idle.svg 2>/dev/null
if [ $? = 3 ]; then skip 'the plots are XML'; else check 'they are XML' is_xml plots/*.svg some/*.svg odd-plots/*.svg; fi
check 'nothing in the plots loads or runs anything' sh -c '! grep -qiE "<script|<image|href|@import|url\\(|onerror" plots/*.svg odd-plots/*.svg'
if command -v jq >/dev/null; then
  run report trained --json
  check 'the roofline has a point for each operation that computes' test "$(grep -c '<circle' plots/roofline.svg)" = "$(jq '[.operations[] | select(.exchange == false and .flops > 0 and .bytes > 0)] | length' out)"
else
  skip 'points: no jq'
fi
expect 'a folder for plots that cannot be made' 1 'cannot make the folder /proc/nowhere' report trained --out x.html --svg /proc/nowhere

# In a browser: a small run and one of 100,000 tasks, at two widths, light and dark. Frames have any width; windows have
# a least one.
browser=
for name in chromium chromium-browser google-chrome; do command -v $name >/dev/null && browser=$name && break; done
has() { grep -q "\"$1\":$2" "$result" || { cat "$result"; return 1; }; }
below() { awk -v have="$(sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" "$result")" -v most="$2" 'BEGIN { exit !(have != "" && have + 0 <= most) }' || { cat "$result"; return 1; }; }
look() { # light or dark; for each frame "page width" in $frames a file result-SCHEME-NUMBER
  { echo '<!doctype html><style>body{margin:0}iframe{border:0;height:2400px}</style>'
    for frame in $frames; do printf '<iframe src="%s.html#test" style="width:%spx"></iframe>' "${frame%-*}" "${frame#*-}"; done
    printf '%s\n' '<script>addEventListener("load",()=>{for(const f of document.querySelectorAll("iframe")){const r=f.contentDocument.getElementById("test-result");
document.body.append("\n",Object.assign(document.createElement("pre"),{className:"result",textContent:r?r.textContent:"none"}),"\n")}})</script>'; } >frame.html
  # shellcheck disable=SC2086,SC2154
  ${TIMEOUT:+"$TIMEOUT" -k 10 240} $browser --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --allow-file-access-from-files --user-data-dir="$work/browser" \
    --blink-settings=preferredColorScheme="$([ "$1" = dark ] && echo 0 || echo 1)" --window-size=2100,2450 ${SCREENSHOTS:+--screenshot="$SCREENSHOTS/$1.png"} --dump-dom "file://$work/frame.html" >dom 2>browser.log
  sed -n 's/^<pre class="result">\(.*\)<\/pre>$/\1/p' dom | sed 's/&lt;/</g; s/&gt;/>/g; s/&quot;/"/g; s/&amp;/\&/g' >results
  check "$1: every page was there" test "$(wc -l <results)" = "$(echo "$frames" | wc -w)"
  at=0
  for frame in $frames; do
    at=$((at + 1)) result=result-$1-$at
    sed -n ${at}p results >"$result"
    what="$1, ${frame%-*} run, ${frame#*-} pixels"
    check "$what: no fault" has errors '\[\]'
    check "$what: of that width" has width "${frame#*-}"
    check "$what: light or dark" has dark "$([ "$1" = dark ] && echo true || echo false)"
    check "$what: nothing sticks out" has overflows false
    for action in wheel_zooms keys_pan keys_reset drag_pans click_finds search_finds next_steps table_sorts exchange_told shares_drawn roofline_drawn memory_drawn beside_drawn svg_files graph_whole graph_click graph_shows graph_by_layer graph_by_block graph_path graph_ends; do
      check "$what: $action" has $action true
    done
  done
}
busy() { awk -v cpus="$(nproc)" '{ exit !($1 > cpus) }' /proc/loadavg 2>/dev/null; }
within() { # name, figure, most: too slow counts only where nothing else kept the cores from it
  if ! below "$2" "$3" >"$work/slow" && busy; then skip "$1: more is running here than there are cores"; else check "$1" below "$2" "$3"; fi
}
if [ -n "$browser" ]; then
  mkdir large
  check 'a run of 100,000 tasks' "$timelines" large 100000
  run report large --out large.html
  run report known --out small.html
  frames='small-1280 small-400 large-400'
  look light
  frames='small-400 large-1280'
  look dark
  result=result-dark-2
  check 'the page draws all of the 100,000 tasks' has records 100200
  within 'drawn within 2 s' first_draw_ms 2000
  within 'the wheel within 0.2 s' wheel_ms 200
  within 'a search within 1 s' search_ms 1000
else
  skip 'the page in a browser: no chromium'
fi
finish
