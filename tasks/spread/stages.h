/* Divides the nodes of a logical graph among the model ranks (placement.h): runs of layers among the stages of a
 * pipeline, and in each stage the folds among its tensor ranks.
 *
 * The forward nodes are cut into runs, so that the slowest run, the values that it sends and receives included, is as
 * fast as can be. Each stage has pipe->chunks runs: run k belongs to stage k modulo the number of stages. pipe->cuts,
 * if not NULL, changes the cuts. It is a list with commas: as many numbers as runs, with which the seconds of the runs
 * shall be in proportion ("2,1": the first run twice the second); or the names of the layers with which all runs but
 * the first begin ("h.3" also names the first of the layers h.3.*).
 *
 * A backward node belongs to the stage of the forward node of the same layer. A parameter lies where a forward node
 * reads it first, and its update and its state with it. Every model rank computes the nodes that concern several
 * parameters, such as the factor of clipping. A node that depends on no parameter and no state is computed by each
 * model rank that reads its outputs.
 *
 * The order of the stages' passes is in timetable.h. Private to tasks/. */
#ifndef SL_STAGES_H
#define SL_STAGES_H

#include "tasks/graph/graph.h"
#include "tasks/spread/placement.h"

/* computes[logical nodes], keeps[logical values]: the model ranks that compute a node, and those that have a parameter
 * or state between two steps. run[logical nodes]: run of layers in whose passes a node is computed; -1: none.
 * deferrable[logical nodes]: 1: a backward node on which no other pass depends, such as the one that computes the
 * gradient of a layer's weights. SL_EINVAL: fewer layers than runs, or pipe->cuts does not suit the graph.
 * SL_ENOMEM. */
sl_status sl__stages_find(const sl_graph *logical, int model_ranks, int tensor, const sl_pipeline *pipe,
                          sl_rank_set *computes, sl_rank_set *keeps, int *run, char *deferrable);

#endif
