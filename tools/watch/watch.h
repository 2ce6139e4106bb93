/* The watch over a job: a thread on each rank, from before MPI starts until it has ended. Once a second the thread
 * reports to ranks 0 and 1 what its rank does. If a rank waits for others and no rank has moved for too long, the watch
 * ends the job and names the ranks that hold it up. It also warns of a call on a file that takes as long, even in a job
 * of one rank. A slow disk is no hang, so the job then waits for longer. */
#ifndef SL_TOOLS_WATCH_H
#define SL_TOOLS_WATCH_H

#include "tasks/starpu/program.h"

/* Starts the watch. Call before MPI starts, once in a process. rank: as the launcher gives it. patience: seconds; 0:
 * wait for ever. disk: seconds that one call on a file may keep the job waiting, if that is more than the patience; 0:
 * 10 times the patience, at least 10 minutes. exit_code: the exit code of a job that the watch ends. */
sl_status sl__watch_open(int rank, double patience, double disk, int exit_code);
/* Sets the run's folder, on every rank that can see it: before the watch ends a job, it writes a stall file there
 * (stall.h). */
void sl__watch_folder(const char *folder);
/* Sets the programs whose exchanges the watch examines. They must live until the next call. n at most 4. */
void sl__watch_programs(sl_program *const *programs, int n);
/* Allows the watch to call MPI; call after MPI_Init_thread has returned. (MPI_Initialized is true too early, before
 * MPI_COMM_WORLD can be used.) */
void sl__watch_mpi_started(void);
/* Stops the reports between ranks; collective, call before MPI_Finalize. The watch still checks that MPI_Finalize
 * returns. */
void sl__watch_close(void);
/* Like sl__watch_close, but not collective: for ranks that fail together. Call before sl_comm_close. */
void sl__watch_drop(void);
/* Waits, after MPI_Finalize, until no rank of this host is stopped by a signal: a rank stopped inside MPI_Finalize
 * would keep mpiexec waiting. If that takes too long, the watch names the rank and ends the job. */
void sl__watch_leave(void);
/* Ends the job. Waits 0.3 s first: mpiexec may drop what a rank prints just before MPI_Abort. */
void sl__watch_abort(int exit_code);
/* Exits without ending MPI and without ending the other ranks: these must exit within 10 s. Call after
 * sl__watch_open; allowed in a signal handler. */
void sl__watch_exit(int exit_code) __attribute__((noreturn));

#endif
