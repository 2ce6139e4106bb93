/* The facts that must be the same on all ranks of a job: the program itself, the options that decide bits or the
 * sequence of actions, the plan with the kernels, and the data. */
#include "tools/run/digest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runtime/base/json.h"
#include "runtime/machine/runtime.h"
#include "tools/run/session.h"

/* Digest of the executable: reveals a rank that runs another build, even of the same version. */
static sl_status executable(uint64_t *digest) {
  char buffer[1 << 16];
  size_t n;
  FILE *file = fopen("/proc/self/exe", "rbe");
  XXH64_state_t *state = XXH64_createState();
  if (!state) {
    if (file) fclose(file);
    return sl_no_memory("for a digest");
  }
  XXH64_reset(state, 0);
  while (file && (n = fread(buffer, 1, sizeof buffer, file)) > 0) XXH64_update(state, buffer, n);
  *digest = XXH64_digest(state);
  XXH64_freeState(state);
  if (file) fclose(file);
  return SL_OK;
}

sl_status sl__digest(const sl__options *o, const sl__model_facts *f, const sl_data *data, char **text) {
  char *yaml = NULL;
  uint64_t program;
  size_t bytes;
  *text = NULL;
  json_t *plan = sl_plan_to_json(&f->plan);
  FILE *to = open_memstream(text, &bytes);
  sl_status status = SL_OK;
  if (!plan || !to) SL_TRY_OUT(sl_no_memory("for a digest"));
  SL_TRY_OUT(executable(&program));
  SL_TRY_OUT(sl__options_of_ranks(o, &yaml));
  fprintf(to, "program: %s %016llx\nStarPU: %s\n", sl__commit(), (unsigned long long)program, sl_runtime_starpu());
  fputs(yaml, to);
  const char *name;
  json_t *value;
  json_object_foreach(plan, name, value) {
    char *shown = sl_json_text(value, 0);
    fprintf(to, "plan's %s: %s\n", name, shown ? shown : "");
    free(shown);
  }
  static const char *const splits[SL_SPLIT_COUNT] = {"training", "validation", "test"};
  for (int s = 0; s < SL_SPLIT_COUNT; s++)
    fprintf(to, "%s for %s: %lld\n", data->kind->samples, splits[s], (long long)data->n[s]);
  fprintf(to, "classes: %lld\n", (long long)data->model.classes);
  data->kind->compare(data, to);
out:
  if (to && fclose(to) != 0 && status == SL_OK) status = sl_no_memory("for a digest");
  json_decref(plan);
  free(yaml);
  if (status != SL_OK) free(*text), *text = NULL;
  return status;
}

sl_status sl__state_digest(sl_store *store, char text[SL__DIGEST_TEXT]) {
  uint64_t digest = 0;
  SL_TRY(sl_store_acquire(store, 0));
  for (int i = 0; i < sl_store_count(store); i++) {
    const sl_tensor *t = sl_store_at(store, i);
    if (t->data) digest = XXH64(t->data, (size_t)sl_shape_count(&t->shape) * sl_dtype_bytes(t->dtype), digest);
  }
  sl_store_release(store);
  snprintf(text, SL__DIGEST_TEXT, "%016llx", (unsigned long long)digest);
  return SL_OK;
}
