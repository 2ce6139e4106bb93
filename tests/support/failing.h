/* Makes one allocation of this process fail, to test what a program does when memory runs out. Counts calls of malloc,
 * calloc and realloc by Starling, directly or through libc (strdup, asprintf, fopen ...) and jansson. Allocations by
 * MPI, StarPU and other libraries always succeed, because their behaviour without memory is not under test. */
#ifndef SL_TESTS_FAILING_H
#define SL_TESTS_FAILING_H

/* Whether allocations can fail here; 0 under sanitizers, which have allocators of their own. */
int failing_possible(void);
/* Starts counting at 1, in all threads; the allocation of this number fails, once. 0: none fails. */
void failing_at(long number);
/* The same; all later ones fail, too. */
void failing_from(long number);
/* Ends counting and returns the number of allocations since failing_at. */
long failing_end(void);

#endif
