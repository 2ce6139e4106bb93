/* Traces: Chrome's JSON parses, a reader of the format accepts Paje, CSV adds up; names may have any text; failures
 * leave no files behind. */
#include "runtime/trace/trace.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/scratch.h"

static const char ODD[] = "fc \"1\"\\\n\tl\xC3\xA4yer \xFF\xC0\x80";
static const int64_t HOUR = 3600000000000;

static void name_node(sl_timeline *t, int i, const char *layer, const char *operation) {
  t->node[i] = (sl_timeline_node){.layer = sl_timeline_text(t, layer),
                                  .operation = sl_timeline_text(t, operation),
                                  .phase = sl_timeline_text(t, "forward"),
                                  .shapes = sl_timeline_text(t, "[64, 10]"),
                                  .flops = 1.5e9};
}

/* Two workers, a chain of two tasks and an exchange beside them, a second exchange at the same time, a batch read. */
static sl_timeline *example(int rank) {
  sl_timeline *t;
  assert_ok(sl_timeline_create(2, 4, 1, &t));
  t->rank = rank;
  t->ranks = 3;
  t->n_kinds = 1;
  t->worker[0].name = sl_timeline_text(t, "CPU <0>");
  t->worker[1].name = sl_timeline_text(t, "CPU \"1\"");
  name_node(t, 0, ODD, "linear"), name_node(t, 1, "fc2", "relu"), name_node(t, 2, "b1", "exchange");
  name_node(t, 3, "b2", "exchange");
  t->from[2] = t->from[3] = t->from[4] = 1;
  t->before[0] = 0;
  const sl_record r[] = {
      {9, HOUR, HOUR + 500, HOUR + 1000, HOUR + 1500, HOUR + 2001500, 0, 1, SL_RECORD_TASK},
      {9, HOUR, HOUR + 2001500, HOUR + 2001600, HOUR + 2001700, HOUR + 2009000, 1, 0, SL_RECORD_TASK},
      {9, HOUR, HOUR, HOUR, HOUR + 2000, HOUR + 5000, 2, 0, SL_RECORD_EXCHANGE},
      {9, HOUR, HOUR, HOUR, HOUR + 3000, HOUR + 7000, 3, 0, SL_RECORD_EXCHANGE},
      {9, HOUR, HOUR, HOUR, HOUR + 4000, HOUR + 6000, -1, 0, SL_RECORD_INPUT},
  };
  t->n_records = sizeof r / sizeof *r;
  t->record = malloc(sizeof r);
  assert_non_null(t->record);
  memcpy(t->record, r, sizeof r);
  return t;
}

static const char *text_of(json_t *event, const char *key) { return json_string_value(json_object_get(event, key)); }
static double number_of(json_t *event, const char *key) { return json_number_value(json_object_get(event, key)); }

