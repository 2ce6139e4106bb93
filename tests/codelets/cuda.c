/* Runs cases on a GPU: copies arrays to the device, runs the kernel, and copies them back. Beside the case's own check
 * of the result, each run checks properties of every CUDA kernel: it gives the bits of the CPU kernel, writes only to
 * its outputs, needs no more scratch memory than its rule says, and gives the same bits again, also if arrays begin at
 * addresses that vector loads may not use. */
#include "tests/codelets/cuda.h"

#include <string.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifndef SL_HAVE_CUDA
int cuda_case_built(void) { return 0; }
const char *cuda_case_missing(void) { return "this build has no CUDA"; }

sl_status cuda_case_run(const sl_operation *op, const sl_call *call, int fast) {
  (void)call, (void)fast;
  return sl_fail(SL_EUNSUPPORTED, "%s: this build has no CUDA", op->name);
}
#else
#include <cuda_runtime_api.h>
#include <stdlib.h>

#include "codelets/codelets.h"
#include "codelets/kernels/product_sizes.h"
#include "runtime/processors/cuda_context.h"
#include "tasks/graph/storage.h"

int cuda_case_built(void) { return 1; }
const char *cuda_case_missing(void) { return sl_cuda_devices() > 0 ? NULL : "no GPU"; }

enum {
  MOST = 64,
  GUARD = 256,
  SHIFT = 8
}; /* bytes before and behind every array; of an address that only doubles may have */

/* One array of one or more arguments. Arguments that share memory (updates, outputs in place) share the copy. */
typedef struct buffer {
  char *host, *before, *first; /* the caller's array; its first contents; its contents after the first run */
  size_t bytes;
  char *device; /* GUARD bytes, the array, GUARD bytes */
} buffer;

typedef struct copies {
  buffer buffer[MOST];
  int n;
  size_t shift; /* of all arrays from the allocations' alignment */
} copies;

static sl_status check(cudaError_t error, const char *what) {
  return error == cudaSuccess ? SL_OK : sl_fail(SL_ETASK, "%s: %s", what, cudaGetErrorString(error));
}

static size_t bytes_of(const sl_array *a) { return (size_t)sl_shape_count(&a->shape) * sl_dtype_bytes(a->dtype); }

/* Registers an array; of arrays that begin at one address the longest counts. */
static sl_status note(copies *all, const sl_array *a) {
  for (int p = 0; p < a->parts; p++) {
    const sl_array *part = a->parts > 1 ? &a->part[p] : a;
    int i = 0;
    while (i < all->n && all->buffer[i].host != part->data) i++;
    if (i == MOST) return sl_fail(SL_EINVAL, "a case of more than %d arrays", MOST);
    if (i == all->n) all->buffer[all->n++].host = part->data;
    if (bytes_of(part) > all->buffer[i].bytes) all->buffer[i].bytes = bytes_of(part);
  }
  return SL_OK;
}

static sl_status upload(copies *all) {
  for (int i = 0; i < all->n; i++) {
    buffer *b = &all->buffer[i];
    size_t whole = b->bytes + 2 * GUARD + SHIFT;
    if (!b->device) SL_TRY(check(cudaMalloc((void **)&b->device, whole), "cudaMalloc"));
    SL_TRY(check(cudaMemset(b->device, 0xab, whole), "cudaMemset"));
    SL_TRY(check(cudaMemcpy(b->device + GUARD + all->shift, b->before, b->bytes, cudaMemcpyHostToDevice), "upload"));
  }
  return SL_OK;
}

/* The device address of a caller's array. */
static void *device_of(const copies *all, const void *host) {
  for (int i = 0; i < all->n; i++)
    if (all->buffer[i].host == host) return all->buffer[i].device + GUARD + all->shift;
  return NULL;
}

/* Runs the kernel on the copies, waits, and copies all arrays back to `host`; the guard bytes must be unchanged. */
static sl_status once(copies *all, const sl_operation *op, int fast, const sl_call *call, sl_cuda *cuda) {
  sl_array in[MOST], out[MOST], part[MOST], wide[3 * MOST];
  sl_call there = *call;
  int n = 0;
  SL_TRY(upload(all));
  for (int i = 0; i < call->n_in; i++) {
    in[i] = call->in[i];
    in[i].data = in[i].parts > 1 ? NULL : device_of(all, call->in[i].data);
    in[i].part = in[i].parts > 1 ? &part[n] : &in[i];
    for (int p = 0; in[i].parts > 1 && p < in[i].parts; p++, n++) {
      part[n] = call->in[i].part[p];
      part[n].data = device_of(all, call->in[i].part[p].data);
      part[n].part = &part[n];
    }
  }
  for (int j = 0; j < call->n_out; j++) {
    out[j] = call->out[j];
    out[j].data = device_of(all, call->out[j].data);
    out[j].part = &out[j];
  }
  there.in = in, there.out = out, there.team = NULL;
  there.scratch_bytes = sl_operation_scratch_cuda(op, fast, call);
  SL_TRY(sl_operation_run_cuda(op, &sl_op_convert, fast, &there, cuda, sl_cuda_scratch_memory(cuda), wide));
  SL_TRY(check(cudaDeviceSynchronize(), op->name));
  for (int i = 0; i < all->n; i++) {
    buffer *b = &all->buffer[i];
    char around[2 * GUARD];
    SL_TRY(check(cudaMemcpy(around, b->device + all->shift, GUARD, cudaMemcpyDeviceToHost), "download"));
    SL_TRY(check(cudaMemcpy(around + GUARD, b->device + GUARD + all->shift + b->bytes, GUARD, cudaMemcpyDeviceToHost),
                 "download"));
    for (int k = 0; k < 2 * GUARD; k++)
      if (around[k] != (char)0xab)
        return sl_fail(SL_ETASK, "%s writes beyond an array of %zu bytes", op->name, b->bytes);
    SL_TRY(check(cudaMemcpy(b->host, b->device + GUARD + all->shift, b->bytes, cudaMemcpyDeviceToHost), "download"));
    int written = 0;
    for (int j = 0; j < call->n_out; j++) written |= call->out[j].data == b->host;
    if (!written && memcmp(b->host, b->before, b->bytes) != 0)
      return sl_fail(SL_ETASK, "%s writes to an input", op->name);
  }
  return SL_OK;
}

