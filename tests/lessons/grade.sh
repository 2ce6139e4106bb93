#!/bin/sh
# starling grade: right and wrong submissions of lessons 7 and 8; then, in a small lesson that is quickly built,
# submissions that cheat (none passes) and vandals (none harms another's row, the lesson or the machine).
. "$(dirname "$0")/../support/command.shlib"
if grep -q __asan_init "$starling"; then echo '1..0 # SKIP the address space of a sanitizer is without limits'; exit 0; fi
command -v pkg-config >/dev/null || { echo '1..0 # SKIP no pkg-config'; exit 0; }
examples=$top/examples

# Rows of table.csv: name, built, passed, points, of, exit code, pattern of the failure.
row() {
  check "$1: built $2, passed $3, $4 of $5 points, exit $6, $7" \
    grep -qE "^\"$1\",$2,$3,$4,$5,$6,[0-9.]+,[0-9]+,\"$7\"\$" table.csv
}
show() { cat table.csv >>"$work/out"; }

# ---- lessons 7 and 8: among the wrong ones those that a check of norms, of one tile or of time lets pass -------------
lesson=$examples/07-own-operation file=operation.c all=$work/seven
hand_in() { mkdir -p "$all/$1" && cp "$lesson/$file" "$all/$1/"; } # name
change() { # name, sed script
  hand_in "$1"
  sed "$2" "$lesson/$file" >"$all/$1/$file"
  if cmp -s "$lesson/$file" "$all/$1/$file"; then not_ok "$1: the script changes nothing"; fi
}
hand_in right
cp "$lesson/skeleton/$file" "$all/skeleton.c"
change half 's/dx\[i\] = \(.*\);/dx[i] = i % 2 ? 0 : \1;/'
change shifted 's/y\[i\] = \(.*\);/y[i] = \1 + 0.25f;/'
change whole 's/range(c, tile, &from, &to);/from = 0, to = sl_shape_count(\&c->out[0].shape);/'
change one-tile '/void backward_tile/,/^}/s/range(c, tile, &from, &to);/from = 0, to = sl_shape_count(\&c->out[0].shape);/'
change cost 's/cost->flops = 3 .*/cost->flops = 0; (void)c; }/'
change syntax 's/return SL_OK;/return SL_OK/'
change crash 's/y\[i\] = .*/*(volatile float *)0 = 1;/'
mkdir "$all/empty" "$all/link"
ln -s "$lesson/$file" "$all/link/$file"
echo 'not one' >"$all/notes.txt"
hand_in 'müller' # in UTF-8, and in Latin-1 with an escape sequence
hand_in "$(printf 'm\374ller\033[31m')"
ln -s right "$all/linked"
ln -s "$lesson/$file" "$all/linked.c"
mkfifo "$all/pipe"
mkdir crowd
(cd crowd && seq 4097 | xargs touch)
expect 'a folder with more submissions than grade takes' 2 'crowd has more than 4096 entries: divide them' grade 7 crowd
run grade 7 "$all" --quiet --out table.csv
protected=yes unprotected=''
if grep -q 'submissions cannot be shut in a sandbox here' "$work/err"; then # and so it must say
  protected=no unprotected=--unprotected
  check 'without a sandbox grade refuses, and names the remedies' grep -q 'apt-get install bubblewrap.*--unprotected' "$work/err"
  run grade 7 "$all" --quiet --out table.csv --unprotected
