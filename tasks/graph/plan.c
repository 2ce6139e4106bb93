/* The plan: defaults, checks, JSON, comparison. One table of fields serves the last three. */
#include "tasks/graph/plan.h"

#include <stdio.h>
#include <string.h>

#define OWN "own"
static const char openblas[] = "openblas ";

typedef enum { INTEGER, INTEGER64, TEXT, SUMS } field_kind; /* SUMS: the order of products in bf16 */
static const struct field {
  const char *name;
  field_kind kind;
  size_t offset, bytes;
  const char *older;                         /* what older plans, which lack the field, mean; NULL: all plans have it */
  int (*same)(const char *a, const char *b); /* whether two texts mean the same bits; NULL: if they are equal */
} fields[] = {
#define FIELD(name, kind) \
  { #name, kind, offsetof(sl_plan, name), sizeof(((sl_plan *)0)->name), NULL, NULL }
    FIELD(batch, INTEGER64),
    FIELD(leaves, INTEGER),
    FIELD(shards, INTEGER),
    FIELD(row_blocks, INTEGER),
    {"tile_columns", INTEGER64, offsetof(sl_plan, tiles.columns), 8, NULL, NULL},
    {"tile_elements", INTEGER64, offsetof(sl_plan, tiles.elements), 8, NULL, NULL},
    {"bf16_sums", SUMS, offsetof(sl_plan, tiles.blocks), sizeof(int), "pairs", NULL},
    FIELD(seed, INTEGER64),
    {"kernels", TEXT, offsetof(sl_plan, kernels), sizeof(((sl_plan *)0)->kernels), NULL, sl_isa_same_bits},
    {"products", TEXT, offsetof(sl_plan, products), sizeof(((sl_plan *)0)->products), OWN, NULL},
#undef FIELD
};
enum { FIELDS = sizeof fields / sizeof *fields, MOST_SHARDS_A_LEAF = 8, LEAST_ROWS = 64, MOST_TILE = 1 << 30 };

static int64_t integer(const sl_plan *plan, const struct field *f) {
  const char *at = (const char *)plan + f->offset;
  return f->kind == INTEGER64 ? *(const int64_t *)at : *(const int *)at;
}
static const char *text(const sl_plan *plan, const struct field *f) {
  static const char *const orders[] = {"pairs", "blocks"};
  if (f->kind == SUMS) return orders[integer(plan, f) != 0];
  return f->kind == TEXT ? (const char *)plan + f->offset : NULL;
}

sl_status sl_plan_complete(sl_plan *p) {
  if (p->batch < 1 || p->batch > INT32_MAX)
    return sl_fail(SL_EINVAL, "batch %lld: from 1 to %d samples", (long long)p->batch, INT32_MAX);
  if (!p->micro_batches) p->micro_batches = 1;
  if (!p->leaves) p->leaves = p->micro_batches;
  if (p->leaves < 1 || p->leaves > p->batch)
    return sl_fail(SL_EINVAL, "leaves %d: from 1 to the batch's %lld samples", p->leaves, (long long)p->batch);
  if (p->micro_batches < 1 || p->leaves % p->micro_batches)
    return sl_fail(SL_EINVAL, "micro-batches %d: a divisor of the %d leaves", p->micro_batches, p->leaves);
  if (!p->shards) {
    int64_t each = p->batch / p->leaves / LEAST_ROWS;
    p->shards = p->leaves * (int)(each < 1 ? 1 : each > MOST_SHARDS_A_LEAF ? MOST_SHARDS_A_LEAF : each);
  }
  if (p->shards < p->leaves || p->shards % p->leaves || p->shards > p->batch)
    return sl_fail(SL_EINVAL, "shards %d: a multiple of the %d leaves, at most the batch's %lld samples", p->shards,
                   p->leaves, (long long)p->batch);
  if (!p->row_blocks) p->row_blocks = 1;
  if (p->row_blocks < 1 || p->row_blocks > 1024)
    return sl_fail(SL_EINVAL, "row blocks %d: from 1 to 1024", p->row_blocks);
  if (!p->tiles.columns) p->tiles.columns = SL_TILES_DEFAULT.columns;
  if (!p->tiles.elements) p->tiles.elements = SL_TILES_DEFAULT.elements;
  if (p->tiles.columns < 16 || p->tiles.elements < 256 || p->tiles.columns > MOST_TILE || p->tiles.elements > MOST_TILE)
    return sl_fail(SL_EINVAL, "tiles of %lld columns and %lld elements: at least 16 and 256, at most %d",
                   (long long)p->tiles.columns, (long long)p->tiles.elements, MOST_TILE);
  if (!p->kernels[0]) snprintf(p->kernels, sizeof p->kernels, "%s", sl_isa_name(sl_isa_current()));
  if (!p->products[0]) snprintf(p->products, sizeof p->products, OWN);
  p->tiles.blas = strncmp(p->products, openblas, sizeof openblas - 1) == 0;
  if (!p->tiles.blas && strcmp(p->products, OWN) != 0)
    return sl_fail(SL_EINVAL, "products '%s': own, or openblas with its version and kernels", p->products);
  return SL_OK;
}

json_t *sl_plan_to_json(const sl_plan *plan) {
  json_t *json = json_object();
  for (int i = 0; i < FIELDS && json; i++)
    json_object_set_new(json, fields[i].name,
                        text(plan, &fields[i]) ? json_string(text(plan, &fields[i]))
                                               : json_integer((json_int_t)integer(plan, &fields[i])));
  return json;
}

sl_status sl_plan_from_json(const json_t *json, sl_plan *plan) {
  memset(plan, 0, sizeof *plan);
  for (int i = 0; i < FIELDS; i++) {
    const struct field *f = &fields[i];
    const json_t *value = json_object_get(json, f->name);
    if (!value && f->older) {
      if (f->kind == TEXT) strcpy((char *)plan + f->offset, f->older);
      continue;
    }
    if (f->kind == SUMS && json_is_string(value)) {
      const char *order = json_string_value(value);
      plan->tiles.blocks = strcmp(order, "blocks") == 0;
      if (strcmp(order, text(plan, f)) != 0)
        return sl_fail(SL_EFORMAT, "plan: '%s' is '%s', not pairs or blocks", f->name, order);
      continue;
    }
    if (f->kind == TEXT || f->kind == SUMS ? !json_is_string(value) : !json_is_integer(value))
      return sl_fail(SL_EFORMAT, "plan: '%s' is %s", f->name, value ? "of the wrong type" : "missing");
    char *at = (char *)plan + f->offset;
    if (f->kind == TEXT) {
      if (json_string_length(value) >= f->bytes) return sl_fail(SL_EFORMAT, "plan: '%s' is too long", f->name);
      strcpy(at, json_string_value(value));
    } else if (f->kind == INTEGER) {
      json_int_t n = json_integer_value(value);
      if (n != (int)n) return sl_fail(SL_EFORMAT, "plan: '%s' is out of range", f->name);
      *(int *)at = (int)n;
    } else {
      *(int64_t *)at = json_integer_value(value);
    }
  }
  return sl_plan_complete(plan);
}

sl_status sl_plan_compare(const sl_plan *mine, const sl_plan *other, const char *whose) {
  for (int i = 0; i < FIELDS; i++) {
    const struct field *f = &fields[i];
    const char *a = text(mine, f), *b = text(other, f);
    if (a) {
      if (!(f->same ? f->same(a, b) : strcmp(a, b) == 0))
        return sl_fail(SL_EPLAN, "%s is '%s' here and '%s' in %s", f->name, a, b, whose);
    } else if (integer(mine, f) != integer(other, f)) {
      return sl_fail(SL_EPLAN, "%s is %lld here and %lld in %s", f->name, (long long)integer(mine, f),
                     (long long)integer(other, f), whose);
    }
  }
  return SL_OK;
}

void sl_plan_leaf(const sl_plan *p, int leaf, int64_t *first, int64_t *rows) {
  *first = p->batch * leaf / p->leaves;
  *rows = p->batch * (leaf + 1) / p->leaves - *first;
}

void sl_plan_shard(const sl_plan *p, int shard, int64_t *first, int64_t *rows) {
  int each = p->shards / p->leaves, k = shard % each;
  int64_t leaf_first, leaf_rows;
  sl_plan_leaf(p, shard / each, &leaf_first, &leaf_rows);
  *first = leaf_first + leaf_rows * k / each;
  *rows = leaf_first + leaf_rows * (k + 1) / each - *first;
}
