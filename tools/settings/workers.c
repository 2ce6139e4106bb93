/* Reads --workers and --gpus. */
#include "tools/settings/workers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/spread/placement.h"

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

sl_status sl__mesh_of(const sl__options *o, int ranks, sl__mesh *mesh) {
  *mesh = (sl__mesh){0};
  for (const char *at = o->mesh; at && *at;) {
    const int length = (int)strcspn(at, ",");
    SL_TRY(sl_blame(read_entry(at, length, mesh), "mesh"));
    at += length + (at[length] == ',');
  }
  /* What is left out: the only other way to divide the ranks, else the samples. */
  if (mesh->data && !mesh->tensor && !mesh->pipe && ranks % mesh->data == 0) mesh->pipe = ranks / mesh->data;
  if (!mesh->tensor) mesh->tensor = 1;
  if (!mesh->pipe) mesh->pipe = 1;
  const int sharing = mesh->pipe > 1000000 / mesh->tensor ? 1000000 : sl__mesh_sharing(mesh);
  if (!mesh->data) mesh->data = ranks >= sharing ? ranks / sharing : 1;
  if ((int64_t)mesh->data * sharing != ranks)
    return sl_blame(sl_fail(SL_EINVAL, "--mesh %s is for %lld ranks, and this job has %d", o->mesh,
                            (long long)mesh->data * sharing, ranks),
                    "mesh");
  if (sharing > SL_MAX_STAGES)
    return sl_blame(
        sl_fail(SL_EINVAL, "--mesh: pipe=%d times tensor=%d is more than %d", mesh->pipe, mesh->tensor, SL_MAX_STAGES),
        "mesh");
  if (sharing > 1 && o->zero > 0)
    return sl_blame(
        sl_fail(SL_EINVAL,
                "--zero divides what every rank keeps, and with --mesh %s each rank keeps its own part of the model: "
                "leave --zero out",
                o->mesh),
        "mesh");
  return SL_OK;
}
