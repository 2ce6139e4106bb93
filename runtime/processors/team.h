/* A team: the OpenMP threads that one StarPU worker leads, each bound to its core, with scratch memory of its own.
 *
 * To StarPU the team is one ordinary worker. Kernels divide their work into tiles that the plan fixes and never ask how
 * many threads there are, so the bits do not depend on it. Team threads would inherit the leader's one-core mask, so
 * each is bound explicitly. libgomp and libomp keep a leader's threads only while every parallel region asks for the
 * same number, so kernels use only sl_team_for or num_threads(team->threads). */
#ifndef SL_TEAM_H
#define SL_TEAM_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct hwloc_topology;

typedef struct sl_team {
  int threads;
  unsigned *pu;         /* [threads] PU each thread is bound to (operating system index) */
  int bound;            /* all threads are bound */
  void **scratch;       /* [threads] each 64-byte aligned, touched first by its thread; NULL until reserved */
  size_t scratch_bytes; /* of each */
  struct hwloc_topology *topology; /* borrowed; NULL: no binding */
} sl_team;

/* A team of threads >= 1. pu may be NULL with topology NULL: then threads stay where the system puts them. */
sl_status sl_team_create(struct hwloc_topology *topology, int threads, const unsigned *pu, sl_team **team);
void sl_team_destroy(sl_team *team); /* NULL is allowed */

/* Called on the leader's thread before its first task: starts the threads, binds each to its PU, holds OpenBLAS to one
 * thread on each, makes the team the thread's current one. A failed binding is no error: bound stays 0. */
sl_status sl_team_start(sl_team *team);

/* The team that the calling thread leads; for any other thread, an unbound team of one. Never NULL. */
sl_team *sl_team_current(void);

/* Gives each thread at least `bytes` of scratch memory. Called on the leader's thread, outside of steps. */
sl_status sl_team_reserve(sl_team *team, size_t bytes);

/* body(arg, tile, thread) for every tile in [0, n), in any order, on the team's threads; thread in [0, threads).
 * Tiles must not write what another tile reads or writes. With one thread it is a plain loop. Called on the leader. */
typedef void (*sl_team_body)(void *arg, int64_t tile, int thread);
void sl_team_for(sl_team *team, int64_t n, sl_team_body body, void *arg);

#ifdef __cplusplus
}
#endif
#endif