static void chrome(void **state) {
  const char *path = scratch_path(*state, "trace.json");
  sl_timeline *t = example(2);
  assert_ok(sl_trace_write(path, SL_TRACE_CHROME, &t, 1));
  sl_timeline_destroy(t);
  json_error_t error;
  json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  if (!root) fail_msg("%s:%d: %s", path, error.line, error.text);
  json_t *events = json_object_get(root, "traceEvents"), *event;
  size_t i;
  int complete = 0, idle = 0, begun = 0, ended = 0, threads = 0, seen = 0;
  double all = 0;
  json_array_foreach(events, i, event) {
    const char *phase = text_of(event, "ph");
    assert_int_equal(number_of(event, "pid"), 2);
    if (*phase == 'M') {
      threads += strcmp(text_of(event, "name"), "thread_name") == 0;
      continue;
    }
    const char *category = text_of(event, "cat");
    if (*phase == 'X' && strcmp(category, "input") != 0) all += number_of(event, "dur");
    if (strcmp(category, "idle") == 0) {
      idle++;
      continue;
    }
    complete += *phase == 'X';
    begun += *phase == 'b';
    ended += *phase == 'e';
    if (strncmp(text_of(event, "name"), "fc \"1\"\\\n\tl\xC3\xA4yer ", 15) != 0) continue;
    seen++;
    assert_string_equal(category, "forward");
    assert_near(number_of(event, "ts"), 1.5, 1e-9); /* microseconds from the first submission */
    assert_near(number_of(event, "dur"), 2000, 1e-9);
    assert_int_equal(number_of(event, "tid"), 1);
    json_t *args = json_object_get(event, "args");
    assert_int_equal(number_of(args, "step"), 9);
    assert_near(number_of(args, "GFLOP"), 1.5, 1e-9);
    assert_near(number_of(args, "blocked_us"), 0.5, 1e-9);
    assert_near(number_of(args, "queued_us"), 0.5, 1e-9);
    assert_near(number_of(args, "data_us"), 0.5, 1e-9);
    assert_string_equal(text_of(args, "shapes"), "[64, 10]");
  }
  assert_int_equal(seen, 1);
  assert_int_equal(complete, 3);
  assert_int_equal(begun, 2);
  assert_int_equal(ended, 2);
  assert_int_equal(threads, 4);
  assert_true(idle > 0);
  assert_near(all, 2 * 2009.0, 1e-6); /* two workers, all of the time */
  json_decref(root);
}

/* --- a reader of Paje ------------------------------------------------------------------------------------------------
 * Definitions list the fields of each event. Types, containers and values must be defined before use, states belong to
 * living containers of their type, times do not decrease, and every container is destroyed, inner ones first. */

enum { EVENTS = 16, FIELDS = 12, THINGS = 64 };
typedef struct paje {
  int fields[EVENTS];
  char name[EVENTS][40], field[EVENTS][FIELDS][16];
  char type[THINGS][16], type_of[THINGS][16]; /* a type, and its parent */
  int n_types;
  char value[THINGS][32];
  int n_values;
  char container[THINGS][16], container_type[THINGS][16], parent[THINGS][16];
  int alive[THINGS], n_containers;
  char state[THINGS][32]; /* of each container */
  double since[THINGS], busy[THINGS], last;
} paje;

static int find(char (*list)[16], int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(list[i], name) == 0) return i;
  return -1;
}

/* One word or quoted string; returns what follows. */
static char *word(char *line, char *out, size_t n) {
  line += strspn(line, " ");
  const int quoted = *line == '"';
  if (quoted) line++;
  const size_t length = strcspn(line, quoted ? "\"" : " \n");
  assert_true(length < n);
  memcpy(out, line, length);
  out[length] = 0;
  if (quoted) assert_int_equal(line[length], '"');
  return line + length + quoted;
}

