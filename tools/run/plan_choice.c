/* Chooses leaves and shards by the predicted step. */
#include "tools/run/plan_choice.h"

#include <stdlib.h>
#include <string.h>

#include "models/data_kind.h"
#include "tasks/schedule/schedule.h"
#include "tasks/spread/spread.h"
#include "tools/settings/model.h"

/* Predicts the seconds of a step on rank 0. */
static sl_status predict(const sl_graph *logical, const sl_plan *plan, int ranks, int zero, const sl_machine *machine,
                         double *seconds) {
  sl_placements *placements = NULL;
  sl_graph *step = NULL;
  sl_schedule *schedule = NULL;
  sl_status status = SL_OK;
  int *first = calloc((size_t)ranks + 1, sizeof *first);
  if (!first) return sl_no_memory("for the leaves of %d ranks", ranks);
  for (int r = 0; r < ranks; r++) first[r + 1] = first[r] + sl_leaves_of_rank(plan->leaves, r, ranks).n;
  SL_TRY_OUT(sl_placements_create(
      logical, &(sl_placing){.ranks = ranks, .zero = zero, .window = sl_fetch_window(plan->micro_batches)},
      &placements));
  SL_TRY_OUT(sl_spread(logical, plan, &(sl_division){.ranks = ranks, .first = first}, placements, &step));
  SL_TRY_OUT(sl_schedule_create(step, NULL, &plan->tiles, machine, &schedule));
  *seconds = schedule->makespan;
out:
  sl_schedule_destroy(schedule);
  sl_graph_destroy(step);
  sl_placements_destroy(placements);
  free(first);
  return status;
}

sl_status sl__plan_choose(const sl__options *o, const sl_model *model, const sl_training *training,
                          const sl_machine *machine, const sl__mesh *mesh, sl_plan *plan, double *gain) {
  const int ranks = mesh->data;
  const int gpus = machine->kind[SL_KIND_GPU].workers, parts = plan->micro_batches;
  const int groups[] = {1, 2, 4, gpus, 2 * gpus}, each[] = {1, 2, 4, 8};
  sl_model_data data;
  sl_network network = {0};
  sl_plan best = *plan;
  double before = 0, least = 0;
  sl_status status = SL_OK;
  *gain = 1;
  if (sl__mesh_model_ranks(mesh) > 1)
    return sl_fail(SL_EINVAL,
                   "--plan machine predicts ranks that divide samples; with pipe or tensor in --mesh give --leaves and "
                   "--shards ('starling plan' searches meshes)");
  SL_TRY(sl__synthetic_data(o, model, &data));
  SL_TRY_OUT(sl_network_training(model, &data, training, plan->batch, &network));
  SL_TRY_OUT(predict(network.graph, plan, ranks, (int)o->zero, machine, &before));
  least = before;
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
    for (size_t k = 0; k < sizeof each / sizeof *each; k++) {
      sl_plan mine = *plan;
      double seconds;
      if (o->leaves <= 0) mine.leaves = ranks * parts * groups[i];
      mine.shards = o->shards > 0 ? plan->shards : mine.leaves * each[k];
      if (mine.leaves < 1 || mine.shards % mine.leaves || mine.shards > mine.batch) continue;
      SL_TRY_OUT(predict(network.graph, &mine, ranks, (int)o->zero, machine, &seconds));
      if (seconds < 0.99 * least) best = mine, least = seconds; /* 1% is not worth another plan */
    }
  *gain = least > 0 ? before / least : 1;
  *plan = best;
out:
  if (network.graph) sl_network_destroy(&network);
  return status;
}
