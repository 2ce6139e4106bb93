/* Opens and closes a job, and runs its training step. */
#include "tools/run/job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/attributes.h"
#include "codelets/products/blas.h"
#include "runtime/base/activity.h"
#include "runtime/base/time.h"
#include "runtime/machine/transfers.h"
#include "tools/run/digest.h"
#include "tools/run/plan_choice.h"
#include "tools/run/prediction.h"
#include "tools/run/session.h"
#include "tools/settings/exit_codes.h"
#include "tools/settings/workers.h"
#include "tools/watch/watch.h"

void sl__job_take_model(sl__job *j, sl_model *model) {
  free(j->facts.sized);
  j->facts.model = j->facts.sized = model;
  sl_model_text(model, j->name, sizeof j->name);
}

/* Sets a language model's vocabulary from the data. */
static sl_status settle_classes(sl__job *j) {
  char text[64];
  sl_model *sized;
  const char *name = j->data.kind->classes_size;
  if (!name || sl_model_size(j->facts.model, name) == j->facts.data.classes) return SL_OK;
  snprintf(text, sizeof text, "%s=%lld", name, (long long)j->facts.data.classes);
  SL_TRY(sl_model_sized(j->facts.model, text, &sized));
  sl__job_take_model(j, sized);
  return SL_OK;
}

sl_status sl__job_name(sl__job *j, const sl__options *o) {
  j->o = o;
  sl_model *model;
  SL_TRY(sl__find_model(o->model, o->size, &model));
  sl__job_take_model(j, model);
  sl__training_of(o, j->facts.model, &j->facts.training);
  if ((int)j->facts.training.precision == SL_PRECISION_AUTO) j->facts.training.precision = SL_PRECISION_FP32;
  return SL_OK;
}

sl_status sl__job_file(sl__job *j, const sl__options *o) {
  j->o = o;
  SL_TRY(sl__watch_open(sl__launch_rank(), o->stall_timeout, o->disk_timeout, SL__EXIT_LOST));
  SL_TRY(sl__model_open(o->model, &j->file));
  j->facts = *sl__model_facts_of(j->file);
  sl_model_text(j->facts.model, j->name, sizeof j->name);
  return SL_OK;
}

sl_status sl__job_meet(sl__job *j, const sl__options *o, const char *command) {
  j->o = o;
  return sl_runtime_promised_ranks() > 1 ? sl__job_start(j, command, 1) : SL_OK;
}

sl_status sl__job_start(sl__job *j, const char *command, int ranks) {
  if (j->runtime) return SL_OK;
  SL_TRY(sl__start(j->o, command, ranks, &j->runtime));
  SL_TRY(sl__ranks_open(j->runtime, &j->ranks));
  return j->o->allreduce >= 0 ? sl__ranks_exchange(&j->ranks, j->runtime, j->o->allreduce, j->o->compress) : SL_OK;
}

sl_status sl__job_compare(const sl__job *j) {
  char *text;
  if (j->ranks.n == 1) return SL_OK;
  SL_TRY(sl__digest(j->o, &j->facts, &j->data, &text));
  const sl_status status = sl__ranks_compare(&j->ranks, text);
  free(text);
  return status;
}

/* Rank 0 chooses the plan for all ranks. */
static sl_status choose_plan(sl__job *j) {
  sl_plan *plan = &j->facts.plan;
  sl_machine machine;
  double gain = 1;
  sl_status status = SL_OK;
  if (j->ranks.rank == 0) {
    const int threads = sl_runtime_share(j->runtime)->threads_per_worker;
    if (!sl__machine_predicts(j->runtime, &machine))
      machine = sl_machine_default(sl_runtime_cpu_workers(j->runtime), threads, sl_runtime_gpus(j->runtime));
    machine.fast = sl_runtime_fast(j->runtime);
    if (plan->tiles.blocks) sl_machine_set_tiles(&machine);
    status = sl__plan_choose(j->o, j->facts.model, &j->facts.training, &machine, &j->ranks.mesh, plan, &gain);
  }
  SL_TRY(sl__ranks_agree(&j->ranks, status));
  plan->leaves = (int)sl__ranks_sum(&j->ranks, j->ranks.rank == 0 ? plan->leaves : 0);
  plan->shards = (int)sl__ranks_sum(&j->ranks, j->ranks.rank == 0 ? plan->shards : 0);
  if (j->ranks.rank == 0 && !j->o->quiet && !j->o->json)
    printf("plan       %d leaves, %d shards: predicted %.2f times as fast as the portable plan\n", plan->leaves,
           plan->shards, gain);
  return SL_OK;
}

