/* A plan as options: what the other commands are given to predict, simulate, measure and train it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plan/parts.h"
#include "tools/settings/model.h"
#include "tools/settings/workers.h"

static char *const kinds[] = {"gpu", "both", "cpu"};

int sl__candidate_ranks(const sl__candidate *c) { return c->nodes * (int)c->v[SL__LOCAL]; }

int sl__candidate_model_ranks(const sl__candidate *c) { return (int)(c->v[SL__PIPE] * c->v[SL__TENSOR]); }

void sl__candidate_name_mesh(sl__candidate *c) {
  const int data = sl__candidate_ranks(c) / sl__candidate_model_ranks(c), pipe = (int)c->v[SL__PIPE],
            tensor = (int)c->v[SL__TENSOR];
  int n = 0;
  c->mesh[0] = 0;
  if (pipe * tensor == 1) return;
  if (data > 1) n += snprintf(c->mesh, sizeof c->mesh, "data=%d,", data);
  if (pipe > 1) n += snprintf(c->mesh + n, sizeof c->mesh - (size_t)n, "pipe=%d,", pipe);
  if (tensor > 1) n += snprintf(c->mesh + n, sizeof c->mesh - (size_t)n, "tensor=%d,", tensor);
  c->mesh[n - 1] = 0;
}

/* Leaves of the plan. With ranks that share samples every rank has a leaf or more, as in sl__plan_of. */
static int64_t leaves_of(const sl__planning *s, const sl__candidate *c) {
  const int model_ranks = sl__candidate_model_ranks(c);
  int64_t each = c->v[SL__MICRO] * c->v[SL__GROUPS];
  while (each < model_ranks) each += c->v[SL__MICRO];
  return s->o->leaves > 0 ? s->o->leaves : sl__candidate_ranks(c) / model_ranks * each;
}

sl__options sl__candidate_options(const sl__planning *s, const sl__candidate *c) {
  sl__options o = *s->o;
  o.batch = c->v[SL__BATCH];
  o.leaves = leaves_of(s, c);
  o.shards = s->o->shards > 0 ? s->o->shards : o.leaves * c->v[SL__EACH];
  o.micro_batches = c->v[SL__MICRO] > 1 ? c->v[SL__MICRO] : -1;
  o.row_blocks = c->v[SL__BLOCKS] > 1 ? c->v[SL__BLOCKS] : -1;
  if (c->v[SL__RECOMPUTE] != (int64_t)s->model->training.recompute)
    o.training.recompute = (sl_recompute)c->v[SL__RECOMPUTE];
  o.zero = c->v[SL__ZERO];
  o.nodes = c->nodes;
  o.ranks_per_node = c->v[SL__LOCAL];
  o.ranks = c->nodes == 1 && c->v[SL__LOCAL] > 1 ? c->v[SL__LOCAL] : -1;
  if (!s->o->workers && s->machine.gpu.count > 0) o.workers = kinds[c->v[SL__WORKERS]];
  o.sched = (char *)c->sched;
  if (c->mesh[0]) o.mesh = (char *)c->mesh;
  if (c->v[SL__PIPE] > 1 && (s->o->pipe_order || c->v[SL__ORDER] != SL_PIPE_1F1B))
    o.pipe_order = (char *)sl__pipe_orders[c->v[SL__ORDER]];
  if (c->v[SL__PIPE] > 1 && (s->o->pipe_chunks > 0 || c->v[SL__CHUNKS] > 1)) o.pipe_chunks = c->v[SL__CHUNKS];
  if (c->v[SL__PIPE] > 1 && (s->o->pipe_parts > 0 || c->v[SL__PARTS] > 1)) o.pipe_parts = c->v[SL__PARTS];
  return o;
}

/* The workers of a run without further options: train lets GPUs compute alone (session.c), unless an option chooses a
 * policy or workers. */
static int64_t standard_workers(const sl__planning *s) {
  const sl__options *o = s->o;
  if (s->machine.gpu.count == 0) return SL__ONLY_CPU;
  return o->workers || o->sched || o->sched_lib || o->threads_per_worker > 0 || o->gpus == 0 ? SL__BOTH : SL__ONLY_GPU;
}

