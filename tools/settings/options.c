/* The table of options, and what is made of it: parsing by popt and libyaml, help, manual, effective configuration. */
#include "tools/settings/options.h"

#include <errno.h>
#include <math.h>
#include <popt.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "runtime/base/file.h"
#include "runtime/data/dataset.h"
#include "tools/files/rundir.h"

typedef enum { TEXT, CHOICE, INTEGER, REAL, FLAG } option_kind;

typedef struct option {
  const char *name; /* with '-' */
  option_kind kind;
  size_t offset;
  unsigned commands;
  int saved;            /* part of a run's configuration */
  const char *argument; /* "DIR"; of a choice: "sgd|adamw" */
  const char *standard; /* default, NULL when there is none or it depends */
  double least, most;   /* of numbers */
  const char *help;
} option;

#define AT(field) offsetof(sl__options, field)
enum {
  RUNS = SL__TRAIN | SL__EVAL | SL__GENERATE | SL__PREDICT | SL__BENCH,
  MEASURES = SL__BENCH | SL__CALIBRATE,
  BUILDS = SL__TRAIN | MEASURES | SL__GRAPH,
  MACHINE = RUNS | SL__CALIBRATE | SL__GRAPH | SL__INFO
};
static const double ANY = 1e18;

static const option table[] = {
    {"data", TEXT, AT(data), SL__TRAIN | SL__EVAL | MEASURES | SL__GRAPH, 1, "DIR|FILES", NULL, 0, 0,
     "folder of IDX files, gzip or plain (default " SL_DATASET_DEFAULT
     "); for models of tokens a text, token files (.bin), several with commas between, or a folder of them (eval: by "
     "default the run's; bench and graph: synthetic)"},
    {"val-fraction", REAL, AT(val_fraction), SL__TRAIN | SL__TOKENIZE, 1, "F", "0.1", 0, 0.9,
     "part of the training images, tokens or texts that is set aside for validation; tokenize: none unless given"},
    {"augment", TEXT, AT(augment), SL__TRAIN, 1, "LIST", "none", 0, 0,
     "training images at random mirrored (flip), cut out of a border of N black pixels (crop=N), or both "
     "(crop=4,flip)"},
    {"image", TEXT, AT(image), MEASURES | SL__GRAPH, 0, "HxWxC", NULL, 0, 0,
     "size of synthetic images (default: the model's)"},
    {"classes", INTEGER, AT(classes), MEASURES | SL__GRAPH, 0, "N", NULL, 1, 1e6,
     "classes of synthetic images (default: the model's)"},
    {"length", INTEGER, AT(length), BUILDS | SL__GENERATE, 1, "N", NULL, 1, 1e6,
     "tokens of a window of a language model (default: the model's; generate: as it was trained)"},

    {"steps", INTEGER, AT(steps), SL__TRAIN | SL__BENCH, 1, "N", NULL, 1, ANY,
     "stop after N steps (bench: measure N steps; default 5 seconds' worth)"},
    {"epochs", INTEGER, AT(epochs), SL__TRAIN, 1, "N", NULL, 1, 1e9,
     "stop after N passes over the training images (default: the model's)"},
    {"until", TEXT, AT(until), SL__TRAIN, 1, "MEASURE=BOUND", NULL, 0, 0,
     "stop once validation reaches accuracy=A or loss=L; missing it within the steps or epochs (default: 5 times the "
     "model's) is a failure"},
    {"stall-timeout", REAL, AT(stall_timeout), SL__TRAIN | SL__EVAL | SL__BENCH, 0, "SECONDS", "60", 0, 1e6,
     "on several ranks: end the job, naming the ranks that keep the others waiting, when nothing has moved for so long "
     "(0: never)"},
    {"eval-every", INTEGER, AT(eval_every), SL__TRAIN, 1, "N", NULL, 1, ANY,
     "steps between validations (default: an epoch)"},
    {"log-every", INTEGER, AT(log_every), SL__TRAIN, 1, "N", NULL, 1, ANY,
     "steps between lines of metrics.jsonl (default: a tenth of an epoch)"},
    {"checkpoint-every", INTEGER, AT(checkpoint_every), SL__TRAIN, 1, "N", NULL, 0, ANY,
     "steps between checkpoints, 0: none for that (default: one at each validation); the last step has one always"},
    {"checkpoint-minutes", REAL, AT(checkpoint_minutes), SL__TRAIN, 1, "M", "10", 0, 1e9,
     "minutes after which a checkpoint is written anyhow, 0: none for that"},
    {"keep", INTEGER, AT(keep), SL__TRAIN, 1, "N", "3", 1, 1e6, "checkpoints that are kept, the newest ones"},
    {"batch", INTEGER, AT(batch), (RUNS | SL__CALIBRATE | SL__GRAPH) & ~SL__GENERATE, 1, "N", NULL, 1, 1e9,
     "images or windows of a step (default: the model's)"},
    {"seed", INTEGER, AT(seed), SL__TRAIN | SL__GENERATE | MEASURES | SL__IMPORT, 1, "N", "1", 0, ANY,
     "of first parameters, order of samples and dropout; generate: of what is drawn; import: of the images set aside"},

    {"optimizer", CHOICE, AT(optimizer), BUILDS, 1, "sgd|adam|adamw|lamb", NULL, 0, 0,
     "update rule (default: the model's)"},
    {"learning-rate", REAL, AT(learning_rate), SL__TRAIN | MEASURES, 1, "R", NULL, 0, 1e38,
     "its largest value (default: the model's)"},
    {"rate-schedule", CHOICE, AT(rate_schedule), SL__TRAIN, 1, "constant|step|linear|cosine", NULL, 0, 0,
     "how the learning rate falls (default: the model's)"},
    {"warmup", INTEGER, AT(warmup), SL__TRAIN, 1, "N", NULL, 0, ANY,
     "steps over which the learning rate rises from 0 first (default: the model's part of all steps)"},
    {"rate-step", INTEGER, AT(rate_step), SL__TRAIN, 1, "N", NULL, 1, ANY,
     "step: steps behind the warm-up after which the rate falls, again and again (default: a third of all steps)"},
    {"rate-gamma", REAL, AT(rate_gamma), SL__TRAIN, 1, "G", "0.1", 0, 1, "step: what the rate is multiplied by"},
    {"rate-floor", REAL, AT(rate_floor), SL__TRAIN, 1, "F", "0", 0, 1,
     "linear, cosine: part of the largest rate that is left at the end"},
    {"momentum", REAL, AT(momentum), BUILDS, 1, "M", NULL, 0, 1, "of sgd (default: the model's)"},
    {"beta1", REAL, AT(beta1), BUILDS, 1, "B", NULL, 0, 1, "of adam, adamw, lamb (default: the model's)"},
    {"beta2", REAL, AT(beta2), BUILDS, 1, "B", NULL, 0, 1, "of adam, adamw, lamb (default: the model's)"},
    {"eps", REAL, AT(eps), BUILDS, 1, "E", NULL, 0, 1, "of adam, adamw, lamb (default: the model's)"},
    {"decay", REAL, AT(decay), BUILDS, 1, "D", NULL, 0, 1e6,
     "weight decay of matrices and filters (default: the model's)"},
    {"clip", REAL, AT(clip), BUILDS, 1, "NORM", NULL, 0, 1e38,
     "bound of the gradients' global norm, 0: none (default: the model's)"},
    {"smoothing", REAL, AT(smoothing), BUILDS, 1, "S", NULL, 0, 1, "label smoothing (default: the model's)"},
    {"dropout", REAL, AT(dropout), BUILDS, 1, "P", NULL, 0, 0.99,
     "part of the elements that models with dropout leave out (default: the model's)"},
    {"batchnorm", CHOICE, AT(batchnorm), BUILDS, 1, "leaf|global", NULL, 0, 0,
     "samples that batchnorm normalises over (default: the model's)"},

    {"leaves", INTEGER, AT(leaves), BUILDS, 1, "N", NULL, 1, 1e6,
     "parts of the batch that the reduction tree sums over (default: the micro-batches)"},
    {"micro-batches", INTEGER, AT(micro_batches), BUILDS, 1, "M", NULL, 1, 1e6,
     "run the leaves in M groups, one after another, in the memory of one (default 1); M divides the leaves"},
    {"shards", INTEGER, AT(shards), BUILDS, 1, "N", NULL, 1, 1e6,
     "parts of the batch that are tasks of their own, a multiple of leaves (default: 64 images or more each)"},
    {"row-blocks", INTEGER, AT(row_blocks), BUILDS, 1, "N", NULL, 1, 1024,
     "blocks of rows that large weights are cut into (default 1)"},
    {"balance", TEXT, AT(balance), SL__TRAIN | SL__BENCH, 1, "even|auto|N,N,...", "even", 0, 0,
     "leaves of each rank: as many on all; by how long a leaf takes on each, measured in the first steps; or so many "
     "(changes no bit)"},

    {"allreduce", CHOICE, AT(allreduce), SL__TRAIN | SL__BENCH, 1, "tree|mpi", "tree", 0, 0,
     "sums over ranks: by a fixed tree, with the same bits on any number of ranks, or by MPI_Iallreduce, without that "
     "promise"},

    {"compress", TEXT, AT(compress), SL__TRAIN | SL__BENCH, 1, "none|bf16|topk[=F]", "none", 0, 0,
     "send gradients between nodes as they are, in half the bytes, or only the largest, a part F of them (default "
     "0.01; more during --warmup); what is left out is sent later. Gives up the same bits on any number of ranks"},
    {"zero", INTEGER, AT(zero), SL__TRAIN | SL__BENCH, 1, "STAGE", "0", 0, 1,
     "1: each of several ranks keeps and updates its share of the optimizer's state (ZeRO 1); 0: all of it"},
    {"recompute", CHOICE, AT(recompute), BUILDS, 1, "none|attention|block", NULL, 0, 0,
     "compute again in the backward pass what attention, or each block, made, rather than keep it (default none)"},

    {"sched", TEXT, AT(sched), RUNS | SL__INFO, 1, "NAME", NULL, 0, 0,
     "scheduling policy (default $STARPU_SCHED, else the first of --sched-lib, else lws)"},
    {"sched-lib", TEXT, AT(sched_lib), RUNS | SL__INFO | SL__COMPARE, 1, "FILE.so", NULL, 0, 0,
     "a shared library with scheduling policies of your own (default $STARPU_SCHED_LIB)"},
    {"workers", INTEGER, AT(workers), MACHINE | SL__IMPORT, 1, "N", NULL, 1, 4096, "CPU workers (default: all cores)"},
    {"threads-per-worker", INTEGER, AT(threads_per_worker), MACHINE, 1, "K", NULL, 1, 1024,
     "cores of the team that each worker leads (default: the least that uses all cores)"},
    {"gpus", INTEGER, AT(gpus), RUNS | SL__CALIBRATE | SL__INFO, 1, "N", NULL, 0, 1024, "GPUs (default: all)"},
    {"kernels", CHOICE, AT(kernels), RUNS | SL__CALIBRATE | SL__INFO, 1, "base|avx2|avx512", NULL, 0, 0,
     "instruction set of the CPU kernels (default: the best that runs)"},
    {"calibrate", FLAG, AT(calibrate), SL__TRAIN | SL__BENCH, 1, NULL, NULL, 0, 0,
     "let StarPU refine its performance models, which dm* policies need, as it runs; compare: have 'starling "
     "calibrate' "
     "do so first"},
    {"uncalibrated", FLAG, AT(uncalibrated), SL__COMPARE, 0, NULL, NULL, 0, 0,
     "compare although models lack samples, and mark what is found"},
    {"machine", TEXT, AT(machine), RUNS | SL__CALIBRATE | SL__INFO, 0, "NAME", NULL, 0, 0,
     "whose performance models to use (default $STARPU_HOSTNAME, else a name made of what decides times here)"},
    {"samples", INTEGER, AT(samples), SL__CALIBRATE, 0, "N", NULL, 1, 1e6,
     "accepted samples that each kind of task is to have (default 10, as StarPU wants)"},
    {"most-steps", INTEGER, AT(most_steps), SL__CALIBRATE, 0, "N", "1000", 1, ANY,
     "give up after N steps, and list what lacks samples"},

    {"init", TEXT, AT(init), SL__TRAIN, 1, "FILE|DIR", NULL, 0, 0,
     "begin with these weights: Starling's, Hugging Face's or torchvision's"},
    {"new-head", FLAG, AT(new_head), SL__TRAIN, 1, NULL, NULL, 0, 0,
     "with --init: a classifier of fresh weights, for other classes"},
    {"to", CHOICE, AT(to), SL__CONVERT, 0, "hf|torchvision|starling", NULL, 0, 0, "whose names and layout to write"},
    {"model", TEXT, AT(model_name), SL__CONVERT, 0, "NAME", NULL, 0, 0,
     "the model that the weights are of (default: that whose tensors they are)"},
    {"shard-size", INTEGER, AT(shard_size), SL__CONVERT, 0, "MB", NULL, 1, 1e9,
     "hf: write files of at most so many megabytes, and an index (default: one file)"},

    {"out", TEXT, AT(out),
     SL__TRAIN | SL__BENCH | SL__COMPARE | SL__TRACE | SL__REPORT | SL__TOKENIZE | SL__CONVERT | SL__IMPORT | SL__GRADE,
     0, "PATH", NULL, 0, 0,
     "train: run directory (default runs/MODEL-DATE); tokenize, import: folder of the files; convert: file to write, "
     "or with --to hf folder; bench: "
     "folder for the timeline (default: none is written); compare: folder for its tables (default: none); trace: file "
     "to write; report: file to "
     "write (default RUN/report.html); grade: table to write (default: standard output)"},
    {"resume", FLAG, AT(resume), SL__TRAIN, 0, NULL, NULL, 0, 0, "go on with the run in --out"},
    {"force", FLAG, AT(force), SL__TRAIN, 0, NULL, NULL, 0, 0, "replace the run in --out"},
    {"svg", TEXT, AT(svg), SL__REPORT, 0, "DIR", NULL, 0, 0,
     "also write its plots as SVG files into this folder: timeline, idle, loss, throughput, roofline"},
    {"format", CHOICE, AT(format), SL__TRACE, 0, "chrome|paje|csv", NULL, 0, 0,
     "write the timeline to --out for ui.perfetto.dev (chrome), ViTE (paje) or a spreadsheet (csv)"},
    {"split", CHOICE, AT(split), SL__EVAL, 0, "test|validation|train", "test", 0, 0, "images to evaluate on"},
    {"prompt", TEXT, AT(prompt), SL__GENERATE, 0, "TEXT", NULL, 0, 0, "what the text begins with"},
    {"prompt-file", TEXT, AT(prompt_file), SL__GENERATE, 0, "FILE", NULL, 0, 0, "file that the text begins with"},
    {"tokens", INTEGER, AT(tokens), SL__GENERATE, 0, "N", "256", 1, 1e9, "tokens to write"},
    {"temperature", REAL, AT(temperature), SL__GENERATE, 0, "X", "1", 0, 1e6,
     "what logits are divided by; 0: always the likeliest token"},
    {"top-k", INTEGER, AT(top_k), SL__GENERATE, 0, "K", NULL, 1, 1e9, "draw from the K likeliest tokens only"},
    {"top-p", REAL, AT(top_p), SL__GENERATE, 0, "P", "1", 0, 1,
     "draw from the fewest tokens whose probability is P or more"},
    {"tokenizer", TEXT, AT(tokenizer), SL__GENERATE | SL__TOKENIZE, 0, "PATH", NULL, 0, 0,
     "tokenizer of the text: bytes, tokenizer.json, vocab.txt, or a folder with one of them or with vocab.json and "
     "merges.txt (generate: by default tokenizer.json beside the model, bytes where the vocabulary is 256; tokenize: "
     "or "
     "train, to learn one)"},
    {"vocabulary", INTEGER, AT(vocabulary), SL__TOKENIZE, 0, "N", NULL, 257, 1e6, "tokens of the tokenizer to learn"},
    {"bits", CHOICE, AT(bits), SL__TOKENIZE, 0, "16|32", NULL, 0, 0,
     "of a token in the files (default: 16 where all ids fit)"},
    {"decode", TEXT, AT(decode), SL__TOKENIZE, 0, "FILE", NULL, 0, 0, "print the text of a token file"},
    {"size", TEXT, AT(size), SL__IMPORT, 0, "HxW", NULL, 0, 0,
     "resize images to this height and width, whatever their proportions"},
    {"resize", INTEGER, AT(resize), SL__IMPORT | SL__PREDICT, 0, "N", NULL, 1, 65536,
     "resize images so that the shorter side has N pixels (predict: those of another size than the model takes, and "
     "cut that "
     "out of the middle)"},
    {"crop", INTEGER, AT(crop), SL__IMPORT, 0, "N", NULL, 1, 65536, "then cut NxN pixels out of the middle"},
    {"grey", FLAG, AT(grey), SL__IMPORT, 0, NULL, NULL, 0, 0, "make grey images, of one channel"},
    {"test-fraction", REAL, AT(test_fraction), SL__IMPORT, 0, "F", NULL, 0, 0.9,
     "part of each class's images that is set aside for testing, where there is no folder of those (default: none)"},
    {"skip-bad", FLAG, AT(skip_bad), SL__IMPORT, 0, NULL, NULL, 0, 0,
     "leave images out that cannot be read, and list them at the end"},
    {"top", INTEGER, AT(top), SL__PREDICT, 0, "N", "1", 1, 1e6, "classes shown for each image"},
    {"tasks", FLAG, AT(tasks), SL__GRAPH, 0, NULL, NULL, 0, 0, "show every task, not one line per layer and operation"},
    {"dot", FLAG, AT(dot), SL__GRAPH, 0, NULL, NULL, 0, 0, "print the graph for dot (graphviz)"},
    {"no-measure", FLAG, AT(no_measure), SL__BENCH | SL__INFO, 0, NULL, NULL, 0, 0,
     "leave out the measurement of sgemm peak and memory bandwidth"},
    {"no-priorities", FLAG, AT(no_priorities), SL__BENCH, 0, NULL, NULL, 0, 0,
     "tell StarPU no priorities of tasks (to see what they bring)"},
    {"policies", TEXT, AT(policies), SL__COMPARE, 0, "LIST", NULL, 0, 0,
     "scheduling policies to compare, with commas between; eager is always among them (default: all that StarPU has)"},
    {"priorities", CHOICE, AT(priorities), SL__COMPARE, 0, "on|off|both", "both", 0, 0,
     "compare each policy with priorities of tasks, without, or both"},
    {"repetitions", INTEGER, AT(repetitions), SL__COMPARE, 0, "N", "12", 3, 1e6,
     "processes of each policy, which take turns"},
    {"timeout", REAL, AT(timeout), SL__GRADE, 0, "SECONDS", "60", 0.1, 1e6, "end a submission that takes longer"},
    {"memory", INTEGER, AT(memory), SL__GRADE, 0, "MB", "2048", 1, 1e9,
     "end a submission whose processes have more in memory"},
    {"bundle", TEXT, AT(bundle), SL__COMPARE, 0, "FILE.tar.gz", NULL, 0, 0,
     "pack what another person needs to repeat the comparison: options, machine, every repetition, models, a script"},
    {"no-record", FLAG, AT(no_record), SL__BENCH, 0, NULL, NULL, 0, 0,
     "record no tasks, to see what recording costs; shares of worker time are not known then"},
    {"config", TEXT, AT(config), SL__ALL, 0, "FILE", NULL, 0, 0, "YAML file with options as keys; flags win"},
    {"json", FLAG, AT(json), SL__ALL, 0, NULL, NULL, 0, 0, "print JSON"},
    {"quiet", FLAG, AT(quiet), SL__ALL, 0, NULL, NULL, 0, 0, "print results and errors only"},
    {"help", FLAG, AT(help), SL__ALL, 0, NULL, NULL, 0, 0, "print this"},
};
enum { OPTIONS = sizeof table / sizeof *table };

