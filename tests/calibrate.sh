#!/bin/sh
# starling calibrate: every kind of task gets its samples, which go into StarPU's models of the named machine; exit
# code 3 and a message if samples are missing.
. "$(dirname "$0")/support/command.shlib"
STARPU_HOME=$work/home
export STARPU_HOME
unset STARPU_HOSTNAME STARPU_CALIBRATE_MINIMUM
make_set data 300 60 8 3
small='--batch 32 --shards 2 --workers 1'
all() { # key, least: of each kind
  sed -n '/"kinds": \[/,$p' out | grep -o "\"$1\": [0-9.e-]*" | awk -v least="$2" '$2 + 0 < least { bad = 1 } END { exit bad || NR < 5 }'
}
covered() { # starling bench's arguments: are all kinds of tasks calibrated?
  run bench "$@" --steps 1 --no-measure --json
  kinds=$(field kinds out)
  [ "$code" = 0 ] && [ "$kinds" -gt 5 ] && [ "$(field calibrated out)" = "$kinds" ]
}
uncovered() { # is none?
  run bench "$@" --steps 1 --no-measure --json
  [ "$code" = 0 ] && [ "$(field calibrated out)" = 0 ]
}
lacking() { # are some not?
  run bench "$@" --steps 1 --no-measure --json
  [ "$code" = 0 ] && [ "$(field calibrated out)" -lt "$(field kinds out)" ]
}
# shellcheck disable=SC2086 # $small is several words, here and below
check 'before calibrating, no kind of task is calibrated' uncovered mlp $small
expect 'calibrate prints a table' 0 '^linear +CPU +[0-9]+ +[0-9]+ +[0-9]+ +[0-9.]+ +[0-9.]+ %  \[16, 784\] \[[0-9]+, 784\] \[[0-9]+\] -> \[16, [0-9]+\]$' calibrate mlp $small
check 'tasks that accumulate are kinds of their own' grep -qE '^linear_dw .*, adds$' out
check 'all kinds are stored' grep -qE '^([0-9]+) of \1 have 10 samples or more, and are stored for machine [^ /]+ in /' out
check 'StarPU reads the stored models' covered mlp $small
check 'tasks of other sizes are not calibrated' lacking mlp --batch 48 --shards 2 --workers 1
expect 'calibrate --json for another machine name' 0 '"lacking": 0' calibrate mlp $small --performance-models lab --samples 15 --json
check_json 'calibrate --json is JSON' out
check 'each kind has 15 samples' all samples 15
check 'each kind has a median' all median_s 1e-9
if command -v jq >/dev/null; then
  times=$(find "$(field folder out)" -name '*-times.json' | grep lab)
  # shellcheck disable=SC2016 # of jq
  check 'simulations get the means' jq -e -n --slurpfile told out --slurpfile kept "$times" '
    ([$told[0].kinds[] | .mean_s / .median_s | select(. > 1.00001 or . < 0.99999)] | length > 0) and
    ([$kept[0].times[].cpu_s as $s | any($told[0].kinds[]; (.mean_s / $s - 1) | fabs < 1e-6)] | all and length > 0)'
else skip 'simulations get the means: no jq'; fi
check 'the JSON names the machine' test "$(field machine out)" = lab
check 'that machine has files of models' test -s "$(find "$(field folder out)" -name starling_linear.lab)"
check 'StarPU reads the models for that machine' covered mlp $small --performance-models lab
check 'StarPU reads them for no other machine' uncovered mlp $small --performance-models shed
run bench mlp $small --performance-models lab --steps 20 --json
# Other work changes the speed of a step between calibration and run, so one of five runs must fit.
of_right_size() {
  for _ in 1 2 3 4 5; do
    awk -v p="$(field predicted_step_s out)" -v s="$(field step_s out)" 'BEGIN { exit !(p > s / 4 && p < 4 * s) }' && return
    find "$STARPU_HOME" -name '*-times.json' | grep lab | xargs rm
    run calibrate mlp $small --performance-models lab --samples 15
    run bench mlp $small --performance-models lab --steps 20 --no-measure --json
  done
  return 1
}
run bench mlp $small --performance-models lab --steps 20 --no-measure --json
check 'a step of calibrated tasks is predicted' test "$(field calibrated_percent out | cut -d. -f1)" = 100
check 'the prediction is of the right size' of_right_size
run bench mlp $small --performance-models torn --steps 3 --json
times=$(find "$STARPU_HOME" -name 'torn-1x1.json')
echo '[' >"${times%.json}-times.json"
expect 'bench goes on if the times cannot be read' 0 'the time of a step is not predicted: .*torn-1x1-times.json' bench mlp $small --performance-models torn --steps 3 --no-measure
expect 'so does train' 0 'the time of a step is not predicted: .*torn-1x1-times.json' train mlp --data data --batch 32 --workers 1 --performance-models torn --steps 2 --out torn
expect 'too few steps fail' 3 'kinds of tasks lack samples after 4 steps: [a-z_]+ .* has [0-9] of 10' calibrate mlp $small --performance-models hut --most-steps 4
check 'kinds that lack samples are not stored' lacking mlp $small --performance-models hut
"$starling" calibrate mlp $small --performance-models shed --json 2>err | head -n 1 >out
check 'models are stored even if the output cannot be written' covered mlp $small --performance-models shed
expect 'a machine name must suit file names' 2 "'a/b' cannot name a machine" calibrate mlp --performance-models a/b
expect 'an unknown model' 2 "mlq.*did you mean 'mlp'" calibrate mlq
if [ -x "$MPIEXEC" ]; then
  $limit "$MPIEXEC" -n 2 "$starling" calibrate mlp $small >out 2>err
  check 'calibrate refuses two ranks' grep -q 'calibrate was started on 2 ranks but computes on one' err
else skip 'calibrate refuses two ranks: no MPI launcher'; fi
# The file of times is damaged: what reads it says so, and calibrate, which the message names, mends it.
times=$(find "$STARPU_HOME" -name '*-times.json' | grep -vE '/(lab|hut|shed)-')
# shellcheck disable=SC2086 # words
sed -i 's/"footprint": */&-/' $times
# shellcheck disable=SC2086
expect 'damaged times' 0 "is damaged; 'starling calibrate' measures anew" bench mlp $small --steps 1 --no-measure
# shellcheck disable=SC2086
expect 'calibrate measures anew' 0 'damaged; .*; it is written anew' calibrate mlp $small
# shellcheck disable=SC2086
expect 'then they are whole' 0 '' bench mlp $small --steps 1 --no-measure
check 'and nobody complains' sh -c '! grep -q damaged err'
finish
