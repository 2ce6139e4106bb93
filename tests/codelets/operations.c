/* Every operation against its double-precision reference, with every kernel that runs here: whole, in teams, cut into
 * shards and row blocks, in place, accumulating; and its gradient against finite differences. `operations NAME...`
 * takes some, `operations --bench [NAME...]` measures instead (--bench-bf16: in bf16, --bench-blocks: with
 * sums by blocks, --bench-blas: products by OpenBLAS), `operations --digest [NAME...]`
 * prints a digest of the bits of each case with each kernel, so that two builds can be compared. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <xxhash.h>

#include "codelets/kernels/product.h"
#include "runtime/numbers/half.h"
#include "tests/codelets/cuda.h"
#include "tests/codelets/differences.h"

enum { TEAMS = 3 };

static sl_team *teams[TEAMS + 1]; /* [n] has n threads */
/* Order of sums in products of bf16 (product.h), and whether products are OpenBLAS's (blas.h); cases of other
 * operations ignore both. */
static int by_blocks, by_blas;
static sl_tiles tiles_of(int64_t columns, int64_t elements) {
  return (sl_tiles){columns, elements, by_blocks, by_blas};
}
#define small_tiles tiles_of(32, 96)
#define default_tiles tiles_of(SL_TILES_DEFAULT.columns, SL_TILES_DEFAULT.elements)

typedef struct what_to_run {
  const test_case *c;
  sl_isa isa;
  sl_dtype narrow; /* activations in this type; SL_F32: as in the case */
  int blocks;      /* 1: sums by blocks */
  int blas;        /* 1: products by OpenBLAS */
} what_to_run;

static void build(setting *s, const test_case *c, sl_dtype narrow) {
  if (narrow != SL_F32)
    setting_build_in(s, c, narrow);
  else
    setting_build(s, c);
}
static const char *suffix(sl_dtype narrow) { return narrow == SL_BF16 ? ", bf16" : narrow == SL_F16 ? ", fp16" : ""; }

static int is_node(const setting *s) { return s->c->build == NULL; }
static const sl_node *node_of(const setting *s) { return s->graph->node[0]; }
static const sl_operation *op_of(const setting *s) { return node_of(s)->op; }
static int updates(const setting *s) {
  for (int j = 0; j < SL_MAX_OUT; j++)
    if (op_of(s)->update[j]) return 1;
  return 0;
}

/* --- the kernel --------------------------------------------------------------------------------------------------- */

/* Copies of the outputs' bytes. */
static void keep(const setting *s, void *copy[SL_MAX_OUT]) {
  for (int j = 0; j < s->c->n_out; j++) {
    size_t bytes = sl_value_bytes(setting_info(s, s->out[j]));
    copy[j] = malloc(bytes + 1);
    assert_non_null(copy[j]);
    memcpy(copy[j], s->run.data[s->out[j]], bytes);
  }
}
static void same_bits(const setting *s, void *const copy[SL_MAX_OUT], const char *how) {
  for (int j = 0; j < s->c->n_out; j++)
    if (memcmp(copy[j], s->run.data[s->out[j]], sl_value_bytes(setting_info(s, s->out[j]))) != 0)
      fail_msg("output %d: other bits %s", j, how);
}
static void drop(void *copy[SL_MAX_OUT]) {
  for (int j = 0; j < SL_MAX_OUT; j++) free(copy[j]);
}

/* The finest scope among the node's inputs and outputs. */
static sl_scope scope_of(const setting *s) {
  sl_scope finest = SL_SCOPE_WHOLE;
  for (int i = 0; i < s->c->n_in; i++)
    if (setting_info(s, s->in[i])->scope < finest) finest = setting_info(s, s->in[i])->scope;
  for (int j = 0; j < s->c->n_out; j++)
    if (setting_info(s, s->out[j])->scope < finest) finest = setting_info(s, s->out[j])->scope;
  return finest;
}

/* Runs the node with the outputs in `bits` accumulating and the others overwritten. */
static void accumulating_some(setting *s, sl_isa isa, uint32_t bits) {
  setting_begin(s, isa, teams[2], small_tiles);
  double *before[SL_MAX_OUT] = {NULL};
  for (int j = 0; j < s->c->n_out; j++) {
    if (!(bits >> j & 1)) continue;
    const sl_value_info *info = setting_info(s, s->out[j]);
    setting_fill(s->run.data[s->out[j]], &(case_input){info->dtype, info->shape, info->scope, FILL_NORMAL, 0, 1}, 99);
    before[j] = setting_doubles(s->run.data[s->out[j]], info);
  }
  s->graph->node[0]->accumulate = bits;
  sl_status status = interpret_run(&s->run, 0, 1);
  s->graph->node[0]->accumulate = 0;
  assert_ok(status);
  for (int j = 0; j < s->c->n_out; j++) {
    setting_compare(s, j, s->run.data[s->out[j]], before[j], "accumulating");
    free(before[j]);
  }
}
/* Accumulates into all outputs that allow it, then into each alone, as for a node one of whose gradients has two uses.
 */
