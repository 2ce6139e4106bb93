/* Finds families and models by name, and makes models of other sizes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/models.h"
#include "models/networks.h" /* made by the build: an X for each file of Makefile.am's NETWORKS */

#define DECLARE(name) extern const sl_family sl_family_##name;
#define ADDRESS(name) &sl_family_##name,
SL__NETWORKS(DECLARE)
const sl_family *const sl_families[] = {SL__NETWORKS(ADDRESS) NULL};

const sl_model *sl_model_at(int i) {
  for (int f = 0; sl_families[f]; f++)
    for (const sl_model *m = sl_families[f]->models; m->name; m++)
      if (i-- == 0) return m;
  return NULL;
}

sl_status sl_model_find(const char *name, const sl_model **model) {
  char names[512] = "";
  for (int i = 0; (*model = sl_model_at(i)); i++) {
    if (strcmp((*model)->name, name) == 0) return SL_OK;
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", (*model)->name);
  }
  return sl_fail(SL_ENOTFOUND, "no model '%s': there are %s", name, names);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------ */

/* Copies model and sizes into one block of memory; sizes NULL: sets all sizes to 0. */
static sl_model *copy(const sl_model *model, const void *sizes) {
  enum { ALIGN = 16 };
  const size_t head = (sizeof *model + ALIGN - 1) / ALIGN * ALIGN, bytes = model->family->size_bytes;
  char *block = calloc(1, head + bytes + 1);
  if (!block) {
    sl_no_memory("for the sizes of %s", model->name);
    return NULL;
  }
  sl_model *m = (sl_model *)block;
  *m = *model;
  m->sizes = block + head;
  if (sizes) memcpy(block + head, sizes, bytes);
  return m;
}

sl_status sl_model_complete(const sl_model *model, sl_model **whole) {
  const sl_family *f = model->family;
  *whole = copy(model, model->sizes);
  if (!*whole) return SL_ENOMEM;
  const sl_status status = f->complete ? f->complete((void *)(*whole)->sizes) : SL_OK;
  if (status != SL_OK) free(*whole), *whole = NULL;
  return status;
}

static sl_status check(const sl_model *model) {
  sl_model *whole;
  const sl_status status = sl_model_complete(model, &whole);
  free(whole);
  return status;
}

sl_status sl_model_sized(const sl_model *model, const char *text, sl_model **sized) {
  const sl_family *f = model->family;
  *sized = copy(model, model->sizes);
  if (!*sized) return SL_ENOMEM;
  sl_status status = text ? sl_sizes_parse(f->sizes, f->name, text, (void *)(*sized)->sizes) : SL_OK;
  if (status == SL_OK) status = check(*sized);
  if (status != SL_OK) free(*sized), *sized = NULL;
  return status;
}

sl_status sl_model_with(const sl_model *model, const void *sizes, sl_model **sized) {
  *sized = copy(model, sizes);
  if (!*sized) return SL_ENOMEM;
  const sl_status status = check(*sized);
  if (status != SL_OK) free(*sized), *sized = NULL;
  return status;
}

static int differences(const sl_model *a, const sl_model *b) {
  int n = 0;
  for (const sl_size *s = a->family->sizes; s && s->name; s++) n += !sl_size_equal(s, a->sizes, b->sizes);
  return n;
}

sl_status sl_model_of_sizes(const sl_family *family, const void *sizes, sl_model **sized) {
  sl_model *wanted = copy(&(sl_model){.name = family->name, .family = family}, sizes), *whole = NULL, *listed = NULL;
  const sl_model *nearest = NULL;
  int least = 0;
  sl_status status = wanted ? SL_OK : SL_ENOMEM;
  *sized = NULL;
  if (status == SL_OK) SL_TRY_OUT(sl_model_complete(wanted, &whole));
  for (const sl_model *m = family->models; status == SL_OK && m->name; m++) {
    SL_TRY_OUT(sl_model_complete(m, &listed));
    const int n = differences(listed, whole);
    free(listed);
    if (!nearest || n < least) nearest = m, least = n;
  }
  if (status == SL_OK) status = sl_model_with(nearest, sizes, sized);
out:
  free(wanted), free(whole);
  return status;
}

json_t *sl_model_sizes_to_json(const sl_model *model) {
  sl_model *whole;
  if (sl_model_complete(model, &whole) != SL_OK) return NULL;
  json_t *json = sl_sizes_to_json(model->family->sizes, whole->sizes);
  free(whole);
  return json;
}

sl_status sl_model_from_json(const sl_model *model, const json_t *json, sl_model **sized) {
  *sized = copy(model, model->sizes);
  if (!*sized) return SL_ENOMEM;
  const sl_family *f = model->family;
  sl_status status = json ? sl_sizes_from_json(f->sizes, f->name, json, (void *)(*sized)->sizes) : SL_OK;
  if (status == SL_OK) status = check(*sized);
  if (status != SL_OK) free(*sized), *sized = NULL;
  return status;
}

int64_t sl_model_size(const sl_model *model, const char *name) {
  const sl_size *s = sl_size_find(model->family->sizes, name);
  return s ? *(const int64_t *)((const char *)model->sizes + s->offset) : 0;
}

/* Appends the sizes in which two complete models differ. derived = 1: only sizes that can be derived from others; 0:
 * only the other sizes. */
static void tell(const sl_model *model, const sl_model *usual, int derived, char *text, size_t n) {
  for (const sl_size *s = model->family->sizes; s && s->name; s++) {
    char value[128];
    if ((s->derived != NULL) != derived || sl_size_equal(s, model->sizes, usual->sizes)) continue;
    if (*sl_size_text(s, model->sizes, value, sizeof value))
      snprintf(text + strlen(text), n - strlen(text), "%s%s=%s", *text ? "," : "", s->name, value);
  }
}

/* A size that the list leaves open appears only if it differs from the value derived from the other sizes. */
char *sl_model_sizes_text(const sl_model *model, char *text, size_t n) {
  const sl_model *listed;
  sl_model *whole, *usual, *sized;
  *text = 0;
  if (sl_model_find(model->name, &listed) != SL_OK || listed->family != model->family) return text;
  if (sl_model_complete(model, &whole) != SL_OK) return text;
  if (sl_model_complete(listed, &usual) == SL_OK) {
    tell(whole, usual, 0, text, n);
    free(usual);
    if (sl_model_sized(listed, *text ? text : NULL, &sized) == SL_OK) {
      if (sl_model_complete(sized, &usual) == SL_OK) tell(whole, usual, 1, text, n), free(usual);
      free(sized);
    }
  }
  free(whole);
  return text;
}

char *sl_model_text(const sl_model *model, char *text, size_t n) {
  char sizes[SL_SIZES_TEXT];
  sl_model_sizes_text(model, sizes, sizeof sizes);
  snprintf(text, n, "%s%s%s", model->name, *sizes ? " " : "", sizes);
  return text;
}

int64_t sl_model_vocabulary(const sl_model *model) { return sl_model_size(model, "vocabulary"); }

int64_t sl_model_length(const sl_model *model) {
  const int64_t positions = sl_model_size(model, "positions");
  return positions > 0 && positions < model->usual.length ? positions : model->usual.length;
}
