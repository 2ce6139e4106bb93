/* starling generate: writes text from a trained language model, token by token.
 *
 * Every token is one forward pass over the text so far, padded to a power of two; later positions do not affect
 * earlier ones. A text longer than the model's window loses its beginning. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/time.h"
#include "tasks/starpu/program.h"
#include "tools/commands/commands.h"
#include "tools/run/job.h"
#include "tools/text/coder.h"
#include "tools/text/sample.h"

enum { SHORTEST = 16, PROMPT_BYTES = 64 << 20 };

typedef struct writer {
  const sl__options *o;
  sl__job job;
  const sl__model_facts *facts;
  sl_network network;
  sl_program *program; /* program for windows of `length` tokens; NULL before the first */
  int64_t length, limit;
  int read;        /* 1: the store holds the model */
  int32_t *window; /* [length] */
  float *logits;   /* [length, vocabulary] */
  sl__candidate *room;
  sl__coder coder;
  int32_t *tokens; /* [n] the prompt, then generated tokens */
  size_t n, prompt;
} writer;

static void drop_program(writer *w) {
  sl_program_destroy(w->program);
  if (w->network.graph) sl_network_destroy(&w->network);
  free(w->window), free(w->logits);
  w->program = NULL, w->window = NULL, w->logits = NULL;
}

/* Makes a program for windows of n tokens or more. */
static sl_status fit_program(writer *w, int64_t n) {
  const sl__model_facts *f = w->facts;
  if (w->program && n <= w->length) return SL_OK;
  drop_program(w);
  for (w->length = SHORTEST; w->length < n;) w->length *= 2;
  if (w->length > w->limit) w->length = w->limit;
  sl_model_data data = f->data;
  data.length = w->length;
  sl_plan plan = {.batch = 1, .leaves = 1, .shards = 1, .tiles = f->plan.tiles, .seed = f->plan.seed};
  SL_TRY(sl_plan_complete(&plan));
  SL_TRY(sl_network_logits(f->model, &data, &f->training, 1, &w->network));
  const sl_program_options options = {.keep = &w->network.logits, .n_keep = 1};
  SL_TRY(sl_program_create(w->job.runtime, w->job.store, w->network.graph, &plan, &options, &w->program));
  w->window = calloc((size_t)w->length, sizeof *w->window);
  w->logits = malloc((size_t)(w->length * data.classes) * sizeof *w->logits);
  if (!w->window || !w->logits) return sl_no_memory("for the logits of %lld tokens", (long long)w->length);
  return w->read++ ? SL_OK : sl__model_fill(w->job.file, w->job.store, &w->network, f->model, &data, 0);
}

static sl_status next_token(writer *w, const sl__sampling *sampling, int32_t *token) {
  const int64_t most = w->limit, n = (int64_t)w->n < most ? (int64_t)w->n : most, V = w->facts->data.classes;
  SL_TRY(fit_program(w, n));
  memset(w->window, 0, (size_t)w->length * sizeof *w->window);
  memcpy(w->window, w->tokens + w->n - (size_t)n, (size_t)n * sizeof *w->window);
  const sl_step step = {.number = 1, .seed = w->facts->plan.seed, .input = {[SL_SLOT_SAMPLES] = w->window}};
  SL_TRY(sl_program_run(w->program, &step));
  SL_TRY(sl_program_read(w->program, w->network.logits, w->logits));
  return sl__sample(sampling, w->logits + (n - 1) * V, w->coder.vocabulary, w->n - w->prompt, w->room, token);
}

/* Puts the prompt's tokens, or the token that begins a text, into w->tokens, with room for the generated ones. */
static sl_status take_prompt(writer *w) {
  const sl__options *o = w->o;
  char *read = NULL;
  const char *text = o->prompt;
  size_t bytes = text ? strlen(text) : 0;
  int32_t *prompt = NULL;
  sl_status status = SL_OK;
  if (o->prompt && o->prompt_file) return sl_fail(SL_EINVAL, "--prompt and --prompt-file exclude each other");
  if (o->prompt_file) {
    SL_TRY(sl_file_read(o->prompt_file, PROMPT_BYTES, &read, &bytes));
    text = read;
  }
  SL_TRY_OUT(sl__coder_encode(&w->coder, text, bytes, &prompt, &w->prompt));
  for (size_t i = 0; i < w->prompt; i++)
    if (prompt[i] < 0 || prompt[i] >= w->facts->data.classes)
      SL_TRY_OUT(sl_fail(SL_EINVAL, "token %zu of the prompt is %d, beyond the model's vocabulary of %lld", i,
                         prompt[i], (long long)w->facts->data.classes));
  w->tokens = malloc((w->prompt + 1 + (size_t)o->tokens) * sizeof *w->tokens);
  if (!w->tokens) SL_TRY_OUT(sl_no_memory("for %lld tokens", (long long)o->tokens));
  if (w->prompt)
    memcpy(w->tokens, prompt, w->prompt * sizeof *prompt);
  else
    w->tokens[w->prompt++] = sl__coder_first(&w->coder);
  w->n = w->prompt;
  if (!o->json && !o->quiet && bytes) fwrite(text, 1, bytes, stdout);
out:
  free(read), free(prompt);
  return status;
}

