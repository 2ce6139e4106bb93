#!/bin/sh
# Lesson 15: the hand-out, and its judge's verdicts on divisions: the solution passes with any seed, on ranks of MPI,
# too; a missing sum, another order of a sum, a message that nobody sends or takes, ranks that have another's part or
# everything, wrong formulas and programs that print a verdict or reach for the answers fail.
number_of=15 file=ways.c
. "$(dirname "$0")/../support/command.shlib"
command -v pkg-config >/dev/null || { echo '1..0 # SKIP no pkg-config'; exit 0; }
lesson=$(echo "$top/examples/$number_of"-*)
PKG_CONFIG_PATH=$(dirname "$starling")${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH
. "$top/tests/lessons/graded.shlib"

# ---- the hand-out ----------------------------------------------------------------------------------------------------
expect 'the hand-out' 0 "complete and hand in hand-out/$file" lesson "$number_of" hand-out
check 'it has the skeleton' cmp "$lesson/skeleton/$file" "hand-out/$file"
check 'it has no solution' eval '! grep -rq "sum_over_ranks" hand-out'
! alone run >out 2>err
check 'it builds and is judged alone' grep -qx 'points: 0 of 14' out
for way in samples tensor layers owner; do
  check "the judge says what is wrong, for each check: by $way" test "$(grep -cE "^wrong: by $way( on|:)" out)" = 3
done
check 'and of the pipeline and the choice' test "$(grep -cE '^wrong: (with [0-9]+ stages|by samples is not the fastest)' out)" = 2
cp "$lesson/$file" hand-out/
check 'the solution passes there' alone run
cp hand-out/answers right
! (cd hand-out && head -c 4000 ../right | ./judge verdict questions) >out 2>err
check 'answers that are cut off count nothing' grep -qx 'points: 0 of 14' out
(cd hand-out && ./judge questions 15 >questions && ./judge questions 15 | cmp - questions && [ "$(./judge questions)" != "$(./judge questions)" ])
check 'a seed gives its questions again; without one they are drawn' test $? = 0
! (cd hand-out && ./judge verdict questions <../right) >out 2>err
check 'an answer to another question counts nothing' grep -qx 'points: 0 of 14' out
with_seed() { (cd hand-out && ./judge questions "$1" >questions && ./mesh <questions 3>answers >/dev/null && ./judge verdict questions <answers); }
passed=0
for seed in 1 2 3 4 5 6 7 8 9 10; do with_seed $seed >>out 2>&1 && passed=$((passed + 1)); done
check 'the solution passes with ten seeds' test $passed = 10

# ---- ranks of MPI ----------------------------------------------------------------------------------------------------
another_order='s|for (int d = from; d < j->ranks; d \*= 2)|for (int d = j->ranks / 2; d >= from; d /= 2)|'
if [ -x "$MPIEXEC" ]; then
  alone mpi MPIEXEC="$MPIEXEC" >out 2>err
  check 'on 2 and 4 ranks of MPI: the bytes of one rank' test "$(grep -cx ok out)" = 2
  sed "$another_order" "$lesson/$file" >"hand-out/$file"
  ! alone mpi MPIEXEC="$MPIEXEC" >out 2>err
  check 'another order of sums is seen on 4 ranks of MPI' test "$(grep -c 'by tensor on 4 ranks of MPI: OTHER BYTES' out)" = 2
else
  skip 'ranks of MPI: no mpiexec'
fi
sed "$another_order" "$lesson/$file" >"hand-out/$file"
alone mesh >out 2>&1
failed=0
for seed in 1 2 3 4 5 6 7 8 9 10; do with_seed $seed >out 2>&1 || failed=$((failed + $(grep -c '^wrong: by .*another order' out))); done
check 'another order of sums is seen with ten seeds, in two ways' test $failed = 20

# ---- submissions, each a change of the solution ----------------------------------------------------------------------
hand_in() { mkdir -p "subs/$1" && sed "$2" "$lesson/$file" >"subs/$1/$file"; } # name, sed script
change() { hand_in "$1" "$2" && if cmp -s "$lesson/$file" "subs/$1/$file"; then not_ok "$1: the script changes nothing"; fi; }
hand_in solution ''
change no-sum '/sum_over_ranks(j, 1, g2, n2);/d'
change another-order "$another_order"
change one-level 's|for (int d = from; d < j->ranks; d \*= 2)|for (int d = from; d < j->ranks \&\& d == from; d *= 2)|'
change no-message 's|send_to(other, dh, passed);|if (m > 0) send_to(other, dh, passed);|'
change never-taken 's|receive_from(other, dh, passed);|if (m > 0 \|\| s + 1 < j->steps) &|'
change another-owner '/^share weights_of(/,/^}/s|return (share){j->rank \* n, n};|return (share){(j->rank + 1) % j->ranks * n, n};|'
change another-gradient 's|send_to(r, g + (size_t)r \* mine.n, mine.n);|send_to(r, g + (size_t)(r ^ 1) * mine.n, mine.n);|'
change gathers-once '/output_gradient(j, rows, y, p->t, y);/{n;/gather/d}'
change no-momentum 's|update(j, weights_of(j).n, sum, p->v, p->w);|memset(p->v, 0, weights_of(j).n * sizeof *p->v), &|'
change constant-formula '/^double sent_by_tensor/,/^}/s|return .*;|return 4096 + 0 * j->ranks;|'
change no-ranks '/^double sent_by_samples/,/^}/s|doublings(j->ranks)|(j->ranks > 1)|'
change no-bubble 's|return (stages - 1.0) / .*;|return (stages - 1.0) / micro_batches;|'
change always-samples '/^int fastest_way/,$s|return best;|return best < 0 ? best : SAMPLES;|'
change crashes '/^void by_owner/,/^}/s|gather(j, p->w, w);|*(volatile double *)0 = 1;|'
change loops '/^void by_tensor/,/^}/s|hidden(j, B, units, p->x, p->w1, h);|for (volatile int i = 0;;) i++;|'
change prints '/^void by_samples/,/^}/s|hidden(.*|puts("points: 14 of 14\\nok"); fflush(stdout); _exit(0);|; s|#include <stdlib.h>|&\n#include <stdio.h>\n#include <unistd.h>|'
change reaches '/^void by_samples/,/^}/s|sum_over_ranks(j, 1, g2, n2);|reach();|; s|^share rows_of(|static void reach(void) {\n  char path[64];\n  snprintf(path, sizeof path, "/proc/%d/fd/3", getppid());\n  if (fopen(path, "r+") \|\| fopen(path, "w")) _exit(99);\n}\n\n&|; s|#include <stdlib.h>|&\n#include <stdio.h>\n#include <unistd.h>|'
# Rank 0 trains with all samples; the others only give it theirs and wait.
hand_in rank-zero 's|^void by_samples|static void samples_apart|'
cat >>"subs/rank-zero/$file" <<'END'
void by_samples(const job *j, part *p) {
  const size_t rows = p->rows, nx = rows * j->inputs, nt = rows * j->outputs;
  const size_t n1 = (size_t)j->hidden * j->inputs, n2 = (size_t)j->hidden * j->outputs;
  double *const results[] = {p->w1, p->v1, p->w2, p->v2};
  const size_t n[] = {n1, n1, n2, n2};
  if (j->rank > 0) {
    send_to(0, p->x, nx), send_to(0, p->t, nt);
    for (int k = 0; k < 4; k++) receive_from(0, results[k], n[k]);
    receive_from(0, p->dx, nx);
    return;
  }
  job one = *j;
  part all = *p;
  one.ranks = 1, all.rows = j->samples;
  all.x = numbers(nx * j->ranks), all.t = numbers(nt * j->ranks), all.dx = numbers(nx * j->ranks);
  memcpy(all.x, p->x, nx * sizeof *p->x), memcpy(all.t, p->t, nt * sizeof *p->t);
  for (int r = 1; r < j->ranks; r++) receive_from(r, all.x + r * nx, nx), receive_from(r, all.t + r * nt, nt);
  samples_apart(&one, &all);
  for (int r = 1; r < j->ranks; r++) {
    for (int k = 0; k < 4; k++) send_to(r, results[k], n[k]);
    send_to(r, all.dx + r * nx, nx);
  }
  memcpy(p->dx, all.dx, nx * sizeof *p->dx);
}
END
# Each rank has and computes everything: the right weights without a message.
change everything '/^share rows_of(/,/^}/s|return .*|return (share){0, n * j->ranks};|; /^void by_samples/,/^}/s|sum_over_ranks.*||'
mkdir subs/unbuilt
echo 'int x = ;' >subs/unbuilt/$file
grade_all
fails() { check "grade: $1: $2 points, $3" grep -qE "^\"$1\",yes,no,$2,14,0,.*wrong: $3" table.csv; } # name, points, pattern
row solution yes,yes,14,14,0
fails no-sum 11 'by samples on 2 ranks: rank 0: number [0-9]+ of W[12] is .*sends [0-9]+ bytes in a step, but [0-9]+ are needed'
fails another-order 12 'by samples on 4 ranks: rank 0: .*: only the last digits differ, so a sum has another order; wrong: by tensor on 4 ranks'
fails one-level 8 'by samples on 4 ranks: '
fails no-message 12 'by layers on 2 ranks: rank 0 waits for [0-9]+ numbers of rank 1, which itself waits for rank 0'
fails never-taken 12 'by layers on 2 ranks: a message of [0-9]+ numbers from rank 1 to rank 0 was never received'
fails another-owner 13 'by owner on 2 ranks: rank 0 has [0-9]+ weights from number [1-9][0-9]* on, not [0-9]+ from 0 on'
fails another-gradient 13 'by owner on 2 ranks: rank 0: number 0 of its weights is '
fails gathers-once 12 'by owner on 2 ranks: rank 0 sends [0-9]+ bytes in a step, but '
fails no-momentum 13 'by owner on 1 rank: rank 0: number 0 of its weights is '
fails constant-formula '1[23]' 'by tensor on 1 rank: by its formula rank 0 sends 4096 bytes in a step, but it sent 0'
fails no-ranks '1[23]' 'by samples on 4 ranks: by its formula rank 0 sends '
fails no-bubble '1[23]' 'with [0-9]+ stages and [0-9]+ micro-batches a stage does not wait for '
fails always-samples 13 'by samples is not the fastest way for '
fails crashes 12 'by owner on 1 rank: rank 0 was ended by signal 11 '
fails loops 12 'by tensor on 1 rank: rank 0 computed for 2 s and did not end'
fails prints 12 'by samples on 1 rank: rank 0 ended without results, with exit code 0'
if [ $protected = yes ]; then fails reaches 11 'by samples on 2 ranks: rank 0: number [0-9]+ of W[12] is '; else skip 'grade: reaches: no sandbox here'; fi
fails rank-zero 12 'by samples on 2 ranks: rank 0 sends [0-9]+ bytes in a step, but [0-9]+ are needed'
fails everything 10 'by samples on 2 ranks: rank 0 has [0-9]+ samples from number 0 on, not [0-9]+ from 0 on'
row unbuilt no,no,0,14,2
finish