int sl__job_prefers_blocks(const sl__options *o, sl_precision precision, int gpus) {
  return precision == SL_PRECISION_BF16 && !o->bf16_sums && gpus == 0 && sl_isa_current() == SL_ISA_AVX512_VL &&
         sl_isa_has_tiles();
}

/* Chooses the order of sums in products of bf16 (product.h) if no option does: by blocks if all ranks prefer blocks. */
static void choose_sums(sl__job *j) {
  if (j->o->bf16_sums) return;
  const int blocks = sl__job_prefers_blocks(j->o, j->facts.training.precision, sl_runtime_gpus(j->runtime));
  j->facts.plan.tiles.blocks = sl__ranks_sum(&j->ranks, blocks) == j->ranks.n;
}

/* --products auto: takes OpenBLAS's products in place of kernels without fused multiply-adds, if all ranks measure
 * OpenBLAS's to be faster. */
static sl_status choose_products(sl__job *j) {
  double gain = 0;
  if (!j->o->products || strcmp(j->o->products, "auto") != 0) return SL_OK;
  const int may = j->facts.training.precision == SL_PRECISION_FP32 && sl_runtime_gpus(j->runtime) == 0 &&
                  !sl_isa_same_bits(sl_isa_name(sl_isa_current()), "avx2"); /* which has fused multiply-adds */
  SL_TRY(sl__ranks_agree(&j->ranks, may ? sl_blas_gain(&gain) : SL_OK));
  sl_plan *plan = &j->facts.plan;
  if (sl__ranks_sum(&j->ranks, may && gain > 1) < j->ranks.n) return SL_OK;
  snprintf(plan->products, sizeof plan->products, "%s", sl_runtime_products());
  return sl_plan_complete(plan);
}

void sl__job_set_precision(sl__job *j, sl_precision precision) {
  j->facts.training.precision = precision;
  if (!j->file) choose_sums(j);
}

/* With --sync: the difference between the seeds of two consecutive ranks, so that dropout is not the same on all ranks.
 */
static const uint64_t APART = 0x9e3779b97f4a7c15;

/* --products for the model of a file. auto: as in training. */
static sl_status take_products(sl__job *j) {
  sl_plan *plan = &j->facts.plan;
  if (!j->o->products || strcmp(j->o->products, "auto") == 0) return SL_OK;
  const int blas = strcmp(j->o->products, "openblas") == 0;
  if (blas && j->facts.training.precision != SL_PRECISION_FP32)
    return sl_blame(sl_fail(SL_EUNSUPPORTED, "OpenBLAS's products are in fp32, and the model's precision is %s",
                            sl_precision_choices[j->facts.training.precision]),
                    "products, precision");
  snprintf(plan->products, sizeof plan->products, "%s", blas ? sl_runtime_products() : "own");
  return sl_plan_complete(plan);
}

