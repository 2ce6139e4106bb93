/* logits MODEL SAMPLES OUT [LENGTH]: the logits of a model file, run or published weights over raw samples (U8 images
 * [B, H, W, C], or I32 tokens [B, LENGTH]), written as raw F32. What interchange.py compares. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/file.h"
#include "tasks/starpu/program.h"
#include "tools/files/model_file.h"

static sl_status run(int argc, char **argv) {
  sl_runtime_options options = sl_runtime_defaults();
  sl_runtime *runtime = NULL;
  sl_store *store = NULL;
  sl__model_file *file = NULL;
  sl_network network = {0};
  sl_program *program = NULL;
  char *samples = NULL;
  void *padded = NULL;
  int32_t *labels = NULL;
  float *logits = NULL;
  size_t n;
  sl_status status = SL_OK;
  options.mpi = options.gpus = 0;
  SL_TRY_OUT(sl__model_open(argv[1], &file));
  SL_TRY_OUT(sl_file_read(argv[2], (size_t)1 << 30, &samples, &n));
  SL_TRY_OUT(sl_runtime_start(&options, &runtime));
  SL_TRY_OUT(sl_store_create(&store));
  const sl__model_facts *f = sl__model_facts_of(file);
  sl_model_data data = f->data;
  if (argc > 4) data.length = atoll(argv[4]);
  const size_t sample = data.length > 0 ? (size_t)data.length * 4 : (size_t)(data.height * data.width * data.channels);
  sl_plan plan = {.batch = (int64_t)(n / sample), .seed = 1};
  SL_TRY_OUT(sl_plan_complete(&plan));
  SL_TRY_OUT((data.length > 0 ? sl_network_logits : sl_network_evaluation)(f->model, &data, &f->training, plan.batch,
                                                                           &network));
  const sl_value keep[] = {network.logits};
  SL_TRY_OUT(sl_program_create(runtime, store, network.graph, &plan, &(sl_program_options){.keep = keep, .n_keep = 1},
                               &program));
  SL_TRY_OUT(sl__model_fill(file, store, &network, f->model, &f->data, 0));
  const size_t bytes = sl_value_bytes(sl_graph_value(network.graph, network.logits));
  padded = aligned_alloc(64, (n + 63) / 64 * 64);
  labels = calloc((size_t)plan.batch, sizeof *labels);
  logits = malloc(bytes);
  if (!padded || !labels || !logits) SL_TRY_OUT(sl_no_memory("for the logits"));
  memcpy(padded, samples, n);
  SL_TRY_OUT(sl_program_run(
      program, &(sl_step){.number = 1, .seed = 1, .input = {[SL_SLOT_SAMPLES] = padded, [SL_SLOT_LABELS] = labels}}));
  SL_TRY_OUT(sl_program_read(program, network.logits, logits));
  SL_TRY_OUT(sl_file_replace(argv[3], logits, bytes));
  printf("%s\n", f->model->name);
out:
  sl_program_destroy(program);
  if (network.graph) sl_network_destroy(&network);
  sl_store_destroy(store);
  sl__model_close(file);
  sl_runtime_stop(runtime);
  free(samples), free(padded), free(labels), free(logits);
  return status;
}

int main(int argc, char **argv) {
  if (argc < 4) return fprintf(stderr, "usage: logits MODEL SAMPLES OUT [LENGTH]\n"), 2;
  if (run(argc, argv) == SL_OK) return 0;
  fprintf(stderr, "logits: %s\n", sl_error());
  return 1;
}
