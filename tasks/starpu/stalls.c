/* Says where a program stands: the task that ended last, and the exchange that waits. */
#include <stdio.h>

#include "tasks/spread/spread.h"
#include "tasks/starpu/lowered.h"

char *sl_program_position(const sl_program *p, char *text, size_t n) {
  const int last = atomic_load(&p->run.last);
  const long long step = (long long)atomic_load(&p->number);
  if (last < 0)
    snprintf(text, n, "step %lld, at its start", step);
  else
    snprintf(text, n, "step %lld, after layer '%s' (%s)", step, p->graph->node[last]->name,
             p->graph->node[last]->op->name);
  return text;
}

long long sl_program_step_number(const sl_program *p) { return (long long)atomic_load(&p->number); }

/* Names the two ends of a message: "pipeline stages 0 and 1", "tensor parts 0 and 1 of stage 2". */
static const char *ends_of_message(const sl_program *p, int from, int to, char *text, size_t n) {
  const int tensor = p->placements->tensor, stage = from % p->model_ranks / tensor;
  if (stage != to % p->model_ranks / tensor)
    snprintf(text, n, "pipeline stages %d and %d", stage, to % p->model_ranks / tensor);
  else if (p->model_ranks > tensor)
    snprintf(text, n, "tensor parts %d and %d of stage %d", from % tensor, to % tensor, stage);
  else
    snprintf(text, n, "tensor parts %d and %d", from % tensor, to % tensor);
  return text;
}

/* Names the ranks over which a sum or a copy goes: the ranks that divide the samples or, with a mesh, those of them
 * that have this rank's part of the model: "the ranks", "the data ranks of stage 1, tensor part 0". */
static const char *members_of_sum(const sl_program *p, char *text, size_t n) {
  const int tensor = p->placements->tensor, number = sl_runtime_rank(p->runtime) % p->model_ranks;
  if (p->model_ranks == 1)
    snprintf(text, n, "the ranks");
  else if (tensor == 1)
    snprintf(text, n, "the data ranks of stage %d", number);
  else if (p->model_ranks == tensor)
    snprintf(text, n, "the data ranks of tensor part %d", number);
  else
    snprintf(text, n, "the data ranks of stage %d, tensor part %d", number / tensor, number % tensor);
  return text;
}

double sl_program_stalled(const sl_program *p, char *what, size_t n, char *late) {
  int node = -1, buckets = 0;
  char whom[96];
  if (!p->exchanges) return 0;
  const double seconds = sl__exchanges_stalled(p->exchanges, &node, late);
  if (seconds == 0 || node < 0) return 0;
  for (int i = 0; i < p->graph->n_nodes; i++) buckets += p->graph->node[i]->bucket > 0;
  const sl__exchange_attr *attr = p->graph->node[node]->attr;
  const int sends = attr->move.kind == SL_EXCHANGE_SEND, me = sl_runtime_rank(p->runtime);
  if (p->graph->node[node]->message) {
    snprintf(what, n, "the message %s rank %d for layer '%s' between %s (exchange %d of %d)", sends ? "to" : "from",
             attr->move.rank, p->graph->node[node]->name,
             ends_of_message(p, sends ? me : attr->move.rank, sends ? attr->move.rank : me, whom, sizeof whom),
             p->graph->node[node]->bucket, buckets);
    return seconds;
  }
  snprintf(what, n, "the %s of layer '%s' over %s (exchange %d of %d)",
           attr->move.kind == SL_EXCHANGE_SUM               ? "sum"
           : p->graph->node[node]->phase == SL_PHASE_UPDATE ? "update"
                                                            : "copy",
           p->graph->node[node]->name, members_of_sum(p, whom, sizeof whom), p->graph->node[node]->bucket, buckets);
  return seconds;
}
