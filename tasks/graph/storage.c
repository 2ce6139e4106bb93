/* Calls with arguments in 16 bits: which kernel runs, and the copies in float for kernels that take only floats. The
 * copies lie in the leader's scratch memory, behind the operation's own. */
#include "tasks/graph/storage.h"

#include <string.h>

static int is_narrow(const sl_array *a) { return a->dtype == SL_BF16; }

static int any_narrow(const sl_call *c) {
  for (int i = 0; i < c->n_in; i++)
    if (is_narrow(&c->in[i])) return 1;
  for (int j = 0; j < c->n_out; j++)
    if (is_narrow(&c->out[j])) return 1;
  return 0;
}

/* Whether the kernel needs copies in float. */
static int widens(const sl_operation *op, const sl_call *c, sl_isa isa) {
  return !op->any_dtype && any_narrow(c) && !op->cpu_bf16[isa];
}

static size_t lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

typedef struct copies {
  char *at;
  size_t used;
  sl_status status;
  const sl_operation *convert;
  sl_isa isa;
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
  w->status = w->convert->cpu[w->isa](&call);
}

/* A copy in float of a; with its contents if it is an input. (Outputs of samples are never added to.) */
static sl_array widened(copies *w, const sl_array *a, int input) {
  sl_array wide = *a;
  if (!is_narrow(a)) return wide;
  wide.dtype = SL_F32;
  wide.data = take(w, (size_t)sl_shape_count(&a->shape) * sizeof(float));
  if (input) convert(w, a, &wide);
  return wide;
}

/* Fills `arrays` (inputs, outputs, parts of inputs) and the copies of inputs. */
static void widen(copies *w, sl_array *arrays, sl_call *wide) {
  const sl_call *c = w->call;
  sl_array *in = arrays, *out = in + c->n_in, *part = out + c->n_out;
  for (int i = 0; i < c->n_in; i++) {
    in[i] = c->in[i];
    if (c->in[i].parts > 1) {
      in[i].dtype = is_narrow(&c->in[i]) ? SL_F32 : c->in[i].dtype;
      in[i].part = part;
      for (int p = 0; p < c->in[i].parts; p++, part++) {
        *part = widened(w, &c->in[i].part[p], 1);
        part->part = part;
      }
    } else {
      in[i] = widened(w, &c->in[i], 1);
      in[i].part = &in[i];
    }
  }
  for (int j = 0; j < c->n_out; j++) {
    out[j] = widened(w, &c->out[j], 0);
    out[j].part = &out[j];
  }
  *wide = *c;
  wide->in = in;
  wide->out = out;
}

static size_t array_bytes(const sl_call *c) {
  int n = c->n_in + c->n_out;
  for (int i = 0; i < c->n_in; i++) n += c->in[i].parts > 1 ? c->in[i].parts : 0;
  return lines((size_t)n * sizeof(sl_array));
}

static size_t own_scratch(const sl_operation *op, const sl_call *c) { return op->scratch ? lines(op->scratch(c)) : 0; }

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
  const size_t mine = op->scratch ? op->scratch(call) : 0;
  if (!widens(op, call, sl_isa_current())) return mine;
  return own_scratch(op, call) + array_bytes(call) + copy_bytes(call);
}

sl_status sl_operation_run(const sl_operation *op, const sl_operation *convert_op, sl_isa isa, const sl_call *call) {
  if (!widens(op, call, isa)) return (any_narrow(call) && !op->any_dtype ? op->cpu_bf16 : op->cpu)[isa](call);
  char *memory = (char *)call->team->scratch[0] + own_scratch(op, call);
  copies w = {.at = memory + array_bytes(call), .convert = convert_op, .isa = isa, .call = call};
  sl_call wide;
  widen(&w, (sl_array *)(void *)memory, &wide);
  SL_TRY(w.status);
  SL_TRY(op->cpu[isa](&wide));
  for (int j = 0; j < call->n_out; j++)
    if (is_narrow(&call->out[j])) convert(&w, &wide.out[j], &call->out[j]);
  return w.status;
}
