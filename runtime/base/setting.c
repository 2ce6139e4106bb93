/* Reads one field of a struct from text or JSON and writes it back. The field's sl_setting says where it is and what it
 * may hold. */
#include "runtime/base/setting.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *at(const sl_setting *s, void *base) { return (char *)base + s->offset; }
static const void *in(const sl_setting *s, const void *base) { return (const char *)base + s->offset; }
static int is_text(const sl_setting *s) { return s->kind == SL_SETTING_TEXT || s->kind == SL_SETTING_CHOICE; }

void sl_setting_unset(const sl_setting *s, void *base) {
  switch (s->kind) {
    case SL_SETTING_INTEGER:
      *(int64_t *)at(s, base) = -1;
      break;
    case SL_SETTING_REAL:
      *(double *)at(s, base) = NAN;
      break;
    case SL_SETTING_NAMED:
      *(int *)at(s, base) = -1;
      break;
    case SL_SETTING_FLAG:
      *(int *)at(s, base) = 0;
      break;
    default:
      *(char **)at(s, base) = NULL;
  }
}

void sl_setting_free(const sl_setting *s, void *base) {
  if (is_text(s)) free(*(char **)at(s, base));
}

void sl_setting_copy(const sl_setting *s, void *to, const void *from) {
  if (s->kind == SL_SETTING_INTEGER || s->kind == SL_SETTING_REAL)
    memcpy(at(s, to), in(s, from), 8);
  else
    *(int *)at(s, to) = *(const int *)in(s, from);
}

int sl_setting_given(const sl_setting *s, const void *base) {
  const void *field = in(s, base);
  switch (s->kind) {
    case SL_SETTING_INTEGER:
      return *(const int64_t *)field >= 0;
    case SL_SETTING_REAL:
      return !isnan(*(const double *)field);
    case SL_SETTING_NAMED:
      return *(const int *)field >= 0;
    case SL_SETTING_FLAG:
      return *(const int *)field;
    default:
      return *(char *const *)field != NULL;
  }
}

const char *sl_setting_argument(const sl_setting *s, char *text, size_t n) {
  if (s->kind != SL_SETTING_NAMED) return s->argument;
  size_t used = 0;
  for (int i = 0; s->names[i] && used < n; i++)
    used += (size_t)snprintf(text + used, n - used, "%s%s", i ? "|" : "", s->names[i]);
  return text;
}

/* ---- from text -------------------------------------------------------------------------------------------------- */

static sl_status set_text(char **field, const char *text) {
  char *copy = strdup(text);
  if (!copy) return sl_no_memory("for an option");
  free(*field);
  *field = copy;
  return SL_OK;
}

static sl_status no_such(const sl_setting *s, const char *where, const char *text) {
  char list[256];
  return sl_fail(SL_EINVAL, "%s%s: unknown value '%s'; choose %s", where, s->option, text,
                 sl_setting_argument(s, list, sizeof list));
}

static sl_status set_choice(const sl_setting *s, const char *where, char **field, const char *text) {
  char list[256], *rest = list;
  snprintf(list, sizeof list, "%s", s->argument);
  for (char *word; (word = strsep(&rest, "|"));)
    if (strcmp(word, text) == 0) return set_text(field, text);
  return no_such(s, where, text);
}

static sl_status set_named(const sl_setting *s, const char *where, int *field, const char *text) {
  for (int i = 0; s->names[i]; i++)
    if (strcmp(s->names[i], text) == 0) {
      *field = i;
      return SL_OK;
    }
  return no_such(s, where, text);
}

/* 300000000000, which may be written as 3e11. */
static long long whole_number(const char *text, char **end) {
  const long long value = strtoll(text, end, 10);
  if (!strchr("eE.", **end) || !**end) return value;
  char *rest;
  const double number = strtod(text, &rest);
  if (number != floor(number) || fabs(number) > 9e15) return value; /* beyond that not every whole number is a double */
  *end = rest;
  return (long long)number;
}

static sl_status set_integer(const sl_setting *s, const char *where, int64_t *field, const char *text) {
  char *end;
  errno = 0;
  const long long value = whole_number(text, &end);
  if (!*text || *end) return sl_fail(SL_EINVAL, "%s%s: '%s' is not a whole number", where, s->option, text);
  if (errno || (double)value < s->least || (double)value > s->most)
    return sl_fail(SL_EINVAL, "%s%s: %s is out of range, from %.0f to %.0f", where, s->option, text, s->least, s->most);
  *field = value;
  return SL_OK;
}

