/* Who computes: the kinds and numbers of workers that --workers and --gpus ask for, and the mesh of a job's ranks. */
#ifndef SL_SETTINGS_WORKERS_H
#define SL_SETTINGS_WORKERS_H

#include "runtime/base/status.h"
#include "tasks/spread/placement.h"
#include "tools/settings/options.h"

typedef struct sl__workers {
  int cpus;   /* CPU workers; 0: all cores; -1: none */
  int gpus;   /* -1: all */
  int choose; /* --workers auto: find by measurement which kinds are faster */
} sl__workers;

int sl__gpu_kernels(const sl__options *options); /* sl_gpu_kernels of --gpu-kernels */

/* SL_EINVAL: not a number or one of the words, or a word that --gpus contradicts. */
sl_status sl__workers_of(const sl__options *options, sl__workers *workers);

typedef struct sl__mesh {
  int data;   /* ranks that divide the samples */
  int pipe;   /* stages of a pipeline: ranks that divide the layers */
  int tensor; /* consecutive ranks that divide a layer's products: rank r is r % tensor of stage r / tensor % pipe */
} sl__mesh;
static inline int sl__mesh_model_ranks(const sl__mesh *mesh) { return mesh->pipe * mesh->tensor; } /* placement.h */

/* Reads the sizes that --mesh names; 0: not named. */
sl_status sl__mesh_named(const sl__options *options, sl__mesh *mesh);
/* Reads --mesh ("pipe=2", "data=2,tensor=2") for a job of so many ranks; without it all ranks divide the samples. The
 * size that is not given follows from the ranks. A usage error names what is unknown or does not fit. */
sl_status sl__mesh_of(const sl__options *options, int ranks, sl__mesh *mesh);
/* SL_EINVAL: an option is for a pipeline, and the mesh has none. Not for runs: --resume on another mesh keeps such
 * options. */
sl_status sl__pipe_is_there(const sl__options *options, const sl__mesh *mesh);
/* Whether the predicted schedule chooses the order (--pipe-order auto); sl__pipeline_of then gives 1F1B. */
int sl__pipe_order_is_chosen(const sl__options *options);
sl_pipeline sl__pipeline_of(const sl__options *options);  /* --pipe-order, --pipe-chunks, --stages */
extern const char *const sl__pipe_orders[SL_PIPE_ORDERS]; /* its words */

#endif
