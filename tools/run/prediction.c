/* Predicts the step time of a job. */
#include "tools/run/prediction.h"

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/activity.h"
#include "runtime/base/log.h"
#include "tools/mesh/predict.h"
#include "tools/run/times.h"
#include "tools/settings/workers.h"

static int is_modelled(const sl__job *j) {
  const sl__options *o = j->o;
  return j->sync.every == 0 && j->ranks.compression.kind == SL_COMPRESSION_NONE && !o->offload &&
         (!o->balance || strcmp(o->balance, "even") == 0);
}

/* The machine by which this rank's program plans priorities and memory. */
static sl_machine planned_of(const sl__job *j) {
  sl_machine m = j->machine_known ? j->machine
                                  : sl_machine_default(sl_runtime_cpu_workers(j->runtime),
                                                       sl_runtime_share(j->runtime)->threads_per_worker,
                                                       sl_runtime_gpus(j->runtime));
  m.fast = sl_runtime_fast(j->runtime);
  if (!j->machine_known && j->facts.plan.tiles.blocks) sl_machine_set_tiles(&m);
  return m;
}

/* *m: this rank's workers. Returns 0 if a speed is unknown; *m then has the speed of an ordinary worker. */
static int machine_of(const sl__job *j, const sl__machine *speeds, sl_machine *m) {
  const int gpus = sl_runtime_gpus(j->runtime);
  *m = planned_of(j);
  if (j->machine_known) return 1;
  if (!(speeds->gflops > 0)) return 0;
  sl_machine_kind *cpu = &m->kind[SL_KIND_CPU];
  cpu->flops = 1e9 * speeds->gflops;
  if (speeds->gigabytes > 0) cpu->bytes = 1e9 * speeds->gigabytes;
  if (j->facts.plan.tiles.blocks)
    sl_machine_set_tiles(m);
  else if (speeds->bf16 > 0)
    cpu->half = 1e9 * speeds->bf16;
  return gpus == 0;
}

static sl_status read_times(const sl__job *j, sl_machine *m, sl_times **times) {
  char path[PATH_MAX];
  if (access(sl__times_path(j->runtime, j->facts.plan.tiles.blas, path, sizeof path), R_OK) != 0) return SL_OK;
  SL_TRY(sl_times_create(times));
  const sl__times_of of = sl__times_of_run(j->runtime);
  SL_TRY(sl__times_read(path, &of, *times));
  sl__times_apply(*times, m);
  return SL_OK;
}

static sl_interconnect interconnect_of(const sl__job *j, const sl_machine *m) {
  char path[PATH_MAX];
  sl_interconnect joined = sl__mesh_usual_network(m, j->ranks.n, sl_runtime_nodes(j->runtime));
  sl__network_path(j->runtime, path, sizeof path);
  const sl__network_description n = sl__network_read(path);
  if (n.shared > 0) joined.shared = n.shared, joined.shared_latency = n.shared_latency;
  if (n.latency > 0) joined.latency = n.latency, joined.network = n.per_rank, joined.adapters = n.per_node;
  if (n.shared_cpu > 0) joined.work = 1 / n.shared_cpu;
  if (n.cpu > 0) joined.network_work = 1 / n.cpu;
  return joined;
}

static double measured_part(const sl__mesh_steps *steps, const sl_times *times) {
  double all = 0, measured = 0;
  for (int r = 0; r < steps->n; r++) {
    const sl__mesh_step *s = &steps->rank[r];
    for (int i = 0; i < s->step->n_nodes; i++) {
      const sl_node *node = s->step->node[i];
      const int kind = s->schedule->gpus > 0 && s->schedule->worker[i] >= s->schedule->cpus ? SL_KIND_GPU : SL_KIND_CPU;
      if (node->bucket) continue;
      all += s->schedule->seconds[i];
      if (sl_times_find(times, node->op->name, sl_node_footprint(s->step, node), kind) > 0)
        measured += s->schedule->seconds[i];
    }
  }
  return all > 0 ? measured / all : 0;
}

/* What is predicted of a job, and by which data. */
typedef struct question {
  sl__mesh_job job;
  sl_machine planned; /* by which the program planned */
  sl_value keep[SL__JOB_KEEPS];
  sl_times *times; /* of calibrate; NULL: none */
  int known;       /* whether the machine's speeds are */
} question;

/* Bytes that this rank may use of the memory of each of its GPUs; 0: it has none, or the bytes are unknown. */
static double gpu_memory_of(const sl__job *j) {
  double least = sl_runtime_gpus(j->runtime) > 0 ? (double)sl_runtime_gpu_memory(j->runtime) : 0;
  for (int i = 0; i < sl_runtime_gpus(j->runtime); i++) {
    sl_gpu gpu;
    sl_runtime_gpu(j->runtime, i, &gpu);
    if (gpu.memory > 0) least = fmin(least, (double)gpu.memory);
  }
  return least < (double)SIZE_MAX ? least : 0; /* 0: unlimited */
}