sl_status sl__candidate_standard(const sl__planning *s, int nodes, sl__candidate *c) {
  sl_plan plan;
  const int local = s->o->plan_ranks_per_node > 0 ? (int)s->o->plan_ranks_per_node : 1, ranks = nodes * local;
  sl__mesh mesh;
  SL_TRY(sl__mesh_of(s->o, ranks, &mesh));
  SL_TRY(sl__plan_of(s->o, s->model, ranks, &plan));
  if (plan.leaves % mesh.data)
    return sl_fail(SL_EINVAL, "%d leaves cannot be divided evenly among %d ranks", plan.leaves, mesh.data);
  *c = (sl__candidate){.nodes = nodes, .standard = 1, .sched = s->o->sched};
  c->v[SL__BATCH] = plan.batch;
  c->v[SL__LOCAL] = local;
  c->v[SL__WORKERS] = standard_workers(s);
  c->v[SL__EACH] = s->o->shards > 0 ? 1 : plan.shards / plan.leaves; /* a value that is given is no axis */
  c->v[SL__MICRO] = plan.micro_batches;
  const int groups = plan.leaves / mesh.data / plan.micro_batches;
  c->v[SL__GROUPS] = s->o->leaves > 0 ? groups > 0 : groups;
  c->v[SL__PIPE] = mesh.pipe, c->v[SL__TENSOR] = mesh.tensor, c->v[SL__ORDER] = sl__pipeline_of(s->o).order;
  c->v[SL__CHUNKS] = mesh.pipe > 1 && s->o->pipe_chunks > 1 ? s->o->pipe_chunks : 1;
  c->v[SL__PARTS] = mesh.pipe > 1 && s->o->pipe_parts > 1 ? s->o->pipe_parts : 1;
  c->v[SL__RECOMPUTE] = s->training.recompute;
  c->v[SL__ZERO] = s->o->plan_zero > 0 && ranks > 1 ? s->o->plan_zero : 0;
  c->v[SL__BLOCKS] = plan.row_blocks;
  if (c->v[SL__GROUPS] < 1) return sl_fail(SL_EINVAL, "%d leaves are too few for %d ranks", plan.leaves, ranks);
  return SL_OK;
}

sl_status sl__candidate_command(const sl__planning *s, const sl__candidate *c, char **text) {
  static const sl__command train = {.name = "train", .bit = SL__TRAIN};
  static const char *const ours[] = {"json", "quiet", "out", NULL};
  const sl__options o = sl__candidate_options(s, c);
  char **words = NULL;
  size_t bytes;
  int n = 0;
  sl_status status = SL_OK;
  *text = NULL;
  FILE *f = open_memstream(text, &bytes);
  if (!f) return sl_no_memory("for a command line");
  SL_TRY_OUT(sl__options_words(&o, &train, ours, &words, &n));
  if (c->nodes > 1) fprintf(f, "srun --nodes %d --ntasks-per-node %d ", c->nodes, (int)c->v[SL__LOCAL]);
  const char *const first[] = {"starling", "train", s->o->model};
  sl__options_quote(f, first, 3);
  fputc(' ', f);
  sl__options_quote(f, (const char *const *)words, n);
out:
  sl__options_words_free(words, n);
  fclose(f);
  return status;
}

char *sl__candidate_text(const sl__planning *s, const sl__candidate *c, char *text, size_t n) {
  static const char *const who[] = {"GPUs only", "GPUs and CPUs", "CPUs only"};
  const sl__options o = sl__candidate_options(s, c);
  int used = snprintf(text, n, "batch %lld, %lld %s, %lld shard%s", (long long)o.batch, (long long)o.leaves,
                      o.leaves == 1 ? "leaf" : "leaves", (long long)o.shards, o.shards == 1 ? "" : "s");
#define ADD(...) \
  if (used < (int)n) used += snprintf(text + used, n - (size_t)used, __VA_ARGS__)
  if (c->v[SL__MICRO] > 1) ADD(", %lld micro-batches", (long long)c->v[SL__MICRO]);
  if (c->v[SL__BLOCKS] > 1) ADD(", %lld row blocks", (long long)c->v[SL__BLOCKS]);
  if (c->v[SL__RECOMPUTE]) ADD(", recomputes %s", sl_recompute_names[c->v[SL__RECOMPUTE]]);
  if (sl__candidate_ranks(c) > 1)
    ADD(", %lld rank%s a node", (long long)c->v[SL__LOCAL], c->v[SL__LOCAL] > 1 ? "s" : "");
  if (c->mesh[0]) ADD(", mesh %s", c->mesh);
  if (c->v[SL__PIPE] > 1 && c->v[SL__ORDER] != SL_PIPE_1F1B) ADD(" (%s)", sl__pipe_orders[c->v[SL__ORDER]]);
  if (c->v[SL__CHUNKS] > 1) ADD(", %lld chunks of layers a stage", (long long)c->v[SL__CHUNKS]);
  if (c->v[SL__PARTS] > 1) ADD(", %lld messages a shard", (long long)c->v[SL__PARTS]);
  if (c->v[SL__ZERO]) ADD(", ZeRO %lld", (long long)c->v[SL__ZERO]);
  if (s->machine.gpu.count > 0) ADD(", %s", s->o->workers ? s->o->workers : who[c->v[SL__WORKERS]]);
  ADD(", %s", c->sched ? c->sched : "default policy");
#undef ADD
  return text;
}

int sl__candidate_same(const sl__candidate *a, const sl__candidate *b) {
  return a->nodes == b->nodes && memcmp(a->v, b->v, sizeof a->v) == 0;
}
