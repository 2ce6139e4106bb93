/* starling compare: runs this command in a process of its own for each measurement, and reads its JSON output. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/compare/parts.h"

enum { PATIENCE = 120, LONGEST = 7200 }; /* seconds beyond a process's expected duration; if that is unknown */

/* Seconds after which a process is ended: three times as long as its steps take on one worker, and PATIENCE. Steps of
 * unknown duration are those of the first look, of calibrations and of simulations. */
static double most_seconds(const sl__comparison *c, const char *command) {
  enum { WARM = 10 }; /* steps of bench that are not counted */
  if (strcmp(command, "bench") != 0 || !(c->step_s > 0)) return LONGEST;
  return PATIENCE + 3 * (double)(c->steps + WARM) * c->step_s * fmax(c->workers, 1);
}

/* Only the sets of options matter here. */
static const sl__command commands[] = {{.name = "bench", .bit = SL__BENCH},
                                       {.name = "calibrate", .bit = SL__CALIBRATE},
                                       {.name = "simulate", .bit = SL__SIMULATE},
                                       {.name = "compare", .bit = SL__COMPARE, .also = SL__BENCH}};

static const sl__command *named(const char *command) {
  int i = 0;
  while (strcmp(commands[i].name, command) != 0) i++;
  return &commands[i];
}

const sl__command *sl__compare_itself(void) { return named("compare"); }

sl_status sl__compare_words(const sl__comparison *c, const char *command, char ***words, int *n) {
  static const char *const ours[] = {"out", "bundle", "json", "quiet", "sched", "steps", "calibrate", NULL};
  return sl__options_words(c->o, named(command), ours, words, n);
}

static void tick(void *arg) { sl__compare_tick(arg); }

sl_status sl__compare_run(sl__comparison *c, const char *command, const char *const *more, json_t **out, char **reason,
                          int *code) {
  char **words = NULL, **argv = NULL;
  int n = 0, n_more = 0;
  sl_status status = SL_OK;
  *out = NULL, *reason = NULL;
  SL_TRY_OUT(sl__compare_words(c, command, &words, &n));
  while (more[n_more]) n_more++;
  argv = calloc((size_t)(n + n_more) + 5, sizeof *argv);
  if (!argv) SL_TRY_OUT(sl_no_memory("for %d arguments", n));
  argv[0] = (char *)"starling", argv[1] = (char *)command, argv[2] = c->o->model, argv[3] = (char *)"--json";
  for (int i = 0; i < n; i++) argv[4 + i] = words[i];
  for (int i = 0; i < n_more; i++) argv[4 + n + i] = (char *)more[i];
  const sl__child child = {.argv = argv, .most = most_seconds(c, command), .tick = tick, .arg = c};
  SL_TRY_OUT(sl__child_json(&child, out, reason, code));
  c->processes++;
out:
  sl__options_words_free(words, n);
  free(argv);
  return status;
}