sl_status sl__job_plan(sl__job *j) {
  SL_TRY(sl__mesh_of(j->o, j->ranks.n, &j->ranks.mesh));
  const int gpus = sl__ranks_sum(&j->ranks, sl_runtime_gpus(j->runtime) > 0) == j->ranks.n;
  SL_TRY(sl__settle_folds(&j->ranks.mesh, gpus, &j->facts.training));
  const sl_plan of_file = j->facts.plan;
  if (!j->file || j->o->batch > 0) SL_TRY(sl__plan_of(j->o, j->facts.model, j->ranks.n, &j->facts.plan));
  if (j->file) {
    sl_plan *plan = &j->facts.plan;
    plan->tiles = of_file.tiles, plan->seed = of_file.seed; /* the seed also masks tokens */
    memcpy(plan->products, of_file.products, sizeof plan->products);
    SL_TRY(take_products(j));
    if (sl_runtime_gpus(j->runtime) > 0) strcpy(j->facts.plan.products, "own"), j->facts.plan.tiles.blas = 0;
  } else {
    choose_sums(j);
    SL_TRY(choose_products(j));
  }
  if (!j->file && j->o->plan && strcmp(j->o->plan, "machine") == 0) SL_TRY(choose_plan(j));
  sl__workers workers;
  SL_TRY(sl__workers_of(j->o, &workers));
  if (workers.choose) sl__choice_open(&j->choice, j->runtime, &j->ranks);
  return sl__balance_open(j->runtime, j->o->balance ? j->o->balance : "even", &j->ranks, &j->facts.plan, &j->balance);
}

static sl_status open_data(sl__job *j, int made_up) {
  const sl__options *o = j->o;
  const sl__model_facts *f = &j->facts;
  sl_data_options options = {.model = f->model, .path = o->data, .seed = f->plan.seed, .length = o->length};
  options.trained = j->file || o->resume;
  if (j->file) {
    options.validation_fraction = f->val_fraction;
    options.length = f->data.length;
    options.vocabulary = f->data.classes;
  } else if (sl__size_is_given(o->size, "vocabulary")) {
    options.vocabulary = sl_model_vocabulary(f->model);
  }
  if (!j->file && j->trains) {
    options.validation_fraction = j->facts.val_fraction = o->val_fraction;
  }
  if (made_up && !o->data) {
    sl_model_data sizes;
    SL_TRY(sl__synthetic_data(o, f->model, &sizes));
    SL_TRY(sl_data_make_up(f->model, &sizes, &j->data));
  } else {
    SL_TRY(sl_data_open(&options, &j->data));
  }
  if (j->file) return SL_OK;
  j->facts.data = j->data.model;
  j->facts.class_names = j->data.class_names;
  return settle_classes(j);
}

sl_status sl__job_data(sl__job *j, int made_up) {
  sl_activity_begin(SL_WORKS_LONG, "the data"); /* one rank's disk may be slower than the others' */
  const sl_status status = open_data(j, made_up);
  sl_activity_end();
  return status;
}

/* ---- programs --------------------------------------------------------------------------------------------------- */

static sl_status make_evaluator(sl__job *j) {
  const sl__model_facts *f = &j->facts;
  return sl__evaluator_create(j->runtime, j->store, f->model, &f->data, &f->training, &f->plan, &j->ranks,
                              &j->evaluator);
}

/* The plan of a step; with --sync, the plan of this rank's own part. */
static const sl_plan *plan_of(const sl__job *j) { return j->sync.every ? &j->own : &j->facts.plan; }

static sl_status make_programs(sl__job *j) {
  const int64_t resident = sl__resident_memory();
  const sl_network *n = &j->network;
  sl_value keep[SL__JOB_KEEPS];
  j->machine_known = sl__machine_predicts(j->runtime, &j->machine);
  SL_TRY(sl__choose_pipeline(j, &j->pipe));
  const sl_program_options options = {.recorder = j->recorder,
                                      .keep = keep,
                                      .n_keep = sl__job_keeps(j, keep),
                                      .first_leaf = j->sync.every ? NULL : j->ranks.training_leaf,
                                      .model_ranks = sl__mesh_model_ranks(&j->ranks.mesh),
                                      .tensor = j->ranks.mesh.tensor,
                                      .pipe = j->pipe,
                                      .no_priorities = j->o->no_priorities,
                                      .exchange = j->ranks.exchange,
                                      .compression = j->ranks.compression,
                                      .machine = j->machine_known ? &j->machine : NULL,
                                      .zero = (int)j->o->zero,
                                      .planned = sl__placed_by_plan(j->o, sl_runtime_gpus(j->runtime)),
                                      .lru = j->o->gpu_eviction && strcmp(j->o->gpu_eviction, "lru") == 0};
  SL_TRY(sl_program_create(j->runtime, j->store, n->graph, plan_of(j), &options, &j->program));
  SL_TRY(sl__sync_open(&j->sync, &j->facts.plan, &j->ranks, j->store));
  if (j->trains) SL_TRY(make_evaluator(j));
  sl__watch_programs((sl_program *[]){j->program, j->evaluator.program}, j->trains ? 2 : 1);
  j->flops = sl__ranks_sum(&j->ranks, sl_program_flops(j->program));
  j->predicted = resident + SL__FIRST_STEP_BYTES + (int64_t)sl_program_bytes(j->program, j->step > 0) +
                 sl__loader_bytes(n, j->ranks.training_rows);
  j->predicted += (int64_t)sl__sync_bytes(&j->sync, j->store);
  if (j->trains)
    j->predicted += (int64_t)sl_program_bytes(j->evaluator.program, 1) + sl__loader_bytes(n, j->ranks.rows);
  return SL_OK;
}