/* ---- names ------------------------------------------------------------------------------------------------------ */

/* Edit distance with neighbours swapped counted as one (Damerau 1964, restricted form). Words are short. */
static int distance(const char *a, const char *b) {
  enum { MOST = 64 };
  int rows[3][MOST + 1];
  int n = (int)strlen(a), m = (int)strlen(b);
  if (n > MOST || m > MOST) return n > m ? n : m;
  for (int j = 0; j <= m; j++) rows[0][j] = j;
  for (int i = 1; i <= n; i++) {
    int *row = rows[i % 3], *above = rows[(i - 1) % 3], *above2 = rows[(i + 1) % 3];
    row[0] = i;
    for (int j = 1; j <= m; j++) {
      int best = above[j - 1] + (a[i - 1] != b[j - 1]);
      if (above[j] + 1 < best) best = above[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && above2[j - 2] + 1 < best)
        best = above2[j - 2] + 1;
      row[j] = best;
    }
  }
  return rows[n % 3][m];
}

const char *sl__nearest(const char *word, const char *const *candidates, int n) {
  const char *best = NULL;
  int least = 0;
  for (int i = 0; i < n; i++) {
    int d = distance(word, candidates[i]);
    size_t n_word = strlen(word);
    if (n_word > 2 && strncmp(candidates[i], word, n_word) == 0) d = 1; /* cut short: --threads */
    if (!best || d < least) best = candidates[i], least = d;
  }
  int length = (int)strlen(word);
  return best && least <= (length < 4 ? 1 : length < 8 ? 3 : length / 2) ? best : NULL;
}

