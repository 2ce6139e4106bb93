/* Scheduling policies by name: StarPU's own, and the user's in a shared library.
 *
 * A library defines this function, as StarPU 1.4 requires:
 *
 *   struct starpu_sched_policy **starpu_get_sched_lib_policies(void);    all of its policies; ends with NULL
 *
 * where starpu_sched_policy (starpu_scheduler.h) is StarPU's own interface. It is loaded once and never
 * unloaded, since StarPU calls into it until it has shut down. */
#ifndef SL_POLICIES_H
#define SL_POLICIES_H

#include <stddef.h>

#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct starpu_sched_policy;

#define SL_POLICY_STANDARD "lws" /* where neither an option nor a library names one */

/* "mine, eager, lws": the library's policies first, then StarPU's. library: a path, or NULL for none. SL_ENOTFOUND: no
 * such file; SL_EFORMAT: it cannot be loaded, or has no policies. */
sl_status sl_policies_names(const char *library, char *text, size_t n);
/* Finds the policy of that name. NULL means the library's first policy or, without a library, SL_POLICY_STANDARD. *own:
 * whether the library defines it. Further errors: SL_EINVAL, listing the policies that there are. */
sl_status sl_policies_find(const char *library, const char *name, struct starpu_sched_policy **policy, int *own);

/* Whether a policy of that name uses StarPU's performance models: names that begin with dm or contain heft. */
int sl_policies_need_models(const char *name);

#ifdef __cplusplus
}
#endif
#endif
