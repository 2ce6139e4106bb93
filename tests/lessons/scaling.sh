#!/bin/sh
# Lesson 13: hand-out, and what its judge thinks of predictions: the solution passes; predictions that forget the
# undivided part, the network, its latency or its bandwidth fail, as do programs that answer another question, print a
# verdict or would simulate.
. "$(dirname "$0")/../support/command.shlib"
lesson=$top/examples/13-scaling
PKG_CONFIG_PATH=$(dirname "$starling")${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH
unset STARLING_SIM
SIMULATED=$work/nowhere
export SIMULATED
expect 'without starling-sim lesson says how to build it' 1 "starling-sim is not built: './quickstart simulate'" lesson 13 hand-out
unset SIMULATED
sim=$(dirname "$starling")/../build-simulated/starling-sim
if [ ! -x "$sim" ]; then
  skip "the lesson: no $sim"
  finish
fi
sim=$(cd "$(dirname "$sim")" && pwd -P)/starling-sim
starling=$(cd "$(dirname "$starling")" && pwd -P)/starling

expect 'the hand-out' 0 'complete and hand in hand-out/scaling.c' lesson 13 hand-out
check 'it has the skeleton' cmp "$lesson/skeleton/scaling.c" hand-out/scaling.c
check 'it has no solution' eval '! grep -rqE "two_ms - j|log2" hand-out'
alone() { env -u PKG_CONFIG_PATH -u MAKEFLAGS -u MFLAGS -u MAKELEVEL ${TIMEOUT:+"$TIMEOUT" -k 10 600} make -C hand-out "$@"; }
! alone run >out 2>err
check 'it builds and is judged alone' grep -q '^points: 0 of 5' out
for what in 'not what each node does whole' 'on a network that takes no time' 'strong scaling' 'weak scaling' 'not the most'; do
  check "the judge says what is wrong: $what" grep -q "^wrong: .*$what" out
done
cp "$lesson/scaling.c" hand-out/
check 'the solution passes there' alone run

# Submissions, each a change of the solution.
change() { mkdir -p "subs/$1" && sed "$2" "$lesson/scaling.c" >"subs/$1/scaling.c" && ! cmp -s "subs/$1/scaling.c" "$lesson/scaling.c"; }
mkdir -p subs/solution && cp "$lesson/scaling.c" subs/solution/
check 'changes of the solution' eval '
change all-divided "s/return 2 \* j->two_ms - j->one_ms;/return 0 * j->one_ms;/" &&
change no-network "s/return 1e-3 \* messages.*/return 0 * messages * sent;/" &&
change twice-the-bytes "s/2 \* (1 - 1.0 \/ n)/4 * (1 - 1.0 \/ n)/" &&
change all-nodes "s/most = n;/most = 3 * n;/" &&
change simulates "s|return 2 \* j->two_ms - j->one_ms;|return seen(\"$sim\") + seen(\"$starling\") > 0 ? 2 * j->two_ms - j->one_ms : 0;|; s|#include <math.h>|&\n#include <stdio.h>\nstatic int seen(const char *p) { FILE *f = fopen(p, \"rb\"); return f \&\& fgetc(f) == 0x7f; }|" &&
change prints "s|return 2 \* j->two_ms - j->one_ms;|puts(\"points: 5 of 5\\\\nok\"); fflush(stdout); _exit(0);|; s|#include <math.h>|&\n#include <stdio.h>\n#include <unistd.h>|"'
protected=yes
"$starling" grade 13 subs --quiet >table.csv 2>"$work/err" </dev/null || protected=no
if [ $protected = no ] && grep -q 'cannot be shut in a sandbox' "$work/err"; then
  "$starling" grade 13 subs --quiet --unprotected >table.csv 2>"$work/err" </dev/null
fi
cp table.csv out
row() { check "grade: $1" grep -qE "^\"$1\",$2," table.csv; }
row solution yes,yes,5,5,0
row all-divided yes,no,[0-3],5,0
row no-network yes,no,[0-3],5,0
row twice-the-bytes yes,no,[0-4],5,0
row all-nodes yes,no,4,5,0
row prints yes,no,0,5,0
if [ $protected = yes ]; then row simulates yes,no,[0-3],5,0; else skip 'grade: simulates: no sandbox here'; fi
finish