static void accumulating(setting *s, sl_isa isa) {
  uint32_t bits = s->c->accumulates;
  for (int j = 0; j < s->c->n_out; j++)
    if (setting_info(s, s->out[j])->scope > scope_of(s)) bits |= 1u << j;
  if (bits) accumulating_some(s, isa, bits);
  for (int j = 0; j < s->c->n_out; j++)
    if (bits >> j & 1 && bits != 1u << j) accumulating_some(s, isa, 1u << j);
}

static size_t row_bytes(const sl_array *a) { return (size_t)sl_shape_row(&a->shape) * sl_dtype_bytes(a->dtype); }
static void cut(sl_array *a, int64_t from, int64_t to) {
  a->data = (char *)a->data + (size_t)from * row_bytes(a);
  a->shape.dim[0] = to - from;
  a->row0 += from;
}

/* cuBLAS and OpenBLAS choose another order of sums for other shapes. */
static int exact(const setting *s, sl_isa isa) { return s->c->exact && (int)isa != INTERPRET_GPU_FAST && !by_blas; }

/* Runs the node in two shards: the first overwrites, the second adds to outputs that are sums. */
static void in_shards(setting *s, sl_isa isa, void *const whole[SL_MAX_OUT]) {
  const int64_t B = s->graph->batch, at[3] = {0, (2 * B + 2) / 3, B};
  if (scope_of(s) != SL_SCOPE_SAMPLE || at[1] == B) return;
  setting_begin(s, isa, teams[1], small_tiles);
  for (int shard = 0; shard < 2; shard++) {
    sl_array arrays[2 * CASE_INPUTS + SL_MAX_OUT];
    sl_call call;
    interpret_call(&s->run, node_of(s), arrays, &call);
    sl_array in[CASE_INPUTS], out[SL_MAX_OUT];
    for (int i = 0; i < s->c->n_in; i++) {
      in[i] = call.in[i];
      in[i].part = &in[i];
      if (s->c->in[i].scope == SL_SCOPE_SAMPLE) cut(&in[i], at[shard], at[shard + 1]);
    }
    for (int j = 0; j < s->c->n_out; j++) {
      out[j] = call.out[j];
      out[j].part = &out[j];
      if (setting_info(s, s->out[j])->scope == SL_SCOPE_SAMPLE)
        cut(&out[j], at[shard], at[shard + 1]);
      else if (shard)
        call.accumulate |= 1u << j;
    }
    call.in = in;
    call.out = out;
    call.row0 = at[shard];
    call.rows = at[shard + 1] - at[shard];
    assert_ok(interpret_kernel(op_of(s), isa, &call));
  }
  for (int j = 0; j < s->c->n_out; j++) {
    setting_compare(s, j, s->run.data[s->out[j]], NULL, "in two shards");
    const sl_value_info *info = setting_info(s, s->out[j]);
    if (exact(s, isa) && info->scope == SL_SCOPE_SAMPLE &&
        memcmp(whole[j], s->run.data[s->out[j]], sl_value_bytes(info)) != 0)
      fail_msg("output %d: other bits in two shards", j);
  }
}

/* Copies rows [from, to) of an array, with NaNs before and after them; the caller frees the copy. */
static void *cut_out(sl_array *a, int64_t from, int64_t to) {
  const size_t row = row_bytes(a), bytes = (size_t)(to - from) * row, around = 4096;
  char *memory = malloc(bytes + 2 * around);
  assert_non_null(memory);
  memset(memory, 0xff, bytes + 2 * around);
  memcpy(memory + around, (char *)a->data + (size_t)from * row, bytes);
  cut(a, from, to);
  a->data = memory + around;
  return memory;
}

/* Runs one task with op->all_in's inputs in two parts; then one task for each of two row blocks, by op->map, in both
 * orders, so that a write beyond a block is detected. */
