#!/bin/sh
# Runs every lesson as its reader does: its own Makefile builds it in a copy of its folder against this build, and its
# own check decides. Each lesson has a page and solutions, the page has a figure, and the C code in a page occurs in the
# lesson's program.
# LESSON_SECONDS limits each lesson; tests/figures/lessons.sh allows a minute.
. "$(dirname "$0")/../support/command.shlib"
build=$(dirname "$starling")
data=${DATA:-/usr/share/datasets/fashion-mnist}
PKG_CONFIG_PATH=$build${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH
number_of_lessons=0

# Checks that each block of C in a page occurs in the sources, apart from white space.
quoted() { # page, sources...
  awk 'function plain(s) { gsub(/[ \t\n]+/, " ", s); sub(/^ /, "", s); sub(/ $/, "", s); return s }
    FILENAME != ARGV[1] { source = source $0 "\n"; next }
    /^ *```c$/ { inside = 1; block = ""; next }
    /^ *```$/ && inside { inside = 0; blocks[++n] = plain(block); next }
    inside { block = block $0 "\n" }
    END {
      source = plain(source)
      for (i = 1; i <= n; i++) if (!index(source, blocks[i])) { print "not in the program: " blocks[i]; bad = 1 }
      exit bad || !n
    }' "$@"
}
# Checks that a page has a figure: a picture, or a drawing, which is a block without a language that has arrows or boxes
# in two or more of its lines.
has_figure() { # page
  awk '/!\[[^]]*\]\([^)]*\)/ { found = 1 }
    /^ *```/ { drawing = !code && /^ *```$/; code = !code; lines = 0; next }
    drawing && /--|->|<-|\||\[ |^ *\/ +\\/ { if (++lines == 2) found = 1 }
    END { exit !found }' "$1"
}
printf '# Page\n```sh\nmake | cat\nmake --silent\n```\n```\nstep 1 | loss 2\nok\n```\n' >"$work/none.md"
! has_figure "$work/none.md"
check 'a page without a figure is found' test $? = 0
# name, command...: with "ok" as the last line.
answers() {
  name=$1 code=0
  shift
  began=$(date +%s)
  ( # the time of this shell's children is the lesson's
    if [ "$1" = run_judged ]; then run_judged; else ${TIMEOUT:+"$TIMEOUT" -k 10 1800} "$@"; fi >"$work/out" 2>"$work/err"
    code=$?
    times >"$work/times"
    exit $code
  ) || code=$?
  used=$(awk -F '[ms ]+' 'NR == 2 { printf "%.0f", 60 * ($1 + $3) + $2 + $4 }' "$work/times")
  took=$(($(date +%s) - began))
  if [ "$code" = 0 ] && [ "$(tail -n 1 "$work/out")" = ok ] && [ "$took" -le "${LESSON_SECONDS:-1800}" ]; then
    ok "$name ($took s, $used s of processors)"
  else
    grep -E "NOT SEEN|^wrong: " "$work/out" >>"$work/err" # which the end of the output may not show
    echo "# exit code $code after $took s, $used s of processors" >>"$work/err"
    not_ok "$name"
  fi
}
# CUDA's headers, which a StarPU with CUDA includes, warn of their own functions.
# shellcheck disable=SC2317 # reached by name
build_lesson() { env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -C "$1" CC="$(made_of CC)" CFLAGS="-O3 -g -Wall -Wextra -Werror -Wno-deprecated-declarations $(made_of SANITIZE_CFLAGS)"; }

# shellcheck disable=SC2317 # reached by name
run_judged() { env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s run CC="$(made_of CC)" CFLAGS="-O3 -g -Wall -Wextra -Werror -Wno-deprecated-declarations $(made_of SANITIZE_CFLAGS)"; }

for folder in "$top"/examples/[0-9][0-9]-*; do
  lesson=$(basename "$folder") program=${folder##*/[0-9][0-9]-}
  number_of_lessons=$((number_of_lessons + 1))
  check "$lesson: a page and solutions" test -s "$top/docs/lessons/$lesson.md" -a -s "$top/docs/lessons/solutions/$lesson.md"
  check "$lesson: the page has a figure" has_figure "$top/docs/lessons/$lesson.md"
  # shellcheck disable=SC2046 # names without blanks
  check "$lesson: code in the page is the lesson's" quoted "$top/docs/lessons/$lesson.md" $(find "$folder" -name '*.[ch]' -o -name '*.cu')
  check "$lesson: listed among the lessons" grep -qF "($lesson.md)" "$top/docs/lessons/README.md"
  if [ "$program" = gpu ] && ! "$starling" info --json --no-measure 2>/dev/null | grep -q '"gpus": [1-9]'; then
    skip "$lesson: no GPU; tests/device/lesson.sh runs it in a build for emulated ones"
    continue
  fi
  if grep -q -- --variable=simulated "$folder/Makefile" "$folder"/*.sh 2>/dev/null && [ ! -x "$build/../build-simulated/starling-sim" ]; then
    skip "$lesson: no starling-sim (./quickstart simulate builds it)"
    continue
  fi
  cp -R "$folder" "$work/$lesson"
  check "$lesson: builds" build_lesson "$work/$lesson"
  cd "$work/$lesson" || exit 99
  if [ -e judge.c ]; then
    # shellcheck disable=SC2119
    answers "$lesson" run_judged
  elif [ "$program" = faults ] && [ ! -x "$MPIEXEC" ]; then
    skip "$lesson: no mpiexec"
  elif [ ! -d "$data" ]; then
    skip "$lesson: no Fashion-MNIST (Debian: dataset-fashion-mnist)"
  elif [ "$program" = faults ]; then
    answers "$lesson" env DATA="$data" ./faults
  else
    answers "$lesson" "./$program" "$data"
    cp "$work/out" "$work/$lesson.one"
    case $program in
    train) check "$lesson: the report is of its training" "$starling" report run --out report.html ;;
    ranks|by-hand)
      if [ -x "$MPIEXEC" ]; then
        fingerprint=$(sed -n 's/.*fingerprint //p' "$work/out")
        answers "$lesson: two ranks" "$MPIEXEC" -n 2 "./$program" "$data" $fingerprint
        if [ "$program" = ranks ]; then
          ! "./$program" "$data" 1234 >"$work/out" 2>&1 && grep -q '^wrong: rank 0 has fingerprint' "$work/out" && tail -n 1 "$work/out" | grep -qx 'not ok'
          check "$lesson: another fingerprint is noticed" test $? = 0
        else
          grep '^step' "$work/$lesson.one" >"$work/one"
          grep '^step' "$work/out" >"$work/two"
          check "$lesson: the same losses on two ranks as on one" cmp "$work/one" "$work/two"
        fi
      else
        skip "$lesson: no mpiexec"
      fi ;;
    esac
  fi
  cd "$work" || exit 99
done
check 'lessons were found' test "$number_of_lessons" -ge 8
finish
