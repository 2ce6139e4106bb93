/* tools/watch/waits.c: MPI calls that wait for another rank leave MPI's lock to other threads, and have the results of
 * MPI's own calls. The tests need one rank: another thread sends to it. */
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/scratch.h"

enum { TAG = 5, LATE_US = 600000 };

static void *send_late(void *value) {
  MPI_Request request;
  usleep(LATE_US);
  assert_int_equal(PMPI_Isend(value, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, &request), MPI_SUCCESS);
  for (int done = 0; !done; usleep(1000)) PMPI_Test(&request, &done, MPI_STATUS_IGNORE);
  return NULL;
}
/* How often this thread has gone to sleep. */
static long sleeps(void) {
  struct rusage usage;
  assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
  return usage.ru_nvcsw;
}

/* The spinning part takes at most 1 ms, so in 600 ms there would be hundreds of sleeps on an idle machine. */
enum { LEAST_SLEEPS = 20 };

static void receives(void **state) {
  (void)state;
  int sent = 17, got = 0, count = 0;
  pthread_t thread;
  MPI_Status status;
  const long before = sleeps();
  assert_int_equal(pthread_create(&thread, NULL, send_late, &sent), 0);
  assert_int_equal(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status), MPI_SUCCESS);
  assert_true(sleeps() - before >= LEAST_SLEEPS);
  pthread_join(thread, NULL);
  assert_int_equal(got, 17);
  assert_int_equal(status.MPI_TAG, TAG);
  assert_int_equal(MPI_Get_count(&status, MPI_INT, &count), MPI_SUCCESS);
  assert_int_equal(count, 1);
}

static void waits(void **state) {
  (void)state;
  int sent = 18, got = 0;
  pthread_t thread;
  MPI_Request request;
  const long before = sleeps();
  assert_int_equal(MPI_Irecv(&got, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, &request), MPI_SUCCESS);
  assert_int_equal(pthread_create(&thread, NULL, send_late, &sent), 0);
  assert_int_equal(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
  assert_true(sleeps() - before >= LEAST_SLEEPS);
  pthread_join(thread, NULL);
  assert_int_equal(got, 18);
  assert_true(request == MPI_REQUEST_NULL);
}

static void exchanges(void **state) {
  (void)state;
  const int sent = 19;
  int got = 0, sum = 0;
  assert_int_equal(MPI_Sendrecv(&sent, 1, MPI_INT, 0, 1, &got, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                   MPI_SUCCESS);
  assert_int_equal(got, 19);
  assert_int_equal(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
  assert_int_equal(MPI_Allreduce(&sent, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_SUCCESS);
  assert_int_equal(sum, 19);
}

static void passes_errors_on(void **state) {
  (void)state;
  int x = 1;
  MPI_Comm comm;
  assert_int_equal(MPI_Comm_dup(MPI_COMM_WORLD, &comm), MPI_SUCCESS);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  assert_true(MPI_Send(&x, 1, MPI_INT, 7, TAG, comm) != MPI_SUCCESS); /* there is no rank 7 */
  assert_true(MPI_Recv(&x, 1, MPI_INT, 7, TAG, comm, MPI_STATUS_IGNORE) != MPI_SUCCESS);
  assert_true(MPI_Bcast(&x, 1, MPI_INT, 7, comm) != MPI_SUCCESS);
  MPI_Comm_free(&comm);
}

int main(int argc, char **argv) {
  int level;
  if (unsetenv("LD_PRELOAD") == 0 && argc == 1) /* with tests/support/give_way.so all that spins sleeps */
    execl("/proc/self/exe", argv[0], "alone", (char *)NULL);
  if (PMPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) return 99;
  const struct CMUnitTest tests[] = {cmocka_unit_test(receives), cmocka_unit_test(waits), cmocka_unit_test(exchanges),
                                     cmocka_unit_test(passes_errors_on)};
  const int failed = cmocka_run_group_tests_name("waits", tests, NULL, NULL);
  PMPI_Finalize();
  return failed;
}
