#!/bin/sh
# The mutants of tests/figures/mutants/*.list fit the sources: the text that a mutant replaces is in its file exactly
# once. tests/figures/mutants.sh shows that the tests catch the mutants, which takes half an hour.
cd "${top_srcdir:-$(dirname "$0")/../..}" || exit 99
echo 1..2
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
fit() { awk -f tests/support/mutants.awk "$@" >"$work/found" 2>&1; }

if fit tests/figures/mutants/*.list; then echo 'ok 1 - each mutant fits the sources'
else echo 'not ok 1 - each mutant fits the sources'; sed 's/^/# /' "$work/found"; fi

# Each entry but the last is wrong, so this test of the lists can fail.
printf 'one\ntwo, two\n' >"$work/source"
cat >"$work/list" <<END
file $work/source
test tests/sources/mutants.sh
mutant absent
- three
+ four
mutant ambiguous
- two
+ four
mutant unchanged
- one
+ one
test no/test
mutant untested
- one
+ four
file $work/none
test tests/sources/mutants.sh
mutant nowhere
- one
+ four
file $work/source
mutant right
- one
- two,
+ one,
END
cat >"$work/expected" <<END
$work/list:3: $work/source: absent: its text is not there
$work/list:6: $work/source: ambiguous: its text is there more than once
$work/list:9: $work/source: unchanged: changes nothing
$work/list:13: $work/source: untested: there is no no/test.c
$work/list:18: $work/none: nowhere: no such file
END
if ! fit "$work/list" && cmp -s "$work/found" "$work/expected"; then echo 'ok 2 - those that do not fit are named'
else echo 'not ok 2 - those that do not fit are named'; diff "$work/expected" "$work/found" | sed 's/^/# /'; fi
