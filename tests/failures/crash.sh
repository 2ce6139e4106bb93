#!/bin/sh
# A command survives a crash of the machine, which loses data that were not synchronised. The test records a command's
# file operations and cuts the log anywhere. Data that were not synchronised survive completely, not at all, or in part
# at random (whole writes, halves, names). From each cut a run resumes from the newest synchronised checkpoint or a
# newer one, and ends with the bytes of the undisturbed run; every file that exists is complete; the next start of the
# command completes the run. The commands: train; train --resume of its half; train --force in the folder of another
# run, where a cut leaves the old run, the new one or neither; import, tokenize, convert and report. CUTS: number of
# cuts for each of the three cases, or all; 3 for train, else 1. CUTS_OF: commands. A printed SEED draws the cuts.
. "$(dirname "$0")/../support/command.shlib"
tools=$(cd "${top_builddir:-$(dirname "$starling")}" && pwd)/tests/support
[ -e "$tools/record.so" ] || { echo "1..0 # SKIP no $tools/record.so"; exit 0; }
! grep -qa __asan_init "$starling" || { echo '1..0 # SKIP sanitizers come before what is loaded into a program'; exit 0; }
seed=${SEED:-$(date +%s)}
echo "# SEED=$seed"
draw() { seed=$(((seed * 1103515245 + 12345) % 2147483648)); } # the next number, in $seed
make_set data 40 20 8 3
mkdir -p photos/a photos/b
printf '\211\120\116\107\015\012\032\012\000\000\000\015\111\110\104\122\000\000\000\002\000\000\000\001\010\000\000\000\000\321\111\040\126\000\000\000\013\111\104\101\124\170\332\143\160\164\002\000\000\307\000\204\202\237\054\112\000\000\000\000\111\105\116\104\256\102\140\202' >photos/a/1.png
cp photos/a/1.png photos/b/2.png
awk 'BEGIN { for (i = 0; i < 400; i++) print "the", i % 7, "and", i % 11 }' >text
options="train mlp --size hidden=16 --data $work/data --batch 8 --workers 1 --eval-every 3 --checkpoint-every 2 --log-every 1"
losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([^,]*\),"accuracy":\([^,}]*\).*/\1 \2 \3/p' "$1/metrics.jsonl"; }
recorded() { # starling's arguments: what they do under the folder rec comes to the end of the log
  code=0
  LD_PRELOAD="$tools/record.so${LD_PRELOAD:+:$LD_PRELOAD}" RECORD_UNDER="$work/rec" RECORD_LOG="$work/log" "$starling" "$@" >out 2>err || code=$?
}
operations_of() { "$tools/replay" log all all 0 -; }
# What each command does to $1, whatever is there.
arguments() { # command, output
  case $1 in
    train) echo "$options --steps 8 --out $2 --force" ;;
    resume) echo "train --resume --steps 8 --out $2" ;;
    force) echo "$options --steps 8 --out $2 --force" ;;
    import) echo "import images $work/photos --out $2 --grey" ;;
    tokenize) echo "tokenize $work/text --tokenizer train --vocabulary 270 --out $2" ;;
    convert) echo "convert $work/whole --to starling --out $2" ;;
    report) echo "report $work/whole --out $2" ;;
  esac
}
same_run() { # run, another: state, model, metrics
  same_state "$1" "$2" && cmp -s "$1/model.safetensors" "$2/model.safetensors" && { losses "$1" >one; losses "$2" >other; cmp -s one other; }
}
whole_output() { diff -r -x '.*.tmp' rec/run left/run >/dev/null 2>&1; }
remains() { # of a run: a command that writes a file cannot know which temporaries are a dead one's
  find left -name '.*.tmp' -o -name '.*.partial' -o -name 'model.safetensors.step-*'
}
resumable() { [ -e left/run/config.yaml ] && [ -e left/run/.starling-run ]; }
# shellcheck disable=SC2046,SC2086 # several words, here and below
complete() { # command: starts it again; what is wrong, in $bad
  run $(arguments $1 left/run)
  [ "$code" = 0 ] || bad="$bad; exit code $code: $(tail -n 1 err)"
}
cut() { # command, after which operation, how; what is wrong, in $bad
  bad=''
  rm -rf left
  durable=$("$tools/replay" log "$2" "$3" "$seed" left) || bad='no replay'
  case $1 in
    train | resume)
      if resumable; then
        complete resume
        step=$(sed -n 's/^resumed after step //p' out)
        [ "${step:-0}" -ge "$durable" ] || bad="$bad; resumed after step ${step:-0}, and the checkpoint of step $durable is there"
      else
        [ "$durable" = 0 ] || bad="no run to resume, and the checkpoint of step $durable is there"
        complete train
      fi
      [ "$code" != 0 ] || same_run rec/run left/run || bad="$bad; another state, another model or other metrics"
      [ -z "$(remains)" ] || bad="$bad; leftovers: $(remains)" ;;
    force)
      if resumable; then
        cp -r left/run resumed
        run train --resume --steps 8 --out resumed
        [ "$code" != 0 ] || same_run rec/run resumed || same_run old resumed || bad="$bad; a resumed run is neither the old nor the new one"
        [ "$code" = 0 ] || bad="$bad; what is there does not resume: $(tail -n 1 err)"
        rm -rf resumed
      fi
      complete force
      [ "$code" != 0 ] || same_run rec/run left/run || bad="$bad; another state, another model or other metrics"
      [ -z "$(remains)" ] || bad="$bad; leftovers: $(remains)" ;;
    *)
      for file in $(cd left && find . -type f ! -name '.*.tmp' ! -name '*.next'); do
        cmp -s "left/$file" "rec/$file" || bad="$bad; a part of $file"
      done
      if [ "$1" = import ] && [ -e left/run/train-labels-idx1-ubyte ]; then
        whole_output || bad="$bad; a part of the set looks like a whole one"
      fi
      if whole_output; then return; fi # some refuse what is there, and say so
      run $(arguments "$1" left/run)
      if [ "$code" = 1 ] && [ "$1" = import ] && grep -q 'left/run is not empty; name a new folder' err; then rm -rf left/run && complete "$1"
      elif [ "$code" != 0 ]; then bad="$bad; exit code $code: $(tail -n 1 err)"; fi
      whole_output || bad="$bad; the next start does not complete it" ;;
  esac
}
total=0 failed_cuts=0
for command in ${CUTS_OF:-train resume force import tokenize convert report}; do
  rm -rf rec log
  mkdir rec
  first=0 cuts=${CUTS:-1}
  case $command in
    train) cuts=${CUTS:-3} ;;
    resume) recorded $options --steps 4 --out "$work/rec/run" ;;
    force)
      recorded $options --steps 8 --seed 5 --out "$work/rec/run"
      cp -r rec/run old ;;
    *) [ -e whole ] || run $options --steps 8 --out whole ;;
  esac
  [ ! -e log ] || first=$(operations_of)
  recorded $(arguments $command "$work/rec/run")
  check "$command: a recorded run" test $code = 0
  operations=$(operations_of)
  rm -rf again
  check "$command: the log holds all of it: $operations operations" sh -c "mkdir again && '$tools/replay' log $operations all 0 again/all && diff -r rec again/all"
  for how in none some all; do
    failed=0
    if [ "$cuts" = all ]; then numbers=$(seq "$first" "$operations"); else
      numbers=''
      for _ in $(seq "$cuts"); do
        draw
        numbers="$numbers $((first + seed / 65536 % (operations - first + 1)))"
      done
    fi
    done_cuts=0
    for n in $numbers; do
      draw
      done_cuts=$((done_cuts + 1)) total=$((total + 1))
      cut $command "$n" $how
      [ -z "$bad" ] || { failed=$((failed + 1)) failed_cuts=$((failed_cuts + 1)); echo "# $command: after operation $n, $how of the rest, seed $seed: ${bad#; }"; }
    done
    check "$command: a crash that leaves $how of what is not synchronised: $done_cuts cuts" test $failed = 0
  done
done
echo "# $total cuts in all, $failed_cuts not survived"
finish