fi
check 'lesson 7: all submissions are graded' test "$code" = 0
show
row right yes yes 6 6 0 ''
row skeleton.c yes no 0 6 0 'wrong: there is no gradient.*; wrong: the values .*; wrong: the cost .*; wrong: the network does not learn.*'
number_is='is -?[0-9.]+e[-+][0-9]+ but should be -?[0-9.]+e[-+][0-9]+'
row half yes no 3 6 0 "wrong: the gradient is not softsign's: element [0-9]+: x = .*, dy = .*; dx $number_is; wrong: no point for the tiles, because the gradient is wrong; wrong: the network .*"
row shifted yes no 1 6 0 "wrong: the gradient .*; wrong: the values are not softsign's: element [0-9]+: x = .*; y $number_is; wrong: no point for equal bytes.*; wrong: no point for the tiles.*; wrong: the network .*: its loss is [0-9.]+, then [0-9.]+, but should be .*"
row whole yes no 5 6 0 "wrong: a kernel computes elements outside its tile"
row one-tile yes no 5 6 0 "wrong: a kernel computes elements outside its tile"
row cost yes no 5 6 0 'wrong: the cost is 0.0 FLOPs an element but should be 1 to 20'
row syntax no no 0 6 2 "operation.c:[0-9:]+ error: expected '[;,].*"
row crash yes no 0 6 139 'signal 11 .*'
row empty no no 0 6 0 'there is no file operation.c'
row link no no 0 6 0 'there is no file operation.c'
row 'müller' yes yes 6 6 0 ''
row 'm[?]ller[?]\[31m' yes yes 6 6 0 ''
row linked no no 0 6 0 'not graded: a symbolic link'
row 'linked\.c' no no 0 6 0 'not graded: a symbolic link'
row pipe no no 0 6 0 'not graded: a named pipe'
check 'lesson 7: the table has a head and a line for each' test "$(wc -l <table.csv)" = 17

lesson=$examples/08-own-policy file=policy.c all=$work/eight
hand_in right
hand_in skeleton && cp "$lesson/skeleton/$file" "$all/skeleton/"
change lowest 's/priority >= task->priority/priority <= task->priority/'
# Its own "eager" no longer slows down what it is compared with.
change eager 's/(\*at)->priority >= task->priority/1/; s/"own"/"eager"/'
run grade 08-own-policy "$all" --quiet --out table.csv $unprotected
check 'lesson 8: all submissions are graded' test "$code" = 0
show
row right yes yes 4 4 0 ''
row skeleton yes no 0 4 1 'wrong: tasks were never given to a worker; .*'
row lowest yes no 3 4 0 'wrong: a task was taken while one with a longer path was ready'
row eager yes no 3 4 0 'wrong: a task was taken while one with a longer path was ready'

