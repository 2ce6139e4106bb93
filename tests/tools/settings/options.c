/* tools/settings: precedence of options, the written configuration, and the nearest name. tests/command.sh tests the
 * command's output. */
#include "tools/settings/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/data/dataset.h"
#include "runtime/processors/isa.h"
#include "tests/support/scratch.h"
#include "tools/settings/nearest.h"
#include "tools/settings/phrases.h"

static const sl__command train = {.name = "train", .bit = SL__TRAIN, .arguments = "MODEL ", .least = 1, .most = 1};
static const sl__command predict = {
    .name = "predict", .bit = SL__PREDICT, .arguments = "RUN IMAGE... ", .least = 2, .most = -1};

static sl_status parse(const sl__command *command, sl__options *o, const char **words) {
  int n = 0;
  while (words[n]) n++;
  return sl__options_parse(command, n, words, o);
}
#define WORDS(...) ((const char *[]){__VA_ARGS__, NULL})

static void defaults(void **state) {
  (void)state;
  sl__options o;
  assert_ok(parse(&train, &o, WORDS("train", "mlp")));
  assert_string_equal(o.model, "mlp");
  assert_near(o.val_fraction, 0.1, 0);
  assert_int_equal(o.seed, 1);
  assert_int_equal(o.batch, -1);
  assert_true(isnan(o.training.learning_rate));
  assert_int_equal((int)o.training.optimizer, -1);
  assert_int_equal(o.rate_schedule, -1); /* the model's */
  assert_near(o.rate_gamma, 0.1, 0);
  sl__option_default_integer(&o.batch, 64);
  sl__option_default_integer(&o.seed, 7);
  sl__option_default_real(&o.training.learning_rate, 0.5);
  sl__option_default_real(&o.val_fraction, 0.5);
  assert_int_equal(o.batch, 64);
  assert_int_equal(o.seed, 1);
  assert_near(o.training.learning_rate, 0.5, 0);
  assert_near(o.val_fraction, 0.1, 0);
  sl__options_free(&o);
}

/* Every setting of training is an option of train, and given options go into the training. */
static void settings_of_training(void **state) {
  (void)state;
  sl__options o;
  sl_training t = {.momentum = 0.5, .beta1 = 0.25, .recompute = SL_RECOMPUTE_BLOCK};
  for (const sl_training_setting *row = sl_training_settings; row->s.field; row++) {
    char word[64];
    snprintf(word, sizeof word, "--%s=%s", row->s.option,
             row->s.kind == SL_SETTING_REAL      ? "0.125"
             : row->s.kind == SL_SETTING_INTEGER ? "3"
                                                 : row->s.names[1]);
    assert_ok(parse(&train, &o, WORDS("train", "mlp", word)));
    for (const sl_training_setting *other = sl_training_settings; other->s.field; other++)
      assert_int_equal(sl_setting_given(&other->s, &o.training), other == row);
    sl_training got = t;
    sl__training_given(&o, &got);
    assert_true(sl_setting_equal(&row->s, &got, &o.training));
    sl__options_free(&o);
  }
  assert_ok(parse(&train, &o, WORDS("train", "mlp", "--beta1=0.125")));
  t.optimizer = SL_OPTIMIZER_SGD;
  sl__training_default(&o, &t);
  assert_near(o.training.momentum, 0.5, 0);
  assert_near(o.training.beta1, 0.125, 0);
  assert_true(isnan(o.training.beta2)); /* sgd does not read it */
  assert_int_equal(o.training.recompute, SL_RECOMPUTE_BLOCK);
  sl__options_free(&o);
}

static void the_nearer_wins(void **state) {
  sl__options o;
  const char *config = scratch_path(*state, "c.yaml"), *run = scratch_path(*state, "config.yaml");
  const char *text = "batch: 32\nlearning_rate: 0.25\nseed: 3\n", *old = "model: lenet\nbatch: 16\nseed: 2\nsteps: 9\n";
  scratch_write(config, text, strlen(text));
  scratch_write(run, old, strlen(old));
  assert_ok(parse(&train, &o, WORDS("train", "--resume", "--out", *state, "--config", config, "--batch=8")));
  assert_string_equal(o.model, "lenet"); /* the run resumed */
  assert_int_equal(o.steps, 9);
  assert_int_equal(o.seed, 3); /* from the file, which overrides the run */
  assert_near(o.training.learning_rate, 0.25, 0);
  assert_int_equal(o.batch, 8);        /* from the flags, which override the file */
  assert_near(o.val_fraction, 0.1, 0); /* the default */
  sl__options_free(&o);
}