static void release_programs(sl__job *j) {
  j->sent = sl__job_sent(j);
  sl__watch_programs(NULL, 0);
  sl__evaluator_destroy(&j->evaluator);
  sl_program_destroy(j->program); /* GPUs may still copy from the loader's batches */
  if (j->pinned) sl_block_unpin(j->pinned, j->pinned_bytes);
  j->pinned = NULL;
  if (!sl_runtime_abandoned()) sl_loader_destroy(j->loader); /* tasks that go on read its batches */
  j->loader = NULL, j->program = NULL;
}

sl_status sl__job_build(sl__job *j) {
  const sl__model_facts *f = &j->facts;
  if (j->records) SL_TRY(sl_recorder_create(0, &j->recorder));
  SL_TRY(sl_store_create(&j->store));
  SL_TRY(sl__sync_parse(j->o, &j->ranks, f->training.precision, &j->sync));
  if (j->sync.every) SL_TRY(sl__sync_plan(&f->plan, &j->ranks, &j->own));
  SL_TRY(sl_network_training(f->model, &f->data, &f->training, plan_of(j)->batch, &j->network));
  return make_programs(j);
}

void sl__job_unbuild(sl__job *j) {
  release_programs(j);
  if (j->network.graph) sl_network_destroy(&j->network);
  memset(&j->network, 0, sizeof j->network);
  sl__sync_close(&j->sync);
  sl_store_destroy(j->store);
  if (!sl_runtime_abandoned()) sl_recorder_destroy(j->recorder);
  j->store = NULL, j->recorder = NULL;
  j->step = 0, j->sent = 0;
}

sl_status sl__job_build_evaluator(sl__job *j) {
  SL_TRY(sl_store_create(&j->store));
  SL_TRY(make_evaluator(j));
  sl__watch_programs(&j->evaluator.program, 1);
  const sl_status status = sl__model_fill(j->file, j->store, &j->evaluator.network, j->facts.model, &j->facts.data, 0);
  SL_TRY(sl__ranks_agree(&j->ranks, status));
  SL_TRY(sl__ranks_broadcast(&j->ranks, j->store)); /* another host may have another version of the file */
  j->evaluator.step = j->facts.step;
  return SL_OK;
}

sl_status sl__job_load(sl__job *j) {
  const sl__model_facts *f = &j->facts;
  const sl_loader_options options = {.source = sl_data_source(&j->data, SL_SPLIT_TRAIN),
                                     .mode = SL_LOADER_TRAIN,
                                     .batch = f->plan.batch,
                                     .first = j->ranks.training_row,
                                     .rows = j->ranks.training_rows,
                                     .seed = f->plan.seed,
                                     .cursor = j->step * f->plan.batch,
                                     .augment = f->augment,
                                     .height = f->data.height,
                                     .width = f->data.width,
                                     .channels = f->data.channels};
  SL_TRY(sl_loader_create(&options, &j->loader));
  const sl_batch *first = sl_loader_slot(j->loader, 0),
                 *last = sl_loader_slot(j->loader, sl_loader_depth(j->loader) - 1);
  const size_t each = (size_t)first->rows * options.source.sample_bytes;
  j->pinned_bytes = (size_t)((char *)last->samples - (char *)first->samples) + each;
  j->pinned = sl_block_pin(first->samples, j->pinned_bytes) ? first->samples : NULL;
  return SL_OK;
}

