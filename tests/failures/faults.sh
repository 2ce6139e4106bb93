#!/bin/sh
# Each call to the system may fail: opening, reading, writing, synchronising, cutting, closing, renaming, linking,
# removing, locking and mapping files, making and listing folders, and allocating memory, for the program or within a
# library that it calls. In a run, one call fails (a full disk, a failing disk, an interruption, half of a write), or
# all calls fail from one on, or all calls are late. The runs are of train, train --resume, train on two ranks (the
# second rank has the faults), import, tokenize, convert and report. The command must succeed, or end with an error that
# names the cause and leave nothing half-written; the next start must end with the same bytes. FAULTS: number of calls
# of each kind to try in each command (1), or all; FAULTS_OF: commands; FAULTS_CALLS: kinds. A printed SEED draws the
# calls.
. "$(dirname "$0")/../support/command.shlib"
faults=$(cd "${top_builddir:-$(dirname "$starling")}" && pwd)/tests/support/faults.so
[ -e "$faults" ] || { echo "1..0 # SKIP no $faults"; exit 0; }
! grep -qa __asan_init "$starling" || { echo '1..0 # SKIP sanitizers come before what is loaded into a program'; exit 0; }
export UCX_MEM_EVENTS=n # UCX would put its own mmap before ours
seed=${SEED:-$(date +%s)}
echo "# SEED=$seed"
draw() { seed=$(((seed * 1103515245 + 12345) % 2147483648)); } # the next number, in $seed
total=0 planted=0

make_set data 40 20 8 3
mkdir -p photos/a photos/b
printf '\211\120\116\107\015\012\032\012\000\000\000\015\111\110\104\122\000\000\000\002\000\000\000\001\010\000\000\000\000\321\111\040\126\000\000\000\013\111\104\101\124\170\332\143\160\164\002\000\000\307\000\204\202\237\054\112\000\000\000\000\111\105\116\104\256\102\140\202' >photos/a/1.png
cp photos/a/1.png photos/b/2.png
awk 'BEGIN { for (i = 0; i < 400; i++) print "the", i % 7, "and", i % 11 }' >text
options="mlp --size hidden=16 --data $work/data --batch 8 --leaves 2 --shards 2 --workers 1 --eval-every 3 --checkpoint-every 2 --log-every 1"
losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([^,]*\),"accuracy":\([^,}]*\).*/\1 \2 \3/p' "$1/metrics.jsonl"; }
# What each command does, what is there before, and whether its output is whole.
arguments() {
  case $1 in
    train | ranks) echo "train $options --steps 6 --out $work/out.d" ;;
    resume) echo "train --resume --steps 6 --out $work/out.d" ;;
    import) echo "import images $work/photos --out $work/out.d --grey" ;;
    tokenize) echo "tokenize $work/text --tokenizer train --vocabulary 270 --out $work/out.d" ;;
    convert) echo "convert $work/base.train --to starling --out $work/out.d" ;;
    report) echo "report $work/base.train --out $work/out.d" ;;
  esac
}
prepare() { # command
  rm -rf out.d
  [ "$1" != resume ] || cp -r half out.d
}
whole() { # command
  case $1 in
    train | resume | ranks)
      [ -s out.d/summary.json ] && cmp -s base.train/model.safetensors out.d/model.safetensors &&
        same_state base.train out.d && { [ -z "$(find out.d -name 'model.safetensors.step-*')" ] || grep -q 'warning: cannot remove .*model.safetensors.step-' err; } && { losses out.d >other && cmp -s base.losses other; } ;;
    *) diff -r "base.$1" out.d >/dev/null ;;
  esac
}
# What is half-written and that no warning names: a fault may keep leftovers from being removed.
left() {
  find . -name '.*.tmp' -o -name '.*.partial' | while read -r path; do
    grep -q "^starling: warning: the checkpoint of step [0-9]* stays: cannot remove .*$work/${path#./}[:/]" err || echo "$path"
  done
}
# shellcheck disable=SC2046,SC2086 # arguments are several words, here and below
{
  prepare train
  run $(arguments train)
  mv out.d base.train && losses base.train >base.losses
  run train $options --steps 3 --out half
  for command in import tokenize convert report; do
    prepare $command
    run $(arguments $command)
    mv out.d base.$command
  done
}
check 'the commands without a fault' test -s base.train/summary.json -a -s half/summary.json -a -d base.import -a -d base.tokenize -a -s base.convert -a -s base.report

