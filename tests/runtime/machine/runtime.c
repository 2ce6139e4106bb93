/* Start and stop: repeatedly, under each policy, with teams bound as printed. Wrong options give an error with the
 * remedy. Two ranks share the node and fail together. */
#include "runtime/machine/runtime.h"

#include <cblas.h>
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "runtime/machine/comm.h"
#include "runtime/machine/policies.h"
#include "tests/support/ranks.h"
#include "tests/support/scratch.h"

typedef struct visit {
  sl_runtime *rt;
  atomic_int workers, threads, elsewhere, blas;
} visit;

static void check_thread(void *arg, int64_t tile, int thread) {
  visit *v = arg;
  (void)tile, (void)thread;
  atomic_fetch_add(&v->threads, 1);
}

static void check_worker(void *arg, int worker, sl_team *team) {
  visit *v = arg;
  hwloc_bitmap_t set = hwloc_bitmap_alloc();
  hwloc_get_cpubind(sl_runtime_topology(v->rt), set, HWLOC_CPUBIND_THREAD);
  const int bound = team->bound && hwloc_bitmap_weight(set) == 1 && hwloc_bitmap_isset(set, team->pu[0]);
  hwloc_bitmap_free(set);
  if (!bound || team != sl_team_current() || team != sl_runtime_team(v->rt, worker)) atomic_fetch_add(&v->elsewhere, 1);
  if (openblas_get_num_threads() != 1) atomic_fetch_add(&v->blas, 1);
  atomic_fetch_add(&v->workers, 1);
  sl_team_for(team, 10, check_thread, v);
}

static void check_runtime(sl_runtime *rt, int workers, int threads) {
  char text[256], expected[32];
  const sl_share *share = sl_runtime_share(rt);
  assert_ptr_equal(sl_runtime_current(), rt);
  assert_int_equal(sl_runtime_cpu_workers(rt), workers);
  assert_int_equal(sl_runtime_workers(rt), workers + sl_runtime_gpus(rt));
  visit v = {.rt = rt};
  assert_ok(sl_runtime_each_worker(rt, check_worker, &v));
  assert_int_equal(v.workers, workers);
  assert_int_equal(v.elsewhere, 0);
  assert_int_equal(v.blas, 0);
  assert_int_equal(v.threads, 10 * workers);
  for (int w = 0, cpu = 0; w < sl_runtime_workers(rt); w++) {
    if (sl_runtime_worker_kind(rt, w) != SL_WORKER_CPU) continue;
    assert_int_equal(sl_runtime_team(rt, w)->threads, threads);
    assert_int_equal(sl_runtime_team(rt, w)->pu[0], share->worker[cpu].pu[0]);
    snprintf(expected, sizeof expected, "CPU %d, core", cpu++);
    sl_runtime_worker_text(rt, w, text, sizeof text);
    assert_memory_equal(text, expected, strlen(expected));
  }
  assert_null(sl_runtime_team(rt, sl_runtime_workers(rt)));
  assert_ok(sl_runtime_reserve_scratch(rt, 5000));
  for (int w = 0; w < sl_runtime_workers(rt); w++) {
    const sl_team *team = sl_runtime_team(rt, w);
    for (int i = 0; team && i < team->threads; i++) assert_non_null(team->scratch[i]);
  }
}

static void again_and_again(void **state) {
  (void)state;
  static const char *const policies[] = {"eager", "lws", "dmda", "dmdas"};
  assert_null(sl_runtime_current());
  for (int i = 0; i < 4; i++) {
    const sl_runtime_options options = {.sched = policies[i], .workers = 1 + i % 2, .threads_per_worker = 1 + i / 2};
    sl_runtime *rt, *second;
    assert_ok(sl_runtime_start(&options, &rt));
    assert_string_equal(sl_runtime_sched(rt), policies[i]);
    check_runtime(rt, options.workers, options.threads_per_worker);
    assert_fails(SL_EINVAL, "already running", sl_runtime_start(&options, &second));
    assert_null(second);
    sl_runtime_stop(rt);
    assert_null(sl_runtime_current());
  }
  sl_runtime_stop(NULL);
}