# ---- a small lesson: square(x) ---------------------------------------------------------------------------------------
lesson=$work/lessons/01-square file=square.c all=$work/many
mkdir -p "$lesson/skeleton" "$all"
printf 'int square(int x) { return x * x; } /* SOLUTION */\n' >"$lesson/$file"
printf 'int square(int x) { return x; }\n' >"$lesson/skeleton/$file"
printf 'ask: ask.c square.c\n\t$(CC) -O1 ask.c square.c -o $@\njudge: judge.c\n\t$(CC) judge.c -o $@\n' >"$lesson/Makefile"
mv "$lesson" "$work/lessons/01-ask" && lesson=$work/lessons/01-ask
cat >"$lesson/ask.c" <<'END'
#include <stdio.h>
int square(int x);
int main(void) {
  int q[17];
  if (fread(q, sizeof q, 1, stdin) != 1) return 2;
  for (int i = 1; i < 17; i++) q[i] = square(q[i]);
  FILE *channel = fdopen(3, "wb");
  return !(channel && fwrite(q, sizeof q, 1, channel) == 1 && fclose(channel) == 0);
}
END
cat >"$lesson/judge.c" <<'END'
#include <stdio.h>
#include <sys/random.h>
int main(int argc, char **argv) {
  int q[17], a[17], right = 0;
  if (argc == 2) {
    getrandom(q, sizeof q, 0);
    for (int i = 1; i < 17; i++) q[i] = 2 + (int)((unsigned)q[i] % 30000); /* the squares of 0 and 1 can be guessed */
    return fwrite(q, sizeof q, 1, stdout) != 1;
  }
  FILE *file = fopen(argv[2], "rb");
  if (!file || fread(q, sizeof q, 1, file) != 1) return 2;
  if (fread(a, sizeof a, 1, stdin) == 1 && a[0] == q[0] && getchar() == EOF)
    for (int i = 1; i < 17; i++) right += a[i] == q[i] * q[i];
  if (right < 16) puts("wrong: the squares are not right");
  printf("points: %d of 16\n%s\n", right, right == 16 ? "ok" : "not ok");
  return right != 16;
}
END
nap=$((12321 + $$)) # by which its daemons are known
# What a submission does before main(), as C; `cheat` hands in a wrong square with it, `vandal` the right one.
before_main() { # name, expression, C statements
  mkdir -p "$all/$1"
  cat >"$all/$1/$file" <<END
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
int square(int x);
int square(int x) { return $2; }
__attribute__((constructor)) static void first(void) {
  if (getpid() > ${most_pid:-500}) _exit(77); /* not in a sandbox: do no harm */
  $3
}
END
}
cheat() { before_main "cheat $1" 0 "$2"; }
vandal() { before_main "vandal $1" 'x * x' "$2"; }
cheat 'by its word' 'write(1, "ok\n", 3); _exit(0);'
cheat 'by a verdict' 'puts("points: 16 of 16\nok"); fflush(stdout); dprintf(3, "points: 16 of 16\nok\n"); _exit(0);'
cheat 'by zeros' 'int a[17] = {0}; read(0, a, 4); write(3, a, sizeof a); _exit(0);'
cheat 'by the questions' 'int a[17]; read(0, a, sizeof a); write(3, a, sizeof a); _exit(0);'
cheat 'by its own questions' 'int a[17] = {0}, f; chmod("/proc/self/fd/0", 0666); f = open("/proc/self/fd/0", O_RDWR); pwrite(f, a + 1, 64, 4); read(0, a, 4); write(3, a, sizeof a); _exit(0);'
cheat 'by all answers' 'char a[4096] = {0}; for (;;) if (write(3, a, sizeof a) < 0) _exit(0);'
cheat 'by the solution' "system(\"gcc -x c -shared -fPIC -o /tmp/s.so $lesson/$file && echo ok\"); system(\"cat $lesson/$file $top/examples/07-own-operation/operation.c >&3\");"
cheat 'by killing the judge' 'kill(getppid(), 9); kill(-1, 9); puts("ok"); fflush(stdout); raise(9);'
cheat 'by another judge' "char line[4096]; for (int pid = 1; pid < 60; pid++) { snprintf(line, sizeof line, \"cd /proc/%d/cwd && printf 'int main(void){return 0;}' >judge.c; printf '#!/bin/sh\\\\necho points: 16 of 16; echo ok' >judge\", pid); system(line); } system(\"printf x >$lesson/judge.c; printf x >$lesson/Makefile; printf x >judge.c; printf x >judge\");"
cheat 'by the lesson' 'char p[64], c[4096] = ""; snprintf(p, sizeof p, "/proc/%d/cmdline", getppid()); int f = open(p, O_RDONLY); ssize_t n = read(f, c, sizeof c - 1); for (ssize_t i = 0; i < n; i += strlen(c + i) + 1) { strcat(strcpy(p, ""), ""); int o = openat(AT_FDCWD, c + i, O_DIRECTORY); if (o >= 0) { int w = openat(o, "square.c", O_WRONLY | O_TRUNC); write(w, "int square(int x) { return 1; }", 31); close(w); } }'
cheat 'by its children' 'if (fork() == 0) { setsid(); for (int i = 0; i < 200; i++) { write(3, "ok\n", 3); usleep(1000); } _exit(0); } _exit(0);'
mkdir "$all/cheat by inclusion" "$all/cheat by its Makefile"
printf '#include "%s"\n' "$lesson/$file" >"$all/cheat by inclusion/$file"
printf 'int square(int x) { return 0; }\n' >"$all/cheat by its Makefile/$file"
printf 'int main(void) { return 0; }\n' | tee "$all/cheat by its Makefile/judge.c" >"$all/cheat by its Makefile/ask.c"
printf 'ask judge:\n\techo "echo points: 16 of 16; echo ok" >$@\n\tchmod +x $@\n' >"$all/cheat by its Makefile/Makefile"

