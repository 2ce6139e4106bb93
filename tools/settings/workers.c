/* Reads --workers, --gpus and --gpu-kernels. */
#include "tools/settings/workers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/processors/cuda_context.h"

int sl__gpu_kernels(const sl__options *o) {
  if (!o->gpu_kernels || strcmp(o->gpu_kernels, "exact") == 0) return SL_GPU_EXACT;
  return strcmp(o->gpu_kernels, "tf32") == 0 ? SL_GPU_TF32 : SL_GPU_FAST;
}

sl_status sl__workers_of(const sl__options *o, sl__workers *w) {
  enum { MOST = 4096 };
  const char *text = o->workers ? o->workers : "";
  *w = (sl__workers){.gpus = o->gpus >= 0 ? (int)o->gpus : -1};
  if (!*text || strcmp(text, "both") == 0) return SL_OK;
  if (strcmp(text, "cpu") == 0) {
    if (o->gpus > 0) return sl_fail(SL_EINVAL, "--workers cpu uses no GPU, but --gpus asks for %d", (int)o->gpus);
    w->gpus = 0;
  } else if (strcmp(text, "gpu") == 0) {
    if (o->gpus == 0) return sl_fail(SL_EINVAL, "--workers gpu needs a GPU, but --gpus 0 allows none");
    w->cpus = -1;
  } else if (strcmp(text, "auto") == 0) {
    w->choose = 1;
  } else {
    char *end;
    errno = 0;
    const long n = strtol(text, &end, 10);
    if (end == text || *end || errno || n < 1 || n > MOST)
      return sl_fail(SL_EINVAL, "--workers %.40s: give cpu, gpu, both, auto or a number of CPU workers, 1 to %d", text,
                     MOST);
    w->cpus = (int)n;
  }
  return SL_OK;
}

/* ---- the mesh ---- */

static sl_status read_entry(const char *entry, int length, sl__mesh *mesh) {
  static const char *const names[] = {"data", "pipe", "tensor"};
  int *const sizes[] = {&mesh->data, &mesh->pipe, &mesh->tensor}, *size = NULL;
  char *end;
  const size_t name = strcspn(entry, "=,");
  for (int i = 0; i < 3; i++)
    if (strlen(names[i]) == name && strncmp(entry, names[i], name) == 0) size = sizes[i];
  if (!size)
    return sl_fail(SL_EINVAL, "--mesh: '%.*s' is none of data=N, pipe=N and tensor=N, as in --mesh data=2,pipe=2",
                   length, entry);
  const long n = entry[name] == '=' ? strtol(entry + name + 1, &end, 10) : 0;
  if (n < 1 || n > 1000000 || end != entry + length)
    return sl_fail(SL_EINVAL, "--mesh: '%.*s' has no number of ranks, such as in %.*s=2", length, entry, (int)name,
                   entry);
  if (*size) return sl_fail(SL_EINVAL, "--mesh names %.*s twice", (int)name, entry);
  *size = (int)n;
  return SL_OK;
}

/* Refuses a mesh for another number of ranks. The error gives the mesh's number of ranks, and a mesh or job that would
 * fit. */
static sl_status refuse_ranks(const sl__options *o, int ranks, const sl__mesh *mesh) {
  const int64_t model_ranks = (int64_t)mesh->pipe * mesh->tensor;
  char mend[128];
  if (model_ranks > SL_MAX_MODEL_RANKS)
    snprintf(mend, sizeof mend, "pipe times tensor, %lld, must be at most %d", (long long)model_ranks,
             SL_MAX_MODEL_RANKS);
  else if (ranks % model_ranks == 0)
    snprintf(mend, sizeof mend, "%d ranks leave data=%lld beside pipe=%d and tensor=%d", ranks,
             (long long)(ranks / model_ranks), mesh->pipe, mesh->tensor);
  else
    snprintf(mend, sizeof mend, "pipe times tensor, %lld, must divide the %d ranks", (long long)model_ranks, ranks);
  return sl_blame(
      sl_fail(SL_EINVAL, "--mesh %s is for %lld ranks (data=%d x pipe=%d x tensor=%d), and this job has %d: %s",
              o->mesh, (long long)mesh->data * model_ranks, mesh->data, mesh->pipe, mesh->tensor, ranks, mend),
      "mesh");
}

sl_status sl__mesh_named(const sl__options *o, sl__mesh *mesh) {
  *mesh = (sl__mesh){0};
  for (const char *at = o->mesh; at && *at;) {
    const int length = (int)strcspn(at, ",");
    SL_TRY(sl_blame(read_entry(at, length, mesh), "mesh"));
    at += length + (at[length] == ',');
  }
  return SL_OK;
}

static int cuts_by_hand(const sl__options *o) { return o->stages && strcmp(o->stages, "auto") != 0; }

sl_status sl__mesh_of(const sl__options *o, int ranks, sl__mesh *mesh) {
  SL_TRY(sl__mesh_named(o, mesh));
  /* Fills in the sizes that are left out: `pipe` if only `data` is given, otherwise `data`. */
  if (mesh->data && !mesh->tensor && !mesh->pipe && ranks % mesh->data == 0) mesh->pipe = ranks / mesh->data;
  if (!mesh->tensor) mesh->tensor = 1;
  if (!mesh->pipe) mesh->pipe = 1;
  const int model_ranks = mesh->pipe > 1000000 / mesh->tensor ? 1000000 : sl__mesh_model_ranks(mesh);
  if (!mesh->data) mesh->data = ranks >= model_ranks ? ranks / model_ranks : 1;
  if ((int64_t)mesh->data * model_ranks != ranks) return refuse_ranks(o, ranks, mesh);
  if (model_ranks > SL_MAX_MODEL_RANKS)
    return sl_blame(sl_fail(SL_EINVAL, "--mesh: pipe=%d times tensor=%d is more than %d", mesh->pipe, mesh->tensor,
                            SL_MAX_MODEL_RANKS),
                    "mesh");
  if (cuts_by_hand(o) && mesh->pipe == 1)
    return sl_fail(SL_EINVAL, "--stages %.80s: this job has no pipeline: add --mesh pipe=N, or --stages auto",
                   o->stages);
  return SL_OK;
}

sl_status sl__pipe_is_there(const sl__options *o, const sl__mesh *mesh) {
  if (mesh->pipe == 1 &&
      (o->pipe_chunks > 1 || o->pipe_parts > 1 || (o->pipe_order && strcmp(o->pipe_order, "1f1b") != 0)))
    return sl_fail(SL_EINVAL, "--pipe-%s: this job has no pipeline: add --mesh pipe=N, or leave it out",
                   o->pipe_chunks > 1  ? "chunks"
                   : o->pipe_parts > 1 ? "parts"
                                       : "order");
  return SL_OK;
}

const char *const sl__pipe_orders[SL_PIPE_ORDERS] = {"1f1b", "gpipe", "zero-bubble", "eager-1f1b"};

int sl__pipe_order_is_chosen(const sl__options *o) { return o->pipe_order && strcmp(o->pipe_order, "auto") == 0; }

sl_pipeline sl__pipeline_of(const sl__options *o) {
  sl_pipeline p = {.chunks = (int)o->pipe_chunks, .cuts = cuts_by_hand(o) ? o->stages : NULL};
  for (int i = 0; i < SL_PIPE_ORDERS && o->pipe_order; i++)
    if (strcmp(o->pipe_order, sl__pipe_orders[i]) == 0) p.order = (sl_pipe_order)i;
  return p;
}
