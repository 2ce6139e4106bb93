/* Files of a byte-level BPE, and the tokenizer of plain bytes. */
#ifndef SL_BPE_FILE_H
#define SL_BPE_FILE_H

#include "runtime/text/tokenizer_parts.h"

/* Reads a merges.txt. Names must be there. SL_EFORMAT names the line. */
sl_status sl__bpe_read_merges(const char *path, sl_tokenizer *t);
/* The tokenizer "bytes": id = byte. Its names are those by which GPT-2 writes bytes. */
sl_status sl__bytes_new(sl_tokenizer **tokenizer);

#endif
