/* Ranks that share the same samples: which nodes of a logical graph each of them computes, and the order of its passes.
 * They are the stages of a pipeline; in each stage `tensor` ranks divide the folds. Where this file has a number or a
 * set of stages, each of these ranks counts as a stage of its own: rank t of stage s is number s * tensor + t.
 *
 * The forward nodes are cut into runs, so that the slowest run, the values that it sends and receives included, is as
 * fast as can be. Each stage has pipe->chunks runs: run k belongs to stage k modulo the number of stages. pipe->cuts,
 * if not NULL, changes the cuts. It is a list with commas: as many numbers as runs, with which the seconds of the runs
 * shall be in proportion ("2,1": the first run twice the second); or the names of the layers with which all runs but
 * the first begin ("h.3" also names the first of the layers h.3.*). A backward node
 * belongs to the stage of the forward node of the same layer. A parameter lies where a forward node reads it first, and
 * its update and its state with it. A node that concerns several parameters, such as the factor of clipping, is
 * computed by every stage. A node that depends on no parameter and no state is computed by every stage that reads its
 * outputs.
 * The order of the stages' passes is in timetable.h. Private to tasks/. */
#ifndef SL_STAGES_H
#define SL_STAGES_H

#include "tasks/graph/graph.h"
#include "tasks/spread/placement.h"

/* computes[logical nodes], keeps[logical values]: sets of stages (bit s: stage s) that compute a node, and that have a
 * parameter or state between two steps. run[logical nodes]: run of layers in whose passes a node is computed; -1: none.
 * waits[logical nodes]: 1: a backward node on which no other pass depends, such as the one that computes the gradient
 * of a layer's weights; it can wait. SL_EINVAL: fewer layers than runs, or pipe->cuts does not suit the graph.
 * SL_ENOMEM. */
sl_status sl__stages_find(const sl_graph *logical, int stages, int tensor, const sl_pipeline *pipe,
                          sl_stage_set *computes, sl_stage_set *keeps, int *run, char *waits);

#endif
