#!/bin/sh
# starling report --beside: the difference between two runs of the same step is divided by cause. A run beside itself
# differs in nothing, a planted slower operation is named with its amount, and other steps are refused.
. "$(dirname "$0")/support/command.shlib"
timelines=$(dirname "$starling")/tests/support/timelines
sim=${STARLING_SIM:-$(dirname "$starling")/../build-simulated/starling-sim}
# The last column of the table's lines that begin with a text, which has no blanks behind it.
last_of() { awk -v text="$1" 'index($0, text) == 1 { print $NF; exit }' "$work/out"; }

# Two workers, 250 tasks on each; a half of those on the second are gelu.
mkdir usual slow other
check 'a run' "$timelines" usual 4000
check 'one whose gelu takes 50 us longer' "$timelines" slow 4000 150
run report slow --beside usual
check 'report --beside' test "$code" = 0
check 'the page is there' grep -q '^slow/report\.html$' out
# A step: 125 * 50 us more, of which the mean worker is in gelu for a half, and waits for the other for a half.
check 'the step is longer by that' test "$(last_of 'a step')" = +6.250
check 'gelu is the first of the operations' sh -c "grep -m 1 '^kernels' out | grep -q '^kernels: gelu (forward) .* +3\.125\$'"
check 'other kernels are the same' test "$(grep '^kernels' out | grep -c ' +0\.000$')" = 3
check 'the other worker waits as long' test "$(last_of 'dependency')" = +3.125
check 'exchanges are the same' test "$(last_of 'exchange')" = +0.000
check 'the sentence says so' grep -qE "in usual: 6\.250 ms \(22\.[0-9] %\) longer\. The largest part of that, 3\.125 ms, is 'kernels: gelu \(forward\)'\." out
cp out forth
run report usual --beside slow --out back.html
check 'the other way round it is shorter by the same' test "$(last_of 'a step')" = -6.250 -a "$(last_of 'kernels: gelu')" = -3.125
run report usual --beside usual --quiet
check 'a run beside itself differs in nothing' test "$code" = 0 -a "$(grep -cE '^(kernels|data|exchange|dependency|policy|runtime|a step).* \+0\.000$' out)" = 10
check 'and says that it is the same' grep -q ': the same\.$' out
check 'report --quiet prints the table alone' eval '! grep -q html out'

run report slow --beside usual --json
cp out both.json
if command -v jq >/dev/null; then
  check 'the parts add up to the difference' jq -e '.beside | ([.parts[].difference_s] | add) - .difference_s | fabs < 1e-8' both.json
  check 'so do the times of both' jq -e '.beside | (([.parts[].run_s] | add) - .run_step_s | fabs < 1e-7) and (([.parts[].beside_s] | add) - .beside_step_s | fabs < 1e-7)' both.json
  check 'the rest is nothing here' jq -e '.beside.parts[-1] | .cause == "runtime" and (.difference_s - (.run_s - .beside_s) | fabs < 1e-8)' both.json
  check 'both timelines are there, of as many steps' jq -e 'def steps: [.timelines[0].records.step | add + .[0] * 0] | length; (.beside.timelines | length) == 2 and (.timelines[0].records.node | length) == (.beside.timelines[0].records.node | length)' both.json
  check 'their texts are in one list' jq -e '. as $all | [.beside.timelines[].nodes.operation[] | $all.texts[.]] | unique == ["attention_backward", "exchange", "gelu", "layernorm", "linear"]' both.json
  run report slow --json
  check 'without --beside there is none' jq -e '.beside == null' out
else
  skip 'figures: no jq'
fi

# As many steps are shown of both, whichever has more.
check 'a longer run' "$timelines" other 20000
run report other --beside usual --json
if command -v jq >/dev/null; then
  check 'as many steps are shown' jq -e '[.timelines[0], .beside.timelines[0]] | map(.records.node | length) | .[0] == .[1]' out
else
  skip 'steps: no jq'
fi