static sl_status same_as_first(const copies *all, const sl_operation *op, const char *when) {
  for (int i = 0; i < all->n; i++)
    if (memcmp(all->buffer[i].host, all->buffer[i].first, all->buffer[i].bytes) != 0)
      return sl_fail(SL_ETASK, "%s: other bits %s", op->name, when);
  return SL_OK;
}

/* Runs the best CPU kernel on the case's first contents and compares its outputs with the GPU's. */
static sl_status same_as_cpu(const copies *all, const sl_operation *op, const sl_call *call) {
  const sl_isa isa = sl_isa_runs(SL_ISA_AVX512_VL) ? SL_ISA_AVX512_VL : SL_ISA_AVX2_FMA;
  if (!call->team || !sl_isa_runs(isa) || !op->cpu[isa]) return SL_OK; /* the baseline's bits are its own */
  for (int i = 0; i < all->n; i++) memcpy(all->buffer[i].host, all->buffer[i].before, all->buffer[i].bytes);
  sl_call here = *call;
  here.scratch_bytes = sl_operation_scratch(op, call);
  SL_TRY(sl_team_reserve(call->team, here.scratch_bytes));
  SL_TRY(sl_operation_run(op, &sl_op_convert, isa, &here));
  for (int j = 0; j < call->n_out; j++)
    for (int i = 0; i < all->n; i++) {
      const buffer *b = &all->buffer[i];
      if (b->host != call->out[j].data || memcmp(b->host, b->first, b->bytes) == 0) continue;
      size_t at = 0;
      while (b->host[at] == b->first[at]) at++;
      return sl_fail(SL_ETASK, "%s: output %d differs from the CPU kernel's at byte %zu of %zu", op->name, j, at,
                     b->bytes);
    }
  return SL_OK;
}

sl_status cuda_case_run(const sl_operation *op, const sl_call *call, int fast) {
  if (!op->cuda) return sl_fail(SL_EUNSUPPORTED, "%s has no CUDA kernel", op->name);
  sl_status status = SL_OK;
  sl_cuda *cuda = NULL;
  copies all = {.n = 0};
  int parts = call->n_out;
  for (int i = 0; i < call->n_in; i++) parts += call->in[i].parts;
  if (parts > MOST) return sl_fail(SL_EINVAL, "%s: a case of more than %d arrays", op->name, MOST);
  for (int i = 0; i < call->n_in; i++) SL_TRY_OUT(note(&all, &call->in[i]));
  for (int j = 0; j < call->n_out; j++) SL_TRY_OUT(note(&all, &call->out[j]));
  for (int i = 0; i < all.n; i++) {
    buffer *b = &all.buffer[i];
    b->before = malloc(b->bytes + 1), b->first = malloc(b->bytes + 1);
    if (!b->before || !b->first) SL_TRY_OUT(sl_no_memory("for a case of %s", op->name));
    memcpy(b->before, b->host, b->bytes);
  }
  fast = fast && op->cuda_fast;
  if (fast) sl__fast_bytes = 1 << 14; /* so that the cases need several stretches of rows */
  cuda = sl_cuda_create(NULL, sl_operation_scratch_cuda(op, fast, call), &status);
  if (status != SL_OK) goto out;
  if (fast) SL_TRY_OUT(sl_cuda_open_blas(cuda, SL_GPU_FAST, 0));
  SL_TRY_OUT(once(&all, op, fast, call, cuda));
  for (int i = 0; i < all.n; i++) memcpy(all.buffer[i].first, all.buffer[i].host, all.buffer[i].bytes);
  SL_TRY_OUT(once(&all, op, fast, call, cuda));
  SL_TRY_OUT(same_as_first(&all, op, "the second time"));
  if (fast) goto out; /* cuBLAS may have other kernels, with other bits, for other addresses */
  all.shift = SHIFT;
  SL_TRY_OUT(same_as_cpu(&all, op, call));
  SL_TRY_OUT(once(&all, op, fast, call, cuda));
  SL_TRY_OUT(same_as_first(&all, op, "at other addresses"));
out:
  for (int i = 0; i < all.n; i++) {
    free(all.buffer[i].before);
    free(all.buffer[i].first);
    (void)cudaFree(all.buffer[i].device);
  }
  sl_cuda_destroy(cuda);
  return status;
}
#endif
