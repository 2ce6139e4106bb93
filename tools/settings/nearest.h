/* Finds the known name that is nearest to a misspelt word. */
#ifndef SL_TOOLS_NEAREST_H
#define SL_TOOLS_NEAREST_H

#include <stddef.h>

/* The candidate nearest to word by edit distance, or NULL when none is near. */
const char *sl__nearest(const char *word, const char *const *candidates, int n);
/* "; did you mean 'NAME'?", or "" when none is near; text has room for n bytes. */
char *sl__suggestion(const char *word, const char *const *candidates, int count, char *text, size_t n);

#endif
