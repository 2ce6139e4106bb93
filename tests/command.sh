#!/bin/sh
# The command: options, configuration files, help, manual, graph, info, bench, and exit codes.
. "$(dirname "$0")/support/command.shlib"
commands='train eval generate predict convert bench calibrate compare simulate scale plan graph trace report import tokenize lesson grade info'

expect 'no command: usage' 2 '^Usage: starling COMMAND'
expect 'an unknown command names the nearest' 2 "unknown command 'trian'; did you mean 'train'\?" trian
expect '--version' 0 '^starling [0-9]' --version
expect '--help' 0 '^Usage: starling COMMAND' --help
for command in $commands; do expect "$command --help" 0 "^Usage: starling $command" "$command" --help; done

expect 'an unknown option names the nearest' 2 'unknown option --batchs; did you mean --batch\?' train lenet --batchs 3
expect 'swapped letters are near' 2 'did you mean --workers\?' train lenet --wokrers=3
expect 'a word near nothing gets no suggestion' 2 'unknown option --xyzzy$' train lenet --xyzzy
expect 'an option of another command' 2 "unknown option --epochs, which 'starling eval' does not take" eval x --epochs 3
expect 'a missing value' 2 '--batch: the value is missing' train lenet --batch
expect 'not a number' 2 "--batch: 'many' is not a whole number" train lenet --batch many
expect 'a number out of range' 2 '--batch: 0 is out of range' train lenet --batch 0
expect 'a real out of range' 2 '--val-fraction: 1.5 is out of range' train lenet --val-fraction 1.5
expect 'an unknown choice lists the choices' 2 "unknown value 'adagrad'; choose sgd[|]adam[|]adamw[|]lamb" train lenet --optimizer adagrad
expect 'an unknown model names the nearest' 2 "no model 'lenett'.*did you mean 'lenet'\?" graph lenett
expect 'a missing argument is refused' 2 'an argument is missing; usage: starling train MODEL' train
expect 'a superfluous argument is refused' 2 "unexpected argument 'mlp'" train lenet mlp
expect '--until: an unknown measure' 2 "--until: 'speed=3'" train lenet --until speed=3
expect '--resume needs --out' 2 '--out DIR names it' train lenet --resume
expect 'an unknown policy: the message lists the policies' 2 "unknown scheduling policy 'fifo'.*eager" bench mlp --sched fifo
expect 'shards that do not divide' 2 'shards 3: a multiple of the 2 leaves' graph mlp --leaves 2 --shards 3

expect 'more micro-batches than samples' 2 "--micro-batches 100: at most the batch's 64 samples" graph mlp --batch 64 --micro-batches 100
expect 'a batch that is too small for the ranks' 2 'a batch of 4 samples is too small: 8 data ranks need 8 leaves; give a larger --batch' graph mlp --batch 4 --ranks 8
# A team computes products of bf16 faster than one core.
half_of() { "$starling" graph gpt2-nano --batch 64 --length 128 --machine dgx-h100 --workers 1 --gpus 0 --precision bf16 --threads-per-worker "$1" --json | sed -n 's/^  "step_s": \([^,]*\),/\1/p'; }
alone=$(half_of 1) team=$(half_of 8)
check "bf16 on a simulated team of 8 cores: $team s a step in place of $alone" awk -v a="$team" -v b="$alone" 'BEGIN { exit !(a > 0 && 3 * a < b) }'

# A YAML file: the same names, flags win.
printf 'batch: 64\nrow_blocks: 2\n' >c.yaml
expect 'a predicted schedule on CPUs and GPUs' 0 '^predicted step on 3 workers .* and 2 GPUs: .* [1-9][0-9]* tasks on GPUs' graph mlp --workers 3 --gpus 2 --batch 256
expect 'on GPUs alone' 0 '^predicted step on 0 workers .* and 1 GPUs: .* tasks on GPUs \(100 % of the time\), 0.00 MB' graph mlp --workers gpu --gpus 1
step_of() { "$starling" graph resnet50 --batch 16 --workers gpu --gpus 2 --json "$@" | sed -n 's/^  "step_s": \([^,]*\),/\1/p'; }
portable=$(step_of) machine=$(step_of --plan machine)
check "a plan for two GPUs: $machine s a step in place of $portable" \
  awk -v a="$machine" -v b="$portable" 'BEGIN { exit !(a > 0 && 1.9 * a < b) }'
