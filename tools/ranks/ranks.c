/* What the ranks of a job do together. */
#include "tools/ranks/ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/base/time.h"
#include "runtime/exchange/exchange.h"
#include "runtime/machine/comm.h"
#include "tools/settings/exit_codes.h"
#include "tools/settings/mends.h"
#include "tools/watch/guard.h"
#include "tools/watch/heartbeat.h"
#include "tools/watch/watch.h"

enum { TEXT = 1024 };

sl_status sl__ranks_open(sl_runtime *runtime, sl__ranks *r) {
  *r = (sl__ranks){.rank = sl_runtime_rank(runtime),
                   .n = sl_runtime_ranks(runtime),
                   .comm = MPI_COMM_NULL,
                   .last = MPI_COMM_NULL,
                   .request = MPI_REQUEST_NULL};
  if (r->n == 1) return SL_OK;
  SL_TRY(sl_comm_status(MPI_Comm_dup(sl_runtime_comm(runtime), &r->comm), "MPI_Comm_dup"));
  SL_TRY(sl_comm_status(MPI_Comm_dup(sl_runtime_comm(runtime), &r->last), "MPI_Comm_dup"));
  MPI_Comm_set_errhandler(r->comm, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(r->last, MPI_ERRORS_RETURN);
  return SL_OK;
}

void sl__ranks_close(sl__ranks *r) {
  free(r->first_leaf), free(r->training_leaf);
  if (r->n > 1) {
    MPI_Comm_free(&r->comm);
    MPI_Comm_free(&r->last);
  }
  memset(r, 0, sizeof *r);
}

/* The leaves of `n` ranks, into *leaf, and the rows of rank `rank`. */
static sl_status divide(const sl_plan *plan, int rank, int n, const int *count, int **leaf, int64_t *row,
                        int64_t *rows) {
  int64_t last, size;
  int *first = realloc(*leaf, (size_t)(n + 1) * sizeof *first);
  if (!first) return sl_no_memory("for %d ranks", n);
  *leaf = first;
  first[0] = 0;
  for (int k = 0; k < n; k++) first[k + 1] = first[k] + (count ? count[k] : sl_leaves_of_rank(plan->leaves, k, n).n);
  sl_plan_leaf(plan, first[rank], row, &size);
  sl_plan_leaf(plan, first[rank + 1] - 1, &last, &size);
  *rows = last + size - *row;
  return SL_OK;
}

sl_status sl__ranks_divide(sl__ranks *r, const sl_plan *plan, const int *count) {
  const int model_ranks = r->mesh.pipe > 0 ? sl__mesh_model_ranks(&r->mesh) : 1;
  r->first_row = r->training_row = 0;
  r->rows = r->training_rows = plan->batch;
  if (r->n <= 1) return SL_OK;
  if (plan->leaves < r->n)
    return sl_fail(SL_EINVAL,
                   "%d ranks cannot share a batch of %d leaves: use at most %d ranks, or train with --leaves %d", r->n,
                   plan->leaves, plan->leaves, r->n);
  SL_TRY(divide(plan, r->rank, r->n, count, &r->first_leaf, &r->first_row, &r->rows));
  return divide(plan, r->rank / model_ranks, r->n / model_ranks, model_ranks > 1 ? NULL : count, &r->training_leaf,
                &r->training_row, &r->training_rows);
}

sl_status sl__ranks_exchange(sl__ranks *r, const sl_runtime *runtime, int allreduce, const char *compress) {
  SL_TRY(sl_compression_parse(compress, &r->compression));
  r->exchange = sl_exchange_types[allreduce];
  if (!r->exchange->compresses && r->compression.kind != SL_COMPRESSION_NONE)
    return sl_fail(SL_EINVAL, "--compress %s needs --allreduce %s: '%s' cannot compress messages", compress,
                   sl_exchange_types[0]->name, r->exchange->name);
  if (r->n <= 1) {
    r->compression.kind = SL_COMPRESSION_NONE;
    return SL_OK;
  }
  if (!r->exchange->same_bits)
    sl_log(SL_LOG_WARNING,
           "--allreduce %s gives up the promise of the same bits on any number of ranks: training steps "
           "are summed over ranks by %s",
           r->exchange->name, r->exchange->summary);
  if (r->compression.kind == SL_COMPRESSION_NONE) return SL_OK;
  int together;
  MPI_Comm_size(sl_runtime_node_comm(runtime), &together);
  if (together == r->n)
    sl_log(SL_LOG_WARNING, "--compress %s: all ranks are on one node and share its memory, so nothing is compressed",
           compress);
  else
    sl_log(SL_LOG_WARNING,
           "--compress %s gives up the promise of the same bits on any number of ranks, and after --resume: the "
           "sender keeps what its messages leave out, and checkpoints do not contain it",
           compress);
  return SL_OK;
}

sl_status sl__ranks_agree(const sl__ranks *r, sl_status status) {
  if (r->n <= 1) return status;
  status = sl_comm_agree(r->comm, status);
  return status;
}

/* Finds the first line in which mine and theirs differ; returns 0 if there is none. */
static int differs(const char *mine, const char *theirs, char line[2][256]) {
  while (*mine || *theirs) {
    const size_t a = strcspn(mine, "\n"), b = strcspn(theirs, "\n");
    if (a != b || memcmp(mine, theirs, a) != 0) {
      snprintf(line[0], sizeof line[0], "%.*s", (int)a, mine);
      snprintf(line[1], sizeof line[1], "%.*s", (int)b, theirs);
      return 1;
    }
    mine += a + (mine[a] != '\0');
    theirs += b + (theirs[b] != '\0');
  }
  return 0;
}

sl_status sl__ranks_compare(const sl__ranks *r, const char *text) {
  if (r->n <= 1) return SL_OK;
  int bytes = (int)strlen(text) + 1;
  char line[2][256], host[256] = "";
  sl_status status = SL_OK;
  SL_TRY(sl_comm_status(MPI_Bcast(&bytes, 1, MPI_INT, 0, r->comm), "MPI_Bcast"));
  char *first = malloc((size_t)bytes);
  if (first && r->rank == 0) memcpy(first, text, (size_t)bytes);
  if (!first) return sl_no_memory("to compare the ranks");
  status = sl_comm_status(MPI_Bcast(first, bytes, MPI_CHAR, 0, r->comm), "MPI_Bcast");
  if (status == SL_OK && differs(text, first, line)) {
    gethostname(host, sizeof host - 1);
    status = sl_fail(SL_EPLAN,
                     "the ranks differ: this rank, on %s, has \"%s\", and rank 0 has \"%s\": start all ranks with the "
                     "same program, options and data",
                     host, line[0], line[1]);
  }
  free(first);
  return sl__ranks_agree(r, status);
}

void sl__ranks_ask(sl__ranks *r, int flag) {
  r->mine = r->all = flag;
  if (r->n > 1) MPI_Iallreduce(&r->mine, &r->all, 1, MPI_INT, MPI_MAX, r->comm, &r->request);
}

int sl__ranks_answer(sl__ranks *r) {
  if (r->n > 1) MPI_Wait(&r->request, MPI_STATUS_IGNORE);
  return r->all;
}

double sl__ranks_sum(const sl__ranks *r, double value) {
  double sum = value;
  if (r->n > 1) MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, r->comm);
  return sum;
}