vandal 'of parents' 'kill(getppid(), 9); kill(getppid(), 15);'
vandal 'of groups' 'signal(15, SIG_IGN); for (int p = 2; p < 40000; p++) if (p != getpid()) { kill(p, 9); if (p != getpgrp()) kill(-p, 9); }'
vandal 'by depth' 'char n[201] = ""; memset(n, 110, 200); for (int k = 0; k < 2; k++) { int up = open(".", O_RDONLY); if (k && chdir("/tmp") != 0) _exit(9); for (int i = 0; i < 60; i++) { mkdir(n, 0700); if (chdir(n) != 0) break; int f = open("file", O_CREAT | O_WRONLY, 0); close(f); } chmod(".", 0); fchdir(up); }'
# Only where the kernel limits them: else the test would stop the machine.
forks='struct rlimit r; if (getuid() == 0 || getrlimit(RLIMIT_NPROC, &r) != 0 || r.rlim_cur > 10000) _exit(76); for (;;) fork();'
vandal 'by forks' "$forks"
vandal 'by daemons' 'for (int i = 0; i < 3; i++) if (fork() == 0) { setsid(); if (fork() == 0) { execlp("sleep", "sleep", "'"$nap"'", (char *)0); } _exit(0); }'
vandal 'of disks' 'char b[65536], p[64]; memset(b, 1, sizeof b); signal(SIGXFSZ, SIG_IGN); const char *at[] = {"/tmp", ".", "/dev/shm", "/var/tmp", "/"}; for (int d = 0; d < 5; d++) for (int i = 0; i < 100; i++) { snprintf(p, sizeof p, "%s/fill%d", at[d], i); int f = open(p, O_CREAT | O_WRONLY, 0600); long all = 0; while (f >= 0 && write(f, b, sizeof b) > 0 && (all += sizeof b) < 1 << 27) { } if (f < 0 || all < 65536) break; if (d != 0 && d != 2) _exit(9); if (i > 2) _exit(8); }'
vandal 'by sockets' 'struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(53)}; inet_aton("8.8.8.8", &a.sin_addr); int s = socket(AF_INET, SOCK_DGRAM, 0); if (s >= 0 && connect(s, (struct sockaddr *)&a, sizeof a) == 0) _exit(9); char t[4096] = ""; int f = open("/proc/net/dev", O_RDONLY); read(f, t, sizeof t - 1); for (char *l = strtok(t, "\n"); l; l = strtok(NULL, "\n")) if (strchr(l, 58) && !strstr(l, "lo:")) _exit(8);'
vandal 'by ptrace' 'for (int p = 1; p < 1000; p++) if (p != getpid() && ptrace(PTRACE_SEIZE, p, 0, 0) == 0) ptrace(PTRACE_INTERRUPT, p, 0, 0);'
vandal 'of files' "system(\"rm -rf $work/many $work/lessons $work/canary $work/table.csv ${TMPDIR:-/tmp}/grade.* /tmp/grade.*\"); system(\"chmod 0 / /tmp . .. $work; rm -rf ./*\");"
vandal 'by output' 'for (;;) { puts("ok"); }'
vandal 'by errors' 'char b[65536]; memset(b, 46, sizeof b); for (int i = 0; i < 4000; i++) write(2, b, sizeof b);'
vandal 'by memory' 'for (;;) memset(malloc(1 << 20), 1, 1 << 20);'
vandal 'by space' 'volatile char *p = malloc((size_t)1 << 46); *p = 1;'
vandal 'by looping' 'for (;;) { }'
vandal 'by sleeping' 'signal(SIGTERM, SIG_IGN); setsid(); for (;;) sleep(1);'
vandal 'by churning' 'for (;;) if (fork() == 0) _exit(0); else wait(NULL);'
vandal 'of secrets' 'if (getenv("TEACHER")) _exit(9); if (open("/etc/shadow", O_RDONLY) >= 0) _exit(8); extern char **environ; for (char **e = environ; *e; e++) puts(*e); if (getuid() == 0 && open("/etc/hostname", O_RDONLY) >= 0) _exit(7);'
for name in '=HYPERLINK("a")' '@SUM(1)' '+1' '-1' 'right, with a "comma"' 'zz-right'; do before_main "$name" 'x * x' ''; done
cp "$lesson/$file" "$all/one-file.c"
before_main 'early' 0 'puts("early"); fflush(stdout); _exit(3);'
mkdir "$all/formula"
printf '#error =HYPERLINK("a")\n' >"$all/formula/$file"

