/* Divides a node's cores among its ranks, and each rank's cores among its workers.
 *
 * A pure function of a hwloc topology, so that pinning on a machine of 128 cores is tested without one. Cores, not
 * hyperthreads, are dealt out. Ranks get whole NUMA domains while there are enough, else equal parts of one; a team
 * stays inside one domain if it fits in one. Every rank computes the same division, so shares never overlap unless
 * there are more ranks than cores. */
#ifndef SL_TOPOLOGY_H
#define SL_TOPOLOGY_H

#include <hwloc.h>
#include <stdio.h>

#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_topology_request {
  hwloc_topology_t topology;    /* loaded */
  hwloc_const_cpuset_t allowed; /* PUs that these ranks may use; NULL: all of the topology */
  double quota;                 /* CPU time that the cgroup grants these ranks together, in cores; 0: no limit */
  int ranks, rank;              /* ranks that share `allowed`; this rank's number among them */
  int threads_per_worker;       /* K; 0: the least that lets max_workers drive all cores of the share */
  int workers;                  /* CPU workers wanted; 0: as many as the share holds; -1: none */
  int max_workers;              /* CPU workers that StarPU can drive; 0: no limit */
  int drivers;                  /* threads that drive GPUs, one core each; a core remains for CPU workers, if any */
  const int *gpu_domain; /* [drivers] operating system index of each GPU's NUMA node; -1: unknown; NULL: all unknown.
                            The driver gets a core there if this rank has one */
} sl_topology_request;

/* One worker: a team of cores, the leader's first. */
typedef struct sl_place {
  int threads;
  unsigned *pu;     /* [threads] operating system index of each thread's PU */
  unsigned *core;   /* [threads] hwloc's logical index of its core */
  int domains;      /* NUMA domains that it touches; 1 if possible */
  unsigned *domain; /* [domains] operating system index of each domain's first NUMA node */
} sl_place;

typedef struct sl_share {
  int nworkers;
  sl_place *worker; /* [nworkers] */
  int ndrivers;
  unsigned *driver_pu;    /* [ndrivers] PUs of GPU drivers; repeats when cores are short */
  int threads_per_worker; /* K as used */
  int best_threads;       /* the K that would drive most cores of the share */
  int node_cores;         /* cores that all the ranks may use */
  int cores;              /* of these, this rank's */
  int idle_cores;         /* of this rank's, cores that no worker drives */
  int idle_by_workers;    /* idle because fewer workers were asked for */
  int idle_by_quota;      /* idle because the cgroup's quota is smaller than the set of cores */
  int idle_by_limit;      /* idle because StarPU cannot drive more workers: a larger K, or more ranks, would use them */
  int idle_by_shape;      /* idle because teams of K do not divide the NUMA domains evenly */
  int oversubscribed;     /* some core serves two threads or ranks */
} sl_share;

/* Divides the cores. After success, free the share by sl_share_free. SL_EINVAL: numbers out of range; SL_ETOPOLOGY: no
 * core allowed, or more workers asked for than StarPU can drive. */
sl_status sl_topology_divide(const sl_topology_request *request, sl_share *share);
void sl_share_free(sl_share *share);

/* Writes "worker 0: cores 0-7 (NUMA 0)" into text, at most n bytes, and returns text. Adds PUs if their numbers differ
 * from the cores'. */
char *sl_place_text(const sl_place *place, int worker, char *text, size_t n);
/* One such line for each worker and GPU driver. */
void sl_share_print(const sl_share *share, FILE *file);
/* Warnings about idle cores and oversubscription, each with a remedy; empty if all cores are well used. */
char *sl_share_warning(const sl_share *share, char *text, size_t n);

/* Ranks of a node that were given equal sets of PUs share them; sets of different ranks must be equal or disjoint.
 * Finds how many ranks have set[rank], and how many of those come before rank. SL_ETOPOLOGY when sets overlap in part.
 */
sl_status sl_topology_group(const hwloc_const_cpuset_t *set, int ranks, int rank, int *group_ranks, int *group_rank);

/* CPU time, in cores, that the control groups grant this process (v2 cpu.max, v1 cpu.cfs_quota_us; its own group and
 * all above); 0: no limit. Files are read below root ("" outside of tests). */
double sl_cgroup_cpu_quota(const char *root);

#ifdef __cplusplus
}
#endif
#endif
