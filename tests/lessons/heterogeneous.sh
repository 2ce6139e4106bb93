#!/bin/sh
# Lesson 12: the hand-out, and its judge's verdicts on policies: the solution passes; the skeleton, eager's order,
# dmdas, policies that keep tasks, claim times or print a verdict, and forged timelines fail.
number_of=12 file=policy.c
. "$(dirname "$0")/simulated.shlib"
check 'it has no solution' eval '! grep -rqE "owner_of|given\[" hand-out'
! alone run >out 2>err
check 'it builds and is judged alone' grep -q '^points: 2 of 4' out
check 'the judge says what to look at' grep -q '^wrong: a step must take .* copied between GPUs' out
cp "$lesson/policy.c" hand-out/
check 'the solution passes there' alone run

# Answers given to the judge without a policy.
cd hand-out || exit 99
judged() { ./judge verdict questions <answers >"$work/out" 2>"$work/err"; }
echo '0123456789abcdef 192' >questions
for policy in eager dmdas; do
  mkdir "$policy"
  sh ./simulate.sh 192 "$policy" --sched "$policy" >/dev/null 2>&1
  { echo 0123456789abcdef; cat "$policy/timeline-0.safetensors"; } >answers
  judged
  check "$policy does not pass" grep -qx "points: $([ $policy = eager ] && echo 2 || echo 3) of 4" "$work/out"
done
{ echo 0000000000000000; cat dmdas/timeline-0.safetensors; } >answers
judged
check 'an answer to another question counts nothing' grep -qx 'points: 0 of 4' "$work/out"
cat >forge.c <<'END'
#include <stdlib.h>
#include <string.h>
#include "runtime/trace/timeline.h"
int main(int argc, char **argv) { /* IN OUT WAY */
  sl_timeline *t;
  if (argc != 4 || sl_timeline_read(argv[1], &t) != SL_OK) return 1;
  int64_t first = INT64_MAX;
  for (size_t i = 0; i < t->n_records; i++) if (t->record[i].start < first) first = t->record[i].start;
  for (size_t i = 0; i < t->n_records; i++) {
    sl_record *r = &t->record[i];
    if (!strcmp(argv[3], "halved")) r->start = first + (r->start - first) / 2, r->end = first + (r->end - first) / 2;
    if (!strcmp(argv[3], "at-once")) r->end = first + (r->step - t->record[0].step) * 20000000 + r->end - r->start, r->start = first + (r->step - t->record[0].step) * 20000000;
    if (!strcmp(argv[3], "one-worker") && t->worker[r->worker].gpu) r->worker = 0;
  }
  if (!strcmp(argv[3], "fewer")) t->n_records /= 2;
  return sl_timeline_write(argv[2], t) != SL_OK;
}
END
check 'a forger compiles' sh -c 'cc $(pkg-config --cflags starling) forge.c -o forge $(pkg-config --libs starling)'
for way in halved at-once one-worker fewer; do
  ./forge dmdas/timeline-0.safetensors forged $way
  { echo 0123456789abcdef; cat forged; } >answers
  judged
  check "a forged timeline gets no point for its time: $way" grep -qx "points: $([ $way = fewer ] && echo 0 || echo 1) of 4" "$work/out"
  check "the judge says what is wrong: $way" grep -qE '^wrong: (this machine has not computed so|[1-9][0-9]* of .* never run)' "$work/out"
done
cd "$work" || exit 99

# Submissions. eager: one queue in the order of arrival.
change() { mkdir "subs/$1" && sed "$2" "$lesson/skeleton/policy.c" >"subs/$1/policy.c"; }
change skeleton ''
change keeps 's|struct starpu_task \*task = queue\[worker\];|struct starpu_task *task = NULL;|'
change prints 's|^static void init_sched(unsigned context) {|#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n&\n  puts("step time 1.000 ms\\npoints: 4 of 4\\nok"); dprintf(3, "points: 4 of 4\\nok\\n"); fflush(stdout); _exit(0);|'
mkdir subs/unbuilt
echo 'int x = ;' >subs/unbuilt/policy.c
grade_all
row solution yes,yes,4,4,0
row skeleton yes,no,2,4,0
row keeps yes,no,0,4,1
row prints yes,no,0,4,0
row unbuilt no,no,0,4,2
finish