static void in_blocks(setting *s, sl_isa isa, void *const whole[SL_MAX_OUT]) {
  const sl_operation *op = op_of(s);
  enum { ALL, FORWARDS, BACKWARDS, WAYS };
  for (int way = 0; way < WAYS; way++) {
    const int all = way == ALL;
    uint32_t in_bits = all ? op->all_in : op->map_in, out_bits = all ? 0 : op->map_out;
    int64_t R = 0;
    for (int i = 0; i < s->c->n_in && !R; i++)
      if (in_bits >> i & 1) R = s->c->in[i].shape.dim[0];
    for (int j = 0; j < s->c->n_out && !R; j++)
      if (out_bits >> j & 1) R = setting_info(s, s->out[j])->shape.dim[0];
    /* A vector whose row is one sum is never cut. */
    if (!in_bits && !out_bits) continue;
    for (int j = 0; j < s->c->n_out; j++)
      if (out_bits >> j & 1 && setting_info(s, s->out[j])->shape.dim[0] != R) return;
    if (R < 2) continue;
    const int64_t at[3] = {0, (R + 2) / 3, R};
    setting_begin(s, isa, teams[2], small_tiles);
    for (int k = 0; k < (all ? 1 : 2); k++) {
      const int block = way == BACKWARDS ? 1 - k : k;
      void *memory[CASE_INPUTS][2] = {{NULL}};
      sl_array arrays[2 * CASE_INPUTS + SL_MAX_OUT], in[CASE_INPUTS], part[CASE_INPUTS][2], out[SL_MAX_OUT];
      sl_call call;
      interpret_call(&s->run, node_of(s), arrays, &call);
      for (int i = 0; i < s->c->n_in; i++) {
        in[i] = call.in[i];
        in[i].part = &in[i];
        if (!(in_bits >> i & 1)) continue;
        if (!all) {
          cut(&in[i], at[block], at[block + 1]);
        } else if (in[i].shape.dim[0] > 1) {
          const int64_t middle = in[i].shape.dim[0] == R ? at[1] : 1;
          for (int p = 0; p < 2; p++) {
            part[i][p] = in[i];
            memory[i][p] = cut_out(&part[i][p], p ? middle : 0, p ? in[i].shape.dim[0] : middle);
            part[i][p].part = &part[i][p];
          }
          in[i].parts = 2;
          in[i].part = part[i];
          in[i].data = NULL;
        }
      }
      for (int j = 0; j < s->c->n_out; j++) {
        out[j] = call.out[j];
        out[j].part = &out[j];
        if (out_bits >> j & 1) cut(&out[j], at[block], at[block + 1]);
      }
      call.in = in;
      call.out = out;
      assert_ok(interpret_kernel(op, isa, &call));
      for (int i = 0; i < CASE_INPUTS; i++) free(memory[i][0]), free(memory[i][1]);
    }
    for (int j = 0; j < s->c->n_out; j++) setting_compare(s, j, s->run.data[s->out[j]], NULL, "in row blocks");
    if (exact(s, isa)) same_bits(s, whole, "in row blocks");
  }
}

/* Puts output j into the buffer of input inplace[j] - 1. */
static void in_place(setting *s, sl_isa isa, void *const whole[SL_MAX_OUT]) {
  const sl_operation *op = op_of(s);
  for (int j = 0; j < s->c->n_out; j++) {
    if (!op->inplace[j]) continue;
    const int k = op->inplace[j] - 1;
    if (setting_info(s, s->out[j])->dtype != setting_info(s, s->in[k])->dtype) continue; /* the schedule never does */
    if (sl_value_bytes(setting_info(s, s->out[j])) > sl_value_bytes(setting_info(s, s->in[k])))
      fail_msg("output %d is larger than input %d, which it may overwrite", j, k);
    setting_begin(s, isa, teams[2], small_tiles);
    void *own = s->run.data[s->out[j]];
    s->run.data[s->out[j]] = s->run.data[s->in[k]];
    sl_status status = interpret_run(&s->run, 0, 1);
    int same = memcmp(whole[j], s->run.data[s->out[j]], sl_value_bytes(setting_info(s, s->out[j]))) == 0;
    s->run.data[s->out[j]] = own;
    assert_ok(status);
    if (!same) fail_msg("output %d: other bits in the buffer of input %d", j, k);
  }
}

/* Whether an operation may take OpenBLAS's products. */
static int takes_blas(const char *op) { return strncmp(op, "linear", 6) == 0 || strncmp(op, "conv2d", 6) == 0; }

/* Which special numbers 16-bit inputs hold. FINITE and ALL stand among random numbers. The others take a whole input:
 * TINY, numbers a few times the least one that is no denormal; DENORMALS; ZEROS with the signs of these. */
typedef enum { NO_SPECIALS, FINITE, ALL, TINY, DENORMALS, ZEROS } specials;