static void no_ranks_without_mpi(void **state) {
  (void)state;
  const sl_runtime_options options = {.workers = 1};
  sl_runtime *rt;
  assert_ok(sl_runtime_start(&options, &rt));
  assert_int_equal(sl_runtime_rank(rt), 0);
  assert_int_equal(sl_runtime_ranks(rt), 1);
  assert_int_equal(sl_runtime_local_ranks(rt), 1);
  assert_int_equal(sl_runtime_nodes(rt), 1);
  assert_true(sl_runtime_comm(rt) == MPI_COMM_NULL);
  sl_runtime_stop(rt);
}

static void errors(void **state) {
  (void)state;
  sl_runtime *rt;
  char text[1024];
  assert_fails(SL_EINVAL, "unknown scheduling policy 'fair'; StarPU ",
               sl_runtime_start(&(sl_runtime_options){.sched = "fair"}, &rt));
  assert_non_null(strstr(sl_error(), "eager"));
  assert_ok(sl_policies_names(NULL, text, sizeof text));
  assert_non_null(strstr(text, "dmdas"));
  assert_fails(SL_EINVAL, "base, avx2, avx512", sl_runtime_start(&(sl_runtime_options){.kernels = "sse9"}, &rt));
  assert_fails(SL_ETOPOLOGY, "CPU workers were asked for",
               sl_runtime_start(&(sl_runtime_options){.workers = sl_runtime_starpu_max_cpus() + 1}, &rt));
  assert_fails(SL_EINVAL, "-3 threads per worker",
               sl_runtime_start(&(sl_runtime_options){.threads_per_worker = -3}, &rt));
  assert_string_equal(sl_error_setting(), "threads_per_worker");
  assert_fails(SL_EUNSUPPORTED, "GPUs were asked for", sl_runtime_start(&(sl_runtime_options){.gpus = 1000}, &rt));
  assert_null(sl_runtime_current());
  assert_ok(sl_runtime_start(&(sl_runtime_options){.workers = 1}, &rt)); /* the failures left nothing behind */
  sl_runtime_stop(rt);
}

/* The environment variables for StarPU are set only while it runs; the user's own settings win. */
static void environment(void **state) {
  (void)state;
  sl_runtime *rt;
  setenv("STARPU_SCHED", "eager", 1);
  setenv("STARPU_WORKERS_CPUID", "0", 1);
  unsetenv("STARPU_HOSTNAME");
  assert_ok(sl_runtime_start(&(sl_runtime_options){.workers = 2}, &rt));
  assert_string_equal(sl_runtime_sched(rt), "eager");
  assert_string_equal(getenv("STARPU_HOSTNAME"), sl_runtime_model_host(rt));
  assert_non_null(strstr(sl_runtime_model_host(rt), "-k1"));
  check_runtime(rt, 2, 1);
  sl_runtime_stop(rt);
  assert_null(getenv("STARPU_HOSTNAME"));
  assert_string_equal(getenv("STARPU_WORKERS_CPUID"), "0");
  unsetenv("STARPU_WORKERS_CPUID");

  setenv("STARPU_HOSTNAME", "atlas", 1);
  assert_ok(sl_runtime_start(&(sl_runtime_options){.workers = 1, .sched = "lws"}, &rt)); /* an option wins */
  assert_string_equal(sl_runtime_sched(rt), "lws");
  assert_string_equal(sl_runtime_model_host(rt), "atlas");
  sl_runtime_stop(rt);
  assert_string_equal(getenv("STARPU_SCHED"), "eager");
  unsetenv("STARPU_SCHED");
  unsetenv("STARPU_HOSTNAME");
}

/* StarPU aborts if it cannot make its folder; the runtime finds it another. */
static void no_home(void **state) {
  const char *folder = *state;
  const char *names[] = {"STARPU_HOME", "XDG_CACHE_HOME", "TMPDIR"};
  char *old[3], place[4096];
  for (int i = 0; i < 3; i++) old[i] = getenv(names[i]) ? strdup(getenv(names[i])) : NULL;
  setenv("STARPU_HOME", "/proc/nowhere", 1);
  unsetenv("XDG_CACHE_HOME");
  setenv("TMPDIR", folder, 1);
  sl_runtime *rt;
  assert_ok(sl_runtime_start(&(sl_runtime_options){.workers = 1}, &rt));
  snprintf(place, sizeof place, "%s/starling-%ld/.starpu", folder, (long)getuid());
  struct stat info;
  assert_int_equal(stat(place, &info), 0);
  sl_runtime_stop(rt);
  assert_string_equal(getenv("STARPU_HOME"), "/proc/nowhere");
  setenv("TMPDIR", "/proc/nowhere", 1);
  assert_fails(SL_ESTARPU, "STARPU_HOME", sl_runtime_start(&(sl_runtime_options){.workers = 1}, &rt));
  for (int i = 0; i < 3; i++) {
    if (old[i])
      setenv(names[i], old[i], 1);
    else
      unsetenv(names[i]);
    free(old[i]);
  }
}