static void written_and_read_again(void **state) {
  sl__options o, again;
  char *yaml, *twice;
  const char *path = scratch_path(*state, "c.yaml");
  assert_ok(parse(
      &train, &o,
      WORDS("train", "mlp", "--data", "a: folder #1", "--learning-rate", "0.1", "--decay", "1e-4", "--clip",
            "0.30000000000000004", "--until", "accuracy=0.9", "--calibrate", "--gpus", "0", "--force", "--out", "x")));
  assert_ok(sl__options_to_yaml(&o, &yaml));
  scratch_write(path, yaml, strlen(yaml));
  assert_null(strstr(yaml, "force"));
  assert_null(strstr(yaml, "out"));
  assert_ok(parse(&train, &again, WORDS("train", "--config", path)));
  assert_string_equal(again.data, "a: folder #1");
  assert_true(again.training.learning_rate == 0.1 && again.training.decay == 1e-4 &&
              again.training.clip == 0.30000000000000004);
  assert_int_equal(again.calibrate, 1);
  assert_int_equal(again.gpus, 0);
  assert_int_equal(again.force, 0);
  assert_ok(sl__options_to_yaml(&again, &twice));
  assert_string_equal(yaml, twice);
  free(yaml), free(twice);
  sl__options_free(&o), sl__options_free(&again);
}

/* From compare's words to those of a command that it starts, and to a file for --config. */
static void handed_on(void **state) {
  static const sl__command compare = {
      .name = "compare", .bit = SL__COMPARE, .also = SL__BENCH, .arguments = "MODEL ", .least = 1, .most = 1};
  static const sl__command calibrate = {
      .name = "calibrate", .bit = SL__CALIBRATE, .arguments = "MODEL ", .least = 1, .most = 1};
  static const char *const none[] = {NULL}, *const some[] = {"gpus", "json", NULL};
  const char *config = scratch_path(*state, "c.yaml"), *text = "learning_rate: 0.25\nworkers: 2\n";
  sl__options o, again;
  char **words, *quoted, *yaml;
  size_t bytes;
  int n;
  scratch_write(config, text, strlen(text));
  assert_ok(parse(&compare, &o,
                  WORDS("compare", "mlp", "--config", config, "--data", "it's here", "--steps", "5", "--gpus", "0",
                        "--policies", "lws", "--seed", "1", "--json", "--no-priorities")));
  assert_ok(sl__options_words(&o, &calibrate, some, &words, &n));
  FILE *to = open_memstream(&quoted, &bytes);
  sl__options_quote(to, (const char *const *)words, n);
  fclose(to);
  assert_string_equal(quoted,
                      "'--data=it'\\''s here' --learning-rate=0.25 --workers=2"); /* neither bench's nor defaults */
  sl__options_words_free(words, n);
  free(quoted);
  assert_ok(sl__options_words(&o, &compare, none, &words, &n));
  int flags = 0;
  for (int i = 0; i < n; i++) flags += !strcmp(words[i], "--json") + !strcmp(words[i], "--no-priorities");
  assert_int_equal(flags, 2);
  sl__options_words_free(words, n);

  assert_ok(sl__options_effective(&o, &compare, some, &yaml));
  scratch_write(config, yaml, strlen(yaml));
  assert_null(strstr(yaml, "json"));
  assert_non_null(strstr(yaml, "stall-timeout: 60")); /* a default */
  assert_ok(parse(&compare, &again, WORDS("compare", "--config", config)));
  assert_string_equal(again.policies, "lws");
  assert_string_equal(again.data, "it's here");
  assert_int_equal(again.no_priorities, 1);
  assert_int_equal(again.gpus, -1);
  free(yaml);
  sl__options_free(&o), sl__options_free(&again);
}

/* An argument that may be left out; options of one name that mean other fields to other commands. */
static void one_name(void **state) {
  static const sl__command info = {.name = "info", .bit = SL__INFO, .arguments = ""};
  static const sl__command import = {
      .name = "import", .bit = SL__IMPORT, .arguments = "images DIR ", .least = 2, .most = 2};
  static const char *const none[] = {NULL};
  const char *config = scratch_path(*state, "c.yaml"), *text = "workers: 3\n";
  sl__options o;
  char **words;
  int n;
  assert_ok(parse(&info, &o, WORDS("info")));
  assert_null(o.shown);
  sl__options_free(&o);
  assert_ok(parse(&info, &o, WORDS("info", "--machine", "--no-measure")));
  assert_string_equal(o.shown, SL__THIS);
  assert_int_equal(o.no_measure, 1);
  sl__options_free(&o);
  assert_ok(parse(&info, &o, WORDS("info", "--no-measure", "--machine")));
  assert_string_equal(o.shown, SL__THIS);
  sl__options_free(&o);
  assert_ok(parse(&info, &o, WORDS("info", "--machine", "a.yaml")));
  assert_string_equal(o.shown, "a.yaml");
  assert_null(o.machine);
  sl__options_free(&o);
  assert_ok(parse(&info, &o, WORDS("info", "--machine=b.yaml")));
  assert_string_equal(o.shown, "b.yaml");
  assert_ok(sl__options_words(&o, &info, none, &words, &n));
  assert_int_equal(n, 1);
  assert_string_equal(words[0], "--machine=b.yaml");
  sl__options_words_free(words, n);
  sl__options_free(&o);
  assert_ok(parse(&train, &o, WORDS("train", "mlp", "--offload=disk:/x")));
  sl__options_free(&o);
  assert_fails(SL_EINVAL, "the value is missing", parse(&train, &o, WORDS("train", "mlp", "--offload")));
  sl__options_free(&o);
  scratch_write(config, text, strlen(text));
  assert_ok(parse(&import, &o, WORDS("import", "images", "x", "--config", config)));
  assert_int_equal(o.import_threads, 3);
  sl__options_free(&o);
  assert_ok(parse(&train, &o, WORDS("train", "mlp", "--config", config)));
  assert_string_equal(o.workers, "3");
  sl__options_free(&o);
}

