/* The facts that must be the same on all ranks of a job, as lines "NAME: VALUE" for sl__ranks_compare. */
#ifndef SL_TOOLS_DIGEST_H
#define SL_TOOLS_DIGEST_H

#include "tools/files/model_file.h"
#include "tools/settings/options.h"

/* The caller must free(*text). */
sl_status sl__digest(const sl__options *options, const sl__model_facts *facts, const sl_data *data, char **text);

/* Digest, in hexadecimal, of this rank's parameters and state. Call it between steps. */
enum { SL__DIGEST_TEXT = 20 };
sl_status sl__state_digest(sl_store *store, char text[SL__DIGEST_TEXT]);

#endif
