/* Finds the model, data description and usual settings of weights that other libraries published. */
#ifndef SL_TOOLS_PUBLISHED_H
#define SL_TOOLS_PUBLISHED_H

#include "tools/files/model_file.h"

/* From config.json and preprocessor_config.json beside the weights, where they are there, and from names and shapes:
 * the model, with the sizes that these tell unless the wish settles them, its data with the normalisation that the
 * library uses, and usual values for the rest. *config: of config.json; its format is NULL where there is none. */
sl_status sl__published_facts(const sl_weights *weights, const sl_format *format, const sl__model_wish *wish,
                              sl_config *config, sl__model_facts *facts);
void sl__published_clear(sl__model_facts *facts);

/* Writes the network's tensors under the format's names: to a folder (made if missing) with a config.json or, for
 * torchvision, which has no config.json, to a file. */
sl_status sl__published_save(const char *path, const sl_format *format, const sl_network *network, sl_store *store,
                             const sl__model_facts *facts, int64_t shard_bytes);

#endif