echo canary >canary
state() { (cd "$work" && find lessons many canary -type f -exec cksum {} + | sort); }
state >"$work/before"
TEACHER=secret-of-the-teacher
export TEACHER
seconds=3
if [ $protected = yes ]; then
  run grade "$lesson" "$all" --timeout $seconds --memory 512 --out table.csv
  check 'cheats and vandals: all submissions are graded' test "$code" = 0
  show
  n=0
  for folder in "$all"/cheat* "$all"/vandal*; do
    name=$(basename "$folder") n=$((n + 1))
    check "$name has its row, which is no cheat's success" \
      grep -qE "^\"$name\",(yes,(no|$(case $name in vandal*) echo yes ;; *) echo no ;; esac))|no,no)," table.csv
  done
  check 'there are thirteen cheats and seventeen vandals' test $n = 30
  check 'no cheat passes, or gets a point for something it did not compute' test "$(grep -cE '^"cheat [^"]*",(yes|no),no,0,16,' table.csv)" = 13
  check 'cheats and vandals: the table has a head and a line for each' test "$(wc -l <table.csv)" = 40
  state >"$work/after"
  check 'lesson, submissions and other files are unchanged' cmp "$work/before" "$work/after"
  row 'vandal of parents' yes yes 16 16 0 ''
  row 'vandal by depth' yes yes 16 16 0 ''
  row 'vandal of disks' yes yes 16 16 0 ''
  row 'vandal by sockets' yes yes 16 16 0 ''
  row 'vandal of secrets' yes yes 16 16 0 ''
  row 'vandal by daemons' yes yes 16 16 0 ''
  row 'vandal by memory' yes no 0 16 137 'used more than 512 MB of memory'
  row 'vandal by space' yes no 0 16 139 'signal 11 .*'
  for name in output looping sleeping churning; do row "vandal by $name" yes no 0 16 137 "did not end within $seconds s"; done
  check 'a fork bomb is ended' grep -qE '^"vandal by forks",yes,no,0,16,137,' table.csv
  check "the teacher's environment and the system's secrets stay out of the table" eval '! grep -qE "secret-of|root:|PATH=" table.csv'
  row '.=HYPERLINK\(""a""\)' yes yes 16 16 0 ''
  check 'no field of the table is a formula' eval '! grep -qE "(^|,)\"[=+@-]" table.csv'
  check 'texts that look like formulas are marked as text' test "$(grep -cE "^\"'[=@+-]" table.csv)" = 4
  row formula no no 0 16 2 'square.c:1:2: error: #error =HYPERLINK.*'
  row 'right, with a ""comma""' yes yes 16 16 0 ''
  row 'one-file.c' yes yes 16 16 0 ''
  row early yes no 0 16 3 'wrong: the squares are not right'
  row zz-right yes yes 16 16 0 ''
  took() { awk -F, -v name="\"$1\"" '$1 == name { print $7 }' table.csv; }
  check 'an endless loop is ended in time' awk -v s="$(took 'vandal by looping')" -v t=$seconds 'BEGIN { exit !(s >= t && s < 20 * t + 60) }'
  check 'a memory leak is reported' awk -F, '$1 == "\"vandal by memory\"" { exit !($8 >= 512 && $8 < 8192) }' table.csv
else
  skip 'cheats and vandals: no sandbox here'
fi
if [ "$(id -u)" = 0 ] && [ -z "$unprotected" ]; then
  # A temporary folder that other accounts cannot reach: the submission still is not root, whom nothing limits.
  mkdir -m 700 closed
  mkdir bombs
  all=$work/bombs
  vandal 'by forks' "$forks"
  TMPDIR=$work/closed "$starling" grade "$lesson" "$all" --timeout $seconds --quiet >table.csv 2>"$work/err" </dev/null
  check 'with a closed TMPDIR a fork bomb is ended, too' grep -qE '^"vandal by forks",yes,no,0,16,137,' table.csv
  all=$work/many
