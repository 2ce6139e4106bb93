/* What changes a training step's memory but none of its bits: recomputation and micro-batches, on a small GPT with
 * dropout, run by StarPU. */
#include "tasks/recompute.h"

#include <stdlib.h>
#include <string.h>

#include "models/models.h"
#include "runtime/store.h"
#include "tasks/program.h"
#include "tests/scratch.h"

enum { BATCH = 8, LENGTH = 21, VOCABULARY = 41, STEPS = 3 };

static sl_value build_gpt(sl_graph *g, sl_value x, const sl_model_data *d, const sl_training *o, int training) {
  return sl_gpt(g, x, d, &(sl_gpt_size){.layers = 3, .heads = 2, .width = 32, .positions = 32},
                training ? o->dropout : 0);
}
static const sl_model gpt = {.name = "gpt",
                             .task = SL_TASK_NEXT_TOKEN,
                             .length = LENGTH,
                             .vocabulary = VOCABULARY,
                             .build = build_gpt,
                             .training = {.optimizer = SL_OPTIMIZER_ADAMW,
                                          .beta1 = 0.9,
                                          .beta2 = 0.999,
                                          .eps = 1e-8,
                                          .decay = 0.01,
                                          .clip = 1,
                                          .dropout = 0.1}};

/* All tensors after some steps, one behind the other (the caller's to free), and the bytes of shared buffers. */
static char *train(sl_runtime *rt, sl_recompute recompute, int micro_batches, size_t *bytes, size_t *temporaries) {
  static int32_t windows[BATCH * (LENGTH + 1)], labels[BATCH];
  for (int i = 0; i < BATCH * (LENGTH + 1); i++) windows[i] = (int32_t)((uint32_t)i * 2654435761u >> 16) % VOCABULARY;
  const sl_model_data data = {.classes = VOCABULARY, .length = LENGTH};
  sl_training training = gpt.training;
  training.recompute = recompute;
  sl_plan plan = {.batch = BATCH, .leaves = 4, .shards = 8, .micro_batches = micro_batches, .seed = 3};
  sl_network network;
  sl_store *store;
  sl_program *program;
  double loss;
  assert_ok(sl_plan_complete(&plan));
  assert_ok(sl_network_training(&gpt, &data, &training, BATCH, &network));
  assert_ok(sl_store_create(&store));
  const sl_program_options options = {.keep = &network.loss, .n_keep = 1};
  assert_ok(sl_program_create(rt, store, network.graph, &plan, &options, &program));
  for (int step = 1; step <= STEPS; step++)
    assert_ok(sl_program_run(program, &(sl_step){.number = step,
                                                 .seed = plan.seed,
                                                 .learning_rate = 1e-3,
                                                 .input = {[SL_SLOT_IMAGES] = windows, [SL_SLOT_LABELS] = labels}}));
  assert_ok(sl_program_read(program, network.loss, &loss));
  assert_true(loss > 1 && loss < 5);
  *temporaries = sl_program_memory(program)->temporaries;
  *bytes = 0;
  assert_ok(sl_store_acquire(store, 0));
  for (int i = 0; i < sl_store_count(store); i++)
    *bytes += (size_t)sl_shape_count(&sl_store_at(store, i)->shape) * sl_dtype_bytes(sl_store_at(store, i)->dtype);
  char *all = malloc(*bytes), *at = all;
  for (int i = 0; i < sl_store_count(store); i++) {
    const sl_tensor *t = sl_store_at(store, i);
    const size_t n = (size_t)sl_shape_count(&t->shape) * sl_dtype_bytes(t->dtype);
    memcpy(at, t->data, n);
    at += n;
  }
  sl_store_release(store);
  sl_program_destroy(program);
  sl_store_destroy(store);
  sl_network_destroy(&network);
  return all;
}

static void memory_changes_no_bit(void **state) {
  (void)state;
  sl_runtime_options o = sl_runtime_defaults();
  sl_runtime *rt;
  o.mpi = o.gpus = 0;
  o.workers = 2;
  assert_ok(sl_runtime_start(&o, &rt));
  size_t bytes, temporaries[SL_RECOMPUTE_COUNT][3];
  char *reference = NULL;
  for (int kind = 0; kind < SL_RECOMPUTE_COUNT; kind++)
    for (int m = 0; m < 3; m++) {
      char *all = train(rt, (sl_recompute)kind, 1 << m, &bytes, &temporaries[kind][m]);
      if (!reference) {
        reference = all;
        continue;
      }
      if (memcmp(reference, all, bytes) != 0)
        fail_msg("--recompute %s --micro-batches %d gives other bits", sl_recompute_name((sl_recompute)kind), 1 << m);
      free(all);
    }
  free(reference);
  sl_runtime_stop(rt);
  for (int kind = 0; kind < SL_RECOMPUTE_COUNT; kind++)
    print_message("# --recompute %s: %zu bytes of temporaries, %zu in 2 micro-batches, %zu in 4\n",
                  sl_recompute_name((sl_recompute)kind), temporaries[kind][0], temporaries[kind][1],
                  temporaries[kind][2]);
  for (int i = 1; i < 3; i++) {
    assert_true(temporaries[i][0] < temporaries[0][0]);
    assert_true(temporaries[0][i] < temporaries[0][i - 1]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_changes_no_bit),
  };
  return cmocka_run_group_tests_name("recompute", tests, NULL, NULL);
}
