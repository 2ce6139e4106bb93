/* A case as a graph with data, for the programs that run cases. */
#ifndef TESTS_SETTING_H
#define TESTS_SETTING_H

#include "tests/codelets/cases.h"
#include "tests/support/interpret.h"
#include "tests/support/scratch.h"

typedef struct setting {
  const test_case *c;
  sl_graph *graph;
  sl_value in[CASE_INPUTS], out[SL_MAX_OUT];
  int nodes; /* of the case; later nodes were added to it */
  interpreter run;
  case_run expect;
} setting;

/* The cases of each file, ended by NULL. */
extern const test_case *const case_files[];

/* Builds the graph alone; inputs are parameters, whatever their scope. */
void setting_build(setting *s, const test_case *c);
/* The same with the arguments stored as the precision pass has them in bf16 or fp16 (not for cases with `build`). */
void setting_build_in(setting *s, const test_case *c, sl_dtype narrow);
/* Makes fresh data for the present graph, also for tensors that the case's layer made. */
void setting_begin(setting *s, sl_isa isa, sl_team *team, sl_tiles tiles);
/* Runs the reference on the data of setting_begin. */
void setting_refer(setting *s);
/* Compares output j with its reference plus `before` (NULL: plus nothing). */
void setting_compare(const setting *s, int j, const void *array, const double *before, const char *how);
/* The size that errors of element i of output j are relative to: the reference's, or that of its terms. */
double setting_size(const setting *s, int j, int64_t i);
void setting_finish(setting *s);

/* Fills an array with random numbers of a stream, as a case's input says. */
void setting_fill(void *array, const case_input *in, uint32_t stream);
double setting_get(const void *array, sl_dtype dtype, int64_t i);
/* Copies an array to doubles, zeros if array is NULL; the caller frees the copy. */
double *setting_doubles(const void *array, const sl_value_info *info);
const sl_value_info *setting_info(const setting *s, sl_value value);

#endif