expect 'which has leaves for both, and few shards' 0 ' 2 leaves, 2 shards' graph resnet50 --batch 16 --workers gpu --gpus 2 --plan machine
expect 'a plan for a mesh is searched elsewhere' 2 'plan machine predicts ranks that divide samples' graph gpt2 --ranks 2 --mesh tensor=2 --plan machine
expect 'options of a pipeline without one' 2 '--pipe-order: this job has no pipeline' graph mlp --pipe-order zero-bubble
expect 'a share after a comma is missing' 2 "the share of a stage, '', must be a number" graph mlp --ranks 2 --mesh pipe=2 --stages 2,1,
expect 'and keeps what is given' 0 ' 1 leaves, 4 shards' graph resnet50 --batch 16 --workers gpu --gpus 2 --plan machine --leaves 1 --shards 4
expect 'a memory for GPUs' 0 'memory of GPU 0: .* with 1000.00 MB a step moves [0-9.]+ MB in and [0-9.]+ MB out' \
  graph gpt2 --batch 4 --workers gpu --gpus 1 --gpu-memory 1000
expect 'too small for a task' 2 "needs 617.6 MB at once, and GPU 0 has 100.0 MB .*--row-blocks" \
  graph gpt2 --batch 4 --workers gpu --gpus 1 --gpu-memory 100
expect 'too small for a task of samples' 2 "use more shards or a smaller batch.*\(--shards, --batch\)" \
  graph gpt2 --size layers=1,width=16,heads=2 --batch 64 --leaves 1 --shards 1 --workers gpu --gpus 1 --gpu-memory 100
expect 'which help' 0 'memory of GPU 0: .* with [0-9.]+ MB a step moves' \
  graph gpt2 --size layers=1,width=16,heads=2 --batch 64 --leaves 1 --shards 16 --workers gpu --gpus 1 --gpu-memory 100
expect 'on no worker' 2 'give the number of GPUs by --gpus N' graph mlp --workers gpu
expect 'keys of a file, with _ for -' 0 'on 64 images .* 2 row blocks' graph mlp --config c.yaml
expect 'flags win over the file' 0 'on 32 images .* 2 row blocks' graph mlp --config c.yaml --batch 32
printf 'model: mlp\nepochs: 3\n' >c.yaml
expect 'the model may come from the file; keys of other commands are ignored' 0 '^mlp: ' graph --config c.yaml
printf 'batch: 64\nlearnig-rate: 1\n' >c.yaml
expect 'an unknown key: file, line, the nearest' 2 "c.yaml, line 2: unknown key 'learnig-rate'; did you mean 'learning-rate'\?" graph mlp --config c.yaml
printf 'batch: [64]\n' >c.yaml
expect 'a list is refused' 2 'c.yaml, line 1: ' graph mlp --config c.yaml
printf 'batch: 64\nbatch: 32\n' >c.yaml
expect 'a key twice is refused' 2 "line 2: key 'batch' occurs twice" graph mlp --config c.yaml
printf 'micro-batches: 2\nmicro_batches: 4\n' >c.yaml
expect 'in both spellings, too' 2 "line 2: key 'micro_batches' occurs twice" graph mlp --config c.yaml
printf 'batch: "64\n' >c.yaml
expect 'a file that is not YAML is refused' 2 'c.yaml, line [0-9]+: not YAML' graph mlp --config c.yaml
printf 'batch: much\n' >c.yaml
expect 'a value of the wrong type names file and line' 2 "c.yaml, line 1: batch: 'much' is not a whole number" graph mlp --config c.yaml
expect 'a missing file' 2 '--config: .*none.yaml' graph mlp --config none.yaml