sl_status sl__ranks_gather(const sl__ranks *r, const double *mine, int n, double *all) {
  if (r->n <= 1) {
    memcpy(all, mine, (size_t)n * sizeof *all);
    return SL_OK;
  }
  const int code = MPI_Allgather(mine, n, MPI_DOUBLE, all, n, MPI_DOUBLE, r->comm);
  return sl_comm_status(code, "MPI_Allgather");
}

sl_status sl__ranks_broadcast(const sl__ranks *r, sl_store *store) {
  if (r->n <= 1) return SL_OK;
  sl_status status = SL_OK;
  SL_TRY(sl_store_acquire(store, 1));
  for (int i = 0; i < sl_store_count(store) && status == SL_OK; i++) {
    const sl_tensor *t = sl_store_at(store, i);
    if (t->owner >= 0 || t->common) continue;
    const size_t bytes = (size_t)sl_shape_count(&t->shape) * sl_dtype_bytes(t->dtype), most = (size_t)1 << 30;
    for (size_t at = 0; at < bytes && status == SL_OK; at += most)
      status = sl_comm_status(
          MPI_Bcast((char *)t->data + at, (int)(bytes - at < most ? bytes - at : most), MPI_BYTE, 0, r->comm),
          "MPI_Bcast");
  }
  if (status == SL_OK) status = sl_comm_status(MPI_Barrier(r->comm), "MPI_Barrier"); /* before common data are read */
  sl_store_release(store);
  return status;
}

sl_status sl__ranks_send(const sl__ranks *r, int from, int to, void *data, size_t bytes) {
  const size_t most = (size_t)1 << 30;
  for (size_t at = 0; at < bytes; at += most) {
    const int n = (int)(bytes - at < most ? bytes - at : most);
    if (r->rank == from)
      SL_TRY(sl_comm_status(MPI_Send((char *)data + at, n, MPI_BYTE, to, 0, r->comm), "MPI_Send"));
    else if (r->rank == to)
      SL_TRY(sl_comm_status(MPI_Recv((char *)data + at, n, MPI_BYTE, from, 0, r->comm, MPI_STATUS_IGNORE), "MPI_Recv"));
  }
  return SL_OK;
}

static size_t bytes_of(const sl_tensor *t) { return (size_t)sl_shape_count(&t->shape) * sl_dtype_bytes(t->dtype); }

/* Whether rank 0 needs a copy for a model file. */
static int is_elsewhere(const sl_tensor *t, const sl_graph *model) {
  return t->owner > 0 && sl_graph_find(model, t->name) != SL_NONE;
}