static sl_status set_real(const sl_setting *s, const char *where, double *field, const char *text) {
  char *end;
  const double value = strtod(text, &end);
  if (!*text || *end || isnan(value)) return sl_fail(SL_EINVAL, "%s%s: '%s' is not a number", where, s->option, text);
  if (!(value >= s->least && value <= s->most))
    return sl_fail(SL_EINVAL, "%s%s: %s is out of range, from %g to %g", where, s->option, text, s->least, s->most);
  *field = value;
  return SL_OK;
}

static sl_status set_flag(const sl_setting *s, const char *where, int *field, const char *text) {
  static const char *const words[2][3] = {{"false", "no", "off"}, {"true", "yes", "on"}};
  for (int value = 0; text && value < 2; value++)
    for (int i = 0; i < 3; i++)
      if (strcmp(words[value][i], text) == 0) {
        *field = value;
        return SL_OK;
      }
  if (text) return sl_fail(SL_EINVAL, "%s%s: '%s' is neither true nor false", where, s->option, text);
  *field = 1;
  return SL_OK;
}

sl_status sl_setting_set(const sl_setting *s, void *base, const char *where, const char *text) {
  void *field = at(s, base);
  switch (s->kind) {
    case SL_SETTING_TEXT:
      return *text ? set_text(field, text) : sl_fail(SL_EINVAL, "%s%s: the value is empty", where, s->option);
    case SL_SETTING_CHOICE:
      return set_choice(s, where, field, text);
    case SL_SETTING_NAMED:
      return set_named(s, where, field, text);
    case SL_SETTING_FLAG:
      return set_flag(s, where, field, text);
    case SL_SETTING_INTEGER:
      return set_integer(s, where, field, text);
    default:
      return set_real(s, where, field, text);
  }
}

/* ---- to text ---------------------------------------------------------------------------------------------------- */

const char *sl_setting_text(const sl_setting *s, const void *base, char text[SL_SETTING_BYTES]) {
  const void *field = in(s, base);
  if (!sl_setting_given(s, base)) return NULL;
  switch (s->kind) {
    case SL_SETTING_INTEGER:
      snprintf(text, SL_SETTING_BYTES, "%lld", (long long)*(const int64_t *)field);
      return text;
    case SL_SETTING_REAL: /* the fewest digits that read back as the same number */
      for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, SL_SETTING_BYTES, "%.*g", digits, *(const double *)field);
        if (strtod(text, NULL) == *(const double *)field) break;
      }
      return text;
    case SL_SETTING_FLAG:
      return "true";
    case SL_SETTING_NAMED:
      return s->names[*(const int *)field];
    default:
      return *(char *const *)field;
  }
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

json_t *sl_setting_to_json(const sl_setting *s, const void *base) {
  const void *field = in(s, base);
  switch (s->kind) {
    case SL_SETTING_INTEGER:
      return json_integer((json_int_t) * (const int64_t *)field);
    case SL_SETTING_REAL:
      return json_real(*(const double *)field);
    case SL_SETTING_FLAG:
      return json_boolean(*(const int *)field);
    case SL_SETTING_NAMED:
      return json_string(s->names[*(const int *)field]);
    default:
      return json_string(*(char *const *)field);
  }
}

sl_status sl_setting_from_json(const sl_setting *s, void *base, const json_t *value) {
  void *field = at(s, base);
  const char *wanted = "a text";
  switch (s->kind) {
    case SL_SETTING_INTEGER:
      if (json_is_integer(value)) *(int64_t *)field = json_integer_value(value);
      wanted = json_is_integer(value) ? NULL : "a whole number";
      break;
    case SL_SETTING_REAL:
      if (json_is_number(value)) *(double *)field = json_number_value(value);
      wanted = json_is_number(value) ? NULL : "a number";
      break;
    case SL_SETTING_FLAG:
      if (json_is_boolean(value)) *(int *)field = json_is_true(value);
      wanted = json_is_boolean(value) ? NULL : "true or false";
      break;
    default: {
      if (!json_is_string(value)) break;
      const sl_status status = sl_setting_set(s, base, "", json_string_value(value));
      return status == SL_EINVAL ? sl_fail(SL_EFORMAT, "%s", sl_error()) : status;
    }
  }
  return wanted ? sl_fail(SL_EFORMAT, "%s is not %s", s->field, wanted) : SL_OK;
}

int sl_setting_equal(const sl_setting *s, const void *a, const void *b) {
  const void *x = in(s, a), *y = in(s, b);
  switch (s->kind) {
    case SL_SETTING_INTEGER:
      return *(const int64_t *)x == *(const int64_t *)y;
    case SL_SETTING_REAL:
      return *(const double *)x == *(const double *)y;
    case SL_SETTING_FLAG:
    case SL_SETTING_NAMED:
      return *(const int *)x == *(const int *)y;
    default: {
      const char *p = *(char *const *)x, *q = *(char *const *)y;
      return p == q || (p && q && strcmp(p, q) == 0);
    }
  }
}
