/* A time limit for MPI_Finalize, which may never return if TCP joins the hosts (docs/how-to/clusters.md). */
#ifndef SL_TOOLS_GUARD_H
#define SL_TOOLS_GUARD_H

/* Call when the process's work is done. From now on, if MPI_Finalize does not return, the process may end with this
 * exit code. */
void sl__guard_arm(int exit_code);
/* Call these before and after MPI_Finalize, on the thread that calls MPI_Finalize. They do nothing before
 * sl__guard_arm. */
void sl__guard_begin(void);
void sl__guard_end(void);

#endif
