/* OpenMP teams under StarPU workers. */
#include "runtime/processors/team.h"

#include <cblas.h>
#include <hwloc.h>
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/log.h"

enum {
  PAGE = 4096
}; /* two threads' scratch never shares a page, because a page is placed near the thread that first touches it */

static _Thread_local sl_team *current;
static _Thread_local sl_team solo;
static _Thread_local void *solo_scratch[1];

sl_status sl_team_create(struct hwloc_topology *topology, int threads, const unsigned *pu, sl_team **team) {
  *team = NULL;
  if (threads < 1) return sl_fail(SL_EINVAL, "a team of %d threads: at least one is needed", threads);
  if (topology && !pu) return sl_fail(SL_EINVAL, "a bound team needs a PU for each thread");
  sl_team *made = calloc(1, sizeof *made);
  if (made) made->pu = calloc((size_t)threads, sizeof *made->pu);
  if (made) made->scratch = calloc((size_t)threads, sizeof *made->scratch);
  if (!made || !made->pu || !made->scratch) {
    sl_team_destroy(made);
    return sl_no_memory("for a team of %d threads", threads);
  }
  made->threads = threads;
  made->topology = topology;
  if (pu) memcpy(made->pu, pu, (size_t)threads * sizeof *pu);
  *team = made;
  return SL_OK;
}

void sl_team_destroy(sl_team *team) {
  if (!team) return;
  if (current == team) current = NULL;
  for (int i = 0; team->scratch && i < team->threads; i++) free(team->scratch[i]);
  free(team->scratch);
  free(team->pu);
  free(team);
}

static int bind_self(struct hwloc_topology *topology, unsigned pu) {
  hwloc_bitmap_t set = hwloc_bitmap_alloc();
  if (!set) return 0;
  const int bound = hwloc_bitmap_only(set, pu) == 0 && hwloc_set_cpubind(topology, set, HWLOC_CPUBIND_THREAD) == 0;
  hwloc_bitmap_free(set);
  return bound;
}

sl_status sl_team_start(sl_team *team) {
  static pthread_mutex_t blas = PTHREAD_MUTEX_INITIALIZER; /* OpenBLAS resizes its pool without a lock of its own */
  int started = 0, bound = 0;
  omp_set_dynamic(0);
#pragma omp parallel num_threads(team->threads) reduction(+ : started, bound)
  {
    const int thread = omp_get_thread_num();
    started++;
    if (team->topology) bound += bind_self(team->topology, team->pu[thread]);
    /* OpenBLAS's pthread variant has one such setting per process, its OpenMP variant one per thread. */
    pthread_mutex_lock(&blas);
    openblas_set_num_threads(1);
    pthread_mutex_unlock(&blas);
  }
  team->bound = bound == team->threads;
  if (started < team->threads)
    sl_log(SL_LOG_WARNING, "OpenMP gave a team %d of %d threads (OMP_THREAD_LIMIT?)", started, team->threads);
  else if (team->topology && !team->bound)
    sl_log(SL_LOG_WARNING, "%d of %d threads of a team could not be bound to their cores", team->threads - bound,
           team->threads);
  current = team;
  return SL_OK;
}

sl_team *sl_team_current(void) {
  if (current) return current;
  solo.threads = 1;
  solo.scratch = solo_scratch;
  return &solo;
}

sl_status sl_team_reserve(sl_team *team, size_t bytes) {
  if (bytes <= team->scratch_bytes) return SL_OK;
  const size_t whole = (bytes + PAGE - 1) / PAGE * PAGE;
  for (int i = 0; i < team->threads; i++) free(team->scratch[i]);
  memset(team->scratch, 0, (size_t)team->threads * sizeof *team->scratch);
  team->scratch_bytes = 0;
  int missing = 0;
#pragma omp parallel for num_threads(team->threads) schedule(static, 1) reduction(+ : missing) if (team->threads > 1)
  for (int i = 0; i < team->threads; i++) { /* static, 1: thread i allocates and touches scratch[i] */
    team->scratch[i] = aligned_alloc(PAGE, whole);
    if (team->scratch[i])
      memset(team->scratch[i], 0, whole);
    else
      missing++;
  }
  if (missing) return sl_no_memory("for %zu bytes of scratch a thread", whole);
  team->scratch_bytes = whole;
  return SL_OK;
}

void sl_team_for(sl_team *team, int64_t n, sl_team_body body, void *arg) {
  if (team->threads == 1 || n <= 1) {
    for (int64_t tile = 0; tile < n; tile++) body(arg, tile, 0);
    return;
  }
#pragma omp parallel for num_threads(team->threads) schedule(dynamic, 1)
  for (int64_t tile = 0; tile < n; tile++) body(arg, tile, omp_get_thread_num());
}
