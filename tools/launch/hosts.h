/* The hosts of a job, and how many ranks each takes. */
#ifndef SL_TOOLS_HOSTS_H
#define SL_TOOLS_HOSTS_H

#include <stddef.h>

#include "runtime/base/status.h"

typedef struct sl__host {
  char name[256];
  int ranks;
} sl__host;

typedef struct sl__hosts {
  sl__host *host;
  int n;
} sl__hosts;

/* "node1,node2:4": one rank on node1, four on node2. NULL: no hosts. SL_EINVAL names the entry at fault. */
sl_status sl__hosts_parse(const char *list, sl__hosts *hosts);
/* The nodes of this process's Slurm allocation, with `ranks` ranks in all; with more nodes than ranks, some nodes get
 * none. Outside of Slurm: no hosts. */
sl_status sl__hosts_of_slurm(int ranks, sl__hosts *hosts);
int sl__hosts_ranks(const sl__hosts *hosts);
/* A copy of the first hosts, with `ranks` ranks in all; the caller frees it. */
sl_status sl__hosts_first(const sl__hosts *hosts, int ranks, sl__hosts *first);
/* Removes ranks from the last hosts until `ranks` are left. */
void sl__hosts_limit(sl__hosts *hosts, int ranks);
/* Gives ranks to hosts that have none, until there are `ranks`; to each at most as many as the fullest host has. */
void sl__hosts_fill(sl__hosts *hosts, int ranks);
/* "node1:1,node2:4", as mpiexec reads it; hosts without ranks are left out. The caller frees it; NULL: no memory. */
char *sl__hosts_text(const sl__hosts *hosts);
/* Starts `true` on each host through mpiexec, and removes the hosts where this fails or takes longer than `seconds`.
 * gone[n]: their names. Returns how many were removed. */
int sl__hosts_drop_dead(sl__hosts *hosts, const char *mpiexec, double seconds, char *gone, size_t n);
void sl__hosts_free(sl__hosts *hosts);

#endif
