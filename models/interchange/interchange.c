/* Converts published tensors to Starling's tensors and back, by the tables of formats.c. */
#include "models/interchange/interchange.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/interchange/formats.h"

enum { NAME = 256, MOST_CAPTURES = 8 };

const char *sl_format_name(const sl_format *format) { return format->name; }
const char *sl_format_library(const sl_format *format) { return format->library; }
const sl_family *sl_format_family(const sl_format *format) { return format->family; }
int sl_format_has_config(const sl_format *format) { return format->has_config; }

/* ---- names ------------------------------------------------------------------------------------------------------ */

typedef struct captures {
  const char *at[MOST_CAPTURES];
  int length[MOST_CAPTURES], n;
} captures;

static int match(const char *pattern, const char *name, captures *c) {
  for (; *pattern && !strchr("#^*", *pattern); pattern++, name++)
    if (*pattern != *name) return 0;
  if (!*pattern) return !*name;
  if (c->n == MOST_CAPTURES) return 0;
  const int mine = c->n, numbers = *pattern != '*';
  int longest = 0;
  while (name[longest] && (!numbers || isdigit((unsigned char)name[longest]))) longest++;
  for (int length = longest; length >= numbers; length--) {
    c->n = mine + 1;
    c->at[mine] = name, c->length[mine] = length;
    if (match(pattern + 1, name + length, c)) return 1;
  }
  return 0;
}

int sl__rename(const char *pattern, const char *name, const char *other, char *text, size_t n) {
  captures c = {0};
  size_t at = 0;
  if (strlen(name) >= NAME || !match(pattern, name, &c)) return 0;
  for (int k = 0; *other; other++) {
    const int captured = strchr("#^*", *other) && k < c.n;
    char less[24];
    const char *from = captured ? c.at[k] : other;
    size_t length = captured ? (size_t)c.length[k++] : 1;
    if (captured && *other == '^') {
      length = (size_t)snprintf(less, sizeof less, "%lld", atoll(from) - 1);
      from = less;
    }
    if (at + length >= n) return 0;
    memcpy(text + at, from, length);
    at += length;
  }
  text[at] = 0;
  return 1;
}

/* A published name without its optional prefix, and with the current ending in place of an old one. */
static const char *plain(const sl_format *f, const char *name, char text[NAME]) {
  const size_t prefix = strlen(f->prefix);
  if (strncmp(name, f->prefix, prefix) == 0) name += prefix;
  if (strlen(name) >= NAME) return name;
  const size_t length = strlen(name);
  for (int i = 0; f->spellings[i][0]; i++) {
    const size_t end = strlen(f->spellings[i][0]);
    if (length < end || strcmp(name + length - end, f->spellings[i][0]) != 0) continue;
    snprintf(text, NAME, "%.*s%s", (int)(length - end), name, f->spellings[i][1]);
    return text;
  }
  return name;
}

static int find(const sl_format *f, const sl_weights *w, const char *name) {
  char mine[NAME], theirs[NAME];
  const char *wanted = plain(f, name, mine);
  for (int i = 0; i < sl_weights_count(w); i++)
    if (strcmp(plain(f, sl_weights_get(w, i)->name, theirs), wanted) == 0) return i;
  return -1;
}

static const sl__rule *rule_of(const sl_format *f, const char *ours) {
  captures c = {0};
  for (const sl__rule *r = f->rules; r->ours; r++, c.n = 0)
    if (match(r->ours, ours, &c)) return r;
  return NULL;
}

/* The rule that a published name matches. */
static const sl__rule *rule_of_published(const sl_format *f, const char *name) {
  char mine[NAME], theirs[NAME];
  captures c = {0};
  for (const sl__rule *r = f->rules; r->ours; r++)
    for (int p = 0; p < SL__PARTS && r->published[p]; p++, c.n = 0)
      if (match(plain(f, r->published[p], mine), plain(f, name, theirs), &c)) return r;
  return NULL;
}

int sl__name_matches(const sl_format *f, const char *pattern, const char *name, int64_t number[2]) {
  char mine[NAME];
  captures c = {0};
  number[0] = number[1] = -1;
  if (!match(pattern, plain(f, name, mine), &c)) return 0;
  for (int i = 0; i < 2 && i < c.n; i++) number[i] = atoll(c.at[i]);
  return 1;
}