else
  skip 'a closed TMPDIR: not root'
fi
left() { ! ps -eo args 2>/dev/null | grep -qx "sleep $nap"; }
check 'daemons do not outlive their submission' left

# ---- without a sandbox: limits are what is left ----------------------------------------------------------------------
mkdir bin few
for tool in pkg-config make sh cc gcc as ld prlimit; do ln -s "$(command -v $tool)" bin/; done 2>/dev/null
all=$work/few most_pid=99999999
before_main right 'x * x' ''
before_main zz-right 'x * x' ''
before_main deep 'x * x' 'char n[201] = ""; memset(n, 110, 200); for (int i = 0; i < 60; i++) { if (mkdir(n, 0700) != 0 || chdir(n) != 0) _exit(9); close(open("file", O_CREAT | O_WRONLY, 0)); } chmod(".", 0);'
before_main loop 'x * x' 'for (;;) { }'
before_main word 0 'write(1, "ok\n", 3); _exit(0);'
before_main environment 'x * x' 'if (getenv("TEACHER")) _exit(9);'
path=$PATH PATH=$work/bin
"$starling" grade "$lesson" "$all" --quiet >"$work/out" 2>"$work/err" </dev/null
code=$?
PATH=$path
check 'without bubblewrap grade refuses' test $code = 1
check 'it names the remedies' grep -q 'apt-get install bubblewrap.*--unprotected' "$work/err"
PATH=$work/bin
"$starling" grade "$lesson" "$all" --unprotected --timeout 2 >table.csv 2>"$work/err" </dev/null
code=$?
PATH=$path
check 'with --unprotected it continues, and warns' grep -q 'run without a sandbox' "$work/err"
check 'all submissions are graded without a sandbox' test $code = 0
show
row deep yes yes 16 16 0 ''
row loop yes no 0 16 137 'did not end within 2 s'
row word yes no 0 16 0 'wrong: the squares are not right'
row environment yes yes 16 16 0 ''
row right yes yes 16 16 0 ''
row zz-right yes yes 16 16 0 ''
nothing_left() { ! ls -d "${TMPDIR:-/tmp}"/grade.?????? >/dev/null 2>&1; }
check 'no temporary folder is left' nothing_left

# ---- the command -----------------------------------------------------------------------------------------------------
mkdir one
cp "$lesson/$file" one/me.c
expect 'the table on standard output' 0 '^"me.c",yes,yes,16,16,0,' grade "$lesson" one --quiet $unprotected
expect 'grade --json' 0 '"passed": true' grade "$lesson/" one --json --quiet $unprotected
check_json 'grade --json is JSON' out
expect 'an unknown lesson' 2 "no lesson '99-none'" grade 99-none one
expect 'a lesson without a skeleton' 2 '03-graph cannot be graded' grade 03-graph one
mkdir none
expect 'a folder without submissions' 2 'none has no submissions' grade "$lesson" none $unprotected
expect 'a missing folder' 1 'nowhere' grade "$lesson" nowhere $unprotected
expect 'a table file that cannot be written' 1 'nowhere/table.csv' grade "$lesson" one --out nowhere/table.csv $unprotected