expect 'graph: the table' 0 'predicted peak memory: [0-9.]+ MB' graph lenet
expect 'graph: every layer has its line' 0 'conv2 .*conv2d_dw' graph lenet
expect 'graph --tasks: a line for each task' 0 'conv1 s1' graph lenet --tasks --shards 2
expect 'graph --json' 0 '"peak_bytes"' graph lenet --tasks --json
check_json 'graph --json is JSON' "$work/out"
expect 'graph --ranks: the exchanges between ranks' 0 'fc1:linear_dw.0 +partial sums +replicated +sum +3.211 ' graph mlp --ranks 2
expect 'graph --ranks --zero 1: the owners' 0 'fc1.weight +owned by rank 1 +replicated +copy +3.211 ' graph mlp --ranks 2 --zero 1
expect 'graph --ranks --json' 0 '"needed": "replicated"' graph lenet --ranks 3 --json
check_json 'graph --ranks --json is JSON' "$work/out"
expect 'graph --dot' 0 '^digraph' graph lenet --dot
if command -v dot >/dev/null; then check 'dot draws graph --dot' dot -Tsvg -o "$work/graph.svg" "$work/out"; else skip 'dot draws graph --dot: no graphviz'; fi
expect 'a shape that does not fit names the layer' 1 "layer 'pool[12]'|layer 'conv[12]'" graph lenet --image 2x2x1
expect 'an invalid image size' 2 "--image: '28'" graph lenet --image 28

expect 'info' 0 '^worker 0' info --no-measure
expect 'info --json' 0 '"max_cpu_workers"' info --no-measure --json
check_json 'info --json is JSON' "$work/out"
if grep -q ' avx2 ' /proc/cpuinfo 2>/dev/null; then
  run info --json
  check 'OpenBLAS measures with vectors of 32 bytes or more where the CPU has them' grep -qE '"openblas": "(Haswell|Zen|Excavator|SkylakeX|Cooperlake|SapphireRapids)"' out
  OPENBLAS_CORETYPE=Prescott "$starling" info --json >out 2>err
  check 'the kernels that the user chooses stay' grep -q '"openblas": "Prescott"' out
else for what in 'OpenBLAS measures with long vectors' 'the kernels that the user chooses stay'; do skip "$what: no AVX2"; done; fi
OMPI_COMM_WORLD_SIZE=2
export OMPI_COMM_WORLD_SIZE
expect 'a launcher of another MPI: the error names the remedy' 1 'launcher started 2 ranks .*mpiexec' info --no-measure
unset OMPI_COMM_WORLD_SIZE
if [ -n "${MPIEXEC-}" ] && [ -x "$MPIEXEC" ]; then
  code=0
  "$MPIEXEC" -n 2 "$starling" info --no-measure >out 2>err || code=$?
  check 'info on two ranks: both, in order' test "$code $(grep -c '^rank [01] ' out) $(grep -n '^rank 0' out | cut -d: -f1)" = "0 2 $(grep -n '^rank ' out | head -n 1 | cut -d: -f1)"
  check 'info on two ranks: a line of place for each rank' test "$(grep -cE "^ +[01]  $(hostname) +[0-9]" out)" = 2
  cpu=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*\([0-9]*\).*/\1/p' /proc/self/status)
  if command -v taskset >/dev/null; then
    "$MPIEXEC" -n 2 taskset -c "$cpu" "$starling" info --no-measure >out 2>err
    check 'info warns of two ranks on one core' grep -q '^warning    rank 1 runs on core [0-9]* of .* as rank 0 does' out
  else skip 'two ranks on one core: no taskset'; fi
else
  for what in 'info on two ranks' 'a line for each' 'two ranks on one core'; do skip "$what: no MPI launcher"; done
fi

expect 'bench --json' 0 '"samples_per_s"' bench mlp --batch 32 --steps 5 --no-measure --json --workers 1
check_json 'bench --json is JSON' "$work/out"
near() { awk -v a="$(field "$1" out)" -v b="$(field "$2" out)" 'BEGIN { exit !(a > 0 && b > 0.9 * a && b < 1.1 * a) }'; }
if grep -q __asan_init "$starling"; then
  skip 'bench: the peak memory is as predicted' 'a sanitizer needs memory of its own'
