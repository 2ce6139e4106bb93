/* Files of a byte-level BPE, and the tokenizer of plain bytes. */
#ifndef SL_BPE_FILE_H
#define SL_BPE_FILE_H

#include "runtime/text/tokenizer_parts.h"

/* Reads a merges.txt. t must have its names. SL_EFORMAT names the line. */
sl_status sl__bpe_read_merges(const char *path, sl_tokenizer *t);
/* The tokenizer "bytes": id = byte, named by GPT-2's character for it. */
sl_status sl__bytes_new(sl_tokenizer **tokenizer);

#endif
