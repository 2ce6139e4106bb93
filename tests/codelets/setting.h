/* A case as a graph with data: what the programs that run cases share. */
#ifndef TESTS_SETTING_H
#define TESTS_SETTING_H

#include "tests/codelets/cases.h"
#include "tests/support/interpret.h"
#include "tests/support/scratch.h"

typedef struct setting {
  const test_case *c;
  sl_graph *graph;
  sl_value in[CASE_INPUTS], out[SL_MAX_OUT];
  int nodes; /* of the case; what comes later was added to it */
  interpreter run;
  case_run expect;
} setting;

/* The cases of each file, ended by NULL. */
extern const test_case *const case_files[];

/* The graph alone: inputs are parameters, whatever their scope. */
void setting_build(setting *s, const test_case *c);
/* Fresh data for the graph as it stands now, also for tensors that the case's layer made. */
void setting_begin(setting *s, sl_isa isa, sl_team *team, sl_tiles tiles);
/* What the reference says of the data of setting_begin. */
void setting_refer(setting *s);
/* Output j against its reference, to which `before` was added (NULL: nothing was). */
void setting_compare(const setting *s, int j, const void *array, const double *before, const char *how);
/* What errors of element i of output j are measured by: the reference's size, or that of what was added up. */
double setting_size(const setting *s, int j, int64_t i);
void setting_finish(setting *s);

/* Fills an array as a case's input says, out of the numbered stream. */
void setting_fill(void *array, const case_input *in, uint32_t stream);
double setting_get(const void *array, sl_dtype dtype, int64_t i);
/* A copy in doubles, to be freed; zeros where array is NULL. */
double *setting_doubles(const void *array, const sl_value_info *info);
const sl_value_info *setting_info(const setting *s, sl_value value);

#endif