else check 'bench: the peak memory is as predicted' near peak_memory_bytes predicted_peak_bytes; fi
check 'bench: shares of worker time add up to 100' awk -v list="$(for cause in kernel_percent runtime dependency data exchange policy; do field $cause out; done | tr '\n' ' ')" \
  'BEGIN { n = split(list, v, " "); for (i = 1; i <= n; i++) { sum += v[i]; if (v[i] < 0) exit 1 } exit !(n == 6 && v[1] > 0 && sum > 99.9 && sum < 100.1) }'
check 'bench: the bound does not exceed the step' awk -v bound="$(field bound_s out)" -v step="$(field step_s out)" 'BEGIN { exit !(bound > 0 && bound <= step) }'
expect 'bench: the output as text' 0 '^worker time .* in kernels; idle: runtime' bench mlp --batch 32 --steps 5 --no-measure --workers 1 --out timeline
expect 'bench --no-record' 0 '^step time' bench mlp --batch 32 --steps 5 --no-measure --workers 1 --no-record
expect 'bench --no-record --out' 2 'leave --no-record or --out out' bench mlp --batch 32 --steps 5 --no-measure --workers 1 --no-record --out nothing
expect 'info --machine --json' 2 '--machine prints a description in YAML' info --machine vm-2 --json
expect 'bench --no-record --json' 0 '"step_s"' bench mlp --batch 32 --steps 5 --no-measure --workers 1 --no-record --json

# The timeline: its formats, and that they add up.
expect 'trace: the summary' 0 '^  kernels ' trace timeline
expect 'trace --json' 0 '"mixed_s"' trace timeline --json
check_json 'trace --json is JSON' "$work/out"
cp out summary
expect 'trace: a folder without a timeline' 1 'there is no timeline in' trace .
expect 'trace: a format without a file' 2 '--format and --out go together' trace timeline --format csv
expect 'trace: a file and sums' 2 '--format writes a file, and --json prints sums' trace timeline --format csv --out t.csv --json
check 'trace --format chrome' "$starling" trace timeline --format chrome --out trace.json
check_json 'trace --format chrome is JSON' "$work/trace.json"
check 'trace --format paje' "$starling" trace timeline --format paje --out trace.paje
check 'trace --format paje begins with definitions' grep -q '^%EventDef PajeDefineContainerType' trace.paje
check 'trace --format csv' "$starling" trace timeline --format csv --out trace.csv
sums=$(awk -F, 'NR > 1 { d = $NF - $(NF - 1); all += d; if ($2 == "task") { busy += d; n++ } } END { printf "%.0f %.0f %d", busy, all, n }' trace.csv)
check 'trace: kernel time is that of bench, to 1%' awk -v sums="$sums" -v percent="$(field kernel_percent summary)" -v window="$(field window_s summary)" \
  'BEGIN { split(sums, s, " "); want = percent / 100 * window * 1e9; exit !(s[1] > 0.99 * want && s[1] < 1.01 * want) }'
check 'trace: kernels and idle time add up to all of the time' awk -v sums="$sums" -v window="$(field window_s summary)" \
  'BEGIN { split(sums, s, " "); exit !(s[2] > 0.999e9 * window && s[2] < 1.001e9 * window) }'
check 'trace: it has all tasks' awk -v sums="$sums" -v tasks="$(field tasks summary)" 'BEGIN { split(sums, s, " "); exit !(s[3] == tasks) }'

