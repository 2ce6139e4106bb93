/* The parts of a program, for program.c, stalls.c and timeline.c. Private to tasks/starpu. */
#ifndef SL_TASKS_LOWERED_H
#define SL_TASKS_LOWERED_H

#include "tasks/starpu/codelet.h"
#include "tasks/starpu/device.h"
#include "tasks/starpu/exchange.h"
#include "tasks/starpu/inputs.h"
#include "tasks/starpu/program.h"
#include "tasks/starpu/residence.h"

struct sl_program {
  sl_runtime *runtime;
  sl_store *store;
  sl_graph *graph;
  sl_schedule *schedule;
  sl_memory *memory;
  sl_recorder *recorder;
  sl_plan plan;
  sl_machine machine;         /* whose times simulated tasks take */
  sl_tensor **tensor;         /* [values] tensors that persistent values are bound to */
  char *kept;                 /* [values] */
  sl_block arena;             /* slots; slots of exchanged values lie in the exchanges' memory */
  starpu_data_handle_t *slot; /* [memory->n_slots] */
  void **slot_data;           /* [memory->n_slots] */
  sl__exchanges *exchanges;   /* NULL: one rank */
  void *exchanged;            /* slots of values that move, exchanged_bytes; NULL: none */
  size_t exchanged_bytes;
  int exchanged_pinned;
  sl_placements *placements;
  int model_ranks;  /* placement.h; 1: one */
  int pass_kinds;   /* of its order */
  sl__task *task;   /* [nodes] */
  sl_array *arrays; /* of all tasks */
  int *buffer_of;   /* likewise */
  sl__devices *devices;
  sl__residences *residences;
  sl__inputs *inputs;    /* NULL: GPUs, if any, have no memory for batches ahead */
  sl__counter *counters; /* [workers] */
  sl_step step;
  _Atomic int64_t number; /* of the step, for the thread that watches */
  atomic_int in_flight;
  size_t scratch; /* bytes of all CPU threads */
  double flops;
  sl__run run;
};

/* The StarPU handle of a value of the step graph. */
starpu_data_handle_t sl__program_handle(const sl_program *program, sl_value v);

#endif
