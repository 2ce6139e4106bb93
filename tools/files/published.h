/* Finds the model, data description and usual settings of weights that other libraries published. */
#ifndef SL_TOOLS_PUBLISHED_H
#define SL_TOOLS_PUBLISHED_H

#include "tools/files/model_file.h"

/* Derives model, data and usual settings from names and shapes, and from config.json and preprocessor_config.json
 * beside the weights if they exist. The user's sizes override those found; the normalisation is the library's. *config:
 * contents of config.json; its format is NULL if there is none. */
sl_status sl__published_facts(const sl_weights *weights, const sl_format *format, const sl__model_wish *wish,
                              sl_config *config, sl__model_facts *facts);
void sl__published_clear(sl__model_facts *facts);

/* Writes the network's tensors under the format's names: to a folder (made if missing) with a config.json or, for
 * torchvision, which has no config.json, to a file. dtype: F32, BF16 or F16 of all floats; SL_EINVAL names a tensor
 * that F16 cannot hold. */
sl_status sl__published_save(const char *path, const sl_format *format, const sl_network *network, sl_store *store,
                             const sl__model_facts *facts, sl_dtype dtype, int64_t shard_bytes);

#endif