# Two grey pixels, 65 and 66.
mkdir -p photos/a photos/b
printf '\211\120\116\107\015\012\032\012\000\000\000\015\111\110\104\122\000\000\000\002\000\000\000\001\010\000\000\000\000\321\111\040\126\000\000\000\013\111\104\101\124\170\332\143\160\164\002\000\000\307\000\204\202\237\054\112\000\000\000\000\111\105\116\104\256\102\140\202' >photos/a/1.png
cp photos/a/1.png photos/b/2.png
expect 'import' 0 '^set: images of 1x2x1 in 2 classes, 2 to train on, 0 to test on$' import images photos --out set --grey
printf '\0\0\010\003\0\0\0\002\0\0\0\001\0\0\0\002ABAB' >wanted
check 'import: the pixels are in the data set' cmp wanted set/train-images-idx3-ubyte
expect 'import --json' 0 '"height": 3' import images photos --out set2 --size 3x4 --json
check_json 'import --json is JSON' "$work/out"
head -c 50 photos/a/1.png >photos/b/3.png
expect 'import: a broken image' 1 'photos/b/3.png: broken PNG' import images photos --out set3
expect 'import --skip-bad lists it' 0 '^left out: photos/b/3.png: broken PNG' import images photos --out set3 --skip-bad
rm photos/b/3.png
mkfifo photos/b/4.png
expect 'import: a pipe named like an image' 1 'photos/b/4.png: not a file with data' import images photos --out set6
rm photos/b/4.png
cafe=$(printf 'photos/caf\351') # Latin 1
if mkdir "$cafe" 2>/dev/null; then
  cp photos/a/1.png "$cafe/1.png"
  expect 'import: the name of a class is not UTF-8' 2 'is not UTF-8 or has control characters: rename it' import images photos --out set4
  check 'import: the failure leaves no files' test ! -e set4
  expect 'an argument that is not UTF-8' 2 'the argument .* is not UTF-8: rename' import images photos --out "$cafe"
  rm -r "$cafe"
else skip 'names that are not UTF-8: the file system refuses them'; fi
expect 'import: a word other than images' 2 'usage: starling import images DIR' import photos
expect 'import without --out' 2 '--out DIR is needed' import images photos

if [ -e /dev/full ]; then
  code=0
  "$starling" --version >/dev/full 2>err || code=$?
  check 'output that cannot be written is a failure' test $code = 74
else skip 'output that cannot be written: no /dev/full'; fi

run --manual
check 'the manual page is the output of starling --manual (else: starling --manual >man/starling.1)' cmp "$work/out" "$top/man/starling.1"
check 'a text for some commands and that for all others say for which' grep -q '^plan: images or .*; other commands: images or' "$work/out"
for command in $commands; do "$starling" "$command" --help; done | sed -n 's/^ *--\([a-z-]*\).*/\1/p' | sort -u >options
sed -n 's/^\.B \\-\\-\([a-z\\-]*\).*/\1/p' "$top/man/starling.1" | sed 's/\\f.*//; s/\\-/-/g; s/\\$//' | sort -u >described
diff options described >out
check 'every option is in the manual page, and no other' cmp options described
sed -n '/^\.SH EXIT STATUS/,/^\.SH FILES/s/^\.B \([0-9]*\)$/\1/p' "$top/man/starling.1" >codes
sed -n '/^## Exit codes/,$s/^| \([0-9][^|]*\) |.*/\1/p' "$top/docs/reference/formats.md" >described
check 'docs/reference/formats.md has the exit codes of the manual page' cmp codes described
if command -v groff >/dev/null; then
  groff -man -ww -z "$top/man/starling.1" >out 2>&1
  check 'groff accepts the manual page' test ! -s out
else skip 'groff accepts the manual page: no groff'; fi
# docs/reference/json.md has every field that these commands print.
if command -v jq >/dev/null; then
  printf '%s\n' a b c d e f g h >text
  while read -r command; do
    # shellcheck disable=SC2086 # words
    run $command --json
    lacking=$(jq -r 'del(.environment?, .size?, .plan?) | [.. | objects | keys[]] | unique[]' out 2>err | while read -r key; do
      grep -qF "\`$key\`" "$top/docs/reference/json.md" || echo "$key"
    done)
    check "json.md has the fields of ${command%% *}${lacking:+, but not $lacking}" test "$code" = 0 -a -z "$lacking" -a -s out
  done <<'END'
bench mlp --size hidden=16 --steps 2 --workers 1 --no-measure
graph mlp --size hidden=16
plan mlp --size hidden=16 --machine vm-2 --batch 64 --samples 1000
calibrate mlp --size hidden=16 --batch 32 --workers 1 --samples 1
tokenize text --tokenizer bytes --out tokens.d
END
else skip 'json.md: no jq'; fi
finish