char *sl__suggestion(const char *word, const char *const *candidates, int count, char *text, size_t n) {
  const char *near = sl__nearest(word, candidates, count);
  if (near)
    snprintf(text, n, "; did you mean '%s'?", near);
  else if (n)
    text[0] = 0;
  return text;
}

static int same_name(const char *name, const char *key) {
  for (; *name && *key; name++, key++)
    if (*name != *key && !(*name == '-' && *key == '_')) return 0;
  return *name == *key;
}

/* What may stand on the command line; with key, in a file, which may serve several commands. */
static int names_of(const sl__command *command, const char *names[OPTIONS + 1], int key) {
  int n = 0;
  if (key) names[n++] = "model";
  for (int i = 0; i < OPTIONS; i++)
    if (key ? table[i].offset != AT(help) : (table[i].commands & command->bit) != 0) names[n++] = table[i].name;
  return n;
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

static sl_status set_text(char **field, const char *text) {
  char *copy = strdup(text);
  if (!copy) return sl_fail(SL_ENOMEM, "no memory for an option");
  free(*field);
  *field = copy;
  return SL_OK;
}

static sl_status set_choice(const option *o, const char *where, char **field, const char *text) {
  char list[128], *rest = list;
  const char *choices[8];
  int n = 0;
  snprintf(list, sizeof list, "%s", o->argument);
  for (char *word; (word = strsep(&rest, "|"));) choices[n++] = word;
  for (int i = 0; i < n; i++)
    if (strcmp(choices[i], text) == 0) return set_text(field, text);
  return sl_fail(SL_EINVAL, "%s%s: no '%s', there are %s", where, o->name, text, o->argument);
}

static sl_status set_number(const option *o, const char *where, void *field, const char *text) {
  char *end;
  errno = 0;
  if (o->kind == INTEGER) {
    long long value = strtoll(text, &end, 10);
    if (!*text || *end) return sl_fail(SL_EINVAL, "%s%s: '%s' is not a whole number", where, o->name, text);
    if (errno || (double)value < o->least || (double)value > o->most)
      return sl_fail(SL_EINVAL, "%s%s: %s is out of range, from %.0f to %.0f", where, o->name, text, o->least, o->most);
    *(int64_t *)field = value;
  } else {
    double value = strtod(text, &end);
    if (!*text || *end || isnan(value)) return sl_fail(SL_EINVAL, "%s%s: '%s' is not a number", where, o->name, text);
    if (!(value >= o->least && value <= o->most))
      return sl_fail(SL_EINVAL, "%s%s: %s is out of range, from %g to %g", where, o->name, text, o->least, o->most);
    *(double *)field = value;
  }
  return SL_OK;
}

static sl_status set_flag(const option *o, const char *where, int *field, const char *text) {
  static const char *const words[2][3] = {{"false", "no", "off"}, {"true", "yes", "on"}};
  for (int value = 0; text && value < 2; value++)
    for (int i = 0; i < 3; i++)
      if (strcmp(words[value][i], text) == 0) {
        *field = value;
        return SL_OK;
      }
  if (text) return sl_fail(SL_EINVAL, "%s%s: '%s' is neither true nor false", where, o->name, text);
  *field = 1;
  return SL_OK;
}

/* where: "--" for a flag, "FILE, line 3: " for a key. text NULL: a flag without a value. */
static sl_status set(sl__options *options, const option *o, const char *where, const char *text) {
  void *field = (char *)options + o->offset;
  switch (o->kind) {
    case TEXT:
      return *text ? set_text(field, text) : sl_fail(SL_EINVAL, "%s%s: the value is empty", where, o->name);
    case CHOICE:
      return set_choice(o, where, field, text);
    case FLAG:
      return set_flag(o, where, field, text);
    default:
      return set_number(o, where, field, text);
  }
}

sl_status sl__until_parse(const char *text, sl__until *until) {
  *until = (sl__until){.measure = SL__UNTIL_NONE};
  if (!text) return SL_OK;
  const char *equals = strchr(text, '=');
  const size_t n = equals ? (size_t)(equals - text) : 0;
  if (n == 8 && strncmp(text, "accuracy", n) == 0) until->measure = SL__UNTIL_ACCURACY;
  if (n == 4 && strncmp(text, "loss", n) == 0) until->measure = SL__UNTIL_LOSS;
  char *end = NULL;
  if (until->measure != SL__UNTIL_NONE) until->bound = strtod(equals + 1, &end);
  if (!end || !equals[1] || *end || !(until->bound > 0) || (until->measure == SL__UNTIL_ACCURACY && until->bound > 1))
    return sl_fail(SL_EINVAL, "--until: '%s' is neither accuracy=A (0 to 1) nor loss=L (above 0)", text);
  return SL_OK;
}

sl_status sl__augment_parse(const char *text, sl_augment *augment) {
  *augment = (sl_augment){0};
  if (!text || strcmp(text, "none") == 0) return SL_OK;
  for (const char *at = text;; at++) {
    const size_t n = strcspn(at, ",");
    char *end = NULL;
    long pad = 0;
    if (n > 5 && strncmp(at, "crop=", 5) == 0 && at[5] >= '0' && at[5] <= '9') pad = strtol(at + 5, &end, 10);
    if (n == 4 && strncmp(at, "flip", n) == 0 && !augment->flip)
      augment->flip = 1;
    else if (end == at + n && pad >= 1 && pad <= 1024 && !augment->pad)
      augment->pad = (int)pad;
    else
      return sl_fail(SL_EINVAL,
                     "--augment: '%.*s' in '%s' is wrong; there are none, or flip and crop=N (1 to 1024 pixels), each "
                     "once, with a comma between",
                     (int)n, at, text);
    at += n;
    if (!*at) return SL_OK;
  }
}

/* n numbers of 1 to 65536 with an x between; whether that is all. */
static int numbers_of(const char *text, int n, int64_t *size) {
  for (int i = 0; i < n; i++) {
    char *end;
    size[i] = strtoll(text, &end, 10);
    if (end == text || size[i] < 1 || size[i] > 65536 || *end != (i < n - 1 ? 'x' : 0)) return 0;
    text = end + 1;
  }
  return 1;
}

sl_status sl__image_parse(const char *text, int64_t size[3]) {
  return numbers_of(text, 3, size)
             ? SL_OK
             : sl_fail(SL_EINVAL, "--image: '%s' is not HEIGHTxWIDTHxCHANNELS, such as 28x28x1", text);
}

sl_status sl__size_parse(const char *text, int64_t size[2]) {
  return numbers_of(text, 2, size) ? SL_OK
                                   : sl_fail(SL_EINVAL, "--size: '%s' is not HEIGHTxWIDTH, such as 224x224", text);
}

void sl__option_default_integer(int64_t *option, int64_t value) {
  if (*option < 0) *option = value;
}
void sl__option_default_real(double *option, double value) {
  if (isnan(*option)) *option = value;
}
sl_status sl__option_default_text(char **option, const char *value) {
  return *option ? SL_OK : set_text(option, value);
}

/* ---- YAML ------------------------------------------------------------------------------------------------------- */

static sl_status set_key(const sl__command *command, sl__options *options, const char *where, const char *key,
                         const char *value) {
  const char *names[OPTIONS + 1];
  char suggestion[128];
  if (same_name("model", key)) return set_text(&options->model, value);
  for (int i = 0; i < OPTIONS; i++) {
    const option *o = &table[i];
    if (!same_name(o->name, key) || o->offset == AT(help)) continue;
    if (o->offset == AT(resume) || o->offset == AT(config))
      return sl_fail(SL_EINVAL, "%s'%s' is for the command line only", where, key);
    /* A file may serve several commands: keys of the others are left alone. */
    return o->commands & command->bit ? set(options, o, where, value) : SL_OK;
  }
  return sl_fail(SL_EINVAL, "%sunknown key '%s'%s", where, key,
                 sl__suggestion(key, names, names_of(command, names, 1), suggestion, sizeof suggestion));
}

static sl_status set_keys(const sl__command *command, sl__options *options, const char *path,
                          yaml_document_t *document) {
  yaml_node_t *root = yaml_document_get_root_node(document);
  if (!root) return SL_OK; /* an empty file */
  if (root->type != YAML_MAPPING_NODE)
    return sl_fail(SL_EINVAL, "%s: a mapping of options to values is wanted ('batch: 256')", path);
  yaml_node_pair_t *first = root->data.mapping.pairs.start;
  for (yaml_node_pair_t *pair = first; pair < root->data.mapping.pairs.top; pair++) {
    const yaml_node_t *key = yaml_document_get_node(document, pair->key),
                      *value = yaml_document_get_node(document, pair->value);
    char where[512];
    snprintf(where, sizeof where, "%s, line %zu: ", path, key->start_mark.line + 1);
    if (key->type != YAML_SCALAR_NODE || value->type != YAML_SCALAR_NODE)
      return sl_fail(SL_EINVAL, "%sa key and one plain value are wanted; there are no lists or sections", where);
    const char *name = (const char *)key->data.scalar.value;
    for (yaml_node_pair_t *other = first; other < pair; other++)
      if (strcmp((const char *)yaml_document_get_node(document, other->key)->data.scalar.value, name) == 0)
        return sl_fail(SL_EINVAL, "%skey '%s' stands there twice", where, name);
    SL_TRY(set_key(command, options, where, name, (const char *)value->data.scalar.value));
  }
  return SL_OK;
}

static sl_status read_yaml(const sl__command *command, sl__options *options, const char *path) {
  enum { LIMIT = 1 << 20 };
  char *text;
  size_t n;
  yaml_parser_t parser;
  yaml_document_t document;
  SL_TRY(sl_file_read(path, LIMIT, &text, &n));
  sl_status status = SL_OK;
  if (!yaml_parser_initialize(&parser)) {
    free(text);
    return sl_fail(SL_ENOMEM, "no memory for %s", path);
  }
  yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
  if (!yaml_parser_load(&parser, &document)) {
    status = sl_fail(SL_EINVAL, "%s, line %zu: not YAML: %s", path, parser.problem_mark.line + 1,
                     parser.problem ? parser.problem : "?");
  } else {
    status = set_keys(command, options, path, &document);
    yaml_document_delete(&document);
  }
  yaml_parser_delete(&parser);
  free(text);
  return status;
}

static int grow(void *data, unsigned char *bytes, size_t n) {
  char **text = data;
  size_t old = strlen(*text);
  char *more = realloc(*text, old + n + 1);
  if (!more) return 0;
  memcpy(more + old, bytes, n);
  more[old + n] = 0;
  *text = more;
  return 1;
}

static int emit_scalar(yaml_emitter_t *emitter, const char *text) {
  yaml_event_t event;
  return yaml_scalar_event_initialize(&event, NULL, NULL, (yaml_char_t *)text, (int)strlen(text), 1, 1,
                                      YAML_ANY_SCALAR_STYLE) &&
         yaml_emitter_emit(emitter, &event);
}

/* The value as text; NULL when it was not given. */
static const char *show(const sl__options *options, const option *o, char text[32]) {
  const void *field = (const char *)options + o->offset;
  switch (o->kind) {
    case INTEGER:
      snprintf(text, 32, "%lld", (long long)*(const int64_t *)field);
      return *(const int64_t *)field < 0 ? NULL : text;
    case REAL: /* the shortest that reads back the same */
      for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, *(const double *)field);
        if (strtod(text, NULL) == *(const double *)field) break;
      }
      return isnan(*(const double *)field) ? NULL : text;
    case FLAG:
      return *(const int *)field ? "true" : NULL;
    default:
      return *(char *const *)field;
  }
}