size_t sl__ranks_collected_bytes(const sl__ranks *r, const sl_store *store, const sl_graph *model) {
  size_t bytes = 0;
  for (int i = 0; i < sl_store_count(store) && r->rank == 0; i++)
    if (is_elsewhere(sl_store_at(store, i), model)) bytes += bytes_of(sl_store_at(store, i));
  return bytes;
}

sl_status sl__ranks_collect(const sl__ranks *r, sl_store *store, const sl_graph *model) {
  sl_status status = SL_OK;
  int any = 0;
  for (int i = 0; i < sl_store_count(store); i++) any |= is_elsewhere(sl_store_at(store, i), model);
  if (!any) return SL_OK;
  for (int i = 0; i < sl_store_count(store) && r->rank == 0 && status == SL_OK; i++) {
    sl_tensor *t = sl_store_at(store, i);
    if (is_elsewhere(t, model) && !(t->data = malloc(bytes_of(t) + 1)))
      status = sl_no_memory("for the model file: %zu bytes of parameters that other ranks hold",
                            sl__ranks_collected_bytes(r, store, model));
  }
  status = sl__ranks_agree(r, status);
  if (status == SL_OK) status = sl_store_acquire(store, 0);
  const int acquired = status == SL_OK;
  for (int i = 0; i < sl_store_count(store) && status == SL_OK; i++) {
    const sl_tensor *t = sl_store_at(store, i);
    if (is_elsewhere(t, model)) status = sl__ranks_send(r, t->owner, 0, t->data, bytes_of(t));
  }
  if (acquired) sl_store_release(store);
  if (status != SL_OK) sl__ranks_forget(r, store, model);
  return status;
}

void sl__ranks_forget(const sl__ranks *r, sl_store *store, const sl_graph *model) {
  for (int i = 0; i < sl_store_count(store) && r->rank == 0; i++) {
    sl_tensor *t = sl_store_at(store, i);
    if (!is_elsewhere(t, model)) continue;
    free(t->data);
    t->data = NULL;
  }
}

/* Whether all ranks reach this call soon. If so, all have failed alike. */
static int all_fail(const sl__ranks *r) {
  const double patience = 1 + fmin(0.2 * r->rank, 4), from = sl_seconds(); /* so that one rank prints first */
  MPI_Request request;
  int done = 0;
  if (MPI_Ibarrier(r->last, &request) != MPI_SUCCESS) return 0;
  while (!done && sl_seconds() - from < patience) {
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return 0;
    if (!done) usleep(1000);
  }
  return done;
}

void sl__ranks_fail(const sl__ranks *r, int exit_code) {
  char text[TEXT], host[256] = "", options[128];
  if (r->n <= 1) return;
  snprintf(text, sizeof text, "%s%s", sl_error(), sl__mending_options(sl_error_setting(), options, sizeof options));
  fflush(stdout);
  if (!all_fail(r)) {
    gethostname(host, sizeof host - 1);
    fprintf(stderr, "starling: rank %d of %d (%s): %s\n", r->rank, r->n, host, text);
    sl__heartbeat_abort(exit_code);
    sl__watch_abort(exit_code);
  }
  char *texts = calloc((size_t)r->n, TEXT);
  if (texts && MPI_Gather(text, TEXT, MPI_CHAR, texts, TEXT, MPI_CHAR, 0, r->last) == MPI_SUCCESS && r->rank == 0)
    for (int k = 0; k < r->n; k++) {
      int said = 0, by = 0;
      for (int i = 0; i < r->n; i++) {
        said |= i < k && strcmp(texts + i * TEXT, texts + k * TEXT) == 0;
        by += strcmp(texts + i * TEXT, texts + k * TEXT) == 0;
      }
      if (said) continue;
      if (by == r->n)
        fprintf(stderr, "starling: %s\n", texts);
      else
        fprintf(stderr, "starling: rank %d: %s\n", k, texts + k * TEXT);
    }
  free(texts);
  fflush(stderr);
  MPI_Barrier(r->last);
  sl__watch_drop();
  sl_comm_close(); /* the threads that exchange and write checkpoints still run */
  sl__guard_arm(exit_code);
  MPI_Finalize();
  sl__watch_leave();
  _exit(exit_code); /* StarPU's workers may be in the middle of a step */
}

void sl__ranks_fail_unmet(int rank, int exit_code) {
  enum { PATIENCE_S = 60 };
  const int n = sl_runtime_promised_ranks();
  int started = 0, level = 0;
  sl__ranks r = {.comm = MPI_COMM_WORLD, .last = MPI_COMM_WORLD, .request = MPI_REQUEST_NULL};
  if (n <= 1 || MPI_Initialized(&started) != MPI_SUCCESS || started) return;
  const sl_failure why = sl_failure_keep(SL_EINVAL); /* the message to print */
  if (sl__watch_open(rank, PATIENCE_S, 0, SL__EXIT_LOST) != SL_OK ||
      MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
    sl_failure_again(&why);
    return;
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &r.rank), MPI_Comm_size(MPI_COMM_WORLD, &r.n);
  sl_failure_again(&why);
  if (r.n == n) sl__ranks_fail(&r, exit_code);
  sl__watch_close();
  MPI_Finalize();
}
