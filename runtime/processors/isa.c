/* The choice of instruction set. */
#include "runtime/processors/isa.h"

#include <string.h>

#ifdef SL_HAVE_X86_KERNELS
#include <cpuid.h>
#endif
#if defined SL_HAVE_AMX && defined __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#ifdef __aarch64__
#define BASELINE "neon"
#else
#define BASELINE "base"
#endif
static const char *const names[SL_ISA_COUNT] = {BASELINE, "avx2", "avx512"};
/* Instruction sets, of all CPUs, with fused multiply-adds. */
static const char *const fused[] = {"avx2", "avx512", "neon"};
static int current = -1;

const char *sl_isa_name(sl_isa isa) { return (unsigned)isa < SL_ISA_COUNT ? names[isa] : "unknown"; }

static int fuses(const char *name) {
  for (size_t i = 0; i < sizeof fused / sizeof *fused; i++)
    if (strcmp(name, fused[i]) == 0) return 1;
  return 0;
}

int sl_isa_same_bits(const char *a, const char *b) { return strcmp(a, b) == 0 || (fuses(a) && fuses(b)); }

const char *sl_isa_like(const char *name) {
  for (int i = 0; i < SL_ISA_COUNT; i++)
    if (strcmp(name, names[i]) == 0 && sl_isa_runs((sl_isa)i)) return names[i];
  const char *best = names[sl_isa_best()];
  return sl_isa_same_bits(name, best) ? best : name;
}

#ifdef SL_HAVE_X86_KERNELS
/* Conversions between float and fp16. (clang's __builtin_cpu_supports does not know them.) */
static int has_f16c(void) {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

static unsigned ask(void) { /* bits 1 << isa of the instruction sets that run here */
  unsigned sets = 1u << SL_ISA_BASELINE;
#ifdef SL_HAVE_X86_KERNELS /* set by the build if the compiler can make them */
  /* The compiler's runtime checks the CPU, and that the system saves the wide registers. */
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c()) return sets;
  sets |= 1u << SL_ISA_AVX2_FMA;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    sets |= 1u << SL_ISA_AVX512_VL;
#endif
  return sets;
}

/* Asks the CPU once: in a virtual machine each CPUID takes many microseconds. */
int sl_isa_runs(sl_isa isa) {
  static _Atomic unsigned known;
  unsigned sets = known;
  if (sets == 0) known = sets = ask();
  return (unsigned)isa < SL_ISA_COUNT && (sets >> isa & 1);
}

#if defined SL_HAVE_AMX && defined __linux__
/* Leaf 7: amx_bf16 and amx_tile. The system saves tiles only for processes that ask for it. */
static int ask_for_tiles(void) {
  enum { BF16 = 1 << 22, TILE = 1 << 24, ARCH_REQ_XCOMP_PERM = 0x1023, XTILE_DATA = 18 };
  unsigned a, b, c, d;
  return sl_isa_runs(SL_ISA_AVX512_VL) && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & BF16) && (d & TILE) &&
         syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILE_DATA) == 0;
}
#else
static int ask_for_tiles(void) { return 0; }
#endif

int sl_isa_has_tiles(void) {
  static _Atomic int known = -1;
  int has = known;
  if (has < 0) known = has = ask_for_tiles();
  return has;
}

sl_isa sl_isa_best(void) {
  for (int isa = SL_ISA_COUNT - 1; isa > 0; isa--)
    if (sl_isa_runs((sl_isa)isa)) return (sl_isa)isa;
  return SL_ISA_BASELINE;
}

static sl_status refuse(const char *name) {
  return sl_fail(SL_EUNSUPPORTED, "this CPU or build cannot run kernels '%s'; the best that runs here is '%s'", name,
                 sl_isa_name(sl_isa_best()));
}

sl_status sl_isa_parse(const char *name, sl_isa *isa) {
  for (int i = 0; i < SL_ISA_COUNT; i++) {
    if (strcmp(name, names[i]) != 0) continue;
    if (!sl_isa_runs((sl_isa)i)) return refuse(name);
    *isa = (sl_isa)i;
    return SL_OK;
  }
  if (fuses(name) || strcmp(name, "base") == 0) return refuse(name);
  return sl_fail(SL_EINVAL, "unknown kernels '%s'; the choices are base, avx2, avx512, neon", name);
}

sl_isa sl_isa_current(void) { return current < 0 ? sl_isa_best() : (sl_isa)current; }

sl_status sl_isa_use(sl_isa isa) {
  if (!sl_isa_runs(isa)) return refuse(sl_isa_name(isa));
  current = isa;
  return SL_OK;
}
