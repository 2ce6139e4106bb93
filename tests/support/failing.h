/* Lets one allocation of this process fail, to show what a program does when memory runs out. Counted are malloc,
 * calloc and realloc that Starling asks for, itself or through libc (strdup, asprintf, fopen ...) and jansson. Those of
 * MPI, StarPU and other libraries always succeed: what they do without memory is theirs. */
#ifndef SL_TESTS_FAILING_H
#define SL_TESTS_FAILING_H

/* Whether allocations can fail here; 0 under sanitizers, which have allocators of their own. */
int failing_possible(void);
/* Counts from 1 now, in all threads; the allocation of this number fails, once. 0: none does. */
void failing_at(long number);
/* Allocations counted since failing_at; it ends the counting. */
long failing_end(void);

#endif
