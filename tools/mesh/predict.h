/* The predicted step of a mesh whose ranks share samples (pipe, tensor): the step graphs of these ranks, their plans of
 * the memory, and their joint schedule (tasks/schedule/mesh.h). Nothing runs; no other rank is asked. */
#ifndef SL_TOOLS_MESH_PREDICT_H
#define SL_TOOLS_MESH_PREDICT_H

#include "runtime/simulated/simulation.h"
#include "tasks/graph/plan.h"
#include "tasks/schedule/memory.h"
#include "tasks/schedule/mesh.h"
#include "tasks/spread/placement.h"
#include "tools/settings/workers.h"

/* What is predicted; all pointers are borrowed. */
typedef struct sl__mesh_job {
  const sl_graph *logical;
  const sl_plan *plan;
  sl__mesh mesh;
  sl_pipeline pipe;
  int zero;             /* ZeRO stage among the ranks with the same part of the model */
  int common;           /* 1: the ranks share the parameters' memory, so that copies of parameters move nothing */
  const sl_value *keep; /* [n_keep] logical values that are read after the step */
  int n_keep;
  sl_machine machine; /* of each rank */
  /* The machine by which a run plans priorities and memory: it knows no measured times. NULL: `machine`. */
  const sl_machine *planned;
  double slower;          /* factor of the times of tasks on the first node (--slow-node); 0 and 1: none */
  sl_interconnect joined; /* of all ranks of the job */
  double gpu_memory;      /* bytes of each GPU; 0: unlimited */
} sl__mesh_job;

/* A model rank (placement.h). */
typedef struct sl__mesh_step {
  sl_graph *step;
  sl_schedule *schedule; /* of this rank alone */
  sl_memory *memory;
  sl_machine machine;
  sl_mesh_exchange *exchange;
  int exchanges;
  double flops;   /* of the step */
  double bytes;   /* of its program: buffers, parameters, state, tasks; without scratch memory */
  double scratch; /* bytes of a thread */
  double gpu;     /* bytes that one of its GPUs must hold at once */
  double copies;  /* least seconds of the copies because not all data fit into a GPU */
} sl__mesh_step;

typedef struct sl__mesh_steps {
  int n;                         /* model ranks */
  int micro_batches, pass_kinds; /* passes of a micro-batch through a run of layers */
  sl__mesh_step *rank;
  sl_placements *placements;
  sl_mesh_schedule *joint;
  double seconds; /* of the step */
  double bound;   /* seconds; no schedule is faster: a rank's longest path, or its tasks on all of its workers */
} sl__mesh_steps;

/* The interconnect, of ordinary speeds, for ranks of a machine whose network is not known. */
sl_interconnect sl__mesh_usual_network(const sl_machine *machine, int ranks, int nodes);
/* SL_EINVAL: the model cannot be divided so. */
sl_status sl__mesh_predict(const sl__mesh_job *job, sl__mesh_steps **steps);
void sl__mesh_steps_destroy(sl__mesh_steps *steps); /* NULL is allowed */
/* Bytes of the node that needs the most memory. A rank takes bytes(step, arg) bytes, where step is its step among the
 * ranks that share samples. joined: the interconnect of all ranks. */
double sl__mesh_node_bytes(const sl__mesh_steps *steps, const sl_interconnect *joined,
                           double (*bytes)(const sl__mesh_step *step, const void *arg), const void *arg);

/* Chooses the order of passes whose predicted step is the fastest, among those whose fullest node needs at most `room`
 * bytes (bytes and arg as above); 1F1B if none does. A later one in sl_pipe_order must be faster by 1%. GPipe is left
 * out: it takes more memory and is no faster. job->pipe.order is not read. */
sl_status sl__mesh_choose_order(const sl__mesh_job *job, double room,
                                double (*bytes)(const sl__mesh_step *step, const void *arg), const void *arg,
                                sl_pipe_order *order);

#endif
