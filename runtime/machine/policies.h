/* Scheduling policies by name: those of the installed StarPU, and those of a shared library of one's own.
 *
 * A library defines, as StarPU 1.4 asks of one,
 *
 *   struct starpu_sched_policy **starpu_get_sched_lib_policies(void);    all of its policies, NULL behind the last
 *
 * where starpu_sched_policy (starpu_scheduler.h) is StarPU's own interface. It is loaded once and stays for the life of
 * the process, since StarPU calls into it until it has shut down. */
#ifndef SL_POLICIES_H
#define SL_POLICIES_H

#include <stddef.h>

#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct starpu_sched_policy;

/* "mine, eager, lws": those of the library first, then StarPU's. library: a path, or NULL for none. SL_ENOTFOUND: no
 * such file; SL_EFORMAT: it cannot be loaded, or has no policies. */
sl_status sl_policies_names(const char *library, char *text, size_t n);
/* The policy of that name; of NULL the library's first, and without a library "lws". *own: whether it is the
 * library's. Further errors: SL_EINVAL, listing the policies that there are. */
sl_status sl_policies_find(const char *library, const char *name, struct starpu_sched_policy **policy, int *own);

/* Whether a policy of that name goes by StarPU's performance models: dm..., and all with heft in their names. */
int sl_policies_need_models(const char *name);

#ifdef __cplusplus
}
#endif
#endif
