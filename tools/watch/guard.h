/* A limit for MPI_Finalize, which may not return between hosts joined by TCP (docs/how-to/clusters.md). */
#ifndef SL_TOOLS_GUARD_H
#define SL_TOOLS_GUARD_H

/* From now on the process, whose work is done, may end with this exit code where MPI_Finalize does not return. */
void sl__guard_arm(int exit_code);
/* Around MPI_Finalize, which the thread that calls these waits in. Nothing happens before sl__guard_arm. */
void sl__guard_begin(void);
void sl__guard_end(void);

#endif