# ---- hand-outs -------------------------------------------------------------------------------------------------------
# Links of a page that lead nowhere, and places of other pages that are not there.
dead_links() { # page
  awk '/^ *```/ { code = !code } code { next }
    { gsub(/`[^`]*`/, ""); while (match($0, /\]\([^) #]+/)) { print substr($0, RSTART + 2, RLENGTH - 2); $0 = substr($0, RSTART + RLENGTH) } }' "$1" |
    while read -r target; do case $target in *://*) ;; *) [ -e "$(dirname "$1")/$target" ] || echo "a link to $target" ;; esac; done
  grep -oE '`/[^`]*[.]md`' "$1" | tr -d '`' | while read -r place; do [ -e "$place" ] || echo "the place $place"; done
  grep -oE '(^|[^/a-z])docs/[^ ]*[.]md' "$1"
}
# Whether a hand-out has all that its lesson has: the skeleton's files in place of the solution's, and what `make run`
# needs. Programs that somebody built among the sources do not count.
complete() { # lesson's folder, hand-out
  for of_lesson in "$1"/*; do
    if [ ! -f "$of_lesson" ] || head -c 4 "$of_lesson" | grep -q ELF; then continue; fi
    of_student=$2/${of_lesson##*/}
    if [ -e "$1/skeleton/${of_lesson##*/}" ]; then of_lesson=$1/skeleton/${of_lesson##*/}; fi
    [ "${of_lesson##*/}" = Makefile ] || cmp "$of_lesson" "$of_student" || return 1
  done
  if grep -q DATA "$2/Makefile" && [ ! -e "$2/data/train-images-idx3-ubyte" ]; then return 1; fi
  env -u PKG_CONFIG_PATH -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -n -C "$2" run
}
make_set pictures 4 4 2 2
mkdir simulated
printf '#!/bin/sh\n' >simulated/starling-sim
chmod +x simulated/starling-sim # lessons 12 and 13 are handed out where they can run
for lesson in "$examples"/[0-9][0-9]-*; do
  about=${lesson##*/} handed_out=$((${handed_out:-0} + 1))
  of=$((1${about%%-*} - 100)) # "7"
  export SIMULATED="$work/simulated"
  expect "lesson $about: a folder for a student" 0 'begin with README.md' lesson $of hand-out/$of --data pictures
  unset SIMULATED
  check "lesson $about: a page without dead links" test -s hand-out/$of/README.md -a -z "$(dead_links hand-out/$of/README.md 2>&1 | tee -a "$work/err")"
  check "lesson $about: the folder is complete" complete "$lesson" hand-out/$of
done
check 'hand-outs of all lessons' test "$handed_out" -ge 15
expect 'lesson 08-own-policy: a lesson by its name' 0 'begin with README.md' lesson 08-own-policy hand-out/08-own-policy
expect 'starling lesson --json' 0 '"complete": \[' lesson 7 hand-out/json --data pictures --json
check_json 'starling lesson --json is JSON' out
check 'it has the file to hand in' grep -q '"operation.c"' out
check 'it says whether there are images' test "$(field images out)" = "$(if [ -e hand-out/json/data ]; then echo true; else echo false; fi)"
run_faults() { MPIEXEC=none env -u PKG_CONFIG_PATH -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u STARLING make -C hand-out/10 run; }
! run_faults >"$work/out" 2>"$work/err"
check 'lesson 10: the folder finds Starling' grep -q '^no none: set MPIEXEC' "$work/out"
expect 'lesson --help says what --data does' 0 '^ +--data=.* copied into DIR/data' lesson --help
check 'and nothing of other commands' eval '! grep -q "language models" "$work/out"'
check 'starling lesson: the folder has the skeleton' cmp "$examples/07-own-operation/skeleton/operation.c" hand-out/7/operation.c
check 'starling lesson: the folder has no solution' eval '! grep -rqF "fabsf(y[i])" hand-out && ! grep -rqE "priority (>=|<=|>|<) " hand-out/08-own-policy/policy.c hand-out/08-own-policy/README.md'
check 'starling lesson: the folder has no path into the sources' eval '! grep -rqE "[.][.]/[.][.]/build|examples/[01]" hand-out'
expect 'starling lesson: a folder with files is refused' 1 'hand-out/7 is not empty' lesson 7 hand-out/7
expect 'starling lesson: a folder without images' 1 'has no IDX files' lesson 2 hand-out/none --data one
check 'and nothing is left of it' test -z "$(ls hand-out/none)"
alone() { env -u PKG_CONFIG_PATH -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -C "$1" run; }
! alone hand-out/7 >"$work/out" 2>"$work/err"
check 'the folder alone builds and judges the lesson' grep -q '^points: 0 of 6' "$work/out"
cp "$examples/07-own-operation/operation.c" hand-out/7/
check 'with the solution it says ok' alone hand-out/7
finish
