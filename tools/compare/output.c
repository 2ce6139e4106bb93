/* starling compare: prints the figures as a table or as JSON, and every repetition as CSV. */
#include <math.h>
#include <stdlib.h>

#include "tools/compare/parts.h"

char *sl__compare_interval(const sl__figures *f, char text[64]) {
  if (isfinite(f->low))
    snprintf(text, 64, "%.3f to %.3f", f->low, f->high);
  else
    snprintf(text, 64, "-");
  return text;
}

char *sl__compare_moved(const sl__comparison *c, const sl__variant *v, char text[32]) {
  if (c->memories > 1)
    snprintf(text, 32, "%.3f", 1e-6 * v->figures.moved);
  else
    snprintf(text, 32, "one memory");
  return text;
}

char *sl__compare_energy(const sl__comparison *c, const sl__variant *v, char text[32]) {
  if (c->no_energy)
    snprintf(text, 32, "-");
  else
    snprintf(text, 32, "%.3f", v->figures.energy);
  return text;
}

void sl__compare_table(const sl__comparison *c) {
  char text[512], interval[64], moved[32], energy[32];
  printf(
      "%s: %d repetitions in turn of %lld steps, %d workers of %d threads; ratios to %s, paired, with 95%% intervals "
      "of the bootstrap\n",
      c->o->model, c->repetitions, (long long)c->steps, c->workers, c->threads, c->variant[c->base].policy);
  printf("bound of a step %.3f ms, from the times of tasks measured alone\n\n", 1e3 * c->bound);
  printf("%-22s %-4s %4s %10s  %-22s %8s %8s %9s", "policy", "prio", "runs", "step ms", "ratio", "of bound", "kernels",
         "inflation");
  for (int k = 0; k < SL_IDLE_CAUSES; k++) printf(" %10s", sl_idle_cause_name((sl_idle_cause)k));
  printf(" %10s %10s\n", "moved MB", "energy J");
  for (int i = 0; i < c->n; i++) {
    const sl__variant *v = &c->variant[i];
    const sl__figures *f = &v->figures;
    if (sl__compare_absent(v)) continue;
    printf("%-22s %-4s %4d %10.3f  %.3f (%-14s) %7.1f%% %7.1f%% %9.3f", v->policy, v->priorities ? "on" : "off", f->n,
           1e3 * f->step, f->ratio, sl__compare_interval(f, interval), 100 * f->of_bound, f->kernels, f->inflation);
    for (int k = 0; k < SL_IDLE_CAUSES; k++) printf(" %9.1f%%", f->idle[k]);
    printf(" %10s %10s\n", sl__compare_moved(c, v, moved), sl__compare_energy(c, v, energy));
  }
  for (int i = 0; i < c->n; i++)
    if (sl__compare_absent(&c->variant[i]))
      printf("%-22s %-4s no figures: %s\n", c->variant[i].policy, c->variant[i].priorities ? "on" : "off",
             sl__compare_absent(&c->variant[i]));
  if (c->no_energy || c->part_energy) printf("energy: %s\n", c->no_energy ? c->no_energy : c->part_energy);
  if (sl__compare_uncalibrated(c)) printf("\n%s\n", sl__compare_mark(c, text, sizeof text));
  if (c->stopped) printf("\n%s\n", sl__compare_partial(c, text, sizeof text));
  printf("\n%s\n%s\n", sl__compare_verdict(c, text, sizeof text),
         sl__compare_same_bits(c)
             ? "All policies ended with bit-identical parameters and optimizer state."
             : "Policies ended with different parameters or optimizer state: that is a defect; please report it.");
}

static json_t *real_or_null(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static json_t *variant_json(const sl__comparison *c, const sl__variant *v) {
  const sl__figures *f = &v->figures;
  if (sl__compare_absent(v))
    return json_pack("{s:s, s:b, s:s}", "policy", v->policy, "priorities", v->priorities, "reason",
                     sl__compare_absent(v));
  json_t *idle = json_object();
  for (int k = 0; k < SL_IDLE_CAUSES; k++)
    json_object_set_new(idle, sl_idle_cause_name((sl_idle_cause)k), json_real(f->idle[k]));
  return json_pack("{s:s, s:b, s:i, s:f, s:f, s:o, s:o, s:o, s:f, s:f, s:f, s:o, s:f, s:o, s:s}", "policy", v->policy,
                   "priorities", v->priorities, "repetitions", f->n, "step_s", f->step, "ratio", f->ratio, "ratio_low",
                   real_or_null(f->low), "ratio_high", real_or_null(f->high), "ratio_surely", real_or_null(f->surely),
                   "of_bound", f->of_bound, "kernel_percent", f->kernels, "kernel_inflation", f->inflation,
                   "idle_percent", idle, "moved_bytes", f->moved, "energy_j",
                   c->no_energy ? json_null() : json_real(f->energy), "state_digest", v->digest);
}

json_t *sl__compare_json(const sl__comparison *c) {
  char text[512];
  json_t *variants = json_array();
  for (int i = 0; i < c->n; i++) json_array_append_new(variants, variant_json(c, &c->variant[i]));
  return json_pack(
      "{s:s, s:b, s:b, s:{s:b, s:i, s:i}, s:i, s:I, s:i, s:i, s:i, s:s, s:f, s:s, s:b, s:o, s:o, s:o, s:O}", "model",
      c->o->model, "partial", c->stopped, "uncalibrated", sl__compare_uncalibrated(c), "calibration", "needed",
      c->models_needed, "kinds", c->kinds, "calibrated", c->calibrated, "repetitions", c->repetitions, "steps",
      (json_int_t)c->steps, "workers", c->workers, "threads_per_worker", c->threads, "memory_nodes", c->memories,
      "base", c->variant[c->base].policy, "bound_s", c->bound, "verdict", sl__compare_verdict(c, text, sizeof text),
      "same_bits", sl__compare_same_bits(c), "policies", variants, "no_energy",
      c->no_energy ? json_string(c->no_energy) : json_null(), "part_energy",
      c->part_energy ? json_string(c->part_energy) : json_null(), "environment", c->environment);
}

sl_status sl__compare_csv(const sl__comparison *c, char **text) {
  size_t bytes;
  *text = NULL;
  FILE *to = open_memstream(text, &bytes);
  if (!to) return sl_no_memory("for the table");
  fputs("policy,priorities,repetition,order,step_s,kernel_percent", to);
  for (int k = 0; k < SL_IDLE_CAUSES; k++) fprintf(to, ",idle_%s_percent", sl_idle_cause_name((sl_idle_cause)k));
  fputs(",moved_bytes,energy_j,state_digest\n", to);
  for (int i = 0; i < c->n; i++)
    for (int r = 0; r < c->repetitions && !c->variant[i].reason; r++) {
      const sl__variant *v = &c->variant[i];
      const sl__measured *m = &v->measured[r];
      if (!m->there) continue;
      fprintf(to, "%s,%d,%d,%d,%.9g,%.6g", v->policy, v->priorities, r, m->order, m->step, m->kernels);
      for (int k = 0; k < SL_IDLE_CAUSES; k++) fprintf(to, ",%.6g", m->idle[k]);
      fprintf(to, ",%.9g,", m->moved);
      if (!c->no_energy) fprintf(to, "%.6g", m->energy);
      fprintf(to, ",%s\n", v->digest);
    }
  if (fclose(to) == 0) return SL_OK;
  free(*text), *text = NULL;
  return sl_no_memory("for the table");
}