static void paje_event(paje *p, char *line) {
  char text[FIELDS][128], id[8];
  line = word(line, id, sizeof id);
  const int e = atoi(id);
  assert_true(e >= 0 && e < EVENTS && p->name[e][0]);
  const char *get[6] = {"", "", "", "", "", ""}; /* Time Alias Type Container Name Value */
  static const char *const keys[] = {"Time", "Alias", "Type", "Container", "Name", "Value"};
  for (int f = 0; f < p->fields[e]; f++) {
    line = word(line, text[f], sizeof text[f]);
    for (int k = 0; k < 6; k++)
      if (strcmp(p->field[e][f], keys[k]) == 0) get[k] = text[f];
  }
  assert_int_equal(*line, '\n');
  const char *alias = get[1], *type = get[2], *container = get[3], *name = get[4], *event = p->name[e];
  if (*get[0]) {
    assert_true(atof(get[0]) >= p->last);
    p->last = atof(get[0]);
  }
  if (strncmp(event, "PajeDefine", 10) == 0) {
    assert_true(strcmp(type, "0") == 0 || find(p->type, p->n_types, type) >= 0);
    if (strcmp(event, "PajeDefineEntityValue") == 0) {
      snprintf(p->value[p->n_values++], 32, "%s", alias);
    } else {
      assert_true(find(p->type, p->n_types, alias) < 0);
      snprintf(p->type[p->n_types], 16, "%s", alias);
      snprintf(p->type_of[p->n_types++], 16, "%s", type);
    }
  } else if (strcmp(event, "PajeCreateContainer") == 0) {
    const int t = find(p->type, p->n_types, type), c = find(p->container, p->n_containers, container);
    assert_true(t >= 0 && find(p->container, p->n_containers, alias) < 0);
    if (strcmp(p->type_of[t], "0") == 0)
      assert_string_equal(container, "0");
    else
      assert_true(c >= 0 && p->alive[c] && strcmp(p->container_type[c], p->type_of[t]) == 0);
    snprintf(p->container[p->n_containers], 16, "%s", alias);
    snprintf(p->container_type[p->n_containers], 16, "%s", type);
    snprintf(p->parent[p->n_containers], 16, "%s", container);
    p->alive[p->n_containers++] = 1;
  } else if (strcmp(event, "PajeDestroyContainer") == 0) {
    const int c = find(p->container, p->n_containers, name);
    assert_true(c >= 0 && p->alive[c] && strcmp(p->container_type[c], type) == 0);
    for (int i = 0; i < p->n_containers; i++) assert_false(p->alive[i] && strcmp(p->parent[i], name) == 0);
    p->alive[c] = 0;
  } else if (strcmp(event, "PajeSetState") == 0) {
    const int t = find(p->type, p->n_types, type), c = find(p->container, p->n_containers, container);
    assert_true(t >= 0 && c >= 0 && p->alive[c] && strcmp(p->type_of[t], p->container_type[c]) == 0);
    int known = 0;
    for (int v = 0; v < p->n_values; v++) known |= strcmp(p->value[v], get[5]) == 0;
    assert_true(known);
    if (strcmp(p->state[c], "linear") == 0 || strcmp(p->state[c], "relu") == 0 || strcmp(p->state[c], "exchange") == 0)
      p->busy[c] += p->last - p->since[c];
    snprintf(p->state[c], 32, "%s", get[5]);
    p->since[c] = p->last;
  } else {
    fail_msg("event %s", event);
  }
}

static void paje_file(paje *p, const char *path) {
  memset(p, 0, sizeof *p);
  char line[512], word1[64], word2[64];
  int defining = -1;
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    if (line[0] != '%') {
      assert_int_equal(defining, -1);
      paje_event(p, line);
    } else if (sscanf(line, "%%EventDef %63s %d", word1, &defining) == 2) {
      assert_true(defining >= 0 && defining < EVENTS && !p->name[defining][0]);
      snprintf(p->name[defining], 40, "%.39s", word1);
    } else if (strcmp(line, "%EndEventDef\n") == 0) {
      defining = -1;
    } else {
      assert_true(defining >= 0 && p->fields[defining] < FIELDS);
      assert_int_equal(sscanf(line, "%% %63s %63s", word1, word2), 2);
      assert_true(strstr("string date int color", word2) != NULL);
      snprintf(p->field[defining][p->fields[defining]++], 16, "%.15s", word1);
    }
  }
  fclose(file);
  for (int c = 0; c < p->n_containers; c++) {
    assert_false(p->alive[c]);
    assert_true(p->state[c][0] == 0 || strcmp(p->state[c], "none") == 0); /* every state ended */
  }
}

