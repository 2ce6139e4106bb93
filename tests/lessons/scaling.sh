#!/bin/sh
# Lesson 13: the hand-out, and its judge's verdicts on predictions: the solution passes; predictions that forget the
# undivided part or the network, or count bytes or nodes wrong, fail, as do answers to other questions and programs that
# print a verdict or try to simulate.
number_of=13 file=scaling.c
. "$(dirname "$0")/simulated.shlib"
check 'it has no solution' eval '! grep -rqE "two_ms - j|log2" hand-out'
! alone run >out 2>err
check 'it builds and is judged alone' grep -q '^points: 0 of 5' out
for what in 'not what each node does whole' 'on a network that takes no time' 'strong scaling' 'weak scaling' 'not the most'; do
  check "the judge says what is wrong: $what" grep -q "^wrong: .*$what" out
done
cp "$lesson/scaling.c" hand-out/
check 'the solution passes there' alone run
! (cd hand-out && { echo 0000000000000000; sed 1d answers; } | ./judge verdict questions) >out 2>err
check 'an answer to another question counts nothing' grep -qx 'points: 0 of 5' out

# Submissions, each a change of the solution.
change() { mkdir -p "subs/$1" && sed "$2" "$lesson/scaling.c" >"subs/$1/scaling.c" && ! cmp -s "subs/$1/scaling.c" "$lesson/scaling.c"; }
check 'changes of the solution' eval '
change all-divided "s/return 2 \* j->two_ms - j->one_ms;/return 0 * j->one_ms;/" &&
change no-network "s/return 1e-3 \* messages.*/return 0 * messages * sent;/" &&
change twice-the-bytes "s/2 \* (1 - 1.0 \/ n)/4 * (1 - 1.0 \/ n)/" &&
change all-nodes "s/most = n;/most = 3 * n;/" &&
change simulates "s|return 2 \* j->two_ms - j->one_ms;|return seen(\"$sim\") + seen(\"$starling\") > 0 ? 2 * j->two_ms - j->one_ms : 0;|; s|#include <math.h>|&\n#include <stdio.h>\nstatic int seen(const char *p) { FILE *f = fopen(p, \"rb\"); return f \&\& fgetc(f) == 0x7f; }|" &&
change prints "s|return 2 \* j->two_ms - j->one_ms;|puts(\"points: 5 of 5\\\\nok\"); fflush(stdout); _exit(0);|; s|#include <math.h>|&\n#include <stdio.h>\n#include <unistd.h>|"'
grade_all
row solution yes,yes,5,5,0
row all-divided yes,no,[0-3],5,0
row no-network yes,no,[0-3],5,0
row twice-the-bytes yes,no,[0-4],5,0
row all-nodes yes,no,4,5,0
row prints yes,no,0,5,0
if [ $protected = yes ]; then row simulates yes,no,[0-3],5,0; else skip 'grade: simulates: no sandbox here'; fi
finish