static void arguments(void **state) {
  (void)state;
  sl__options o;
  assert_ok(parse(&predict, &o, WORDS("predict", "run", "a.png", "--top", "3", "b.png")));
  assert_string_equal(o.model, "run");
  assert_int_equal(o.n_files, 2);
  assert_string_equal(o.files[1], "b.png");
  assert_int_equal(o.top, 3);
  sl__options_free(&o);
  assert_fails(SL_EINVAL, "an argument is missing", parse(&predict, &o, WORDS("predict", "run")));
  sl__options_free(&o);
}

static void nearest_names(void **state) {
  (void)state;
  static const char *const names[] = {"batch", "batchnorm", "threads-per-worker", "workers", "out"};
  assert_string_equal(sl__nearest("batchs", names, 5), "batch");
  assert_string_equal(sl__nearest("thread", names, 5), "threads-per-worker");
  assert_string_equal(sl__nearest("wrokers", names, 5), "workers");
  assert_string_equal(sl__nearest("oout", names, 5), "out");
  assert_null(sl__nearest("xyzzy", names, 5));
  assert_null(sl__nearest("q", names, 5));
  assert_null(sl__nearest("anything", names, 0));
}

static void augment(void **state) {
  (void)state;
  sl_augment a;
  assert_ok(sl__augment_parse(NULL, &a));
  assert_ok(sl__augment_parse("none", &a));
  assert_true(!a.pad && !a.flip);
  assert_ok(sl__augment_parse("crop=4,flip", &a));
  assert_true(a.pad == 4 && a.flip);
  assert_ok(sl__augment_parse("flip,crop=12", &a));
  assert_true(a.pad == 12 && a.flip);
  const char *const wrong[] = {"",          "crop",          "crop=",   "crop=0",    "crop=4x",
                               "crop=-1",   "crop=2000",     "flips",   "flip,",     ",flip",
                               "flip,flip", "crop=1,crop=2", "crop= 4", "none,flip", "crop=99999999999999999999"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_fails(SL_EINVAL, "--augment", sl__augment_parse(wrong[i], &a));
}

static void until(void **state) {
  (void)state;
  sl__until u;
  assert_ok(sl__until_parse(NULL, &u));
  assert_int_equal(u.measure, SL__UNTIL_NONE);
  assert_ok(sl__until_parse("accuracy=0.905", &u));
  assert_int_equal(u.measure, SL__UNTIL_ACCURACY);
  assert_near(u.bound, 0.905, 0);
  assert_ok(sl__until_parse("loss=0.3", &u));
  assert_int_equal(u.measure, SL__UNTIL_LOSS);
  static const char *const wrong[] = {"accuracy", "accuracy=", "accuracy=2", "accuracy=0", "loss=-1",
                                      "loss=nan", "acc=0.9",   "=1",         "loss=0.3x"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_fails(SL_EINVAL, "--until", sl__until_parse(wrong[i], &u));
}

/* The lists that the table repeats equal the library's. */
static void choices_are_the_librarys(void **state) {
  (void)state;
  sl__options o;
  for (int isa = 0; isa < SL_ISA_COUNT; isa++) {
    assert_ok(parse(&train, &o, WORDS("train", "mlp", "--kernels", sl_isa_name((sl_isa)isa))));
    sl__options_free(&o);
  }
}

/* Files that would keep libyaml busy for a minute are refused at once. */
static void hostile_yaml(void **state) {
  enum { BYTES = 1000000 };
  static const struct {
    const char *head, *unit, *words;
  } cases[] = {
      {"", "[", "deeper"},
      {"", "{", "deeper"},
      {"", "- ", "deeper"},
      {"", "&a [] ", "c.yaml"},
      {"", "- &a b\n", "more than"},
      {"", "*a ", "c.yaml"},
      {"", "%%TAG !%d! a\n", "line 5: more than 4 directives"},
      {"", "%%TAG !%d! a\302\205", "line 5: more than 4 directives"}, /* U+0085 ends a line, too */
      {"batch: 1\n...\n", "%%TAG !%d! a\n", "line 7: more than 4 directives"},
  };
  const char *path = scratch_path(*state, "c.yaml");
  char *text = malloc(BYTES + 64);
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    size_t n = (size_t)sprintf(text, "%s", cases[c].head);
    for (int i = 0; n < BYTES; i++) n += (size_t)sprintf(text + n, cases[c].unit, i);
    scratch_write(path, text, n);
    sl__options o;
    const clock_t start = clock();
    assert_fails(SL_EINVAL, cases[c].words, parse(&train, &o, WORDS("train", "mlp", "--config", path)));
    sl__options_free(&o);
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 5);
  }
  free(text);
  const char *usual = "%YAML 1.1\n%TAG !a! b\n---\nbatch: 8\n";
  sl__options o;
  scratch_write(path, usual, strlen(usual));
  assert_ok(parse(&train, &o, WORDS("train", "mlp", "--config", path)));
  assert_int_equal(o.batch, 8);
  sl__options_free(&o);
}

