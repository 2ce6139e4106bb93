/* Files mapped for reading. If another program cuts a mapped file short, or its disk fails, an access raises SIGBUS,
 * which would end the process without a message. Here the access reads zeros instead, and sl_mapping_check then names
 * the file. */
#ifndef SL_MAPPING_H
#define SL_MAPPING_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_mapping sl_mapping;

/* Maps the first bytes > 0 of an open regular file; fd can be closed afterwards, and path names the file in errors.
 * Installs a handler of SIGBUS that passes faults elsewhere to the previous handler. A thread that reads mapped files
 * must not block SIGBUS. SL_EIO, SL_ENOMEM. */
sl_status sl_mapping_open(int fd, const char *path, size_t bytes, sl_mapping **mapping);
void sl_mapping_close(sl_mapping *mapping); /* NULL is allowed; no thread may be reading the data */

const uint8_t *sl_mapping_data(const sl_mapping *mapping);

/* The path given to sl_mapping_open. A thread that reads the data calls sl_activity_begin_call for each piece of at
 * most SL_MAPPING_PIECE bytes, because the disk may delay each access. */
const char *sl_mapping_path(const sl_mapping *mapping);
enum { SL_MAPPING_PIECE = 1 << 20 };

/* Call after reading and before using the data. SL_EIO: data may have been read as zeros. */
sl_status sl_mapping_check(const sl_mapping *mapping);

#ifdef __cplusplus
}
#endif
#endif
