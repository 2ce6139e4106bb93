/* starling scale: how a model's training step scales over nodes of a simulated machine, or over ranks of this machine
 * or of several hosts. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/exchange/exchange.h"
#include "runtime/machine/runtime.h"
#include "tools/commands/commands.h"
#include "tools/compare/child.h"
#include "tools/compare/page.h"
#include "tools/launch/mpiexec.h"
#include "tools/scale/parts.h"

typedef struct refusal {
  int given;
  const char *option;
} refusal;

static sl_status refuse(const refusal *r, int n, const char *why) {
  for (int i = 0; i < n; i++)
    if (r[i].given) return sl_fail(SL_EINVAL, "%s %s", r[i].option, why);
  return SL_OK;
}

static sl_status check_simulated(const sl__options *o) {
  const char *measures = sl__compare_measures(o);
  const refusal measuring[] = {{measures != NULL, measures},
                               {o->calibrate, "--calibrate"},
                               {o->machine != NULL, "--performance-models"},
                               {o->hosts != NULL, "--hosts"},
                               {o->mpiexec != NULL, "--mpiexec"}};
  SL_TRY(refuse(measuring, sizeof measuring / sizeof *measuring,
                "is for measurements, and --machine simulates: leave one of them out"));
  if (o->lost_node && !(o->checkpoint_minutes > 0))
    return sl_fail(SL_EINVAL, "--lost-node needs checkpoints in time: give --checkpoint-minutes more than 0");
  return SL_OK;
}

static sl_status check_measured(const sl__options *o) {
  const refusal simulated[] = {{o->node_list != NULL, "--nodes"},     {o->what_if != NULL, "--what-if"},
                               {!isnan(o->slow_node), "--slow-node"}, {!isnan(o->jitter), "--jitter"},
                               {o->lost_node, "--lost-node"},         {o->ranks_per_node > 1, "--ranks-per-node"}};
  SL_TRY(refuse(simulated, sizeof simulated / sizeof *simulated,
                "is simulated: name a machine with --machine ('starling info --machines' lists some)"));
  if (sl_runtime_promised_ranks() > 1 || getenv("PMI_RANK"))
    return sl_fail(SL_EINVAL, "scale starts mpiexec itself: start it without mpiexec");
  if (!o->rank_list && !o->hosts)
    return sl_fail(SL_EINVAL,
                   "give --machine NAME with --nodes to simulate, --ranks 1,2 to measure on this machine, or "
                   "--hosts to measure on several");
  return o->no_record
             ? sl_fail(SL_EINVAL, "scale computes the parts of a step from task records: leave --no-record out")
             : SL_OK;
}

static double price_of(const sl__options *o, const sl__machine_description *m) {
  return !isnan(o->price) ? o->price : m->price > 0 ? m->price : NAN;
}

static sl_status prepare(sl__scaling *s) {
  enum { ANSWER_S = 20 };
  const sl__options *o = s->o;
  char gone[1024];
  if (s->simulated && o->rank_list)
    return sl_fail(SL_EINVAL, "--ranks measures on this machine, --machine simulates another: give one of them");
  SL_TRY(s->simulated ? check_simulated(o) : check_measured(o));
  SL_TRY(sl__find_model(o->model, o->size, &s->model));
  SL_TRY(sl__synthetic_data(o, s->model, &s->data));
  if (s->simulated) {
    SL_TRY(sl__machine_describe(o->described, &s->machine));
    s->what_if = s->machine;
    if (o->what_if) SL_TRY(sl__machine_change(&s->what_if, o->what_if));
    s->price = price_of(o, &s->machine);
  }
  SL_TRY(sl__hosts_parse(o->hosts, &s->hosts));
  SL_TRY(sl__scale_points(s));
  if (s->hosts.n > 0 || (!s->simulated && s->is.point[s->is.n - 1].ranks > 1)) {
    const ssize_t n = readlink("/proc/self/exe", s->program, sizeof s->program - 1);
    if (n <= 0) return sl_fail(SL_EIO, "cannot find this program's own file: %s", strerror(errno));
    SL_TRY(sl__mpiexec_find(o->mpiexec, s->mpiexec, sizeof s->mpiexec));
    if (s->hosts.n > 0 && sl__hosts_drop_dead(&s->hosts, s->mpiexec, ANSWER_S, gone, sizeof gone) > 0)
      return sl_fail(SL_ENOTFOUND,
                     "--hosts: mpiexec starts nothing on %s within %d s; try 'ssh HOST true', or leave it "
                     "out",
                     gone, ANSWER_S);
  }
  return o->out ? sl_folder_make(o->out) : SL_OK;
}

/* If no point has figures, fails with SL_EINVAL and the first point's reason. */
static sl_status check_figures(const sl__scale_series *series) {
  for (int i = 0; i < series->n; i++)
    if (!series->point[i].reason) return SL_OK;
  return sl_fail(SL_EINVAL, "%s", series->point[0].reason);
}

static sl_status figures(sl__scaling *s) {
  const sl__options *o = s->o;
  SL_TRY(check_figures(&s->is));
  sl__scale_figures(&s->is, o->weak, s->price, o->checkpoint_minutes);
  if (!s->changed.n) return SL_OK;
  SL_TRY(check_figures(&s->changed));
  sl__scale_figures(&s->changed, o->weak, price_of(o, &s->what_if), o->checkpoint_minutes);
  for (int i = 0; i < s->is.n; i++)
    if (!s->is.point[i].reason && !s->changed.point[i].reason)
      s->changed.point[i].ratio = s->changed.point[i].step / s->is.point[i].step;
  return SL_OK;
}

static sl_status report(const sl__scaling *s) {
  json_t *json = sl__scale_json(s);
  char *text = NULL, *csv = NULL, *html = NULL;
  sl_status status = SL_OK;
  if (!json) SL_TRY_OUT(sl_no_memory("for the figures"));
  if (s->o->json)
    SL_TRY_OUT(sl_json_print(stdout, json, 9));
  else
    SL_TRY_OUT(sl__scale_table(s));
  if (!s->o->out) goto out;
  if (!(text = sl_json_text(json, JSON_INDENT(2) | JSON_REAL_PRECISION(9))))
    SL_TRY_OUT(sl_no_memory("for the figures"));
  SL_TRY_OUT(sl__scale_csv(s, &csv));
  SL_TRY_OUT(sl__scale_html(s, &html));
  SL_TRY_OUT(sl__page_file(s->o, "scale.json", text));
  SL_TRY_OUT(sl__page_file(s->o, "scale.csv", csv));
  SL_TRY_OUT(sl__page_file(s->o, "scale.html", html));
out:
  json_decref(json);
  free(text), free(csv), free(html);
  return status;
}

static void destroy(sl__scale_series *series) {
  for (int i = 0; i < series->n; i++) free(series->point[i].reason), free(series->point[i].left_reason);
  free(series->point), free(series->title);
}

sl_status sl__scale(sl__options *o, int *exit_code) {
  sl__scaling s = {.o = o, .simulated = o->described != NULL, .price = o->price};
  sl_status status = SL_OK;
  (void)exit_code;
  SL_TRY_OUT(prepare(&s));
  sl__child_catch(NULL);
  sl__meter_start(&s.meter, o->quiet, 0);
  status = sl__scale_run(&s);
  sl__meter_clear(&s.meter);
  SL_TRY_OUT(status);
  SL_TRY_OUT(figures(&s));
  SL_TRY_OUT(report(&s));
out:
  destroy(&s.is), destroy(&s.changed);
  sl__hosts_free(&s.hosts);
  free(s.model);
  return status;
}
