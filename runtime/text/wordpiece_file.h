/* Files of a WordPiece. */
#ifndef SL_WORDPIECE_FILE_H
#define SL_WORDPIECE_FILE_H

#include "runtime/text/tokenizer_parts.h"

/* Opens a vocab.txt: one token a line. SL_EFORMAT names the line. */
sl_status sl__wordpiece_open(const char *path, sl_tokenizer **tokenizer);

#endif