static void paje_reads(void **state) {
  const char *path = scratch_path(*state, "trace.paje");
  sl_timeline *t[] = {example(0), example(2)};
  for (size_t i = 0; i < t[1]->n_records; i++) t[1]->record[i].end += 1000, t[1]->record[i].start += 1000;
  assert_ok(sl_trace_write(path, SL_TRACE_PAJE, t, 2));
  sl_timeline_destroy(t[0]), sl_timeline_destroy(t[1]);
  paje *p = malloc(sizeof *p);
  assert_non_null(p);
  paje_file(p, path);
  /* The run; for each rank its workers, two rows of exchanges, one of the loader. */
  assert_int_equal(p->n_containers, 1 + 2 * (1 + 2 + 2 + 1));
  const char *const ranks[] = {"r0", "r2"};
  for (int k = 0; k < 2; k++) {
    char name[16];
    static const struct {
      const char *what;
      double seconds;
    } busy[] = {{"W1", 2e-3}, {"W0", 7.3e-6}, {"L0", 3e-6}, {"L1", 4e-6}};
    for (size_t i = 0; i < sizeof busy / sizeof *busy; i++) {
      snprintf(name, sizeof name, "%s%s", ranks[k], busy[i].what);
      const int c = find(p->container, p->n_containers, name);
      assert_true(c >= 0);
      assert_near(p->busy[c], busy[i].seconds, 1.1e-9);
    }
  }
  free(p);
}

static void csv(void **state) {
  const char *path = scratch_path(*state, "trace.csv");
  sl_timeline *t = example(2);
  assert_ok(sl_trace_write(path, SL_TRACE_CSV, &t, 1));
  sl_timeline_destroy(t);
  size_t n;
  char *text = scratch_read(path, &n), *at = text;
  assert_non_null(text);
  int lines = 0;
  int64_t worker_time = 0;
  while (*at) { /* lines may break inside quotes */
    char field[32][160];
    int fields = 0;
    for (;; at++) {
      size_t used = 0;
      const int quoted = *at == '"';
      if (quoted) at++;
      while (quoted ? *at != '"' || at[1] == '"' : *at != ',' && *at != '\n') {
        at += quoted && *at == '"';
        field[fields][used++] = *at++;
      }
      field[fields++][used] = 0;
      at += quoted;
      if (*at == '\n') break;
      assert_int_equal(*at, ',');
    }
    at++;
    assert_int_equal(fields, 18);
    if (lines++ == 0) {
      assert_string_equal(field[17], "end_ns");
      continue;
    }
    if (strcmp(field[1], "task") == 0 || strcmp(field[1], "idle") == 0)
      worker_time += atoll(field[17]) - atoll(field[16]);
    if (strcmp(field[7], "linear") == 0) {
      assert_string_equal(field[6], ODD);
      assert_string_equal(field[13], "0");
      assert_string_equal(field[16], "1500");
    }
  }
  free(text);
  assert_int_equal(worker_time, 2 * 2009000);
}

static void empty_ones(void **state) {
  sl_timeline *t;
  assert_ok(sl_timeline_create(1, 0, 0, &t));
  for (int f = 0; f < SL_TRACE_FORMATS; f++)
    assert_ok(
        sl_trace_write(scratch_path(*state, sl_trace_format_name((sl_trace_format)f)), (sl_trace_format)f, &t, 1));
  json_t *root = json_load_file(scratch_path(*state, "chrome"), 0, NULL);
  assert_non_null(root);
  json_decref(root);
  paje *p = malloc(sizeof *p);
  assert_non_null(p);
  paje_file(p, scratch_path(*state, "paje"));
  free(p);
  sl_timeline_destroy(t);
}

static void no_place(void **state) {
  sl_timeline *t = example(0);
  const char *path = scratch_path(*state, "missing/trace.json");
  const int before = scratch_entries(*state);
  assert_fails(SL_EIO, path, sl_trace_write(path, SL_TRACE_CHROME, &t, 1));
  assert_int_equal(scratch_entries(*state), before);
  sl_timeline_destroy(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(chrome), cmocka_unit_test(paje_reads), cmocka_unit_test(csv),
                                     cmocka_unit_test(empty_ones), cmocka_unit_test(no_place)};
  return cmocka_run_group_tests_name("runtime/trace", tests, scratch_setup, scratch_teardown);
}