/* A job waits while another one that shares the folder starts StarPU. */
static void starts_in_turn(void **state) {
  const char *folder = *state;
  char *old = getenv("STARPU_HOME") ? strdup(getenv("STARPU_HOME")) : NULL, lock[4096], marker[4096], byte;
  int ready[2];
  sl_runtime *rt;
  setenv("STARPU_HOME", folder, 1);
  assert_ok(sl_runtime_start(&(sl_runtime_options){.workers = 1}, &rt)); /* makes the folder */
  sl_runtime_stop(rt);
  snprintf(lock, sizeof lock, "%s/.starpu/sampling/starling.lock", folder);
  snprintf(marker, sizeof marker, "%s/let_go", folder);
  const int fd = open(lock, O_RDWR);
  assert_true(fd >= 0);
  assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0); /* a job that has started holds no lock */
  close(fd);
  assert_int_equal(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const int other = open(lock, O_RDWR);
    if (other < 0 || flock(other, LOCK_EX) != 0 || write(ready[1], "r", 1) != 1) _exit(1);
    sleep(1);
    _exit(open(marker, O_CREAT | O_WRONLY, 0600) < 0);
  }
  assert_int_equal(read(ready[0], &byte, 1), 1);
  assert_ok(sl_runtime_start(&(sl_runtime_options){.workers = 1}, &rt));
  assert_int_equal(access(marker, F_OK), 0);
  sl_runtime_stop(rt);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  close(ready[0]), close(ready[1]);
  if (old)
    setenv("STARPU_HOME", old, 1);
  else
    unsetenv("STARPU_HOME");
  free(old);
}

/* Commands without --stall-timeout leave it at NaN; a policy then still has ten seconds. */
static void patience(void **state) {
  (void)state;
  const double given[] = {NAN, 0, 25}, expected[] = {10, 10, 25};
  for (int i = 0; i < 3; i++) {
    sl_runtime_options options = sl_runtime_defaults();
    options.workers = 1, options.keep_mpi = 1, options.patience = given[i];
    sl_runtime *rt;
    assert_ok(sl_runtime_start(&options, &rt));
    assert_true(sl_runtime_patience(rt) == expected[i]);
    sl_runtime_stop(rt);
  }
}

/* The library sees one rank although another MPI's launcher started four. Ends MPI, so it comes last. */
static void launcher_and_mpi(void **state) {
  (void)state;
  sl_runtime_options options = sl_runtime_defaults();
  options.keep_mpi = 1;
  options.workers = 1;
  sl_runtime *rt;
  const char *ours[] = {"PMI_SIZE", "PMI_RANK"};
  for (int i = 0; i < 2; i++)
    if (getenv(ours[i])) skip(); /* the tests themselves run under a launcher */
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  assert_fails(SL_EMPI, "started 4 ranks (OMPI_COMM_WORLD_SIZE)", sl_runtime_start(&options, &rt));
  assert_non_null(strstr(sl_error(), "mpiexec.mpich"));
  assert_non_null(strstr(sl_error(), "srun --mpi=pmi2"));
  unsetenv("OMPI_COMM_WORLD_SIZE");
  setenv("SLURM_PROCID", "0", 1);
  setenv("SLURM_STEP_NUM_TASKS", "2", 1);
  assert_fails(SL_EMPI, "started 2 ranks (SLURM_STEP_NUM_TASKS)", sl_runtime_start(&options, &rt));
  unsetenv("SLURM_STEP_NUM_TASKS");
  setenv("SLURM_NTASKS", "2", 1); /* set in batch scripts outside srun too, so it says nothing */
  assert_ok(sl_runtime_start(&options, &rt));
  assert_true(sl_runtime_comm(rt) != MPI_COMM_NULL);
  sl_runtime_stop(rt);
  unsetenv("SLURM_PROCID");
  unsetenv("SLURM_NTASKS");
  setenv("PMIX_RANK", "1", 1);
  assert_fails(SL_EMPI, "PMIX_RANK", sl_runtime_start(&options, &rt));
  unsetenv("PMIX_RANK");

  options.keep_mpi = 0;
  int down = 0;
  assert_ok(sl_runtime_start(&options, &rt));
  sl_runtime_stop(rt);
  MPI_Finalized(&down);
  assert_true(down);
  assert_ok(sl_runtime_start(&options, &rt)); /* one rank needs no MPI */
  assert_int_equal(sl_runtime_ranks(rt), 1);
  assert_true(sl_runtime_comm(rt) == MPI_COMM_NULL);
  sl_runtime_stop(rt);
  sl_runtime_end_mpi();
}