/* Lists the sizes that the format fixes and in which the model differs; "": none. */
static sl_status misfit(const sl_format *f, const sl_model *model, char *text, size_t n) {
  sl_model *whole, *fixed = NULL;
  *text = 0;
  SL_TRY(sl_model_complete(model, &whole));
  const sl_status status = sl_model_sized(whole, f->sizes, &fixed);
  for (const sl_size *s = f->family->sizes; status == SL_OK && s && s->name; s++) {
    char mine[128], theirs[128];
    if (!sl_size_equal(s, whole->sizes, fixed->sizes))
      snprintf(text + strlen(text), n - strlen(text), "%s%s=%s and not %s", *text ? ", " : "", s->name,
               sl_size_text(s, whole->sizes, mine, sizeof mine), sl_size_text(s, fixed->sizes, theirs, sizeof theirs));
  }
  free(whole), free(fixed);
  return status;
}

sl_status sl_format_of_model(const sl_model *model, const char *library, const sl_format **format) {
  char text[256] = "", others[256] = "";
  for (int i = 0; (*format = sl__formats[i]); i++) {
    const sl_format *f = *format;
    if (f->family != model->family) continue;
    if (strcmp(f->library, library) != 0) {
      if (!strstr(others, f->library))
        snprintf(others + strlen(others), sizeof others - strlen(others), "%s%s", *others ? ", " : "", f->library);
      continue;
    }
    SL_TRY(misfit(f, model, text, sizeof text));
    if (!*text) return SL_OK;
  }
  return sl_blame(sl_fail(SL_EUNSUPPORTED, "%s is not a model that %s has a layout for%s%s%s%s", model->name, library,
                          *text ? ": it has " : "", text, *others ? "; there is one for " : "", others),
                  *others ? "library" : "");
}

const sl_format *sl_format_of_weights(const sl_weights *weights) {
  for (int f = 0; sl__formats[f]; f++)
    if (find(sl__formats[f], weights, sl__formats[f]->mark) >= 0) return sl__formats[f];
  return NULL;
}

int64_t sl_format_classes(const sl_format *format, const sl_weights *weights) {
  const int i = find(format, weights, format->classes);
  const sl_named_array *a = i < 0 ? NULL : sl_weights_get(weights, i);
  return a && a->shape.ndim == 2 && a->shape.dim[1] > 0 && a->shape.dim[0] < INT32_MAX ? a->shape.dim[0] : 0;
}

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

static sl_shape stripped(const sl_shape *shape) {
  int ones = 0;
  while (ones < shape->ndim && shape->dim[ones] == 1) ones++;
  return sl_shape_make(shape->dim + ones, shape->ndim - ones);
}

static sl_shape padded(const sl_shape *shape, int dims) {
  sl_shape p = sl_shape_make(NULL, 0);
  for (int d = shape->ndim; d < dims; d++) p.dim[p.ndim++] = 1;
  for (int d = 0; d < shape->ndim; d++) p.dim[p.ndim++] = shape->dim[d];
  return p;
}

static int filters(const sl__rule *r, const sl_shape *ours) { return r->layout == SL__FILTERS && ours->ndim == 4; }

/* The published shape of one part of a tensor of the network. */
static sl_shape published_shape(const sl__rule *r, const sl_shape *ours) {
  sl_shape s = *ours;
  switch (r->layout) {
    case SL__TRANSPOSED:
      return SL_SHAPE(ours->dim[1], ours->dim[0]);
    case SL__STACKED:
      s.dim[0] /= SL__PARTS;
      return s;
    case SL__PADDED:
      s = stripped(ours);
      return padded(&s, r->dims);
    case SL__FILTERS:
      return filters(r, ours) ? SL_SHAPE(ours->dim[0], ours->dim[3], ours->dim[1], ours->dim[2]) : s;
    default:
      return s;
  }
}

static int fits(const sl__rule *r, const sl_shape *want, const sl_shape *have) {
  if (sl_shape_equal(want, have)) return 1;
  if (r->layout == SL__PADDED) {
    const sl_shape a = stripped(want), b = stripped(have);
    if (sl_shape_equal(&a, &b)) return 1;
  }
  if (r->layout != SL__LONGER) return 0;
  sl_shape shorter = stripped(have);
  const sl_shape a = stripped(want);
  if (shorter.ndim != a.ndim || a.ndim < 1 || shorter.dim[0] < a.dim[0]) return 0;
  shorter.dim[0] = a.dim[0];
  return sl_shape_equal(&shorter, &a);
}

