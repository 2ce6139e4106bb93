/* WordPiece (BERT): cleans and normalises text, cuts it into words and punctuation, and covers each word with the
 * longest pieces from the left. */
#include "runtime/text/wordpiece.h"

#include <string.h>

/* ---- normalisation ---------------------------------------------------------------------------------------------- */

static int is_chinese(int32_t c) { /* CJK ideographs, as BERT lists them */
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
         (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

/* Characters that cleaning drops: control, format and private ones, NUL and U+FFFD. */
static int is_dropped(int32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return 0;
  if (c < 0x80) return c < 32 || c == 127;
  if (c == 0xfffd) return 1;
  const utf8proc_category_t category = utf8proc_category(c);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CS ||
         category == UTF8PROC_CATEGORY_CO;
}

typedef struct points {
  int32_t *at;
  size_t n;
} points;

/* Appends c without accents and in lower case, as t's flags say. Remaining marks keep their canonical order. */
static void put(const sl_tokenizer *t, points *p, int32_t c) {
  int32_t parts[8] = {c};
  int n = 1, boundary = 0;
  if (c < 0x80) {
    p->at[p->n++] = t->lower && c >= 'A' && c <= 'Z' ? c + 32 : c;
    return;
  }
  if (t->strip_accents) n = (int)utf8proc_decompose_char(c, parts, 8, UTF8PROC_DECOMPOSE, &boundary);
  if (n < 1 || n > 8) parts[0] = c, n = 1;
  for (int i = 0; i < n; i++) {
    const utf8proc_property_t *property = utf8proc_get_property(parts[i]);
    if (t->strip_accents && property->category == UTF8PROC_CATEGORY_MN) continue;
    int32_t small = t->lower ? utf8proc_tolower(parts[i]) : parts[i];
    if (t->lower && parts[i] == 0x130) { /* the only letter whose lower case has two characters */
      p->at[p->n++] = 'i';
      small = 0x307;
    }
    size_t where = p->n++;
    if (t->strip_accents && property->combining_class > 0)
      for (; where > 0 && utf8proc_get_property(p->at[where - 1])->combining_class > property->combining_class; where--)
        p->at[where] = p->at[where - 1];
    p->at[where] = small;
  }
}

sl_status sl__wordpiece_normalize(sl_tokenizer *t, const char *text, size_t bytes, size_t *n) {
  points p = {0};
  size_t used = 0;
  /* A character of two or more bytes becomes at most eight characters, which bounds all buffers. */
  if (bytes > SIZE_MAX / 64 || !sl__grow(&t->points, &t->points_room, 8 * bytes + 8, sizeof *t->points))
    return sl_no_memory("for %zu bytes of text", bytes);
  p.at = t->points;
  for (size_t at = 0; at < bytes;) {
    int32_t c;
    at += sl__character(text + at, bytes - at, &c);
    if (c < 0) c = 0xfffd;
    if (t->clean && is_dropped(c)) continue;
    if (t->clean && sl__white(c)) c = ' ';
    if (t->chinese && is_chinese(c)) {
      p.at[p.n++] = ' ';
      put(t, &p, c);
      p.at[p.n++] = ' ';
    } else {
      put(t, &p, c);
    }
  }
  if (!sl__grow(&t->buffer, &t->buffer_room, 4 * p.n + 1, 1)) return sl_no_memory("for %zu bytes of text", bytes);
  for (size_t i = 0; i < p.n; i++)
    if (p.at[i] < 0x80)
      t->buffer[used++] = (char)p.at[i];
    else
      used += (size_t)utf8proc_encode_char(p.at[i], (utf8proc_uint8_t *)t->buffer + used);
  *n = used;
  return SL_OK;
}

/* ---- words ------------------------------------------------------------------------------------------------------ */

static int is_punctuation(int32_t c) {
  if (c < 0x80) return c > 32 && c < 127 && !((c | 32) >= 'a' && (c | 32) <= 'z') && !(c >= '0' && c <= '9');
  const utf8proc_category_t category = utf8proc_category(c);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

sl_status sl__wordpiece_stretch(sl_tokenizer *t, const char *text, size_t n, sl__ids *ids) {
  size_t begin = 0;
  for (size_t at = 0; at < n;) {
    int32_t c;
    const size_t length = sl__character(text + at, n - at, &c);
    const int white = sl__white(c), alone = !white && is_punctuation(c);
    if (white || alone) {
      if (at > begin) SL_TRY(sl__word(t, text + begin, at - begin, ids));
      if (alone) SL_TRY(sl__word(t, text + at, length, ids));
      begin = at + length;
    }
    at += length;
  }
  return n > begin ? sl__word(t, text + begin, n - begin, ids) : SL_OK;
}

sl_status sl__wordpiece_word(sl_tokenizer *t, const char *word, size_t n, sl__ids *ids) {
  const size_t before = ids->n;
  int64_t characters = 0;
  for (size_t i = 0; i < n; i++) characters += ((unsigned char)word[i] & 0xc0) != 0x80;
  if (characters > t->most_characters) return sl__ids_add(ids, t->unknown);
  /* Pieces after the first are looked up with the prefix, such as ##. */
  if (!sl__grow(&t->heap, &t->heap_room, (t->prefix_bytes + n) / sizeof *t->heap + 1, sizeof *t->heap))
    return sl_no_memory("for a word of %zu bytes", n);
  char *piece = (char *)t->heap;
  memcpy(piece, t->prefix, t->prefix_bytes);
  for (size_t at = 0; at < n;) {
    const size_t prefix = at ? t->prefix_bytes : 0;
    const char *start = piece + t->prefix_bytes - prefix;
    size_t end = n - at <= t->longest ? n : at + t->longest;
    int64_t id = -1;
    memcpy(piece + t->prefix_bytes, word + at, end - at);
    for (; end > at; end--)
      if ((end == n || ((unsigned char)word[end] & 0xc0) != 0x80) &&
          (id = sl__strings_find(&t->names, start, prefix + end - at)) >= 0)
        break;
    if (id < 0) {
      ids->n = before;
      return sl__ids_add(ids, t->unknown);
    }
    SL_TRY(sl__ids_add(ids, (int32_t)id));
    at = end;
  }
  return SL_OK;
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

/* Writes a space before each token that begins a word. */
size_t sl__wordpiece_text(const sl_tokenizer *t, int32_t id, const char *name, size_t n, int first, char *out) {
  (void)id;
  const int goes_on = !first && n >= t->prefix_bytes && memcmp(name, t->prefix, t->prefix_bytes) == 0;
  const size_t prefix = goes_on ? t->prefix_bytes : 0, space = !first && !goes_on;
  if (space) out[0] = ' ';
  memcpy(out + space, name + prefix, n - prefix);
  return space + n - prefix;
}
