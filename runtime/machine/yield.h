/* Idle workers that give their cores to other threads. */
#ifndef SL_YIELD_H
#define SL_YIELD_H

#ifdef __cplusplus
extern "C" {
#endif

/* yields: 1: idle CPU workers call sched_yield between two polls for a task, so that other threads run on their cores.
 * 0, as after StarPU's start: they keep their cores, which starts tasks sooner. Any thread may call it, a worker too.
 * Call it with 0 before StarPU's end. */
void sl_workers_yield(int yields);

#ifdef __cplusplus
}
#endif
#endif
