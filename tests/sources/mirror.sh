#!/bin/sh
# Each C file has a test in its own place, tests/DIR/NAME.c for DIR/NAME.c (operations: tests/DIR/case_NAME.c), or a
# line in tests/sources/mirror.list that names the tests which cover it, or says why there is none. A line of a folder,
# DIR/, holds for each of its files that has neither: its tests go through a list of all of them.
cd "${top_srcdir:-$(dirname "$0")/../..}" || exit 99
echo 1..4
number=0
report() { # NAME, file with the offences
  number=$((number + 1))
  if [ -s "$2" ]; then echo "not ok $number - $1"; sed 's/^/# /' "$2"; else echo "ok $number - $1"; fi
}
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
list=tests/sources/mirror.list

find runtime tasks codelets models tools -name '*.c' | sort >"$work/sources"
sed '/^#/d; /^$/d' "$list" >"$work/lines"
awk '{ print $1 }' "$work/lines" >"$work/listed"
while read -r source; do
  if [ -e "tests/$source" ] || [ -e "tests/${source%/*}/case_${source##*/}" ]; then echo "$source"; fi
done <"$work/sources" >"$work/mirrored"

grep -vxF -f "$work/mirrored" "$work/sources" | grep -vxF -f "$work/listed" |
  awk 'NR == FNR { listed[$1] = 1; next } { folder = $1; sub("[^/]*$", "", folder); if (!(folder in listed)) print }' "$work/listed" - |
  sed "s,.*,& has no test: write tests/& or a line of $list," >"$work/found"
report 'each C file has a test in its place or a line in the list' "$work/found"

{ sed 's,[^/]*$,,' "$work/sources" | sort -u | cat - "$work/sources" | grep -vxF -f - "$work/listed" | sed 's/$/ is no file or folder/'
  grep -xF -f "$work/mirrored" "$work/listed" | sed 's/$/ has a test in its place by now/'
  sort "$work/listed" | uniq -d | sed 's/$/ is listed twice/'; } >"$work/found"
report 'no line of the list is stale' "$work/found"

while read -r source reason; do
  case $reason in
    '') echo "$source: no test and no reason" ;;
    tests/*) for test in $reason; do [ -e "$test" ] || echo "$source: there is no $test"; done ;;
    "none: "?*) ;;
    *) echo "$source: tests/... or 'none: ' and why, not '$reason'" ;;
  esac
done <"$work/lines" >"$work/found"
report 'each line names tests that exist, or says why there is none' "$work/found"

# Each test that is named must be run: a program of TESTS_C or a script of TESTS_SH.
tr -d '\\\t ' <Makefile.am | grep '^tests/' | sort -u >"$work/run"
awk '$2 ~ /^tests\// { for (i = 2; i <= NF; i++) print $i }' "$work/lines" | sort -u | while read -r test; do
  case $test in *.c) name=${test%.c} ;; *) name=$test ;; esac
  grep -qxF -e "$name" -e "$test" "$work/run" || echo "$test is in no list of Makefile.am"
done >"$work/found"
report 'the tests that are named are run' "$work/found"
