/* starling scale: the table as text, JSON and CSV. */
#include <math.h>
#include <stdlib.h>

#include "runtime/base/text.h"
#include "tools/scale/parts.h"

/* Whether this table gets the rows of --lost-node: the last one does. */
static int loses(const sl__scaling *s, const sl__scale_series *series) {
  return s->o->lost_node && series == (s->changed.n ? &s->changed : &s->is);
}

static int has_energy(const sl__scale_series *series) {
  for (int i = 0; i < series->n; i++)
    if (!series->point[i].reason && isfinite(series->point[i].energy)) return 1;
  return 0;
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

static void print_series(const sl__scaling *s, const sl__scale_series *series) {
  double units;
  const char *rate = sl__scale_rate(s, &units);
  const int energy = has_energy(series), cost = isfinite(s->price);
  printf("%6s", sl__scale_unit(s, 2));
  if (s->simulated) printf(" %6s", "ranks");
  if (s->hosts.n > 0) printf(" %6s", "hosts");
  printf(" %11s %12s", "step ms", "samples/s");
  if (rate) printf(" %12s", rate);
  printf(" %9s %10s %12s", "speedup", "efficiency", "exchange ms");
  if (s->o->jitter > 0 && series->title) printf(" %11s", "slowest ms");
  if (energy) printf(" %10s", "energy J");
  if (cost) printf(" %12s", "cost of 1000");
  printf(series->title ? " %8s\n" : "\n", "ratio");
  for (int i = 0; i < series->n; i++) {
    const sl__scale_point *p = &series->point[i];
    printf("%6d", p->count);
    if (p->reason) {
      printf("  no figures: %s\n", p->reason);
      continue;
    }
    if (s->simulated) printf(" %6d", p->ranks);
    if (s->hosts.n > 0) printf(" %6d", p->nodes);
    printf(" %11.3f %12.1f", 1e3 * p->step, p->samples);
    if (rate) printf(" %12.0f", units * p->samples);
    printf(" %9.3f %9.1f%% %12.3f", p->speedup, 100 * p->efficiency, 1e3 * p->part[SL__SCALE_EXCHANGE]);
    if (s->o->jitter > 0 && series->title) printf(" %11.3f", 1e3 * p->part[SL__SCALE_SLOWEST]);
    if (energy && isfinite(p->energy)) printf(" %10.4g", p->energy);
    if (energy && !isfinite(p->energy)) printf(" %10s", "-");
    if (cost) printf(" %12.4g", p->cost);
    if (series->title) printf(" %8.3f", p->ratio);
    printf("\n");
  }
}

static sl_status print_verdict(const sl__scaling *s, const sl__scale_series *series) {
  char *text;
  SL_TRY(sl__scale_verdict(s, series, &text));
  printf("\n%s\n", text);
  free(text);
  return SL_OK;
}

sl_status sl__scale_table(const sl__scaling *s) {
  char *text;
  SL_TRY(sl__scale_subtitle(s, &text));
  sl_text_print("%s: %s\n\n", s->o->model, text);
  free(text);
  print_series(s, &s->is);
  SL_TRY(print_verdict(s, &s->is));
  if (s->changed.n) {
    printf("\nChanged: %s; ratio: the step's time over the one above\n\n", s->changed.title);
    print_series(s, &s->changed);
    SL_TRY(print_verdict(s, &s->changed));
  }
  if (!s->o->lost_node) return SL_OK;
  SL_TRY(sl__scale_loss_text(s, s->changed.n ? &s->changed : &s->is, &text));
  printf("\n%s", text);
  free(text);
  return SL_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static json_t *real_or_null(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static json_t *parts_json(const double *part) {
  json_t *all = json_object();
  for (int k = 0; k < SL__SCALE_PARTS; k++) json_object_set_new(all, sl__scale_part_names[k], json_real(part[k]));
  return all;
}

static json_t *point_json(const sl__scaling *s, const sl__scale_series *series, const sl__scale_point *p) {
  double units;
  const char *rate = sl__scale_rate(s, &units);
  json_t *json = json_pack("{s:i, s:i, s:i, s:I, s:i}", sl__scale_unit(s, 2), p->count, "job_ranks", p->ranks,
                           "job_nodes", p->nodes, "batch", (json_int_t)p->batch, "leaves", p->leaves);
  if (!json) return NULL;
  if (p->reason) {
    json_object_set_new(json, "reason", json_string(p->reason));
    return json;
  }
  json_t *more =
      json_pack("{s:f, s:f, s:f, s:f, s:o, s:f, s:o, s:o, s:o, s:o}", "step_s", p->step, "samples_per_s", p->samples,
                "speedup", p->speedup, "efficiency", p->efficiency, "added_share", real_or_null(p->added), "exchange_s",
                p->part[SL__SCALE_EXCHANGE], "parts_s", parts_json(p->part), "losses_s", parts_json(p->loss), "step_j",
                real_or_null(p->energy), "cost_of_1000", real_or_null(p->cost));
  if (!more || json_object_update_new(json, more) != 0) {
    json_decref(json);
    return NULL;
  }
  if (rate) json_object_set_new(json, "units_per_s", json_real(units * p->samples));
  if (series->title) json_object_set_new(json, "ratio", real_or_null(p->ratio));
  if (loses(s, series))
    json_object_set_new(json, "lost_node",
                        json_pack("{s:o, s:f, s:o}", "samples_per_s", real_or_null(p->left), "lost_samples",
                                  p->lost_samples, "lost_cost", real_or_null(p->lost_cost)));
  return json;
}

static json_t *series_json(const sl__scaling *s, const sl__scale_series *series) {
  char *text = NULL;
  json_t *points = json_array();
  if (sl__scale_verdict(s, series, &text) != SL_OK) {
    json_decref(points);
    return NULL;
  }
  for (int i = 0; i < series->n; i++) json_array_append_new(points, point_json(s, series, &series->point[i]));
  const int stop = sl__scale_stop(series);
  json_t *json = json_pack("{s:o, s:o, s:s}", "points", points, "stops_paying",
                           stop < 0 ? json_null() : json_integer(series->point[stop].count), "verdict", text);
  if (json && series->title) json_object_set_new(json, "changed", json_string(series->title));
  free(text);
  return json;
}

json_t *sl__scale_json(const sl__scaling *s) {
  double units;
  const char *rate = sl__scale_rate(s, &units), *currency = sl__scale_currency(s);
  json_t *json = json_pack("{s:s, s:b, s:s, s:b, s:o}", "model", s->o->model, "simulated", s->simulated, "counts",
                           sl__scale_unit(s, 2), "weak", s->o->weak, "scaling", series_json(s, &s->is));
  if (!json) return NULL;
  if (s->simulated) json_object_set_new(json, "machine", json_string(s->machine.name));
  if (rate) json_object_set_new(json, "rate_unit", json_string(rate));
  if (isfinite(s->price)) json_object_set_new(json, "price_node_hour", json_real(s->price));
  if (*currency) json_object_set_new(json, "currency", json_string(currency));
  if (s->o->lost_node) json_object_set_new(json, "checkpoint_minutes", json_real(s->o->checkpoint_minutes));
  if (s->changed.n) json_object_set_new(json, "changed", series_json(s, &s->changed));
  return json;
}

/* ---- CSV -------------------------------------------------------------------------------------------------------- */

static void put_number(FILE *to, double x) {
  if (isfinite(x))
    fprintf(to, ",%.9g", x);
  else
    fputc(',', to);
}

static void put_rows(const sl__scaling *s, const sl__scale_series *series, FILE *to) {
  for (int i = 0; i < series->n; i++) {
    const sl__scale_point *p = &series->point[i];
    if (p->reason) continue;
    fprintf(to, "%d,%d,%d,%d,%lld,%d", series->title != NULL, p->count, p->ranks, p->nodes, (long long)p->batch,
            p->leaves);
    put_number(to, p->step), put_number(to, p->samples), put_number(to, p->speedup), put_number(to, p->efficiency);
    put_number(to, p->added);
    for (int k = 0; k < SL__SCALE_PARTS; k++) put_number(to, p->part[k]);
    for (int k = 0; k < SL__SCALE_PARTS; k++) put_number(to, p->loss[k]);
    put_number(to, p->energy), put_number(to, p->cost);
    put_number(to, series->title ? p->ratio : NAN);
    put_number(to, loses(s, series) ? p->left : NAN);
    fputc('\n', to);
  }
}

sl_status sl__scale_csv(const sl__scaling *s, char **text) {
  size_t bytes;
  *text = NULL;
  FILE *to = open_memstream(text, &bytes);
  if (!to) return sl_no_memory("for the table");
  fprintf(to, "changed,%s,job_ranks,job_nodes,batch,leaves,step_s,samples_per_s,speedup,efficiency,added_share",
          sl__scale_unit(s, 2));
  for (int k = 0; k < SL__SCALE_PARTS; k++) fprintf(to, ",%s_s", sl__scale_part_names[k]);
  for (int k = 0; k < SL__SCALE_PARTS; k++) fprintf(to, ",%s_loss_s", sl__scale_part_names[k]);
  fputs(",step_j,cost_of_1000,ratio,samples_per_s_less_one\n", to);
  put_rows(s, &s->is, to);
  put_rows(s, &s->changed, to);
  if (fclose(to) == 0) return SL_OK;
  free(*text), *text = NULL;
  return sl_no_memory("for the table");
}
