/* Lesson 15: the functions of ways.c on ranks of MPI. Each rank draws the whole networks from the seed, cuts its part
 * out of them, trains it with the others, and compares the result with that of one rank.
 *
 * Usage: mpiexec -n 1|2|4 mesh-mpi [SEED] */
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

enum { BUFFER = 1 << 24 }; /* bytes of messages under way */
static double sent;

/* A buffered send does not wait, however long the message is. */
void send_to(int rank, const double *numbers, size_t n) {
  MPI_Bsend(numbers, (int)n, MPI_DOUBLE, rank, 0, MPI_COMM_WORLD);
  sent += (double)n * sizeof *numbers;
}

void receive_from(int rank, double *numbers, size_t n) {
  MPI_Recv(numbers, (int)n, MPI_DOUBLE, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Whether a rank's part of a network that one way trained has the bytes of the trained network. */
static int is_same(const whole *begin, const whole *trained, const job *j, int way) {
  const shares s = shares_of(j, way);
  part p, truth;
  size_t n[ARRAYS];
  if (!are_within(j, &s)) return 0;
  cut(begin, j, way, &s, &p), cut(trained, j, way, &s, &truth);
  sizes_of(j, way, &s, n);
  run(j, way, &p);
  int same = 1;
  for (int a = W1; a < ARRAYS; a++)
    same &= !n[a] || memcmp(*array_of(&p, a), *array_of(&truth, a), n[a] * sizeof(double)) == 0;
  part_free(&p), part_free(&truth);
  return same;
}

int main(int argc, char **argv) {
  static questions begin, trained;
  uint64_t seed = 15;
  int rank, ranks, ok = 1;
  static char buffer[BUFFER];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if ((ranks != 1 && ranks != 2 && ranks != 4) || (argc > 1 && sscanf(argv[1], "%" SCNx64, &seed) != 1)) {
    if (rank == 0) fputs("Usage: mpiexec -n 1|2|4 mesh-mpi [SEED]\n", stderr);
    return MPI_Finalize(), 2;
  }
  MPI_Buffer_attach(buffer, BUFFER);
  draw(seed, &begin), draw(seed, &trained);
  for (int i = 0; i < NETWORKS; i++) {
    train_alone(&trained.network[i]);
    for (int way = 0; way < WAYS; way++) {
      job j = begin.network[i].job;
      int same, all;
      double most;
      if (!is_possible(way, ranks)) continue;
      j.rank = rank, j.ranks = ranks, sent = 0;
      same = is_same(&begin.network[i], &trained.network[i], &j, way);
      MPI_Reduce(&same, &all, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
      MPI_Reduce(&sent, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
      if (rank != 0) continue;
      printf("network %d %s on %d ranks of MPI: %s; %.0f bytes in a step from the rank that sends most\n", i + 1,
             way_names[way], ranks, all ? "the bytes of one rank" : "OTHER BYTES than one rank's", most / j.steps);
      ok &= all;
    }
  }
  if (rank == 0) puts(ok ? "ok" : "not ok");
  questions_free(&begin), questions_free(&trained);
  MPI_Finalize();
  return !ok;
}