/* Denormals, a zero with a sign, the largest number; then infinities and a NaN. */
static void plant(specials which, sl_dtype dtype, int64_t n, int input, int whole, uint16_t *to) {
  static const uint16_t bf16[] = {0x0001, 0x807f, 0x8000, 0x7f7f, 0x7f80, 0xff80, 0x7fc0},
                        fp16[] = {0x0001, 0x83ff, 0x8000, 0x7bff, 0x7c00, 0xfc00, 0x7e00};
  const int kinds = which == ALL ? 7 : 4, apart = which == ALL ? 11 : 3;
  const uint16_t mantissa = dtype == SL_BF16 ? 0x7f : 0x3ff;
  for (int64_t i = input; i < n && (which == FINITE || which == ALL); i += apart)
    to[i] = (dtype == SL_BF16 ? bf16 : fp16)[(i / apart + input) % kinds];
  for (int64_t i = 0; i < n && which >= TINY && input == whole; i++)
    to[i] = (uint16_t)(which == ZEROS       ? to[i] & 0x8000
                       : which == DENORMALS ? to[i] & (0x8000 | mantissa)
                                            : (to[i] & (0x8000 | mantissa)) | (mantissa + 1) << (i % 2));
}
static void plant_in(setting *s, specials which) {
  const int whole = strcmp(s->c->op, "attention_grad") == 0; /* qkv, for it also adds up dout out, in float */
  for (int i = 0; i < s->c->n_in; i++) {
    const sl_value_info *info = setting_info(s, s->in[i]);
    if (info->dtype == SL_BF16) plant(which, info->dtype, case_count(&info->shape), i, whole, s->run.data[s->in[i]]);
  }
}

/* In bf16, products count denormals as zeros (product.h): output 0 has the same bits with one as with the other. (db of
 * linear_dw is a sum of numbers, not of products.) */
static void flushes(const what_to_run *what) {
  setting s[2];
  for (int zeros = 0; zeros < 2; zeros++) {
    build(&s[zeros], what->c, SL_BF16);
    setting_begin(&s[zeros], what->isa, teams[1], small_tiles);
    plant_in(&s[zeros], zeros ? ZEROS : DENORMALS);
    assert_ok(interpret_run(&s[zeros].run, 0, s[zeros].nodes));
  }
  if (memcmp(s[0].run.data[s[0].out[0]], s[1].run.data[s[1].out[0]], sl_value_bytes(setting_info(&s[0], s[0].out[0]))))
    fail_msg("denormals do not count as zeros");
  setting_finish(&s[0]), setting_finish(&s[1]);
}

static void kernel(void **state) {
  const what_to_run *what = *state;
  setting s;
  by_blocks = what->blocks, by_blas = what->blas;
  build(&s, what->c, what->narrow);
  void *whole[SL_MAX_OUT] = {NULL}, *small[SL_MAX_OUT] = {NULL};
  setting_begin(&s, what->isa, teams[1], default_tiles);
  setting_refer(&s);
  assert_ok(interpret_run(&s.run, 0, s.nodes));
  for (int j = 0; j < what->c->n_out; j++) setting_compare(&s, j, s.run.data[s.out[j]], NULL, "in one tile");
  keep(&s, whole);
  for (int threads = 1; threads <= TEAMS; threads++) {
    setting_begin(&s, what->isa, teams[threads], small_tiles);
    assert_ok(interpret_run(&s.run, 0, s.nodes));
    for (int j = 0; j < what->c->n_out; j++) setting_compare(&s, j, s.run.data[s.out[j]], NULL, "in small tiles");
    if (threads == 1)
      keep(&s, small);
    else
      same_bits(&s, small, "with a larger team");
  }
  if (is_node(&s)) {
    accumulating(&s, what->isa);
    if (!updates(&s)) in_shards(&s, what->isa, whole);
    in_blocks(&s, what->isa, whole);
    in_place(&s, what->isa, small);
  }
  drop(whole);
  drop(small);
  setting_finish(&s);
  if (what->narrow == SL_BF16 && sl_operation_find(what->c->op)->pairs && (int)what->isa < SL_ISA_COUNT) flushes(what);
}

/* --- 16 bits ------------------------------------------------------------------------------------------------------ */

/* In 16 bits an operation gives the bits of the float kernel on the same numbers, rounded. With special numbers in the
 * input, any NaN equals any other. */