/* ---- under mpiexec ---- */

static void one_rank(void) {
  sl_runtime_options options = sl_runtime_defaults();
  sl_runtime *rt;
  int pu[2] = {-1, -1};
  options.keep_mpi = 1;
  options.gpus = 0;
  RANK_CHECK(sl_runtime_start(&options, &rt) == SL_OK);
  const sl_share *share = sl_runtime_share(rt);
  const int rank = sl_runtime_rank(rt), mine = (int)share->worker[0].pu[0];
  RANK_CHECK(sl_runtime_ranks(rt) == 2 && sl_runtime_local_ranks(rt) == 2 && sl_runtime_nodes(rt) == 1);
  RANK_CHECK(rank == sl_runtime_local_rank(rt));
  RANK_CHECK(MPI_Allgather(&mine, 1, MPI_INT, pu, 1, MPI_INT, sl_runtime_comm(rt)) == MPI_SUCCESS);
  RANK_CHECK(pu[0] != pu[1] || share->oversubscribed);
  RANK_CHECK(share->node_cores < 2 || !share->oversubscribed);
  sl_runtime_stop(rt);
  /* A failure on one rank fails on both, with its cause, and neither waits for the other. */
  options.kernels = rank == 1 ? "sse9" : NULL;
  const sl_status status = sl_runtime_start(&options, &rt);
  RANK_CHECK(status == SL_EINVAL && rt == NULL);
  RANK_CHECK(strstr(sl_error(), "unknown kernels 'sse9'") != NULL);
  RANK_CHECK(rank == 1 || strncmp(sl_error(), "rank 1: ", 8) == 0);
  options.kernels = NULL;
  options.keep_mpi = 0;
  RANK_CHECK(sl_runtime_start(&options, &rt) == SL_OK);
  sl_runtime_stop(rt);
  if (sl_runtime_start(&options, &rt) != SL_EMPI || !strstr(sl_error(), "keep_mpi")) exit(1);
}

static void two_ranks(void **state) {
  (void)state;
  ranks_run(2, "one-rank");
}

static void openblas_gets_the_kernels_of_its_cpu(void **state) {
  (void)state;
  assert_string_equal(sl_runtime_blas_core("Prescott", SL_ISA_AVX512_VL), "SkylakeX");
  assert_string_equal(sl_runtime_blas_core("Nehalem", SL_ISA_AVX2_FMA), "Haswell");
  assert_null(sl_runtime_blas_core("Prescott", SL_ISA_BASELINE));
  assert_null(sl_runtime_blas_core("Zen", SL_ISA_AVX512_VL));
  assert_null(sl_runtime_blas_core("SkylakeX", SL_ISA_AVX512_VL));
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "one-rank") == 0) {
    one_rank();
    return 0;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(again_and_again),
      cmocka_unit_test(no_ranks_without_mpi),
      cmocka_unit_test(errors),
      cmocka_unit_test(environment),
      cmocka_unit_test(openblas_gets_the_kernels_of_its_cpu),
      cmocka_unit_test_setup_teardown(no_home, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(starts_in_turn, scratch_setup, scratch_teardown),
      cmocka_unit_test(two_ranks),
      cmocka_unit_test(patience),
      cmocka_unit_test(launcher_and_mpi),
  };
  return cmocka_run_group_tests_name("runtime/runtime", tests, NULL, NULL);
}
