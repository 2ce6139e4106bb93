/* The watch over a job: a thread of each rank, from before MPI starts until it has ended. Once a second it tells ranks
 * 0 and 1 what its rank does; when a rank waits for others and nothing has moved on any rank for too long, it ends the
 * job and names the ranks that the others wait for. A disk that hangs is named, too, also in a job of one rank. */
#ifndef SL_TOOLS_WATCH_H
#define SL_TOOLS_WATCH_H

#include "tasks/starpu/program.h"

/* Before MPI starts; once in a process. rank: as the launcher says; patience: seconds; 0: wait for ever; exit_code: of
 * a job that is ended. */
sl_status sl__watch_open(int rank, double patience, int exit_code);
/* The folder of the run, on every rank that can see it: a job that is ended leaves a stall file there (stall.h). */
void sl__watch_folder(const char *folder);
/* The programs whose exchanges it asks, instead of the earlier ones. They live until the next call. n at most 4. */
void sl__watch_programs(sl_program *const *programs, int n);
/* MPI_Init_thread has returned: the watch may call MPI. MPI_Initialized is true before MPI_COMM_WORLD can be used. */
void sl__watch_mpi_started(void);
/* Before MPI_Finalize, collective: the watch sends nothing more, and still sees whether MPI_Finalize returns. */
void sl__watch_close(void);
/* Likewise where the ranks fail together, before sl_comm_close; not collective. */
void sl__watch_drop(void);
/* After MPI_Finalize: waits until every rank of this host that was stopped goes on, because a rank that is stopped
 * inside MPI_Finalize keeps mpiexec waiting. The watch names it, and ends the job. */
void sl__watch_leave(void);
/* Ends the job at once. Waits a moment first: mpiexec may drop what a rank printed just before MPI_Abort. */
void sl__watch_abort(int exit_code);

#endif
