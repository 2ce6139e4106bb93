/* Checks that the ranks still have the same bits. All ranks that hold a tensor compute the same values of it. If one
 * differs, its memory, its processor or the network has changed a bit without reporting an error. The check compares a
 * digest of each tensor, which costs one reading of the memory. Tensors that only one rank holds cannot be compared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runtime/base/log.h"
#include "runtime/machine/comm.h"
#include "tools/train/trainer.h"

enum { HOST = 64 };

/* Number of ranks that hold a tensor. */
static int copies_of(const sl_tensor *t, int ranks) {
  int n = 0;
  for (int k = 0; k < ranks; k++) n += sl_tensor_is_on(t, k);
  return n;
}

/* Computes digest[i] of each tensor of the store, at least 1; 0: this rank does not hold it, or no other rank does. */
static sl_status digest_tensors(sl_store *store, int ranks, int64_t *digest) {
  SL_TRY(sl_store_acquire(store, 0));
  for (int i = 0; i < sl_store_count(store); i++) {
    const sl_tensor *t = sl_store_at(store, i);
    if (!t->data || copies_of(t, ranks) < 2) continue;
    digest[i] = (int64_t)(XXH3_64bits(t->data, (size_t)sl_shape_count(&t->shape) * sl_dtype_bytes(t->dtype)) >> 1);
    if (digest[i] == 0) digest[i] = 1;
  }
  sl_store_release(store);
  return SL_OK;
}

/* The digest of tensor i that more than half of its ranks have; 0: there is none. */
static int64_t majority(const int64_t *all, int ranks, int n, int i) {
  int holders = 0;
  for (int k = 0; k < ranks; k++) holders += all[k * n + i] != 0;
  for (int a = 0; a < ranks; a++) {
    int same = 0;
    for (int b = 0; b < ranks; b++) same += all[b * n + i] == all[a * n + i];
    if (all[a * n + i] && 2 * same > holders) return all[a * n + i];
  }
  return 0;
}

/* Whether two ranks that hold tensor i have different digests of it. */
static int differs(const int64_t *all, int ranks, int n, int i) {
  int64_t first = 0;
  for (int k = 0; k < ranks; k++) {
    if (first && all[k * n + i] && all[k * n + i] != first) return 1;
    if (!first) first = all[k * n + i];
  }
  return 0;
}

/* Names the first tensor that differs, the ranks that differ from the majority, and the number of further tensors. */
static sl_status tell(const sl__trainer *r, const int64_t *all, const char *hosts, int n) {
  const int ranks = r->job.ranks.n;
  char who[512] = "", more[64] = "";
  int first = -1, others = -1;
  for (int i = 0; i < n; i++) {
    if (!differs(all, ranks, n, i)) continue;
    if (first < 0) first = i;
    others++;
  }
  const int64_t right = majority(all, ranks, n, first);
  for (int k = 0; right && k < ranks; k++) {
    const size_t used = strlen(who);
    if (all[k * n + first] && all[k * n + first] != right)
      snprintf(who + used, sizeof who - used, "%srank %d (%s)", used ? ", " : "", k, hosts + k * HOST);
  }
  if (others) snprintf(more, sizeof more, ", and %d more tensors", others);
  const char *name = sl_store_at(r->job.store, first)->name;
  return right ? sl_fail(SL_EMEMORY, "after step %lld %s%s of %s differs from that of the other ranks",
                         (long long)r->job.step, name, more, who)
               : sl_fail(SL_EMEMORY, "after step %lld %s%s differs between the ranks, and no majority of them agrees",
                         (long long)r->job.step, name, more);
}

void sl__trainer_warn_unverified(const sl__trainer *r) {
  const int nodes = sl_runtime_nodes(r->job.runtime);
  const sl__mesh *mesh = &r->job.ranks.mesh;
  const char *by = mesh->tensor > 1 ? "mesh tensor=" : mesh->pipe > 1 ? "mesh pipe=" : "zero ";
  int parameters = 0, compared = 0;
  if (r->o->verify_every <= 0 || r->job.ranks.rank > 0) return;
  for (int i = 0; i < sl_store_count(r->job.store); i++) {
    const sl_tensor *t = sl_store_at(r->job.store, i);
    const int copies = copies_of(t, r->job.ranks.n) > 1 && !(t->common && nodes == 1); /* 1: several ranks have one */
    parameters += t->parameter, compared += t->parameter && copies;
  }
  if (r->job.ranks.n <= 1)
    sl_log(SL_LOG_WARNING, "--verify-every compares ranks, and this run has only one: nothing is compared");
  else if (compared < parameters)
    sl_log(SL_LOG_WARNING,
           "--verify-every compares the ranks' copies of parameters, and with --%s%lld there is only one copy of %d of "
           "the %d parameters: these are not compared",
           by,
           mesh->tensor > 1 ? (long long)mesh->tensor
           : mesh->pipe > 1 ? (long long)mesh->pipe
                            : (long long)r->o->zero,
           parameters - compared, parameters);
}

sl_status sl__trainer_verify(sl__trainer *r) {
  const int ranks = r->job.ranks.n, n = sl_store_count(r->job.store);
  const MPI_Comm comm = r->job.ranks.comm;
  sl_status status = SL_OK;
  int found = 0, length;
  char name[MPI_MAX_PROCESSOR_NAME + 1] = "", host[HOST] = "";
  if (ranks <= 1) return SL_OK;
  int64_t *mine = calloc((size_t)n + 1, sizeof *mine), *most = calloc(2 * (size_t)n + 1, sizeof *most), *all = NULL;
  char *hosts = calloc((size_t)ranks, HOST);
  status = mine && most && hosts ? digest_tensors(r->job.store, ranks, mine) : sl_no_memory("to compare the ranks");
  SL_TRY_OUT(sl__ranks_agree(&r->job.ranks, status));
  /* most[i]: the largest digest of tensor i; most[n + i]: INT64_MAX minus the smallest. Ranks without the tensor give 0
   * for both. Signed numbers, because MPICH 4.0 takes MPI_UINT64_T as signed in MPI_MAX. */
  for (int i = 0; i < n; i++) most[i] = mine[i], most[n + i] = mine[i] ? INT64_MAX - mine[i] : 0;
  SL_TRY_OUT(sl_comm_status(MPI_Allreduce(MPI_IN_PLACE, most, 2 * n, MPI_INT64_T, MPI_MAX, comm), "MPI_Allreduce"));
  for (int i = 0; i < n; i++) found |= most[n + i] != (most[i] ? INT64_MAX - most[i] : 0);
  if (!found) goto out;
  all = calloc((size_t)ranks * (size_t)n, sizeof *all);
  SL_TRY_OUT(sl__ranks_agree(&r->job.ranks, all ? SL_OK : sl_no_memory("to compare the ranks")));
  SL_TRY_OUT(sl_comm_status(MPI_Allgather(mine, n, MPI_INT64_T, all, n, MPI_INT64_T, comm), "MPI_Allgather"));
  MPI_Get_processor_name(name, &length);
  snprintf(host, sizeof host, "%.*s", HOST - 1, name);
  SL_TRY_OUT(sl_comm_status(MPI_Allgather(host, HOST, MPI_CHAR, hosts, HOST, MPI_CHAR, comm), "MPI_Allgather"));
  status = tell(r, all, hosts, n);
out:
  free(mine), free(most), free(all), free(hosts);
  return status;
}