/* Only the command line names programs, libraries and hosts: a configuration may come from somebody else. */
static void files_that_start_something(void **state) {
  static const struct {
    const char *text, *words, *flag; /* a flag with which the file is accepted; NULL: none */
  } cases[] = {
      {"model: mlp\nmpiexec: ./evil\n", "line 2: 'mpiexec' is for the command line only", NULL},
      {"model: mlp\nhosts: -oProxyCommand=evil\n", "line 2: 'hosts' is for the command line only", NULL},
      {"model: mlp\nsched-lib: evil.so\n", "(sched-lib: evil.so), which only the command line may do",
       "--sched-lib=own.so"},
      {"model: mlp\nsched_lib: evil.so\n", "(sched-lib: evil.so), which only the command line may do",
       "--sched-lib=own.so"},
  };
  const char *path = scratch_path(*state, "config.yaml");
  sl__options o;
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    scratch_write(path, cases[c].text, strlen(cases[c].text));
    assert_fails(SL_EINVAL, cases[c].words, parse(&train, &o, WORDS("train", "--config", path)));
    sl__options_free(&o);
    assert_fails(SL_EINVAL, cases[c].words, parse(&train, &o, WORDS("train", "--resume", "--out", *state)));
    sl__options_free(&o);
    if (!cases[c].flag) continue;
    assert_ok(parse(&train, &o, WORDS("train", "--resume", "--out", *state, cases[c].flag)));
    assert_string_equal(o.sched_lib, "own.so");
    sl__options_free(&o);
  }
  /* Of a command that starts nothing such a key is another command's. */
  static const sl__command eval = {.name = "eval", .bit = SL__EVAL, .arguments = "RUN ", .least = 1, .most = 1};
  scratch_write(path, cases[1].text, strlen(cases[1].text));
  assert_ok(parse(&eval, &o, WORDS("eval", "run", "--config", path)));
  sl__options_free(&o);
}

/* How an earlier start of a run was launched says nothing about this one. */
static void a_run_does_not_launch(void **state) {
  const char *config = scratch_path(*state, "c.yaml"), *run = scratch_path(*state, "config.yaml");
  const char *text = "model: mlp\nranks: 2\nrestarts: 3\n";
  sl__options o;
  scratch_write(config, text, strlen(text));
  scratch_write(run, text, strlen(text));
  assert_ok(parse(&train, &o, WORDS("train", "--resume", "--out", *state)));
  assert_int_equal(o.ranks, -1);
  assert_int_equal(o.restarts, -1);
  sl__options_free(&o);
  assert_ok(parse(&train, &o, WORDS("train", "--resume", "--out", *state, "--ranks=4")));
  assert_int_equal(o.ranks, 4);
  sl__options_free(&o);
  assert_ok(parse(&train, &o, WORDS("train", "--config", config)));
  assert_int_equal(o.ranks, 2);
  assert_int_equal(o.restarts, 3);
  sl__options_free(&o);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(defaults),
      cmocka_unit_test(settings_of_training),
      cmocka_unit_test_setup_teardown(the_nearer_wins, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(written_and_read_again, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(handed_on, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(one_name, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(hostile_yaml, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(files_that_start_something, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(a_run_does_not_launch, scratch_setup, scratch_teardown),
      cmocka_unit_test(arguments),
      cmocka_unit_test(nearest_names),
      cmocka_unit_test(augment),
      cmocka_unit_test(until),
      cmocka_unit_test(choices_are_the_librarys),
  };
  return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
