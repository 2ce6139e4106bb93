/* Calls with arguments in 16 bits: which kernel runs, and the copies in float for kernels that take only floats. The
 * copies lie in the scratch memory (of the team's leader, or of the GPU), behind the operation's own. */
#include "tasks/graph/storage.h"

#include <string.h>

static int is_narrow(const sl_array *a) { return a->dtype == SL_BF16 || a->dtype == SL_F16; }

static int any_of(const sl_call *c, sl_dtype dtype) {
  for (int i = 0; i < c->n_in; i++)
    if (c->in[i].dtype == dtype) return 1;
  for (int j = 0; j < c->n_out; j++)
    if (c->out[j].dtype == dtype) return 1;
  return 0;
}

/* Whether the kernel needs copies in float: kernels for 16 bits are for bf16. */
static int needs_copies(const sl_operation *op, const sl_call *c, int reads_bf16) {
  return !op->any_dtype && (any_of(c, SL_F16) || (any_of(c, SL_BF16) && !reads_bf16));
}
static int widens(const sl_operation *op, const sl_call *c, sl_isa isa) {
  return needs_copies(op, c, op->cpu_bf16[isa] != NULL);
}
static int widens_cuda(const sl_operation *op, const sl_call *c) { return needs_copies(op, c, op->cuda_bf16); }

/* Copies begin at multiples of 256 bytes, like a GPU's own allocations; this alignment also suits its vector loads. */
static size_t lines(size_t bytes) { return (bytes + 255) / 256 * 256; }

typedef struct copies {
  char *at;
  size_t used;
  sl_status status;
  const sl_operation *convert;
  sl_isa isa;    /* on the CPU */
  sl_cuda *cuda; /* NULL: on the CPU */
  const sl_call *call;
} copies;

static void *take(copies *w, size_t bytes) {
  void *memory = w->at + w->used;
  w->used += lines(bytes);
  return memory;
}

static void convert(copies *w, const sl_array *from, const sl_array *to) {
  if (w->status != SL_OK) return;
  const sl_call *c = w->call;
  const sl_call call = {
      .n_in = 1, .n_out = 1, .in = from, .out = to, .tiles = c->tiles, .team = c->team, .step = c->step};
  w->status = w->cuda ? w->convert->cuda(&call, w->cuda) : w->convert->cpu[w->isa](&call);
}

static int count_arrays(const sl_call *c) {
  int n = c->n_in + c->n_out;
  for (int i = 0; i < c->n_in; i++) n += c->in[i].parts > 1 ? c->in[i].parts : 0;
  return n;
}
static size_t array_bytes(const sl_call *c) { return lines((size_t)count_arrays(c) * sizeof(sl_array)); }

static sl_array as_float(const sl_array *a) {
  sl_array wide = *a;
  if (is_narrow(a)) wide.dtype = SL_F32;
  return wide;
}

/* The same call on floats, without their memory. Fills `arrays`: inputs, outputs, parts of inputs. */
static void describe_wide(const sl_call *c, sl_array *arrays, sl_call *wide) {
  sl_array *in = arrays, *out = in + c->n_in, *part = out + c->n_out;
  for (int i = 0; i < c->n_in; i++) {
    in[i] = as_float(&c->in[i]);
    in[i].part = c->in[i].parts > 1 ? part : &in[i];
    for (int p = 0; c->in[i].parts > 1 && p < c->in[i].parts; p++, part++) {
      *part = as_float(&c->in[i].part[p]);
      part->part = part;
    }
  }
  for (int j = 0; j < c->n_out; j++) {
    out[j] = as_float(&c->out[j]);
    out[j].part = &out[j];
  }
  *wide = *c;
  wide->in = in;
  wide->out = out;
}

/* Gives the copy of a its memory, and its contents if it is an input. (Outputs of samples are never added to.) */
static void fill(copies *w, const sl_array *a, sl_array *wide, int input) {
  if (!is_narrow(a)) return;
  wide->data = take(w, (size_t)sl_shape_count(&a->shape) * sizeof(float));
  if (input) convert(w, a, wide);
}