sl_status sl__job_rebuild(sl__job *j) {
  release_programs(j);
  if (j->recorder)
    sl_recorder_clear(j->recorder), sl_transfers_clear(); /* the records name nodes that no longer exist */
  SL_TRY(make_programs(j));
  return sl__job_load(j);
}

uint64_t sl__job_sent(const sl__job *j) {
  return j->sent + j->sync.sent + (j->program ? sl_program_sent(j->program) : 0);
}

/* ---- a step ----------------------------------------------------------------------------------------------------- */

static sl_status read_scores(const sl__job *j, sl__job_scores *s, double *clip) {
  const sl_network *n = &j->network;
  *clip = 1;
  SL_TRY(sl_program_read(j->program, n->loss, &s->loss));
  if (!j->trains) return SL_OK;
  SL_TRY(sl_program_read(j->program, n->correct, &s->correct));
  SL_TRY(sl_program_read(j->program, n->count, &s->count));
  if (n->clip != SL_NONE) SL_TRY(sl_program_read(j->program, n->clip, clip));
  if (n->scale != SL_NONE) SL_TRY(sl_program_read(j->program, n->scale, &s->scale));
  s->overflow = n->scale != SL_NONE && *clip == 0;
  return SL_OK;
}

/* With --sync: joins the ranks' scores into those of all samples, so that all ranks decide alike. *clip: not finite if
 * it is not finite on some rank. */
static sl_status join_scores(const sl__job *j, sl__job_scores *s, double *clip) {
  enum { FIGURES = 4 };
  const double mine[FIGURES] = {s->loss * s->count, s->correct, s->count, *clip};
  sl__job_scores all = {.scale = s->scale, .overflow = s->overflow};
  if (j->sync.every == 0 || j->ranks.n == 1) return SL_OK;
  double *each = malloc((size_t)j->ranks.n * sizeof mine);
  sl_status status = each ? sl__ranks_gather(&j->ranks, mine, FIGURES, each) : sl_no_memory("for the ranks' losses");
  for (int r = 0; r < j->ranks.n && status == SL_OK; r++) {
    all.loss += each[r * FIGURES], all.correct += each[r * FIGURES + 1], all.count += each[r * FIGURES + 2];
    if (!isfinite(each[r * FIGURES + 3])) *clip = each[r * FIGURES + 3];
  }
  free(each);
  if (all.count > 0) all.loss /= all.count; /* a batch of masked tokens may have no target */
  *s = all;
  return status;
}

/* Runs the step again and checks every output. Nothing was updated, except with --sync on ranks whose own loss is
 * finite; these ranks find nothing. */
static sl_status find_nonfinite(const sl__job *j, const sl_step *step, double loss, double clip) {
  SL_TRY(sl__ranks_agree(&j->ranks, sl_program_find_nonfinite(j->program, step)));
  return sl_fail(SL_ENONFINITE,
                 "step %lld: the loss is %g, the clip factor %g; all outputs were finite when the step ran again",
                 (long long)step->number, loss, clip);
}

static sl_status overflows_always(const sl_step *step, double scale) {
  return sl_blame(sl_fail(SL_ENONFINITE,
                          "step %lld: gradients overflow fp16 even at a loss scale of %g, the least there is: they are "
                          "beyond its range. bf16 and fp32 have a larger one",
                          (long long)step->number, scale),
                  "precision");
}