# Other steps are refused, with what differs.
for plan in '32 2 first' '64 2 batch' '64 4 shards'; do
  # shellcheck disable=SC2086 # words
  set -- $plan
  run bench mlp --batch "$1" --leaves "$2" --shards "$2" --steps 3 --workers 1 --no-measure --out "$3"
done
run bench mlp --batch 64 --leaves 2 --shards 2 --steps 4 --workers 2 --threads-per-worker 1 --no-measure --out wider
run bench lenet --batch 64 --leaves 2 --shards 2 --steps 3 --workers 1 --no-measure --out lenet
expect 'another batch' 2 "batch and first have different steps: task [0-9]+ of rank 0 is '.* \[32.*; and '.* \[16" report batch --beside first
expect 'other shards' 2 'shards and batch have different steps: [0-9]+ and [0-9]+ tasks on rank 0; give both the same model' report shards --beside batch
expect 'another model' 2 "models 'lenet.*' and 'mlp" report lenet --beside batch
expect 'no run there' 1 'cannot read nowhere' report batch --beside nowhere
expect 'a folder without a timeline' 1 'there is no timeline in' report batch --beside /tmp
if [ -x "${MPIEXEC-}" ]; then
  $limit "$MPIEXEC" -n 2 "$starling" bench mlp --batch 64 --leaves 2 --shards 2 --steps 3 --workers 1 --no-measure --out ranks >out 2>err
  expect 'ranks differ' 2 '1 and 2 ranks' report batch --beside ranks
else
  skip 'ranks differ: no mpiexec'
fi
expect 'another number of workers is a cause' 0 '^workers: another number of them' report wider --beside batch
run report wider --beside batch --json
if command -v jq >/dev/null; then
  check 'the parts add up there, too' jq -e '.beside | ([.parts[].difference_s] | add) - .difference_s | fabs < 1e-8' out
else
  skip 'more workers: no jq'
fi

# A real run and its simulation.
if [ -x "$sim" ]; then
  STARLING_SIM=$sim
  export STARLING_SIM
  run simulate mlp --batch 64 --leaves 2 --shards 2 --machine vm-2 --workers 1 --out simulated
  expect 'a run beside its simulation' 0 '^kernels: linear \(forward\)' report batch --beside simulated
  for gpu in mixed cpu; do
    run simulate lenet --machine laptop-gpu --workers "$([ $gpu = cpu ] && echo 4 || echo both)" --sched dmdas --out $gpu
  done
  run report mixed --beside cpu --json
  check 'a simulation with a GPU beside one without' test "$code" = 0
  if command -v jq >/dev/null; then
    check 'its parts add up, placement among them' jq -e '.beside | (([.parts[].difference_s] | add) - .difference_s | fabs < 1e-8) and any(.parts[]; .cause == "placement" and .difference_s != 0)' out
  else
    skip 'placement: no jq'
  fi
else
  skip "simulations: no $sim (./quickstart simulate builds it)"
fi

browser=
for name in chromium chromium-browser google-chrome; do command -v $name >/dev/null && browser=$name && break; done
if [ -n "$browser" ]; then
  run report slow --beside usual --out page.html
  # shellcheck disable=SC2086 # words
  ${TIMEOUT:+"$TIMEOUT" -k 10 240} $browser --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$work/browser" \
    --window-size=1280,2400 ${SCREENSHOTS:+--screenshot="$SCREENSHOTS/beside.png"} --dump-dom "file://$work/page.html#test" >dom 2>browser.log
  sed -n 's/.*<pre id="test-result"[^>]*>\(.*\)<\/pre>.*/\1/p' dom >result
  for wanted in '"errors":\[\]' '"beside_drawn":true' '"search_finds":true' '"click_finds":true' '"overflows":false'; do
    check "the page: $wanted" sh -c "grep -q '$wanted' result || { cut -c 1-2000 result; false; }"
  done
else
  skip 'the page in a browser: no chromium'
fi
finish
