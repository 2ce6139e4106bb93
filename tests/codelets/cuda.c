/* Cases on a GPU: arrays there and back, one call between. */
#include "tests/codelets/cuda.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifndef SL_HAVE_CUDA
const char *cuda_case_missing(void) { return "this build has no CUDA"; }

sl_status cuda_case_run(const sl_operation *op, const sl_call *call) {
  (void)call;
  return sl_fail(SL_EUNSUPPORTED, "%s: this build has no CUDA", op->name);
}
#endif