static int listed(const char *const *names, const char *name) {
  while (*names && strcmp(*names, name) != 0) names++;
  return *names != NULL;
}

/* command NULL: what is part of a run's configuration. */
static sl_status to_yaml(const sl__options *options, const sl__command *command, const char *const *except,
                         char **text) {
  yaml_emitter_t emitter;
  yaml_event_t event;
  char number[32];
  *text = calloc(1, 1);
  if (!*text || !yaml_emitter_initialize(&emitter)) return sl_fail(SL_ENOMEM, "no memory for the configuration");
  yaml_emitter_set_output(&emitter, grow, text);
  yaml_emitter_set_width(&emitter, -1);
  int fine = yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING) && yaml_emitter_emit(&emitter, &event) &&
             yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1) && yaml_emitter_emit(&emitter, &event) &&
             yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE) &&
             yaml_emitter_emit(&emitter, &event) && emit_scalar(&emitter, "model") &&
             emit_scalar(&emitter, options->model);
  for (int i = 0; i < OPTIONS && fine; i++) {
    const int wanted = command ? (table[i].commands & command->bit) && table[i].offset != AT(config) &&
                                     table[i].offset != AT(help) && !listed(except, table[i].name)
                               : table[i].saved;
    const char *value = wanted ? show(options, &table[i], number) : NULL;
    if (value) fine = emit_scalar(&emitter, table[i].name) && emit_scalar(&emitter, value);
  }
  fine = fine && yaml_mapping_end_event_initialize(&event) && yaml_emitter_emit(&emitter, &event) &&
         yaml_document_end_event_initialize(&event, 1) && yaml_emitter_emit(&emitter, &event) &&
         yaml_stream_end_event_initialize(&event) && yaml_emitter_emit(&emitter, &event);
  yaml_emitter_delete(&emitter);
  return fine ? SL_OK : sl_fail(SL_ENOMEM, "the configuration cannot be written as YAML");
}