static sl_status ask(const sl__job *j, const sl__machine *speeds, question *q) {
  const int common = sl_store_has_common(j->store); /* as in the program: then stage 3 of ZeRO is stage 1 */
  *q = (question){0};
  q->job = (sl__mesh_job){.logical = j->network.graph,
                          .plan = &j->facts.plan,
                          .mesh = j->ranks.mesh,
                          .pipe = j->pipe,
                          .zero = common && j->o->zero > SL_ZERO_STATE ? SL_ZERO_STATE : (int)j->o->zero,
                          .common = common,
                          .keep = q->keep,
                          .n_keep = sl__job_keeps(j, q->keep),
                          .gpu_memory = gpu_memory_of(j)};
  q->known = machine_of(j, speeds, &q->job.machine);
  q->planned = planned_of(j);
  q->job.planned = &q->planned;
  q->job.joined = interconnect_of(j, &q->job.machine);
  return read_times(j, &q->job.machine, &q->times);
}

sl_status sl__predict_step(const sl__job *j, const sl__machine *speeds, sl__prediction *p) {
  question q = {0};
  sl__mesh_steps *steps = NULL;
  sl_status status = SL_OK;
  *p = (sl__prediction){0};
  if (!is_modelled(j)) return SL_OK;
  SL_TRY_OUT(ask(j, speeds, &q));
  if (!q.known && !q.times) goto out;
  SL_TRY_OUT(sl__mesh_predict(&q.job, &steps));
  const double measured = measured_part(steps, q.times);
  if (!q.known && measured < 1) goto out;
  *p = (sl__prediction){.seconds = steps->seconds,
                        .measured = measured,
                        .kernels = steps->joint->rank[0].busy / steps->seconds,
                        .model_ranks = steps->n,
                        .bubble = steps->joint->bubble,
                        .exposed = steps->joint->exposed};
out:
  sl__mesh_steps_destroy(steps);
  sl_times_destroy(q.times);
  return status;
}

/* Bytes of a rank's program. arg: number of its threads. */
static double rank_bytes(const sl__mesh_step *s, const void *arg) { return s->bytes + s->scratch * *(const int *)arg; }

/* By the prediction of this rank. */
static sl_status choose_order(const sl__job *j, sl_pipe_order *order) {
  const double room = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  const int threads = sl_runtime_cpu_workers(j->runtime) * sl_runtime_share(j->runtime)->threads_per_worker;
  question q = {0};
  sl_activity_begin(SL_WORKS_LONG, "the choice of the order of passes");
  sl_status status = ask(j, &(sl__machine){0}, &q);
  if (status == SL_EFORMAT || status == SL_EIO) {
    sl_log(SL_LOG_WARNING, "--pipe-order auto: computed times stand in for measured ones: %s", sl_error());
    status = SL_OK;
  }
  if (status == SL_OK) status = sl__mesh_choose_order(&q.job, room, rank_bytes, &threads, order);
  sl_activity_end();
  sl_times_destroy(q.times);
  return status;
}

sl_status sl__choose_pipeline(const sl__job *j, sl_pipeline *pipe) {
  *pipe = sl__pipeline_of(j->o);
  if (!sl__pipe_order_is_chosen(j->o) || j->ranks.mesh.pipe == 1) return SL_OK;
  sl_pipe_order order = SL_PIPE_1F1B;
  SL_TRY(sl__ranks_agree(&j->ranks, j->ranks.rank == 0 ? choose_order(j, &order) : SL_OK));
  pipe->order = (sl_pipe_order)sl__ranks_sum(&j->ranks, j->ranks.rank == 0 ? order : 0);
  return SL_OK;
}

sl__prediction sl__predict_or_warn(const sl__job *j, const sl__machine *speeds) {
  sl__prediction p;
  if (sl__predict_step(j, speeds, &p) != SL_OK)
    sl_log(SL_LOG_WARNING, "the time of a step is not predicted: %s", sl_error());
  return p;
}

const char *sl__prediction_text(const sl__prediction *p, char *text, size_t n) {
  const int used = snprintf(text, n, "%.1f %% in kernels; calibration gave %.0f %% of the kernels' time",
                            100 * p->kernels, 100 * p->measured);
  if (p->model_ranks > 1 && used < (int)n)
    snprintf(text + used, n - (size_t)used, "; bubble %.1f %%, exposed messages and sums %.1f %%", 100 * p->bubble,
             100 * p->exposed);
  return text;
}

void sl__prediction_add(const sl__prediction *p, json_t *object) {
  if (!object || p->seconds <= 0) return;
  json_object_update_new(
      object, json_pack("{s:f, s:f, s:f}", "predicted_step_s", p->seconds, "predicted_kernel_percent", 100 * p->kernels,
                        "calibrated_percent", 100 * p->measured));
  if (p->model_ranks > 1)
    json_object_update_new(object, json_pack("{s:f, s:f}", "predicted_bubble_percent", 100 * p->bubble,
                                             "predicted_exposed_percent", 100 * p->exposed));
}