/* Writes the text of the newest token. It depends on the token before, as some tokenizers put a space between words. */
static sl_status say(writer *w) {
  const int32_t *token = w->tokens + w->n - 2;
  char *text, *before;
  size_t bytes, skipped;
  SL_TRY(sl__coder_decode(&w->coder, token, 1, &before, &skipped));
  free(before);
  SL_TRY(sl__coder_decode(&w->coder, token, 2, &text, &bytes));
  const int fine = fwrite(text + skipped, 1, bytes - skipped, stdout) == bytes - skipped && fflush(stdout) == 0;
  free(text);
  return fine ? SL_OK : sl_fail(SL_EIO, "cannot write the text: %s", strerror(errno));
}

/* Leaves the text out if it is not UTF-8, which JSON requires. */
static sl_status print_json(writer *w, double seconds) {
  char *text = NULL;
  size_t bytes;
  json_t *tokens = json_array(), *all = NULL;
  sl_status status = sl__coder_decode(&w->coder, w->tokens + w->prompt, w->n - w->prompt, &text, &bytes);
  if (status != SL_OK) goto out;
  for (size_t i = w->prompt; i < w->n; i++) json_array_append_new(tokens, json_integer(w->tokens[i]));
  all = json_pack("{s:s, s:I, s:I, s:O, s:f}", "model", w->facts->model->name, "step", (json_int_t)w->facts->step,
                  "prompt_tokens", (json_int_t)w->prompt, "tokens", tokens, "time_s", seconds);
  if (!all) SL_TRY_OUT(sl_no_memory("for the text as JSON"));
  json_t *string = json_stringn(text, bytes);
  if (string) json_object_set_new(all, "text", string);
  status = sl_json_print(stdout, all, 6);
out:
  json_decref(all);
  json_decref(tokens);
  free(text);
  return status;
}

static sl_status write_text(writer *w) {
  const sl__options *o = w->o;
  const sl__sampling sampling = {.temperature = o->temperature,
                                 .top_k = o->top_k > 0 ? o->top_k : 0,
                                 .top_p = o->top_p,
                                 .seed = (uint64_t)o->seed};
  const int64_t from = sl_now();
  SL_TRY(take_prompt(w));
  for (int64_t i = 0; i < o->tokens; i++) {
    int32_t token;
    SL_TRY(next_token(w, &sampling, &token));
    w->tokens[w->n++] = token;
    if (token == sl__coder_end(&w->coder)) break;
    if (!o->json) SL_TRY(say(w));
  }
  if (o->json) return print_json(w, 1e-9 * (double)(sl_now() - from));
  putchar('\n');
  return SL_OK;
}

/* The longest window: the length in training or, for published weights, the number of positions. */
static sl_status find_limit(writer *w) {
  const sl__model_facts *f = w->facts;
  w->limit = w->o->length > 0 ? w->o->length : f->data.length;
  if (w->o->length <= 0 && f->step > 0) return SL_OK;
  SL_TRY(fit_program(w, 1));
  const sl_tensor *positions = sl_store_find(w->job.store, "wpe.weight");
  if (positions && w->o->length <= 0) w->limit = positions->shape.dim[0];
  if (positions && w->limit > positions->shape.dim[0])
    return sl_blame(sl_fail(SL_EINVAL, "a window of %lld tokens, but the model has %lld positions", (long long)w->limit,
                            (long long)positions->shape.dim[0]),
                    "window");
  return SL_OK;
}

static sl_status run(writer *w, const sl__options *o) {
  sl__job *j = &w->job;
  SL_TRY(sl__job_file(j, o));
  const sl__model_facts *f = w->facts = &j->facts;
  if (!f->model->family->data->continues)
    return sl_fail(SL_EUNSUPPORTED,
                   "%s holds %s, which does not predict next tokens: generate takes models such as gpt2",
                   sl__model_path(j->file), f->model->name);
  SL_TRY(sl__coder_open(o->tokenizer, sl__model_path(j->file), f->data.classes, &w->coder));
  SL_TRY(sl__job_start(j, "generate", 0));
  SL_TRY(sl_store_create(&j->store));
  w->room = malloc((size_t)f->data.classes * sizeof *w->room);
  if (!w->room) return sl_no_memory("for %lld tokens", (long long)f->data.classes);
  SL_TRY(find_limit(w));
  return write_text(w);
}

sl_status sl__generate(sl__options *o, int *exit_code) {
  writer w = {.o = o};
  (void)exit_code;
  const sl_status status = run(&w, o);
  drop_program(&w);
  sl__coder_close(&w.coder);
  sl__job_close(&w.job);
  free(w.room), free(w.tokens);
  return status;
}