sl_status sl__options_to_yaml(const sl__options *options, char **text) { return to_yaml(options, NULL, NULL, text); }

sl_status sl__options_effective(const sl__options *options, const sl__command *command, const char *const *except,
                                char **text) {
  return to_yaml(options, command, except, text);
}

/* ---- flags ------------------------------------------------------------------------------------------------------ */

/* popt's table: val is the place in ours, plus one. */
static void popt_table(const sl__command *command, struct poptOption flags[OPTIONS + 1]) {
  int n = 0;
  for (int i = 0; i < OPTIONS; i++)
    if (table[i].commands & command->bit)
      flags[n++] = (struct poptOption){.longName = table[i].name,
                                       .shortName = table[i].offset == AT(help) ? 'h' : 0,
                                       .argInfo = table[i].kind == FLAG ? POPT_ARG_NONE : POPT_ARG_STRING,
                                       .val = i + 1,
                                       .descrip = table[i].help,
                                       .argDescrip = table[i].argument};
  flags[n] = (struct poptOption)POPT_TABLEEND;
}

static void set_defaults(const sl__command *command, sl__options *options) {
  memset(options, 0, sizeof *options);
  for (int i = 0; i < OPTIONS; i++) {
    void *field = (char *)options + table[i].offset;
    if (table[i].kind == INTEGER) *(int64_t *)field = -1;
    if (table[i].kind == REAL) *(double *)field = NAN;
    if (table[i].standard && table[i].commands & command->bit) set(options, &table[i], "", table[i].standard);
  }
  if (command->bit == SL__TOKENIZE) options->val_fraction = NAN; /* a val.bin only when asked for */
}