/* ---- layouts ---------------------------------------------------------------------------------------------------- */

/* x [rows, columns] to y [columns, rows]. */
static void transpose(const float *x, int64_t rows, int64_t columns, float *y) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++) y[c * rows + r] = x[r * columns + c];
}

/* Copies a published array into a tensor of the network. The array is part `part`, in the layout and shape of the
 * file. */
static void take(const sl__rule *r, const sl_shape *ours, const sl_shape *shape, int part, const float *published,
                 float *data) {
  const int64_t n = sl_shape_count(ours);
  if (r->layout == SL__TRANSPOSED) {
    transpose(published, shape->dim[0], shape->dim[1], data);
  } else if (r->layout == SL__STACKED) {
    memcpy(data + n / SL__PARTS * part, published, (size_t)(n / SL__PARTS) * sizeof *data);
  } else if (filters(r, ours)) {
    const int64_t C = shape->dim[1], taps = shape->dim[2] * shape->dim[3];
    for (int64_t o = 0; o < shape->dim[0]; o++) transpose(published + o * C * taps, C, taps, data + o * C * taps);
  } else {
    memcpy(data, published, (size_t)n * sizeof *data);
  }
}

static void give(const sl__rule *r, const sl_shape *ours, const sl_shape *shape, const float *data, float *published) {
  if (r->layout == SL__TRANSPOSED) {
    transpose(data, ours->dim[0], ours->dim[1], published);
  } else {
    const int64_t C = shape->dim[1], taps = shape->dim[2] * shape->dim[3];
    for (int64_t o = 0; o < shape->dim[0]; o++) transpose(data + o * C * taps, taps, C, published + o * C * taps);
  }
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

void sl_fit_clear(sl_fit *fit) {
  free(fit->lines);
  *fit = (sl_fit){0};
}

sl_status sl_fit_status(const sl_fit *fit, const char *path) {
  if (fit->missing + fit->wrong + fit->extra == 0) return SL_OK;
  return sl_fail(SL_EFORMAT, "%s: tensors do not fit the network: %d missing, %d wrong, %d too many; the first: %.*s",
                 path, fit->missing, fit->wrong, fit->extra, (int)strcspn(fit->lines, "\n"), fit->lines);
}

typedef struct reading {
  const sl_weights *weights;
  const sl_format *format;
  const sl_graph *graph;
  sl_store *store;
  int new_head; /* 1: the classifier is not read */
  sl_fit *fit;
  FILE *lines;
  char *used; /* [tensors of weights] */
} reading;

static const sl__rule same = {"*", SL__SAME, {"*"}, 0};

/* Whether a tensor of the network has this published name (without prefix). */
static int wanted(const reading *r, const char *name) {
  char published[NAME], text[NAME];
  for (sl_value v = 0; v < r->graph->n_values; v++) {
    const sl_value_info *info = r->graph->value[v];
    const sl__rule *rule = info->role == SL_ROLE_TEMPORARY ? NULL : rule_of(r->format, info->name);
    for (int p = 0; rule && p < SL__PARTS && rule->published[p]; p++)
      if (sl__rename(rule->ours, info->name, rule->published[p], published, sizeof published) &&
          strcmp(plain(r->format, published, text), name) == 0)
        return 1;
  }
  return 0;
}

/* The published tensor with this name, or the published tensor that is tied to this name; -1: there is neither. If the
 * network has a tensor of its own for the second name, the names are not tied. */
static int resolve(const reading *r, const char *name) {
  if (!r->format) return sl_weights_find(r->weights, name);
  char text[NAME];
  int i = find(r->format, r->weights, name);
  for (int t = 0; i < 0 && r->format->tied[t][0]; t++)
    if (strcmp(plain(r->format, name, text), r->format->tied[t][1]) == 0 && !wanted(r, r->format->tied[t][0]))
      i = find(r->format, r->weights, r->format->tied[t][0]);
  return i;
}

static sl_status read_part(reading *r, const sl__rule *rule, const sl_value_info *v, const char *name, int part) {
  const int i = resolve(r, name);
  char mine[SL_SHAPE_TEXT], theirs[SL_SHAPE_TEXT];
  if (i < 0) {
    fprintf(r->lines, "missing  %s (%s)\n", name, v->name);
    r->fit->missing++;
    return SL_OK;
  }
  r->used[i] = 1;
  const sl_named_array *a = sl_weights_get(r->weights, i);
  const sl_shape want = published_shape(rule, &v->shape);
  if (!fits(rule, &want, &a->shape)) {
    fprintf(r->lines, "shape    %s (%s) is %s in the file, the network wants %s\n", a->name, v->name,
            sl_shape_text(&a->shape, theirs, sizeof theirs), sl_shape_text(&want, mine, sizeof mine));
    r->fit->wrong++;
    return SL_OK;
  }
  if (v->dtype != SL_F32 || (a->dtype != SL_F32 && a->dtype != SL_F16 && a->dtype != SL_BF16)) {
    fprintf(r->lines, "type     %s (%s) is %s in the file, weights are F32, F16 or BF16\n", a->name, v->name,
            sl_dtype_name(a->dtype));
    r->fit->wrong++;
    return SL_OK;
  }
  if (!r->store) return SL_OK;
  sl_tensor *t = sl_store_find(r->store, v->name);
  if (!t) return sl_fail(SL_ENOTFOUND, "the store has no tensor '%s'", v->name);
  if (!t->data) return SL_OK; /* another rank holds it */
  if (rule->layout == SL__SAME || (rule->layout == SL__FILTERS && !filters(rule, &v->shape)))
    return sl_weights_read(r->weights, i, t->data);
  float *room = malloc((size_t)sl_shape_count(&a->shape) * sizeof *room + 1);
  if (!room) return sl_no_memory("for tensor %s of %s", a->name, sl_weights_file(r->weights, i));
  const sl_status status = sl_weights_read(r->weights, i, room);
  if (status == SL_OK) take(rule, &v->shape, &a->shape, part, room, t->data);
  free(room);
  return status;
}

static sl_status read_tensor(reading *r, const sl_value_info *v, int fresh) {
  char name[NAME];
  const sl__rule *rule = r->format ? rule_of(r->format, v->name) : &same;
  if (!rule) return sl_fail(SL_EUNSUPPORTED, "tensor '%s' has no name among published %s", v->name, r->format->name);
  for (int p = 0; p < SL__PARTS && rule->published[p]; p++) {
    if (!sl__rename(rule->ours, v->name, rule->published[p], name, sizeof name))
      return sl_fail(SL_EUNSUPPORTED, "the name of tensor '%s' is too long", v->name);
    if (fresh) {
      const int i = resolve(r, name);
      if (i >= 0) r->used[i] = 1;
      r->fit->fresh++;
    } else {
      SL_TRY(read_part(r, rule, v, name, p));
    }
  }
  return SL_OK;
}

static int is_buffer(const sl_format *f, const char *name) {
  int64_t number[2];
  for (int k = 0; f && f->buffers[k]; k++)
    if (sl__name_matches(f, f->buffers[k], name, number)) return 1;
  return 0;
}

/* The part to which this published tensor belongs; -1: none. */
static int part_of(const sl_format *f, const char *const (*parts)[2], const char *name) {
  int64_t number[2];
  for (int k = 0; parts && parts[k][0]; k++)
    if (sl__name_matches(f, parts[k][0], name, number)) return k;
  return -1;
}

/* For each of these parts that the file has, writes one line with the tensors of the part. Returns the number of
 * lines. */
static int tell_parts(reading *r, const char *label, const char *const (*parts)[2]) {
  int lines = 0;
  for (int k = 0; parts && parts[k][0]; k++) {
    int n = 0;
    for (int i = 0; i < sl_weights_count(r->weights); i++) {
      const char *name = sl_weights_get(r->weights, i)->name;
      if (r->used[i] || part_of(r->format, parts, name) != k) continue;
      if (n++)
        fprintf(r->lines, ", %s", name);
      else
        fprintf(r->lines, "%s %s: %s", label, parts[k][1], name);
    }
    if (n) fputc('\n', r->lines), lines++;
  }
  return lines;
}

/* A tied tensor's second copy must equal the first. */
static sl_status check_tied(reading *r, int i, int *tied) {
  const sl_format *f = r->format;
  const sl_named_array *a = sl_weights_get(r->weights, i);
  char text[NAME];
  *tied = 0;
  for (int t = 0; f && f->tied[t][0]; t++) {
    if (strcmp(plain(f, a->name, text), f->tied[t][0]) != 0) continue;
    *tied = 1;
    const int j = find(f, r->weights, f->tied[t][1]);
    const sl_named_array *b = j < 0 ? NULL : sl_weights_get(r->weights, j);
    if (!b || !r->store) continue;
    int equal = a->dtype == b->dtype && sl_shape_equal(&a->shape, &b->shape);
    if (equal && (a->dtype == SL_F32 || a->dtype == SL_F16 || a->dtype == SL_BF16)) {
      const size_t bytes = (size_t)sl_shape_count(&a->shape) * sizeof(float);
      float *x = malloc(bytes + 1), *y = malloc(bytes + 1);
      sl_status status = x && y ? SL_OK : sl_no_memory("to compare tensor %s", a->name);
      if (status == SL_OK) status = sl_weights_read(r->weights, i, x);
      if (status == SL_OK) status = sl_weights_read(r->weights, j, y);
      equal = status == SL_OK && memcmp(x, y, bytes) == 0;
      free(x), free(y);
      SL_TRY(status);
    }
    if (equal) continue;
    fprintf(r->lines, "tied     %s is not the same as %s; the network has one for both (untied=0)\n", a->name, b->name);
    r->fit->wrong++;
  }
  return SL_OK;
}

/* Reports the file's tensors that the network lacks. */
static sl_status look_at_rest(reading *r) {
  for (int i = 0; i < sl_weights_count(r->weights); i++) {
    const sl_named_array *a = sl_weights_get(r->weights, i);
    char text[SL_SHAPE_TEXT];
    int tied = 0;
    if (r->used[i] || is_buffer(r->format, a->name) || part_of(r->format, r->format->parts, a->name) >= 0 ||
        part_of(r->format, r->format->before, a->name) >= 0)
      continue;
    SL_TRY(check_tied(r, i, &tied));
    if (tied) continue;
    const int matters = r->format && rule_of_published(r->format, a->name) != NULL;
    fprintf(r->lines, "%s %s %s\n", matters ? "extra   " : "unknown ", a->name,
            sl_shape_text(&a->shape, text, sizeof text));
    (*(matters ? &r->fit->extra : &r->fit->unknown))++;
  }
  if (r->new_head)
    r->fit->parts += tell_parts(r, "left out", r->format->before);
  else
    r->fit->wrong += tell_parts(r, "lacking ", r->format->before);
  r->fit->parts += tell_parts(r, "left out", r->format->parts);
  return SL_OK;
}

/* Counts the nodes that read v, itself or a copy of it in another type: the node that computes the logits, and others.
 */
static void count_readers(const sl_graph *g, sl_value head, sl_value v, int *reads, int *others) {
  for (int n = 0; n < g->n_nodes; n++)
    for (int i = 0; i < g->node[n]->n_in; i++) {
      if (g->node[n]->in[i] != v) continue;
      if (n == g->value[head]->producer)
        ++*reads;
      else if (g->convert && g->node[n]->op == g->convert)
        count_readers(g, head, g->node[n]->out[0], reads, others);
      else
        ++*others;
    }
}

/* Whether v is a parameter of the classifier: only the node that computes the logits reads it. */
static int is_head(const sl_graph *g, sl_value head, sl_value v) {
  int reads = 0, others = 0;
  if (head != SL_NONE) count_readers(g, head, v, &reads, &others);
  return reads > 0 && others == 0;
}

sl_status sl_interchange_read(const sl_weights *weights, const sl_format *format, const sl_graph *g, sl_store *store,
                              sl_value head, sl_fit *fit) {
  size_t length;
  sl_status status = SL_OK;
  *fit = (sl_fit){0};
  reading r = {
      .weights = weights, .format = format, .graph = g, .store = store, .new_head = head != SL_NONE, .fit = fit};
  r.used = calloc((size_t)sl_weights_count(weights) + 1, 1);
  r.lines = open_memstream(&fit->lines, &length);
  int acquired = 0;
  if (!r.used || !r.lines) SL_TRY_OUT(sl_no_memory("for reading %s", sl_weights_path(weights)));
  if (store) SL_TRY_OUT(sl_store_acquire(store, 1));
  acquired = store != NULL;
  for (sl_value v = 0; v < g->n_values; v++) {
    const sl_value_info *info = g->value[v];
    if (info->role != SL_ROLE_TEMPORARY) SL_TRY_OUT(read_tensor(&r, info, is_head(g, head, v)));
  }
  if (head != SL_NONE && fit->fresh == 0)
    SL_TRY_OUT(sl_fail(SL_EINVAL, "the network has no classifier of its own to renew: its classifier is tied"));
  if (format) status = look_at_rest(&r); /* our own files also hold the optimizer's tensors */
out:
  if (acquired) sl_store_release(store);
  if (r.lines) fclose(r.lines);
  free(r.used);
  if (status != SL_OK) sl_fit_clear(fit);
  return status;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

sl_status sl_interchange_store(const sl_graph *g, sl_store *store) {
  for (sl_value v = 0; v < g->n_values; v++) {
    const sl_value_info *i = g->value[v];
    sl_tensor *tensor;
    if (i->role != SL_ROLE_TEMPORARY)
      SL_TRY(sl_store_add(store, i->name, i->dtype, &i->shape, i->role == SL_ROLE_PARAMETER, &tensor));
  }
  return SL_OK;
}

void sl_published_clear(sl_published *p) {
  for (int i = 0; i < p->n; i++) free(p->names[i]), free(p->buffers[i]);
  free(p->names), free(p->buffers), free(p->arrays);
  *p = (sl_published){0};
}

/* data points into the memory of the store, or is `buffer`, which p then owns. */
static sl_status add_array(sl_published *p, const char *name, sl_dtype dtype, const sl_shape *shape, const void *data,
                           void *buffer) {
  p->names[p->n] = strdup(name);
  if (!p->names[p->n]) {
    free(buffer);
    return sl_no_memory("for a name");
  }
  p->buffers[p->n] = buffer;
  p->arrays[p->n] = (sl_named_array){.name = p->names[p->n], .dtype = dtype, .shape = *shape, .data = data};
  p->n++;
  return SL_OK;
}

static sl_status add_tensor(const sl_format *f, const sl_tensor *t, sl_published *p) {
  char name[NAME];
  const sl__rule *rule = rule_of(f, t->name);
  if (!rule || t->dtype != SL_F32)
    return sl_fail(SL_EUNSUPPORTED, "tensor '%s' has no name among published %s", t->name, f->name);
  const sl_shape shape = published_shape(rule, &t->shape);
  const int64_t part = sl_shape_count(&shape);
  for (int k = 0; k < SL__PARTS && rule->published[k]; k++) {
    const float *data = (const float *)t->data + part * k;
    float *buffer = NULL;
    if (!sl__rename(rule->ours, t->name, rule->published[k], name, sizeof name))
      return sl_fail(SL_EUNSUPPORTED, "the name of tensor '%s' is too long", t->name);
    if (rule->layout == SL__TRANSPOSED || filters(rule, &t->shape)) {
      buffer = malloc((size_t)part * sizeof *buffer + 1);
      if (!buffer) return sl_no_memory("for tensor '%s'", t->name);
      give(rule, &t->shape, &shape, data, buffer);
    }
    SL_TRY(add_array(p, name, SL_F32, &shape, buffer ? buffer : data, buffer));
  }
  char counter[NAME];
  if (f->counters && sl__rename("*.running_var", name, "*.num_batches_tracked", counter, sizeof counter)) {
    const sl_shape scalar = sl_shape_make(NULL, 0);
    void *zero = calloc(1, sizeof(int64_t));
    if (!zero) return sl_no_memory("for tensor '%s'", counter);
    SL_TRY(add_array(p, counter, SL_I64, &scalar, zero, zero));
  }
  return SL_OK;
}

sl_status sl_interchange_arrays(const sl_format *f, const sl_graph *g, const sl_store *store, sl_published *p) {
  const size_t most = (size_t)g->n_values * SL__PARTS + 1;
  *p = (sl_published){.arrays = calloc(most, sizeof *p->arrays),
                      .names = calloc(most, sizeof *p->names),
                      .buffers = calloc(most, sizeof *p->buffers)};
  sl_status status = SL_OK;
  if (!p->arrays || !p->names || !p->buffers) SL_TRY_OUT(sl_no_memory("for the tensors' names"));
  for (sl_value v = 0; v < g->n_values; v++) {
    if (g->value[v]->role == SL_ROLE_TEMPORARY) continue;
    const sl_tensor *t = sl_store_find(store, g->value[v]->name);
    if (!t) SL_TRY_OUT(sl_fail(SL_ENOTFOUND, "the store has no tensor '%s'", g->value[v]->name));
    SL_TRY_OUT(add_tensor(f, t, p));
  }
out:
  if (status != SL_OK) sl_published_clear(p);
  return status;
}
