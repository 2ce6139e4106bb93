/* Cases of operations: sizes, options, and a naive reference in double precision.
 *
 * Every operation needs one or more cases. tests/codelets/DIR/case_NAME.c holds the cases of codelets/DIR/NAME.c, an
 * array cases_NAME ended by {0}; Makefile.am's TESTS_CASES lists it. operations.c runs each case through every kernel
 * that this machine can run, whole and cut into shards and row blocks, with one thread and with a team. It compares the
 * gradient, if there is one, with finite differences of the reference. */
#ifndef CASES_H
#define CASES_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/attributes.h"
#include "runtime/numbers/philox.h"
#include "tests/codelets/case_files.h" /* made by the build: an X for each file of Makefile.am's TESTS_CASES */

enum { CASE_INPUTS = 8 };

/* How an input is filled. */
typedef enum case_fill {
  FILL_NORMAL,   /* mean a, standard deviation b */
  FILL_UNIFORM,  /* in [a, b) */
  FILL_INTEGERS, /* a, a + 1, ... b */
} case_fill;

typedef struct case_input {
  sl_dtype dtype;
  sl_shape shape; /* SAMPLE scope: dimension 0 is the batch */
  sl_scope scope;
  case_fill fill;
  double a, b;
} case_input;

/* Inputs: SAMPLES(5, 7) is F32 [5, 7], one row a sample, standard normal; WHOLE(7) the same at WHOLE scope. */
#define CASE_SHAPE(...)                                                        \
  {                                                                            \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), { __VA_ARGS__ } \
  }
#define SAMPLES(...) \
  { SL_F32, CASE_SHAPE(__VA_ARGS__), SL_SCOPE_SAMPLE, FILL_NORMAL, 0, 1 }
#define WHOLE(...) \
  { SL_F32, CASE_SHAPE(__VA_ARGS__), SL_SCOPE_WHOLE, FILL_NORMAL, 0, 1 }
#define INPUT(dtype, scope, fill, a, b, ...) \
  { dtype, CASE_SHAPE(__VA_ARGS__), scope, fill, a, b }

/* Rounding units; a tolerance of 3 * EPS is three of them. */
#define EPS 0x1p-24
#define EPS64 0x1p-53
#define EPS_FP16 0x1p-11
#define EPS_BF16 0x1p-8 /* twice the rounding unit: a result near a power of two may round to the other side */

struct case_run;
typedef struct test_case {
  const char *op, *what;
  int n_in, n_out;
  case_input in[CASE_INPUTS];
  const void *attr;
  int64_t batch; /* 0: dimension 0 of the first input at SAMPLE scope */
  /* Adds the tested nodes to the graph and sets their outputs in out; NULL: one node of op with attr. */
  void (*build)(sl_graph *graph, const struct test_case *c, const sl_value *in, sl_value *out);
  /* The naive version: computes run->out from run->in. If errors add up over terms, it adds the terms' sizes to
   * run->scale (0: the result's own size counts). */
  void (*reference)(const struct case_run *run);
  double rounds;                /* in bf16 output 0 may be off by this share of its scale more: factors are rounded */
  double tolerance[SL_MAX_OUT]; /* of output j: |y - reference| <= tolerance[j] max(scale, |reference|); 0: equal */
  uint32_t differentiable;      /* bit i: compare the gradient of input i with finite differences of output 0 */
  double gradient_tolerance;    /* relative to the reference's largest slope; 0: 2e-5 */
  int lengths;                  /* input with samples' lengths: inputs [B, T, ..] are NaN beyond them; 0: none */
  int packed;                   /* parts of input 0 side by side in its last dimension, each with slopes of its own */
  uint32_t accumulates;         /* bit j: output j can be added to, even if its scope does not require it */
  int exact;                    /* bits do not depend on how samples or rows are cut */
  int bench;                    /* too large for a test: for --bench */
} test_case;

/* The arguments of a reference. All arrays are doubles, whatever the dtype. */
typedef struct case_run {
  const test_case *c;
  const sl_graph *graph;
  const sl_step *step;
  uint32_t key; /* random stream of the node */
  const sl_shape *shape_in[CASE_INPUTS], *shape_out[SL_MAX_OUT];
  double *in[CASE_INPUTS];
  double *out[SL_MAX_OUT], *scale[SL_MAX_OUT]; /* scale: zeros at first */
} case_run;

static inline int64_t case_count(const sl_shape *shape) { return sl_shape_count(shape); }

#define CASE_DECLARE(name) extern const test_case cases_##name[];
CASE_FILES(CASE_DECLARE)
#undef CASE_DECLARE

#endif
