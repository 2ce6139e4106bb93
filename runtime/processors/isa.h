/* Instruction sets of CPU kernels, chosen at start so that one binary serves every machine. The choice is part of the
 * plan, because fused multiply-adds change bits. */
#ifndef SL_ISA_H
#define SL_ISA_H

#include <stddef.h>

#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Ascending: a CPU that runs one also runs all before it. (The macros SL_ISA_BASE, SL_ISA_AVX2 and SL_ISA_AVX512 are
 * compiler flags of kernel files; these names differ from them on purpose.) */
typedef enum sl_isa {
  SL_ISA_BASELINE,  /* whatever the compiler's default target has: "base" (SSE2 on x86-64), "neon" on arm64 */
  SL_ISA_AVX2_FMA,  /* "avx2": AVX2 and FMA */
  SL_ISA_AVX512_VL, /* "avx512": AVX-512 F, BW, DQ and VL */
  SL_ISA_COUNT
} sl_isa;

const char *sl_isa_name(sl_isa isa);
int sl_isa_runs(sl_isa isa); /* whether this CPU and its operating system run it, and this build has it */
sl_isa sl_isa_best(void);    /* the most advanced that runs here */

/* Whether this CPU multiplies bf16 by tiles (AMX: amx_bf16) and the system lets this process do so; the first call asks
 * it. */
int sl_isa_has_tiles(void);

/* Finds the instruction set of that name. SL_EINVAL: unknown, lists the choices; SL_EUNSUPPORTED: this CPU cannot run
 * it. */
sl_status sl_isa_parse(const char *name, sl_isa *isa);

/* Whether kernels of two names give the same bits: all of those with fused multiply-adds do (avx2, avx512, neon). */
int sl_isa_same_bits(const char *a, const char *b);
/* The instruction set to use here for a plan that names this one: the same if it runs here; else the best here if it
 * gives the same bits; else the same name, which sl_isa_parse refuses. */
const char *sl_isa_like(const char *name);

/* The instruction set that kernels use in this process: sl_isa_best() until sl_isa_use chooses another.
 * sl_runtime_start calls sl_isa_use, before the first task. */
sl_isa sl_isa_current(void);
sl_status sl_isa_use(sl_isa isa);

#ifdef __cplusplus
}
#endif
#endif