static void widen(copies *w, sl_array *arrays, sl_call *wide) {
  const sl_call *c = w->call;
  describe_wide(c, arrays, wide);
  sl_array *in = arrays, *out = in + c->n_in, *part = out + c->n_out;
  for (int i = 0; i < c->n_in; i++)
    if (c->in[i].parts > 1)
      for (int p = 0; p < c->in[i].parts; p++, part++) fill(w, &c->in[i].part[p], part, 1);
    else
      fill(w, &c->in[i], &in[i], 1);
  for (int j = 0; j < c->n_out; j++) fill(w, &c->out[j], &out[j], 0);
}

/* The operation's own scratch memory, by its rule for the call on floats. */
static size_t own_scratch(size_t (*rule)(const sl_call *), const sl_call *c) {
  if (!rule) return 0;
  sl_array arrays[count_arrays(c)];
  sl_call wide;
  describe_wide(c, arrays, &wide);
  return lines(rule(&wide));
}

static size_t copy_bytes(const sl_call *c) {
  size_t bytes = 0;
  for (int i = 0; i < c->n_in; i++)
    for (int p = 0; p < c->in[i].parts; p++) {
      const sl_array *a = c->in[i].parts > 1 ? &c->in[i].part[p] : &c->in[i];
      if (is_narrow(a)) bytes += lines((size_t)sl_shape_count(&a->shape) * sizeof(float));
    }
  for (int j = 0; j < c->n_out; j++)
    if (is_narrow(&c->out[j])) bytes += lines((size_t)sl_shape_count(&c->out[j].shape) * sizeof(float));
  return bytes;
}

size_t sl_operation_scratch(const sl_operation *op, const sl_call *call) {
  if (!widens(op, call, sl_isa_current())) return op->scratch ? op->scratch(call) : 0;
  return own_scratch(op->scratch, call) + array_bytes(call) + copy_bytes(call);
}

/* Runs on copies in float, which begin at w->at. */
static sl_status run_widened(copies *w, const sl_operation *op, int fast, sl_array *arrays) {
  sl_call wide;
  widen(w, arrays, &wide);
  SL_TRY(w->status);
  SL_TRY(w->cuda ? (fast ? op->cuda_fast : op->cuda)(&wide, w->cuda) : op->cpu[w->isa](&wide));
  for (int j = 0; j < w->call->n_out; j++)
    if (is_narrow(&w->call->out[j])) convert(w, &wide.out[j], &w->call->out[j]);
  return w->status;
}

sl_status sl_operation_run(const sl_operation *op, const sl_operation *convert_op, sl_isa isa, const sl_call *call) {
  if (!widens(op, call, isa)) return (any_of(call, SL_BF16) && !op->any_dtype ? op->cpu_bf16 : op->cpu)[isa](call);
  char *memory = (char *)call->team->scratch[0] + call->scratch_bytes - array_bytes(call) - copy_bytes(call);
  copies w = {.at = memory + array_bytes(call), .convert = convert_op, .isa = isa, .call = call};
  return run_widened(&w, op, 0, (sl_array *)(void *)memory);
}

size_t sl_operation_scratch_cuda(const sl_operation *op, int fast, const sl_call *call) {
  size_t (*const rule)(const sl_call *) = fast && op->scratch_fast ? op->scratch_fast : op->scratch_cuda;
  if (!widens_cuda(op, call)) return rule ? rule(call) : 0;
  return own_scratch(rule, call) + copy_bytes(call);
}

int sl_operation_copies_cuda(const sl_operation *op, const sl_call *call) {
  return widens_cuda(op, call) ? count_arrays(call) : 0;
}

sl_status sl_operation_run_cuda(const sl_operation *op, const sl_operation *convert_op, int fast, const sl_call *call,
                                sl_cuda *cuda, void *scratch, sl_array *arrays) {
  if (!widens_cuda(op, call)) return (fast ? op->cuda_fast : op->cuda)(call, cuda);
  char *at = (char *)scratch + call->scratch_bytes - copy_bytes(call);
  copies w = {.at = at, .convert = convert_op, .cuda = cuda, .call = call};
  return run_widened(&w, op, fast, arrays);
}
