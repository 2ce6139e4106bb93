/* Lesson 10, by hand: two ranks sum the gradients of two layers, one of them in the other order. The sum adds any
 * message that arrives, so the program ends without an error, and its numbers are wrong.
 *
 * Usage: mpiexec -n 2 mismatch [same] */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { FC1 = 784 * 64, FC2 = 64 * 10 };
static float fc1[FC1], fc2[FC2];

/* Sums a gradient over the ranks: each rank sends its own to the others, and adds what it receives. */
static void sum(float *gradient, int n, int rank, int ranks) {
  static float from[FC1];
  for (int hop = 1; hop < ranks; hop++) {
    MPI_Status status;
    int received;
    MPI_Sendrecv(gradient, n, MPI_FLOAT, (rank + hop) % ranks, 0, from, FC1, MPI_FLOAT, (rank + ranks - hop) % ranks, 0,
                 MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_FLOAT, &received);
    for (int i = 0; i < n && i < received; i++) gradient[i] += from[i]; /* whatever it was that came */
  }
}

int main(int argc, char **argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 0; i < FC1; i++) fc1[i] = 1;
  for (int i = 0; i < FC2; i++) fc2[i] = 10;
  const int other = rank == 1 && !(argc > 1 && strcmp(argv[1], "same") == 0);
  sum(other ? fc2 : fc1, other ? FC2 : FC1, rank, ranks);
  sum(other ? fc1 : fc2, other ? FC1 : FC2, rank, ranks);
  if (rank == 0)
    printf("fc1: %g %g ... %g; fc2: %g ... %g\n", fc1[0], fc1[FC2 - 1], fc1[FC1 - 1], fc2[0], fc2[FC2 - 1]);
  MPI_Finalize();
  return 0;
}
