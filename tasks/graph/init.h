/* Initial contents of parameters and state. */
#ifndef SL_INIT_H
#define SL_INIT_H

#include "tasks/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fills the tensor `name` of this type and shape as init says. Random numbers are Philox of seed, name and the
 * element's index. */
void sl_init_fill(const sl_init *init, uint64_t seed, const char *name, sl_dtype dtype, const sl_shape *shape,
                  void *data);
/* Fills a part of the tensor `name` with the same numbers that the whole tensor has in that part. */
void sl_init_fill_part(const sl_init *init, uint64_t seed, const char *name, sl_dtype dtype, const sl_part *part,
                       void *data);

#ifdef __cplusplus
}
#endif
#endif
