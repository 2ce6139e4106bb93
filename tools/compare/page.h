/* What the pages and files of `starling compare` and `starling scale` have in common. A page has the style of `starling
 * report`, and no script. */
#ifndef SL_TOOLS_COMPARE_PAGE_H
#define SL_TOOLS_COMPARE_PAGE_H

#include <stdio.h>

#include "tools/settings/options.h"

/* The page's beginning, its heading (subject and model) included. */
void sl__page_begin(FILE *to, const char *subject, const char *model);
/* "How to repeat it": the command line. */
sl_status sl__page_repeat(FILE *to, const sl__options *options);
void sl__page_end(FILE *to);

/* The command line, quoted for a shell; the caller frees it. */
sl_status sl__page_command(const sl__options *options, char **text);
/* Writes a file of the folder --out. */
sl_status sl__page_file(const sl__options *options, const char *name, const char *text);

#endif