sl_status sl__job_step(sl__job *j, double learning_rate, sl__job_scores *scores) {
  sl_batch *batch;
  sl__job_scores s = {0};
  double clip;
  SL_TRY(sl_loader_next(j->loader, &batch));
  const sl_step step = {.number = j->step + 1,
                        .seed = j->facts.plan.seed + (j->sync.every ? APART * (uint64_t)j->ranks.rank : 0),
                        .learning_rate = learning_rate,
                        .input = {[SL_SLOT_SAMPLES] = batch->samples, [SL_SLOT_LABELS] = batch->labels},
                        .input_row0 = j->sync.every ? 0 : j->ranks.training_row};
  sl_status status = SL_OK;
  SL_TRY_OUT(sl__sync_begin(&j->sync, j->store));
  sl__choice_place(&j->choice, j->runtime, j->program);
  const double from = sl_seconds();
  SL_TRY_OUT(sl__run_step(j->program, &step, j->loader));
  if (j->choice.measuring) SL_TRY_OUT(sl__choice_step(&j->choice, &j->ranks, sl_seconds() - from));
  sl__choice_place(&j->choice, j->runtime, j->evaluator.program);
  SL_TRY_OUT(read_scores(j, &s, &clip));
  if (j->trains) SL_TRY_OUT(join_scores(j, &s, &clip));
  if (j->trains && !(isfinite(s.loss) && isfinite(clip))) SL_TRY_OUT(find_nonfinite(j, &step, s.loss, clip));
  if (s.overflow && s.scale <= ldexp(1, SL_LOSS_SCALE_LEAST)) SL_TRY_OUT(overflows_always(&step, s.scale));
  j->step++;
  if (j->sync.every && j->step % j->sync.every == 0) SL_TRY_OUT(sl__job_sync(j));
  if (scores) *scores = s;
out:
  sl_loader_release(j->loader, batch);
  return status;
}

sl_status sl__job_sync(sl__job *j) { return sl__sync_meet(&j->sync, &j->ranks, j->store, j->step); }

sl_status sl__job_skip(sl__job *j) {
  sl_batch *batch;
  SL_TRY(sl_loader_next(j->loader, &batch));
  sl_loader_release(j->loader, batch);
  j->step++;
  return SL_OK;
}

void sl__job_close(sl__job *j) {
  sl__job_unbuild(j);
  sl_data_close(&j->data);
  if (!j->file) free(j->facts.sized);
  sl__model_close(j->file);
  sl__balance_close(&j->balance);
  sl__ranks_close(&j->ranks);
  sl_runtime_stop(j->runtime);
  memset(j, 0, sizeof *j);
}

void sl__job_fast_gpu(const sl__job *j, char *name, size_t n) {
  sl_gpu gpu;
  name[0] = '\0';
  if (!sl_runtime_fast(j->runtime)) return;
  sl_runtime_gpu(j->runtime, 0, &gpu);
  snprintf(name, n, "%s", gpu.name);
}

void sl__job_print_fast(const sl_graph *g, sl_gpu_kernels kernels, sl_precision precision) {
  const char *between = "fast kernels, on GPUs only: ";
  for (int i = 0; kernels != SL_GPU_EXACT && i < g->n_nodes; i++) {
    const sl_operation *op = g->node[i]->op;
    int first = op->fast;
    for (int k = 0; first && k < i; k++) first = g->node[k]->op != op;
    if (!first) continue;
    printf("%s%s", between, op->name);
    between = ", ";
  }
  if (*between == ',')
    printf(" (cuBLAS%s; the bits differ from --gpu-kernels exact)\n",
           kernels == SL_GPU_TF32 && precision != SL_PRECISION_BF16 ? " in TF32" : "");
}

void sl__job_print_choices(const sl__job *j) {
  if (j->facts.plan.tiles.blocks)
    printf("products of bf16 add up by blocks, %s\n",
           sl_isa_current() == SL_ISA_AVX512_VL && sl_isa_has_tiles() ? "on AMX tiles" : "without AMX: slowly");
  if (j->facts.plan.tiles.blas) printf("products of linear and conv2d: %s\n", j->facts.plan.products);
  if (sl__pipe_order_is_chosen(j->o) && j->ranks.mesh.pipe > 1)
    printf("order of passes: %s, whose predicted step is the fastest\n", sl__pipe_orders[j->pipe.order]);
  sl__job_print_fast(sl_program_graph(j->program), (sl_gpu_kernels)sl_runtime_fast(j->runtime),
                     j->facts.training.precision);
}