static void compare_with_float(const what_to_run *what, specials which) {
  setting narrow, wide;
  setting_build_in(&narrow, what->c, what->narrow);
  setting_build(&wide, what->c);
  setting_begin(&narrow, what->isa, teams[1], small_tiles);
  setting_begin(&wide, what->isa, teams[1], small_tiles);
  for (int i = 0; i < what->c->n_in; i++) {
    const sl_value_info *info = setting_info(&narrow, narrow.in[i]);
    if (info->dtype != what->narrow) continue;
    plant(which, info->dtype, case_count(&info->shape), i, 0, narrow.run.data[narrow.in[i]]);
    for (int64_t n = 0; n < case_count(&info->shape); n++)
      ((float *)wide.run.data[wide.in[i]])[n] = (float)setting_get(narrow.run.data[narrow.in[i]], info->dtype, n);
  }
  assert_ok(interpret_run(&narrow.run, 0, narrow.nodes));
  assert_ok(interpret_run(&wide.run, 0, wide.nodes));
  for (int j = 0; j < what->c->n_out; j++) {
    const sl_value_info *info = setting_info(&narrow, narrow.out[j]);
    const void *mine = narrow.run.data[narrow.out[j]];
    const float *theirs = wide.run.data[wide.out[j]];
    if (info->dtype != what->narrow && memcmp(mine, theirs, sl_value_bytes(info)) == 0) continue;
    for (int64_t n = 0; n < case_count(&info->shape); n++) {
      const double found = setting_get(mine, info->dtype, n);
      const double right = setting_get(theirs, info->dtype == what->narrow ? SL_F32 : info->dtype, n);
      int same = info->dtype != what->narrow && memcmp(&found, &right, sizeof right) == 0;
      if (info->dtype == what->narrow) {
        sl_bf16 rounded;
        sl_put(&rounded, theirs[n]);
        same = (info->dtype == SL_F16 ? sl_half_of(theirs[n]) : rounded.bits) == ((const uint16_t *)mine)[n];
      }
      if (same || (which != NO_SPECIALS && isnan(right) && isnan(found))) continue;
      fail_msg("output %d, element %lld%s: %.9g, in float %.9g", j, (long long)n,
               which == NO_SPECIALS ? "" : ", with special numbers in the input", found, right);
    }
  }
  setting_finish(&narrow);
  setting_finish(&wide);
}
/* On GPUs without special numbers: there a NaN may have other bits, and an emulated device takes minutes for more. */
static void same_as_float(void **state) {
  const what_to_run *what = *state;
  const specials end = (int)what->isa < SL_ISA_COUNT ? TINY : FINITE;
  for (specials which = NO_SPECIALS; which < end; which++) compare_with_float(what, which);
}

/* --- the gradient ------------------------------------------------------------------------------------------------- */

static void gradient(void **state) {
  const what_to_run *what = *state;
  setting s;
  setting_build(&s, what->c);
  int scalar = setting_info(&s, s.out[0])->dtype == SL_F64 && case_count(&setting_info(&s, s.out[0])->shape) == 1;
  setting_finish(&s);
  differences_check(what->c, what->isa, teams[2], small_tiles, 0);
  if (scalar) differences_check(what->c, what->isa, teams[2], small_tiles, 1);
}

/* --- CUDA --------------------------------------------------------------------------------------------------------- */

static void no_gpu(void **state) {
  (void)state;
  print_message("# no CUDA case was run: %s\n", cuda_case_missing());
  skip();
}

/* --- the list ----------------------------------------------------------------------------------------------------- */

static void every_operation(void **state) {
  (void)state;
  for (int o = 0; sl_operations[o]; o++) {
    const sl_operation *op = sl_operations[o];
    assert_ptr_equal(sl_operation_find(op->name), op);
    int cases = 0, gradients = 0;
    for (int f = 0; case_files[f]; f++)
      for (const test_case *c = case_files[f]; c->op; c++)
        if (strcmp(c->op, op->name) == 0 && !c->bench) {
          cases++;
          gradients += c->differentiable != 0;
        }
    if (!cases) fail_msg("%s has no case: write one in tests/codelets/case_*.c", op->name);
    if (op->gradient && !gradients) fail_msg("%s has a gradient, and no case that checks it", op->name);
    for (int isa = 0; isa < SL_ISA_COUNT; isa++)
      if (!op->cpu[isa] != !sl_op_copy.cpu[isa]) fail_msg("%s has no %s kernel", op->name, sl_isa_name((sl_isa)isa));
    if (op->pairs && !op->cuda_bf16) fail_msg("%s: its CUDA kernel does not multiply pairs", op->name);
    if (!op->cuda && cuda_case_built())
      fail_msg("%s has no CUDA kernel: write codelets/%s_cuda.cu", op->name, op->name);
    if (cuda_case_built() && !op->fast != !op->cuda_fast) fail_msg("%s: `fast` and cuda_fast disagree", op->name);
  }
  for (int f = 0; case_files[f]; f++)
    for (const test_case *c = case_files[f]; c->op; c++)
      if (!sl_operation_find(c->op)) fail_msg("a case of '%s', which is not an operation", c->op);
}

