/* Records when each rank starts StarPU. Loaded into an unchanged program (LD_PRELOAD). Each start is made a second
 * longer, so that starts overlap unless they wait for each other.
 *
 * STARTS_LOG   each rank writes STARTS_LOG.RANK: begin and end of starpu_init, in ns of the clock that all processes of
 *              a host share
 * STARTS_SKIP  plants a fault: on all ranks this number of first barriers, by which ranks take turns, return at once,
 *              and the lock by which jobs take turns does not hold */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct starpu_conf;
int starpu_init(struct starpu_conf *conf);

static long long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1000000000LL * t.tv_sec + t.tv_nsec;
}

int starpu_init(struct starpu_conf *conf) {
  int (*begin)(struct starpu_conf *) = (int (*)(struct starpu_conf *))dlsym(RTLD_NEXT, "starpu_init");
  const char *log = getenv("STARTS_LOG"), *rank = getenv("PMI_RANK");
  char path[4096];
  const long long from = now();
  const int code = begin(conf);
  nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
  snprintf(path, sizeof path, "%s.%s", log ? log : "starts", rank ? rank : "0");
  FILE *file = fopen(path, "we");
  if (file) fprintf(file, "%lld %lld\n", from, now()), fclose(file);
  return code;
}

int flock(int fd, int operation) { return getenv("STARTS_SKIP") ? 0 : (int)syscall(SYS_flock, fd, operation); }

/* Starling's MPI_Barrier is its own, and calls this one. */
int PMPI_Barrier(MPI_Comm comm) {
  static atomic_int barriers;
  int (*wait)(MPI_Comm) = (int (*)(MPI_Comm))dlsym(RTLD_NEXT, "PMPI_Barrier");
  const char *skip = getenv("STARTS_SKIP");
  return skip && atomic_fetch_add(&barriers, 1) < atoi(skip) ? MPI_SUCCESS : wait(comm);
}