static sl_status bad_flag(const sl__command *command, poptContext context, int code) {
  const char *names[OPTIONS + 1], *word = poptBadOption(context, 0);
  char plain[64], suggestion[128] = "";
  if (code != POPT_ERROR_BADOPT)
    return sl_fail(SL_EINVAL, "%s: %s", word, code == POPT_ERROR_NOARG ? "the value is missing" : poptStrerror(code));
  snprintf(plain, sizeof plain, "%s", word + strspn(word, "-"));
  plain[strcspn(plain, "=")] = 0;
  const char *near = sl__nearest(plain, names, names_of(command, names, 0));
  if (near) snprintf(suggestion, sizeof suggestion, "; did you mean --%s?", near);
  for (int i = 0; i < OPTIONS && !(near && strcmp(near, plain) == 0); i++)
    if (same_name(table[i].name, plain) && !(table[i].commands & command->bit))
      snprintf(suggestion, sizeof suggestion, ", which 'starling %s' does not take", command->name);
  return sl_fail(SL_EINVAL, "unknown option %s%s", word, suggestion);
}

/* Words that are no options: the model, and files. */
static sl_status take_arguments(const sl__command *command, poptContext context, sl__options *options) {
  const char **words = poptGetArgs(context);
  int n = 0;
  while (words && words[n]) n++;
  if (command->most >= 0 && n > command->most)
    return sl_fail(SL_EINVAL, "unexpected argument '%s'; usage: starling %s %s[OPTION]...", words[command->most],
                   command->name, command->arguments);
  if (n && command->most != 0) SL_TRY(set_text(&options->model, words[0]));
  if (n < 2) return SL_OK;
  options->files = calloc((size_t)n, sizeof *options->files);
  if (!options->files) return sl_fail(SL_ENOMEM, "no memory for %d arguments", n);
  for (int i = 1; i < n; i++) SL_TRY(set_text(&options->files[options->n_files++], words[i]));
  return SL_OK;
}