/* --- measuring ---------------------------------------------------------------------------------------------------- */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* CPU time of this thread, which is the whole team: other programs' share of the core does not count. */
static double cpu_time(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int bench(int n, char **names, int bf16, int blocks, int blas) {
  by_blocks = blocks, by_blas = blas;
  printf("%-20s %-36s %8s %10s %9s %8s\n", "operation", "case", "kernels", "us", "GFLOP/s", "GB/s");
  for (int f = 0; case_files[f]; f++)
    for (const test_case *c = case_files[f]; c->op; c++) {
      int chosen = n == 0;
      for (int i = 0; i < n; i++) chosen |= strcmp(names[i], c->op) == 0;
      if (!chosen || !c->bench || (blas && !takes_blas(c->op))) continue;
      for (int isa = 0; isa < SL_ISA_COUNT; isa++) {
        if (!sl_isa_runs((sl_isa)isa) || !sl_operation_find(c->op)->cpu[isa]) continue;
        setting s;
        if (bf16 && (c->build || sl_operation_find(c->op)->any_dtype)) continue;
        build(&s, c, bf16 ? SL_BF16 : SL_F32);
        setting_begin(&s, (sl_isa)isa, teams[1], default_tiles);
        sl_cost cost = {0};
        for (int i = 0; i < s.nodes; i++) {
          sl_cost one = sl_node_cost(s.graph, s.graph->node[i], &s.run.tiles);
          cost.flops += one.flops;
          cost.bytes += one.bytes;
        }
        double best = 1e9, from = now();
        for (int i = 0; i < 5 || now() - from < 0.2; i++) {
          double start = cpu_time();
          if (interpret_run(&s.run, 0, s.nodes) != SL_OK) {
            fprintf(stderr, "%s\n", sl_error());
            return 1;
          }
          best = fmin(best, cpu_time() - start);
        }
        printf("%-20s %-36s %8s %10.1f %9.2f %8.2f\n", c->op, c->what, sl_isa_name((sl_isa)isa), 1e6 * best,
               1e-9 * cost.flops / best, 1e-9 * cost.bytes / best);
        setting_finish(&s);
      }
    }
  return 0;
}

/* Replaces each NaN by one NaN, and -0 by 0. */
static void alike(void *data, const sl_value_info *info) {
  const int narrow = info->dtype == SL_BF16;
  for (int64_t i = 0; i < case_count(&info->shape) && (narrow || info->dtype == SL_F32); i++) {
    const double x = setting_get(data, info->dtype, i);
    if (!isnan(x) && x != 0) continue;
    if (narrow)
      ((uint16_t *)data)[i] = x != 0 ? 0x7fc0 : 0;
    else
      ((float *)data)[i] = x != 0 ? NAN : 0;
  }
}
/* The bits of a case's outputs, in one tile and in small ones; with special numbers, any NaN equals any other, and
 * -0 equals 0 (in causal attention the tile decides how often 0 is added to -0). */
static uint64_t digest_with(const test_case *c, sl_isa isa, sl_dtype narrow, int blocks, specials which) {
  uint64_t hash = 0;
  by_blocks = blocks;
  for (int small = 0; small < 2; small++) {
    setting s;
    build(&s, c, narrow);
    setting_begin(&s, isa, teams[1], small ? small_tiles : default_tiles);
    plant_in(&s, which);
    assert_ok(interpret_run(&s.run, 0, s.nodes));
    for (int j = 0; j < c->n_out; j++) {
      const sl_value_info *info = setting_info(&s, s.out[j]);
      if (which != NO_SPECIALS) alike(s.run.data[s.out[j]], info);
      hash = XXH3_64bits_withSeed(s.run.data[s.out[j]], sl_value_bytes(info), hash);
    }
    setting_finish(&s);
  }
  return hash;
}
static uint64_t digest_of(const test_case *c, sl_isa isa, sl_dtype narrow, int blocks) {
  return digest_with(c, isa, narrow, blocks, NO_SPECIALS);
}

/* AVX2 and AVX-512 have the same bits: element for element the same fused multiply-adds, and sums over sixteen lanes.
 * Products in bf16 also have them by the bf16 instructions, where this CPU has them, and with special numbers. In
 * attention, how far an infinity or a NaN spreads depends on the tile: a tile multiplies it by the probability 0 of the
 * queries that do not see its key. */
static void same_on_both(void **state) {
  const what_to_run *what = *state;
  const int products = what->narrow == SL_BF16 && sl_operation_find(what->c->op)->pairs;
  for (specials which = NO_SPECIALS; which <= (products ? TINY : NO_SPECIALS); which++) {
    const char *with = which == NO_SPECIALS ? "" : ", with special numbers";
    const uint64_t avx512 = digest_with(what->c, SL_ISA_AVX512_VL, what->narrow, what->blocks, which);
    const int tile_counts = (which == FINITE || which == ALL) && strncmp(what->c->op, "attention", 9) == 0;
    if (!tile_counts && digest_with(what->c, SL_ISA_AVX2_FMA, what->narrow, what->blocks, which) != avx512)
      fail_msg("other bits with AVX2 than AVX-512%s", with);
    for (int instruction = 0; products && instruction < 2; instruction++) {
      *(what->blocks ? &sl_product_tiles_choice : &sl_product_pairs_choice) = instruction;
      const uint64_t digest = digest_with(what->c, SL_ISA_AVX512_VL, SL_BF16, what->blocks, which);
      sl_product_pairs_choice = -1, sl_product_tiles_choice = 1;
      if (digest != avx512) fail_msg("other bits by %s%s", instruction ? "bf16's instruction" : "multiply-adds", with);
    }
  }
}

static int digests(int n, char **names) {
  for (int f = 0; case_files[f]; f++)
    for (const test_case *c = case_files[f]; c->op; c++) {
      int chosen = n == 0;
      for (int i = 0; i < n; i++) chosen |= strcmp(names[i], c->op) == 0;
      if (!chosen) continue;
      for (int isa = 0; isa < SL_ISA_COUNT; isa++)
        if (sl_isa_runs((sl_isa)isa) && sl_operation_find(c->op)->cpu[isa])
          printf("%016llx %s %s, %s\n", (unsigned long long)digest_of(c, (sl_isa)isa, SL_F32, 0), c->op, c->what,
                 sl_isa_name((sl_isa)isa));
    }
  return 0;
}

int main(int argc, char **argv) {
  for (int threads = 1; threads <= TEAMS; threads++)
    if (sl_team_create(NULL, threads, NULL, &teams[threads]) != SL_OK || sl_team_start(teams[threads]) != SL_OK) {
      fprintf(stderr, "%s\n", sl_error());
      return 1;
    }
  int result;
  if (argc > 1 && strncmp(argv[1], "--bench", 7) == 0) {
    const int blocks = strcmp(argv[1], "--bench-blocks") == 0;
    result = bench(argc - 2, argv + 2, blocks || strcmp(argv[1], "--bench-bf16") == 0, blocks,
                   strcmp(argv[1], "--bench-blas") == 0);
    goto out;
  }
  if (argc > 1 && strcmp(argv[1], "--digest") == 0) {
    result = digests(argc - 2, argv + 2);
    goto out;
  }
  enum { MOST = 8192 };
  static struct CMUnitTest tests[MOST];
  static what_to_run what[MOST];
  static char name[MOST][128];
  int n = 0;
  tests[n++] = (struct CMUnitTest){
      "every operation has a case, a kernel for each instruction set, and a gradient that is checked", every_operation,
      NULL, NULL, NULL};
  if (cuda_case_missing())
    tests[n++] = (struct CMUnitTest){"CUDA kernels against the reference", no_gpu, NULL, NULL, NULL};
  for (int f = 0; case_files[f]; f++)
    for (const test_case *c = case_files[f]; c->op; c++) {
      if (c->bench || !sl_operation_find(c->op)) continue;
      int chosen = argc == 1;
      for (int i = 1; i < argc; i++) chosen |= strcmp(argv[i], c->op) == 0;
      if (!chosen) continue;
      for (int isa = 0; isa < SL_ISA_COUNT; isa++) {
        if (!sl_isa_runs((sl_isa)isa) || !sl_operation_find(c->op)->cpu[isa]) continue;
        const int narrows = !c->build && !sl_operation_find(c->op)->any_dtype;
        for (int kind = 0; kind < 2 && narrows; kind++) {
          if (n == MOST) goto full;
          const int pairs = sl_operation_find(c->op)->pairs;
          what[n] = (what_to_run){.c = c, .isa = (sl_isa)isa, .narrow = SL_BF16, .blocks = kind && pairs};
          snprintf(name[n], sizeof name[n], "%s %s, %s, bf16%s", c->op, c->what, sl_isa_name((sl_isa)isa),
                   !kind   ? ""
                   : pairs ? " by blocks"
                           : " as float");
          tests[n] = (struct CMUnitTest){name[n], kind && !pairs ? same_as_float : kernel, NULL, NULL, &what[n]};
          n++;
        }
        for (int g = 0; g < (c->differentiable ? 2 : 1); g++) {
          if (n == MOST) goto full;
          what[n] = (what_to_run){.c = c, .isa = (sl_isa)isa, .narrow = SL_F32};
          snprintf(name[n], sizeof name[n], "%s %s, %s%s", c->op, c->what, sl_isa_name((sl_isa)isa),
                   g ? ", gradient" : "");
          tests[n] = (struct CMUnitTest){name[n], g ? gradient : kernel, NULL, NULL, &what[n]};
          n++;
        }
      }
      if (takes_blas(c->op)) {
        if (n == MOST) goto full;
        what[n] = (what_to_run){.c = c, .isa = sl_isa_best(), .narrow = SL_F32, .blas = 1};
        snprintf(name[n], sizeof name[n], "%s %s, OpenBLAS", c->op, c->what);
        tests[n] = (struct CMUnitTest){name[n], kernel, NULL, NULL, &what[n]};
        n++;
      }
      if (!c->build && !sl_operation_find(c->op)->any_dtype) {
        if (n == MOST) goto full;
        what[n] = (what_to_run){.c = c, .isa = sl_isa_best(), .narrow = SL_F16};
        snprintf(name[n], sizeof name[n], "%s %s, fp16 as float", c->op, c->what);
        tests[n] = (struct CMUnitTest){name[n], same_as_float, NULL, NULL, &what[n]};
        n++;
      }
      for (int kind = 0; kind < (c->build || sl_operation_find(c->op)->any_dtype ? 1 : 3); kind++) {
        if (!sl_isa_runs(SL_ISA_AVX512_VL) || !sl_operation_find(c->op)->cpu[SL_ISA_AVX512_VL]) continue;
        if (kind == 2 && !sl_operation_find(c->op)->pairs) continue;
        if (n == MOST) goto full;
        what[n] =
            (what_to_run){.c = c, .isa = SL_ISA_AVX512_VL, .narrow = kind ? SL_BF16 : SL_F32, .blocks = kind == 2};
        snprintf(name[n], sizeof name[n], "%s %s, avx2 and avx512 alike%s%s", c->op, c->what, suffix(what[n].narrow),
                 kind == 2 ? " by blocks" : "");
        tests[n] = (struct CMUnitTest){name[n], same_on_both, NULL, NULL, &what[n]};
        n++;
      }
      const int kinds = cuda_case_missing() ? 0 : sl_operation_find(c->op)->fast ? 2 : 1;
      /* In bf16 by the exact and the fast kernel, in fp16 by the exact one. Where it gives the float kernel's bits, the
       * comparison with that is enough, which saves most of an emulated device's time. */
      for (int g = 0; g < (c->build || sl_operation_find(c->op)->any_dtype || kinds == 0 ? 0 : kinds + 1); g++) {
        if (n == MOST) goto full;
        const int fast = g == 1 && kinds == 2;
        what[n] = (what_to_run){
            .c = c, .isa = fast ? INTERPRET_GPU_FAST : INTERPRET_GPU, .narrow = g < kinds ? SL_BF16 : SL_F16};
        snprintf(name[n], sizeof name[n], "%s %s, CUDA%s%s", c->op, c->what, fast ? ", fast" : "",
                 suffix(what[n].narrow));
        const int pairs = what[n].narrow == SL_BF16 && sl_operation_find(c->op)->pairs;
        tests[n] = (struct CMUnitTest){name[n], pairs ? kernel : same_as_float, NULL, NULL, &what[n]};
        n++;
      }
      for (int g = 0; g < (c->differentiable ? 2 : 1) * kinds; g++) {
        if (n == MOST) goto full;
        const int fast = g % kinds;
        what[n] = (what_to_run){.c = c, .isa = fast ? INTERPRET_GPU_FAST : INTERPRET_GPU, .narrow = SL_F32};
        snprintf(name[n], sizeof name[n], "%s %s, CUDA%s%s", c->op, c->what, fast ? ", fast" : "",
                 g / kinds ? ", gradient" : "");
        tests[n] = (struct CMUnitTest){name[n], g / kinds ? gradient : kernel, NULL, NULL, &what[n]};
        n++;
      }
    }
  printf("# gradients along directions of seed %llu (TEST_SEED=NUMBER chooses another)\n",
         (unsigned long long)differences_seed());
  fflush(stdout);
  result = _cmocka_run_group_tests("operations", tests, (size_t)n, NULL, NULL);
  goto out;
full:
  fprintf(stderr, "more than the %d tests that main has room for: make MOST larger\n", (int)MOST);
  result = 1;
out:
  for (int threads = 1; threads <= TEAMS; threads++) sl_team_destroy(teams[threads]);
  return result;
}
