/* starling scale: the counts of nodes or ranks, and the batch, leaves and shards of each. In strong scaling all counts
 * have one plan, so they compute the same bits; in weak scaling it grows with the count. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tools/scale/parts.h"
#include "tools/settings/workers.h"

sl_status sl__scale_list(const char *option, const char *text, int most, int counts[SL__SCALE_COUNTS], int *n) {
  *n = 0;
  for (const char *at = text;;) {
    char *end;
    const long value = isdigit((unsigned char)*at) ? strtol(at, &end, 10) : 0;
    const int length = (int)strcspn(at, ",");
    if (value < 1 || value > most || end != at + length)
      return sl_fail(SL_EINVAL, "%s %s: '%.*s' must be a whole number from 1 to %d, as in %s 1,2,4", option, text,
                     length < 32 ? length : 32, at, most, option);
    if (*n == SL__SCALE_COUNTS) return sl_fail(SL_EINVAL, "%s: at most %d numbers", option, SL__SCALE_COUNTS);
    if (*n > 0 && value <= counts[*n - 1])
      return sl_fail(SL_EINVAL, "%s %s: %ld after %d: the numbers must ascend", option, text, value, counts[*n - 1]);
    counts[(*n)++] = (int)value;
    if (!at[length]) return SL_OK;
    at += length + 1;
  }
}

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b) {
    const int64_t rest = a % b;
    a = b, b = rest;
  }
  return a;
}

/* Leaves for all counts: the least number that the ranks of every count divide evenly, if it is at most four times the
 * leaves of the largest count, and at most the batch. Otherwise the leaves of the largest count. */
static int64_t leaves_for_all(const sl__scale_series *is, int64_t each, int64_t batch) {
  const int64_t largest = is->point[is->n - 1].data;
  int64_t multiple = 1;
  for (int i = 0; i < is->n && multiple <= 4 * largest; i++)
    multiple = multiple / common_divisor(multiple, is->point[i].data) * is->point[i].data;
  return multiple <= 4 * largest && multiple * each <= batch ? multiple * each : largest * each;
}

/* value * count / first; SL_EINVAL: that is no whole number. */
static sl_status grow(const char *what, int64_t value, int count, int first, int64_t *grown) {
  *grown = value * count / first;
  return value * count % first == 0
             ? SL_OK
             : sl_fail(SL_EINVAL,
                       "--weak: %s %lld for %d does not grow to a whole number for %d: give a multiple of %d", what,
                       (long long)value, first, count, first);
}

/* 1, 2, 4, ... and last `most`. */
static int powers_of_two(int most, int counts[SL__SCALE_COUNTS]) {
  int n = 0;
  for (int value = 1; value < most; value *= 2) counts[n++] = value;
  counts[n++] = most;
  return n;
}

static sl_status count_hosts(const sl__hosts *hosts, int ranks, int *n) {
  sl__hosts first;
  SL_TRY(sl__hosts_first(hosts, ranks, &first));
  *n = first.n;
  sl__hosts_free(&first);
  return SL_OK;
}

/* The leaves of a rank that divides samples: as many for each micro-batch as give each rank of the job one leaf or
 * more, as in sl__plan_of. A pipeline has four micro-batches for each stage if the batch has samples for so many. */
static int64_t leaves_of_rank(const sl__options *o, const sl__mesh *mesh, int64_t batch, int data) {
  int64_t micro = o->micro_batches > 0 ? o->micro_batches : mesh->pipe > 1 ? 4 * mesh->pipe : 1;
  while (o->micro_batches <= 0 && micro > 1 && micro * data > batch) micro--;
  int64_t each = micro;
  while (each < sl__mesh_model_ranks(mesh)) each += micro;
  return each;
}

sl_status sl__scale_points(sl__scaling *s) {
  const sl__options *o = s->o;
  const int local = s->simulated ? (int)o->ranks_per_node : 1;
  const char *option = s->simulated ? "--nodes" : "--ranks", *given = s->simulated ? o->node_list : o->rank_list;
  int counts[SL__SCALE_COUNTS], n;
  sl__scale_series *is = &s->is;
  if (s->hosts.n > 0 && !given)
    n = powers_of_two(sl__hosts_ranks(&s->hosts), counts);
  else
    SL_TRY(sl__scale_list(option, given ? given : "1,2,4,8", s->simulated ? 65536 : 4096, counts, &n));
  if (s->hosts.n > 0 && counts[n - 1] > sl__hosts_ranks(&s->hosts))
    return sl_fail(SL_EINVAL, "--ranks %d: --hosts %s has %d ranks; NAME:N gives a host N of them", counts[n - 1],
                   o->hosts, sl__hosts_ranks(&s->hosts));
  is->point = calloc((size_t)n, sizeof *is->point);
  if (!is->point) return sl_no_memory("for %d counts", n);
  is->n = n;
  sl__mesh mesh = {0};
  for (int i = 0; i < n; i++) {
    SL_TRY(sl__mesh_of(o, counts[i] * local, &mesh));
    is->point[i] = (sl__scale_point){.count = counts[i], .ranks = counts[i] * local, .data = mesh.data, .nodes = 1};
    if (s->simulated) is->point[i].nodes = counts[i];
    if (s->hosts.n > 0) SL_TRY(count_hosts(&s->hosts, counts[i], &is->point[i].nodes));
  }
  const int64_t batch = o->batch > 0 ? o->batch : s->model->batch;
  const int64_t each = leaves_of_rank(o, &mesh, batch, o->weak ? is->point[0].data : is->point[n - 1].data);
  const int first = counts[0];
  const int64_t usual = o->weak ? is->point[0].data * each : leaves_for_all(is, each, batch);
  const int64_t leaves = o->leaves > 0 ? o->leaves : usual, shards = o->shards > 0 ? o->shards : 0;
  for (int i = 0; i < n; i++) {
    sl__scale_point *p = &is->point[i];
    int64_t grown[3] = {batch, leaves, shards};
    if (o->weak) {
      SL_TRY(grow("--batch", batch, p->count, first, &grown[0]));
      SL_TRY(grow("--leaves", leaves, p->count, first, &grown[1]));
      SL_TRY(grow("--shards", shards, p->count, first, &grown[2]));
    }
    p->batch = grown[0], p->leaves = (int)grown[1], p->shards = (int)grown[2];
    if (p->batch < p->leaves)
      return sl_fail(SL_EINVAL,
                     "%s %d: a batch of %lld has no sample for each of %d leaves: give a larger --batch, or fewer "
                     "%s",
                     option, p->count, (long long)p->batch, p->leaves, s->simulated ? "nodes" : "ranks");
  }
  return SL_OK;
}