/* Reads all flags; with `apply` 0 only those that say where other options are. */
static sl_status read_flags(const sl__command *command, int argc, const char **argv, int apply, sl__options *options) {
  struct poptOption flags[OPTIONS + 1];
  popt_table(command, flags);
  poptContext context = poptGetContext("starling", argc, argv, flags, 0);
  if (!context) return sl_fail(SL_ENOMEM, "no memory for the command line");
  sl_status status = SL_OK;
  for (int code; status == SL_OK && (code = poptGetNextOpt(context)) != -1;) {
    if (code < -1) {
      status = bad_flag(command, context, code);
      break;
    }
    const option *o = &table[code - 1];
    char *value = o->kind == FLAG ? NULL : poptGetOptArg(context);
    if (apply || o->offset == AT(config) || o->offset == AT(out) || o->offset == AT(resume) || o->offset == AT(help))
      status = set(options, o, "--", value);
    free(value);
  }
  if (status == SL_OK && apply) status = take_arguments(command, context, options);
  poptFreeContext(context);
  return status;
}

/* The configuration of the run that is resumed. */
static sl_status read_resumed(const sl__command *command, sl__options *options) {
  char *path = NULL;
  if (!options->out) return sl_fail(SL_EINVAL, "--resume: which run? --out DIR names it");
  if (asprintf(&path, "%s/%s", options->out, sl_rundir_file_name(SL_RUNDIR_CONFIG)) < 0)
    return sl_fail(SL_ENOMEM, "no memory for a path");
  sl_status status = read_yaml(command, options, path);
  if (status == SL_ENOTFOUND)
    status = sl_fail(SL_ENOTFOUND, "--resume: there is no run in %s (no %s)", options->out,
                     sl_rundir_file_name(SL_RUNDIR_CONFIG));
  free(path);
  return status;
}

