/* What changes a training step's memory but none of its bits: recomputation and micro-batches, on a small GPT with
 * dropout and a small ResNet, run by StarPU. */
#include "tasks/graph/recompute.h"

#include <stdlib.h>
#include <string.h>

#include "models/models.h"
#include "runtime/machine/store.h"
#include "tasks/starpu/program.h"
#include "tests/support/scratch.h"

enum { BATCH = 8, LENGTH = 21, VOCABULARY = 41, STEPS = 3 };

static const sl_model gpt = {.name = "gpt",
                             .family = &sl_family_gpt2,
                             .sizes = &(const sl_gpt_size){.layers = 3, .heads = 2, .width = 32, .positions = 32},
                             .usual = {.length = LENGTH},
                             .training = {.optimizer = SL_OPTIMIZER_ADAMW,
                                          .beta1 = 0.9,
                                          .beta2 = 0.999,
                                          .eps = 1e-8,
                                          .decay = 0.01,
                                          .clip = 1,
                                          .dropout = 0.1}};

/* Returns all tensors after some steps, concatenated (the caller frees them), and the bytes of shared buffers. */
static char *train(sl_runtime *rt, const sl_model *model, sl_recompute recompute, int micro_batches, size_t *bytes,
                   size_t *temporaries) {
  static int32_t windows[BATCH * (LENGTH + 1)], labels[BATCH];
  for (int i = 0; i < BATCH * (LENGTH + 1); i++) windows[i] = (int32_t)((uint32_t)i * 2654435761u >> 16) % VOCABULARY;
  static uint8_t images[BATCH * 28 * 28];
  for (size_t i = 0; i < sizeof images; i++) images[i] = (uint8_t)((uint32_t)i * 2654435761u >> 24);
  for (int i = 0; i < BATCH; i++) labels[i] = i;
  const sl_model_data tokens = {.classes = VOCABULARY, .length = LENGTH},
                      pictures = {
                          .height = 28, .width = 28, .channels = 1, .classes = 10, .mean = {0.5}, .deviation = {0.25}};
  const sl_model_data data = model == &gpt ? tokens : pictures;
  sl_training training = model->training;
  training.recompute = recompute;
  sl_plan plan = {.batch = BATCH, .leaves = 4, .shards = 8, .micro_batches = micro_batches, .seed = 3};
  sl_network network;
  sl_store *store;
  sl_program *program;
  double loss;
  assert_ok(sl_plan_complete(&plan));
  assert_ok(sl_network_training(model, &data, &training, BATCH, &network));
  assert_ok(sl_store_create(&store));
  const sl_program_options options = {.keep = &network.loss, .n_keep = 1};
  assert_ok(sl_program_create(rt, store, network.graph, &plan, &options, &program));
  for (int step = 1; step <= STEPS; step++)
    assert_ok(sl_program_run(
        program,
        &(sl_step){
            .number = step,
            .seed = plan.seed,
            .learning_rate = 1e-3,
            .input = {[SL_SLOT_SAMPLES] = model == &gpt ? (void *)windows : images, [SL_SLOT_LABELS] = labels}}));
  assert_ok(sl_program_read(program, network.loss, &loss));
  assert_true(loss > 0 && loss < 10);
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

static sl_runtime *start(int gpus) {
  sl_runtime_options o = sl_runtime_defaults();
  sl_runtime *rt;
  o.mpi = 0, o.gpus = gpus;
  o.workers = 2;
  assert_ok(sl_runtime_start(&o, &rt));
  return rt;
}

static void memory_changes_no_bit(const sl_model *model) {
  size_t bytes, temporaries[SL_RECOMPUTE_COUNT][3];
  char *reference = NULL;
  for (int gpus = 0; gpus >= -1; gpus--) { /* on CPUs, then also on the GPUs that there are */
    sl_runtime *rt = start(gpus);
    for (int kind = 0; kind < SL_RECOMPUTE_COUNT && (gpus == 0 || sl_runtime_gpus(rt) > 0); kind++)
      for (int m = 0; m < 3; m++) {
        size_t with_gpus; /* values that lie in different memories share no buffer */
        char *all =
            train(rt, model, (sl_recompute)kind, 1 << m, &bytes, gpus == 0 ? &temporaries[kind][m] : &with_gpus);
        if (!reference) {
          reference = all;
          continue;
        }
        if (memcmp(reference, all, bytes) != 0)
          fail_msg("%s: --recompute %s --micro-batches %d gives other bits on %d GPUs", model->name,
                   sl_recompute_names[kind], 1 << m, sl_runtime_gpus(rt));
        free(all);
      }
    sl_runtime_stop(rt);
  }
  free(reference);
  for (int kind = 0; kind < SL_RECOMPUTE_COUNT; kind++)
    print_message("# --recompute %s: %zu bytes of temporaries, %zu in 2 micro-batches, %zu in 4\n",
                  sl_recompute_names[kind], temporaries[kind][0], temporaries[kind][1], temporaries[kind][2]);
  assert_true(temporaries[SL_RECOMPUTE_BLOCK][0] < temporaries[SL_RECOMPUTE_NONE][0]);
  assert_true(temporaries[0][1] < temporaries[0][0] && temporaries[0][2] < temporaries[0][1]);
}

static void gpt_keeps_its_bits(void **state) {
  (void)state;
  memory_changes_no_bit(&gpt);
}

/* Running statistics are updated only once. */
static void resnet_keeps_its_bits(void **state) {
  (void)state;
  const sl_model *model;
  assert_ok(sl_model_find("resnet8", &model));
  memory_changes_no_bit(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gpt_keeps_its_bits),
      cmocka_unit_test(resnet_keeps_its_bits),
  };
  return cmocka_run_group_tests_name("recompute", tests, NULL, NULL);
}
