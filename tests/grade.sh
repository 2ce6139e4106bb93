#!/bin/sh
# starling grade: right and wrong submissions, and some that try to stop the grading: endless loops, fork bombs,
# leaks, floods of output.
. "$(dirname "$0")/support/command.shlib"
if grep -q __asan_init "$starling"; then echo '1..0 # SKIP the address space of a sanitizer is without limits'; exit 0; fi
command -v pkg-config >/dev/null || { echo '1..0 # SKIP no pkg-config'; exit 0; }
lesson=$top/examples/07-own-operation
all=$work/all
mkdir "$all"
hand_in() { mkdir "$all/$1" && cp "$lesson/operation.c" "$all/$1/"; } # name
change() { sed "$2" "$lesson/operation.c" >"$all/$1/operation.c" && ! cmp -s "$lesson/operation.c" "$all/$1/operation.c"; } # name, sed script
# What runs before main(), as C; the rest is right. A submission must not need to be called to do harm.
harm() { # name, C statements
  hand_in "$1"
  printf '\n#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n__attribute__((constructor)) static void harm(void) { %s }\n' "$2" >>"$all/$1/operation.c"
}
hand_in right
hand_in 'right, with a "comma"'
cp "$lesson/skeleton/operation.c" "$all/skeleton.c"
hand_in gradient && change gradient 's/dx\[i\] = .*/dx[i] = dy[i];/'
hand_in value && change value 's/y\[i\] = .*/y[i] = x[i] \/ (1.01f + fabsf(x[i]));/'
hand_in cost && change cost 's/cost->flops = 3 .*/cost->flops = 0; (void)c; }/'
hand_in syntax && change syntax 's/return SL_OK;/return SL_OK/'
hand_in crash && change crash 's/y\[i\] = .*/*(volatile float *)0 = 1;/'
mkdir "$all/nothing"
echo 'static int unused __attribute__((unused));' >"$all/nothing/operation.c"
mkdir "$all/empty" "$all/link"
ln -s "$lesson/operation.c" "$all/link/operation.c"
hand_in check && change check 's/dx\[i\] = .*/dx[i] = dy[i];/'
printf '#include <stdio.h>\nint main(void) { puts("ok"); return 0; }\n' >"$all/check/own-operation.c"
printf 'own-operation:\n\techo "echo ok" >$@\n\tchmod +x $@\n' >"$all/check/Makefile"
harm loop 'for (;;) { }'
harm sleep 'sleep(1000);'
harm leak 'for (;;) memset(malloc(1 << 20), 1, 1 << 20);'
harm huge 'volatile char *p = malloc((size_t)1 << 46); *p = 1;'
harm bomb 'for (int i = 0; i < 11; i++) fork(); sleep(1000);' # of no more than 2048, to spare the machine
harm daemons 'for (int i = 0; i < 3; i++) if (fork() == 0) { setsid(); if (fork() == 0) { execlp("sleep", "sleep", "12321", (char *)0); } _exit(0); }'
harm silent '_exit(0);'
harm flood 'for (;;) puts("ok");'
harm early 'puts("early"); fflush(stdout); _exit(3);'
harm deaf 'signal(SIGTERM, SIG_IGN); signal(SIGINT, SIG_IGN); setsid(); for (;;) sleep(1);'
echo 'not one' >"$all/notes.txt"

seconds=$((5 + 5 * $(pace))) # for each, 10 where nothing else runs
run grade 07-own-operation "$all" --timeout $seconds --memory 512 --out table.csv
check 'it grades them all' test "$code" = 0
cat table.csv >>"$work/out"
# name of a submission, built, passed, exit code, pattern of the failure
row() {
  check "$1: built $2, passed $3, exit $4, $5" grep -qE "^\"$1\",$2,$3,$4,[0-9.]+,[0-9]+,\"$5\"$" table.csv
}
row right yes yes 0 ''
row 'right, with a ""comma""' yes yes 0 ''
row skeleton.c yes no 2 '.*fc1.weight.* has no gradient.*'
row gradient yes no 1 'wrong: the gradient is not the slope of the loss'
row value yes no 1 "wrong: the values are not softsign's"
row cost yes no 1 'wrong: the cost is not that of .*'
row syntax no no 2 "operation.c:[0-9:]+ error: expected '[;,].*"
row nothing no no 2 ".*undefined reference to .softsign'"
row crash yes no 139 'signal 11 .*'
row empty no no 0 'there is no file operation.c'
row link no no 0 'there is no file operation.c'
row check yes no 1 'wrong: the gradient is not .*'
row loop yes no 137 "no end after $seconds s"
row sleep yes no 137 "no end after $seconds s"
row leak yes no 137 'more than 512 MB of memory'
row huge yes no 139 'signal 11 .*'
row bomb yes no 137 'more than 64 processes'
row daemons yes yes 0 ''
row silent yes no 0 'it printed nothing'
row flood yes no 137 "no end after $seconds s"
row early yes no 3 early
row deaf yes no 137 "no end after $seconds s"
check 'a line each, and the head' test "$(wc -l <table.csv)" = 23
took() { awk -F, -v name="\"$1\"" '$1 == name { print $5 }' table.csv; }
check 'a loop ends in time' awk -v s="$(took loop)" -v t=$seconds 'BEGIN { exit !(s >= t && s < 2 * t) }'
peak() { awk -F, -v name="\"$1\"" '$1 == name { print $6 }' table.csv; }
cat table.csv >>"$work/out"
check 'a leak was seen to be one' awk -v m="$(peak leak)" 'BEGIN { exit !(m > 512 && m < 8192) }'
left() { ! ps -eo args 2>/dev/null | grep -qx 'sleep 12321'; }
check 'daemons do not outlive their submission' left
nothing_left() { ! ls -d "${TMPDIR:-/tmp}"/grade.?????? >/dev/null 2>&1; }
check 'no temporary folder stays' nothing_left

mkdir one
cp "$lesson/operation.c" one/me.c
expect 'a table on standard output' 0 '^"me.c",yes,yes,0,' grade "$lesson" one --quiet
expect 'and as JSON' 0 '"passed": true' grade "$lesson/" one --json --quiet
check_json 'that is JSON' out
expect 'an unknown lesson' 2 "no lesson '99-none'" grade 99-none one
expect 'a lesson without a skeleton' 2 '03-graph cannot be graded' grade 03-graph one
mkdir none
expect 'no submissions' 2 'none has no submissions' grade "$lesson" none
expect 'no such folder' 1 'nowhere' grade "$lesson" nowhere
expect 'a table that cannot be written' 1 'nowhere/table.csv' grade "$lesson" one --out nowhere/table.csv
finish