sl_status sl__options_parse(const sl__command *command, int argc, const char **argv, sl__options *options) {
  set_defaults(command, options);
  SL_TRY(read_flags(command, argc, argv, 0, options));
  if (options->help) return SL_OK;
  if (options->resume && options->force) return sl_fail(SL_EINVAL, "--resume and --force exclude each other");
  if (options->resume) SL_TRY(read_resumed(command, options));
  if (options->config) {
    sl_status status = read_yaml(command, options, options->config);
    if (status != SL_OK) return status == SL_ENOTFOUND ? sl_fail(SL_EINVAL, "--config: %s", sl_error()) : status;
  }
  SL_TRY(read_flags(command, argc, argv, 1, options));
  int n = (options->model != NULL) + options->n_files;
  if (n < command->least)
    return sl_fail(SL_EINVAL, "an argument is missing; usage: starling %s %s[OPTION]...", command->name,
                   command->arguments);
  return SL_OK;
}

sl_status sl__options_data_of(const sl__command *train, const char *path, char **data) {
  sl__options options;
  set_defaults(train, &options);
  sl_status status = read_yaml(train, &options, path);
  if (status == SL_OK && options.data) status = set_text(data, options.data);
  sl__options_free(&options);
  return status;
}

sl_status sl__options_words(const sl__options *options, const sl__command *command, const char *const *except,
                            char ***words, int *n) {
  sl__options defaults;
  char number[32], other[32];
  sl_status status = SL_OK;
  set_defaults(command, &defaults);
  *n = 0;
  *words = calloc(OPTIONS, sizeof **words);
  if (!*words) SL_TRY_OUT(sl_fail(SL_ENOMEM, "no memory for a command"));
  for (int i = 0; i < OPTIONS; i++) {
    const option *o = &table[i];
    const char *value = show(options, o, number), *usual = show(&defaults, o, other);
    if (!(o->commands & command->bit) || !value || (usual && strcmp(value, usual) == 0)) continue;
    if (o->offset == AT(config) || listed(except, o->name)) continue;
    const int flag = o->kind == FLAG;
    if (asprintf(&(*words)[*n], "--%s%s%s", o->name, flag ? "" : "=", flag ? "" : value) < 0)
      SL_TRY_OUT(sl_fail(SL_ENOMEM, "no memory for a command"));
    ++*n;
  }
out:
  sl__options_free(&defaults);
  return status;
}

void sl__options_words_free(char **words, int n) {
  for (int i = 0; i < n; i++) free(words[i]);
  free(words);
}

void sl__options_quote(FILE *file, const char *const *words, int n) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+,./:@%";
  for (int i = 0; i < n; i++) {
    if (i) fputc(' ', file);
    const int quoted = !*words[i] || words[i][strspn(words[i], plain)];
    if (quoted) fputc('\'', file);
    for (const char *c = words[i]; *c; c++)
      if (*c == '\'')
        fputs("'\\''", file);
      else
        fputc(*c, file);
    if (quoted) fputc('\'', file);
  }
}

void sl__options_free(sl__options *options) {
  for (int i = 0; i < OPTIONS; i++)
    if (table[i].kind == TEXT || table[i].kind == CHOICE) free(*(char **)((char *)options + table[i].offset));
  for (int i = 0; i < options->n_files; i++) free(options->files[i]);
  free(options->files), free(options->model);
}

/* ---- help and manual -------------------------------------------------------------------------------------------- */

static void print_wrapped(FILE *file, const char *text, int indent, int width) {
  int column = indent;
  for (const char *word = text; *word;) {
    int n = (int)strcspn(word, " ");
    if (column > indent && column + 1 + n > width) {
      fprintf(file, "\n%*s", indent, "");
      column = indent;
    }
    column += fprintf(file, "%s%.*s", column > indent ? " " : "", n, word);
    word += n + strspn(word + n, " ");
  }
  fputc('\n', file);
}

void sl__options_help(const sl__command *command, FILE *file) {
  enum { INDENT = 30, WIDTH = 110 };
  fprintf(file, "Usage: starling %s %s[OPTION]...\n%s.\n\n", command->name, command->arguments, command->summary);
  for (int i = 0; i < OPTIONS; i++) {
    const option *o = &table[i];
    if (!(o->commands & command->bit)) continue;
    char text[512];
    int n = fprintf(file, "  --%s%s%s", o->name, o->argument ? "=" : "", o->argument ? o->argument : "");
    if (n >= INDENT)
      fprintf(file, "\n%*s", INDENT, "");
    else
      fprintf(file, "%*s", INDENT - n, "");
    snprintf(text, sizeof text, "%s%s%s%s", o->help, o->standard ? " (default " : "", o->standard ? o->standard : "",
             o->standard ? ")" : "");
    print_wrapped(file, text, INDENT, WIDTH);
  }
}

static void put_escaped(FILE *file, const char *text) {
  for (; *text; text++) {
    if (*text == '-')
      fputs("\\-", file);
    else if (*text == '\\')
      fputs("\\e", file);
    else
      fputc(*text, file);
  }
}

void sl__options_manual(const sl__command *const *commands, FILE *file) {
  for (int i = 0; i < OPTIONS; i++) {
    const option *o = &table[i];
    fputs(".TP\n.B \\-\\-", file);
    put_escaped(file, o->name);
    if (o->argument) {
      fputs("=\\fI", file);
      put_escaped(file, o->argument);
      fputs("\\fR", file);
    }
    fputc('\n', file);
    put_escaped(file, o->help);
    if (o->standard) {
      fputs(" (default ", file);
      put_escaped(file, o->standard);
      fputc(')', file);
    }
    fputs(".\n", file);
    if (o->commands == SL__ALL) continue;
    fputs("[", file);
    const char *between = "";
    for (int k = 0; commands[k]; k++)
      if (o->commands & commands[k]->bit) {
        fprintf(file, "%s%s", between, commands[k]->name);
        between = ", ";
      }
    fputs("]\n", file);
  }
}