trial() { # command, call, how, n, on: all later ones, too; the fault's consequences, in $bad
  code=0 bad='' launcher='' rank=''
  prepare "$1"
  rm -f stack
  [ "$1" != ranks ] || launcher="$MPIEXEC -n 2" rank=FAULT_RANK=1
  # shellcheck disable=SC2046,SC2086
  $limit env $rank LD_PRELOAD="$faults${LD_PRELOAD:+:$LD_PRELOAD}" FAULT_CALL="$2" FAULT_HOW="$3" FAULT_N="$4" ${5:+FAULT_ON=1} FAULT_UNDER="$work/" FAULT_LOG="$work/calls" \
    FAULT_STACK="$work/stack" FAULT_MS=20 $launcher "$starling" $(arguments "$1") >out 2>err || code=$?
  [ ! -s stack ] || planted=$((planted + 1))
  case $code in
    0) whole "$1" && [ -s out.d/timeline-0.safetensors -o ! -d out.d/checkpoints ] || bad='it says that it is done' ;;
    1 | 74) # what cannot be stored is exit code 74; what cannot be read, and no memory, is 1
      tail -n 1 err | grep -q '^starling: ' || { [ "$1" = ranks ] && grep -q '^starling: ' err; } || bad='no message'
      case $code,$2 in 1,write | 1,fsync | 1,rename | 1,mkdir | 1,link) bad='exit code 1 where nothing could be stored' ;; esac ;;
    *) bad="exit code $code" ;;
  esac
  case $3 in EINTR | short | slow) [ $code = 0 ] || bad="exit code $code where nothing is lost: $(tail -n 1 err)" ;; esac
  [ -z "$(left)" ] || bad="$bad; half-written: $(left)"
  [ $code != 0 ] || return 0
  cp err first.err
  # shellcheck disable=SC2046
  case $1 in
    train | resume | ranks)
      if [ -e out.d/.starling-run ]; then
        run train --resume --steps 6 --out out.d
      else
        [ ! -e out.d ] || bad="$bad; a folder that is no run"
        run $(arguments train)
      fi ;;
    *)
      [ "$1" != tokenize ] || [ -z "$(find out.d -type f 2>/dev/null)" ] || bad="$bad; a part of the tokens"
      [ ! -e out.d ] || [ "$1" = import ] || [ "$1" = tokenize ] || whole "$1" || bad="$bad; a part of the output"
      run $(arguments "$1") ;;
  esac
  [ $code = 0 ] || bad="$bad; the next start: $(tail -n 1 err)"
  if [ -n "$5" ] && [ "$code" = 0 ] && [ -s out.d/metrics.jsonl ]; then cp base.train/metrics.jsonl out.d; fi # those that waited when it ended
  whole "$1" || bad="$bad; the next start does not complete it"
  [ -z "$bad" ] || bad="$bad ($(tail -n 1 first.err))"
}
series() { # command, call, how, on
  calls=0 done_calls=0 failed=0
  name="$1: $2 $3${4:+ from one on}"
  [ -s "calls.$1" ] || {
    trial "$1" "$2" "$3" 0 ''
    cp calls "calls.$1"
  }
  calls=$(sed -n "s/^$2 //p" "calls.$1")
  if [ "$calls" = 0 ]; then numbers=''
  elif [ "$3$4" = slowon ]; then numbers=1
  elif [ "${FAULTS:-1}" = all ]; then numbers=$(seq "$calls")
  else
    numbers=''
    for _ in $(seq "${FAULTS:-1}"); do
      draw
      numbers="$numbers $((1 + seed / 65536 % calls))"
    done
  fi
  for n in $numbers; do
    done_calls=$((done_calls + 1)) total=$((total + 1))
    trial "$1" "$2" "$3" "$n" "$4"
    [ -z "$bad" ] || { failed=$((failed + 1)); echo "# $name, call $n of $calls: $bad"; }
  done
  check "$name: $done_calls of $calls" test $failed = 0
}
all_calls='open:ENOSPC open:EINTR opendir:EIO read:EIO read:EINTR readdir:EIO write:ENOSPC write:EINTR write:short write:slow:on fsync:EIO fsync:EINTR fsync:slow:on
  ftruncate:EIO close:EIO rename:ENOSPC link:EIO unlink:EIO mkdir:ENOSPC flock:ENOLCK mmap:ENOMEM malloc:ENOMEM library:ENOMEM write:ENOSPC:on fsync:EIO:on'
on_ranks='open:EIO read:EIO write:ENOSPC write:EIO:on fsync:EIO rename:EIO malloc:ENOMEM'
for command in ${FAULTS_OF:-train resume ranks import tokenize convert report}; do
  if [ $command = ranks ] && ! [ -x "${MPIEXEC-}" ]; then
    skip 'two ranks: no mpiexec'
    continue
  fi
  kinds=$all_calls
  [ $command != ranks ] || kinds=$on_ranks
  for fault in ${FAULTS_CALLS:-$kinds}; do
    how=${fault#*:} on=''
    case $how in *:on) how=${how%:on} on=on ;; esac
    series $command "${fault%%:*}" "$how" "$on"
  done
done
# Another start may make fewer calls than the one that was counted.
check "$planted of $total calls went wrong" test "$planted" -gt 0 -a $((10 * planted)) -ge $((9 * total))
finish
