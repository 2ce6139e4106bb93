/* The masks of operation.h: bit i stands for argument i, and the last bit for all further arguments. Private to tasks/.
 */
#ifndef SL_MASKS_H
#define SL_MASKS_H

#include <stdint.h>

static inline int sl__mask_has(uint32_t mask, int i) { return mask >> (i < 31 ? i : 31) & 1; }

#endif
