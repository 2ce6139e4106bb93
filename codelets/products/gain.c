/* Measures how much faster OpenBLAS's products are than Starling's own on this machine. */
#include <math.h>
#include <stdlib.h>

#include "codelets/attributes.h"
#include "codelets/products/blas.h"
#include "runtime/base/time.h"
#include "runtime/processors/team.h"
#include "tasks/graph/storage.h"

enum { ROWS = 128, SIDE = 512, ROUNDS = 7 };

sl_status sl_blas_gain(double *gain) {
  const size_t numbers = (size_t)2 * ROWS * SIDE + SIDE * SIDE;
  const sl_linear_attr attr = {SL_ACTIVATION_NONE};
  sl_team *team = sl_team_current();
  float *x = malloc(numbers * sizeof *x), *w = x + ROWS * SIDE, *y = w + SIDE * SIDE;
  double seconds[2] = {HUGE_VAL, HUGE_VAL};
  sl_status status = SL_OK;
  if (!x) return sl_no_memory("to measure products");
  for (size_t i = 0; i < numbers; i++) x[i] = (float)(i % 17) / 16;
  sl_array in[2] = {{.data = x, .shape = SL_SHAPE(ROWS, SIDE), .dtype = SL_F32, .parts = 1, .part = &in[0]},
                    {.data = w, .shape = SL_SHAPE(SIDE, SIDE), .dtype = SL_F32, .parts = 1, .part = &in[1]}};
  sl_array out = {.data = y, .shape = SL_SHAPE(ROWS, SIDE), .dtype = SL_F32, .parts = 1, .part = &out};
  sl_call call = {.attr = &attr, .n_in = 2, .n_out = 1, .in = in, .out = &out, .team = team};
  for (int round = 0; round < 2 * ROUNDS; round++) {
    call.tiles = SL_TILES_DEFAULT;
    call.tiles.blas = round % 2;
    call.scratch_bytes = sl_operation_scratch(&sl_op_linear, &call);
    SL_TRY_OUT(sl_team_reserve(team, call.scratch_bytes));
    const double begin = sl_seconds();
    SL_TRY_OUT(sl_operation_run(&sl_op_linear, &sl_op_convert, sl_isa_current(), &call));
    seconds[round % 2] = fmin(seconds[round % 2], sl_seconds() - begin);
  }
  *gain = seconds[0] / seconds[1];
out:
  free(x);
  return status;
}
