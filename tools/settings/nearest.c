/* Finds the known name that is nearest to a misspelt word, for error messages. */
#include "tools/settings/nearest.h"

#include <stdio.h>
#include <string.h>

/* Edit distance in which a swap of neighbours counts as one edit (Damerau 1964, restricted form). Words are short. */
static int distance(const char *a, const char *b) {
  enum { MOST = 64 };
  int rows[3][MOST + 1];
  int n = (int)strlen(a), m = (int)strlen(b);
  if (n > MOST || m > MOST) return n > m ? n : m;
  for (int j = 0; j <= m; j++) rows[0][j] = j;
  for (int i = 1; i <= n; i++) {
    int *row = rows[i % 3], *above = rows[(i - 1) % 3], *above2 = rows[(i + 1) % 3];
    row[0] = i;
    for (int j = 1; j <= m; j++) {
      int best = above[j - 1] + (a[i - 1] != b[j - 1]);
      if (above[j] + 1 < best) best = above[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && above2[j - 2] + 1 < best)
        best = above2[j - 2] + 1;
      row[j] = best;
    }
  }
  return rows[n % 3][m];
}

const char *sl__nearest(const char *word, const char *const *candidates, int n) {
  const char *best = NULL;
  int least = 0;
  for (int i = 0; i < n; i++) {
    int d = distance(word, candidates[i]);
    size_t n_word = strlen(word);
    if (n_word > 2 && strncmp(candidates[i], word, n_word) == 0) d = 1; /* an abbreviation, such as --threads */
    if (!best || d < least) best = candidates[i], least = d;
  }
  int length = (int)strlen(word);
  return best && least <= (length < 4 ? 1 : length < 8 ? 3 : length / 2) ? best : NULL;
}

char *sl__suggestion(const char *word, const char *const *candidates, int count, char *text, size_t n) {
  const char *near = sl__nearest(word, candidates, count);
  if (near)
    snprintf(text, n, "; did you mean '%s'?", near);
  else if (n)
    text[0] = 0;
  return text;
}
