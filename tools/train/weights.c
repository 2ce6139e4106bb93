/* --init: starts a run with the weights of another run or library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/text.h"
#include "tools/train/trainer.h"

static int on_command_line(const sl__options *o, const char *flag) {
  for (int i = 1; i < o->argc; i++)
    if (strncmp(o->argv[i], flag, strlen(flag)) == 0) return 1;
  return 0;
}

/* Opens --init and uses the sizes of its weights if they are of the model's family; --size overrides them. A resumed
 * run has both in its checkpoints. */
sl_status sl__trainer_open_init(sl__trainer *r) {
  sl__options *o = r->o;
  const sl_model *model = r->job.facts.model;
  const sl__model_wish wish = {.model = model, .sizes = o->size};
  if (o->new_head && !o->init) return sl_fail(SL_EINVAL, "--new-head needs --init");
  if (!o->init) return SL_OK;
  if (o->resume && (on_command_line(o, "--init") || on_command_line(o, "--new-head")))
    return sl_fail(SL_EINVAL, "--resume continues a run; --init and --new-head begin one");
  int64_t newest = 0;
  if (o->resume) SL_TRY(sl__newest_step(o->out, &newest));
  if (newest > 0 && !model->family->data->normalises) return SL_OK; /* the checkpoint has all that is needed */
  if (o->resume) SL_TRY(sl__open_newest(o->out, &r->init));
  r->init_goes_on = r->init != NULL;
  if (r->init) return SL_OK;
  SL_TRY(sl__model_open_as(o->init, &wish, &r->init));
  const sl_model *theirs = sl__model_facts_of(r->init)->model;
  if (theirs->family == model->family) {
    sl_model *sized, *changed;
    SL_TRY(sl_model_with(model, theirs->sizes, &sized));
    const sl_status status = sl_model_sized(sized, o->size, &changed);
    free(sized);
    SL_TRY(status);
    sl__job_take_model(&r->job, changed);
  }
  char *real = realpath(o->init, NULL);
  if (real) free(o->init), o->init = real;
  return SL_OK;
}

void sl__trainer_take_normalisation(sl__trainer *r) {
  sl__model_facts *f = &r->job.facts;
  if (!r->init) return;
  const sl_model_data *theirs = &sl__model_facts_of(r->init)->data;
  if (f->model->family->data->normalises) {
    memcpy(f->data.mean, theirs->mean, sizeof f->data.mean);
    memcpy(f->data.deviation, theirs->deviation, sizeof f->data.deviation);
  }
  if (!r->init_goes_on) return;
  sl__model_close(r->init);
  r->init = NULL;
}

/* If the ranks share the parameters in memory, one rank reads them and the others wait for it. Otherwise each rank
 * reads its own, and what all ranks have becomes rank 0's: the files of several hosts may differ. */
sl_status sl__trainer_take_init(sl__trainer *r) {
  if (!r->init) return SL_OK;
  const int common = sl_store_has_common(r->job.store);
  sl_status status = SL_OK;
  if (r->job.ranks.rank == 0 || !common)
    status = sl__model_fill(r->init, r->job.store, &r->job.evaluator.network, r->job.facts.model, &r->job.facts.data,
                            r->o->new_head);
  sl__model_close(r->init);
  r->init = NULL;
  SL_TRY(sl__ranks_agree(&r->job.ranks, status));
  return sl__ranks_broadcast(&r->job.ranks, r->job.store);
}

void sl__trainer_print_init(const sl__trainer *r) {
  const sl_model_data *d = &r->job.facts.data;
  if (!r->o->init) return;
  /* The name may come from somebody else's config.yaml. */
  sl_text_print("begins with %s%s", r->o->init, r->o->new_head ? " and a new classifier" : "");
  if (r->job.data.kind->normalises)
    printf("; %s are normalised as there: mean %g, deviation %g in the first channel", r->job.data.kind->samples,
           d->mean[0], d->deviation[0]);
  putchar('\n');
}
