/* Sizes as text and as JSON, read and written by the rows of a family's table. */
#include "models/size.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t *whole(const sl_size *s, const void *sizes) { return (int64_t *)((char *)sizes + s->offset); }
static double *real(const sl_size *s, const void *sizes) { return (double *)((char *)sizes + s->offset); }

const sl_size *sl_size_find(const sl_size *table, const char *name) {
  for (; table && table->name; table++)
    if (strcmp(table->name, name) == 0) return table;
  return NULL;
}

static sl_status unknown(const sl_size *table, const char *of, const char *key, int n) {
  char names[256] = "";
  for (const sl_size *s = table; s && s->name; s++)
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", s == table ? "" : ", ", s->name);
  return sl_fail(SL_ENOTFOUND, "%s has no size '%.*s'; there %s %s", of, n, key, *names ? "are" : "is",
                 *names ? names : "none");
}

/* ---- setting ---------------------------------------------------------------------------------------------------- */

static sl_status out_of_range(const sl_size *s, const char *of, const char *text) {
  return sl_fail(SL_EINVAL, "size %s of %s is %s; it may be from %.15g to %.15g", s->name, of, text, s->least, s->most);
}

static sl_status set_whole(const sl_size *s, const char *of, int place, double value, void *sizes) {
  char text[40];
  if (value != floor(value) || !(value >= s->least && value <= s->most)) {
    snprintf(text, sizeof text, "%.17g", value);
    return out_of_range(s, of, text);
  }
  whole(s, sizes)[place] = (int64_t)value;
  return SL_OK;
}

static sl_status set_real(const sl_size *s, const char *of, double value, void *sizes) {
  char text[40];
  if (!(value >= s->least && value <= s->most)) {
    snprintf(text, sizeof text, "%g", value);
    return out_of_range(s, of, text);
  }
  *real(s, sizes) = value;
  return SL_OK;
}

static sl_status set_choice(const sl_size *s, const char *of, const char *value, int n, void *sizes) {
  char names[128] = "";
  for (int64_t i = 0; s->choices[i]; i++) {
    if (!*s->choices[i]) continue;
    if ((int)strlen(s->choices[i]) == n && strncmp(s->choices[i], value, (size_t)n) == 0) {
      *whole(s, sizes) = i;
      return SL_OK;
    }
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", *names ? ", " : "", s->choices[i]);
  }
  return sl_fail(SL_EINVAL, "size %s of %s is '%.*s'; there are %s", s->name, of, n, value, names);
}

static sl_status bad_list(const sl_size *s, const char *of) {
  return sl_fail(SL_EINVAL, "size %s of %s is a list of 1 to %d whole numbers, such as 3-4-6-3", s->name, of,
                 SL_SIZE_LIST_MOST);
}

/* value has n characters. */
static sl_status set_text(const sl_size *s, const char *of, const char *value, int n, void *sizes) {
  if (s->kind == SL_SIZE_CHOICE) return set_choice(s, of, value, n, sizes);
  if (s->kind == SL_SIZE_LIST) memset(whole(s, sizes), 0, SL_SIZE_LIST_MOST * sizeof(int64_t));
  for (int place = 0, at = 0;; place++, at++) {
    char text[40], *end;
    const int length = s->kind == SL_SIZE_LIST ? (int)strcspn(value + at, "-,") : n;
    if (place == SL_SIZE_LIST_MOST) return bad_list(s, of);
    snprintf(text, sizeof text, "%.*s", length, value + at);
    const double number = strtod(text, &end);
    const int digits =
        s->kind == SL_SIZE_REAL ? isdigit((unsigned char)*text) : (int)strspn(text, "0123456789") == length;
    if (end == text || *end || !digits || length >= (int)sizeof text)
      return s->kind == SL_SIZE_LIST
                 ? bad_list(s, of)
                 : sl_fail(SL_EINVAL, "size %s of %s is '%.*s', not a number", s->name, of, n, value);
    if (s->kind == SL_SIZE_REAL) return set_real(s, of, number, sizes);
    SL_TRY(set_whole(s, of, place, number, sizes));
    at += length;
    if (at >= n) return SL_OK;
  }
}

sl_status sl_sizes_parse(const sl_size *table, const char *of, const char *text, void *sizes) {
  uint64_t given = 0;
  for (const char *at = text; *at;) {
    const int n = (int)strcspn(at, ","), key = (int)strcspn(at, "=,");
    char name[32];
    snprintf(name, sizeof name, "%.*s", key, at);
    const sl_size *s = sl_size_find(table, name);
    if (key == n || key + 1 == n) return sl_fail(SL_EINVAL, "size '%.*s' of %s is not KEY=VALUE", n, at, of);
    if (!s) return unknown(table, of, at, key);
    if (given >> (s - table) & 1) return sl_fail(SL_EINVAL, "size %s of %s is given twice", s->name, of);
    given |= (uint64_t)1 << (s - table);
    SL_TRY(set_text(s, of, at + key + 1, n - key - 1, sizes));
    at += n;
    if (*at && !*++at) return sl_fail(SL_EINVAL, "sizes of %s end in a comma: '%s'", of, text);
  }
  return SL_OK;
}

sl_status sl_size_from_json(const sl_size *s, const char *of, const json_t *value, void *sizes) {
  if (s->kind == SL_SIZE_CHOICE && json_is_string(value))
    return set_choice(s, of, json_string_value(value), (int)json_string_length(value), sizes);
  if (s->kind == SL_SIZE_REAL && json_is_number(value)) return set_real(s, of, json_number_value(value), sizes);
  if (s->kind == SL_SIZE_WHOLE && json_is_integer(value))
    return set_whole(s, of, 0, (double)json_integer_value(value), sizes);
  if (s->kind != SL_SIZE_LIST)
    return sl_fail(SL_EINVAL, "size %s of %s is not a %s", s->name, of,
                   s->kind == SL_SIZE_WHOLE  ? "whole number"
                   : s->kind == SL_SIZE_REAL ? "number"
                                             : "name");
  const size_t n = json_array_size(value);
  if (n < 1 || n > SL_SIZE_LIST_MOST) return bad_list(s, of);
  memset(whole(s, sizes), 0, SL_SIZE_LIST_MOST * sizeof(int64_t));
  for (size_t i = 0; i < n; i++) {
    const json_t *one = json_array_get(value, i);
    if (!json_is_integer(one)) return bad_list(s, of);
    SL_TRY(set_whole(s, of, (int)i, (double)json_integer_value(one), sizes));
  }
  return SL_OK;
}

sl_status sl_sizes_from_json(const sl_size *table, const char *of, const json_t *json, void *sizes) {
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)json, key, value) {
    const sl_size *s = sl_size_find(table, key);
    if (!s) return unknown(table, of, key, (int)strlen(key));
    SL_TRY(sl_size_from_json(s, of, value, sizes));
  }
  return SL_OK;
}

/* ---- showing ---------------------------------------------------------------------------------------------------- */

static int list_length(const sl_size *s, const void *sizes) {
  int n = 0;
  while (n < SL_SIZE_LIST_MOST && whole(s, sizes)[n]) n++;
  return n;
}

json_t *sl_size_to_json(const sl_size *s, const void *sizes) {
  if (s->kind == SL_SIZE_REAL) return json_real(*real(s, sizes));
  if (s->kind == SL_SIZE_CHOICE) return json_string(s->choices[*whole(s, sizes)]);
  if (s->kind == SL_SIZE_WHOLE) return json_integer(*whole(s, sizes));
  json_t *list = json_array();
  for (int i = 0; i < list_length(s, sizes); i++) json_array_append_new(list, json_integer(whole(s, sizes)[i]));
  return list;
}

json_t *sl_sizes_to_json(const sl_size *table, const void *sizes) {
  json_t *all = json_object();
  for (const sl_size *s = table; all && s && s->name; s++) {
    char text[128];
    if (!*sl_size_text(s, sizes, text, sizeof text)) continue;
    if (json_object_set_new(all, s->name, sl_size_to_json(s, sizes)) != 0) {
      json_decref(all);
      return NULL;
    }
  }
  return all;
}

/* The fewest digits that read back as the same number. */
static void show_real(double value, char *text, size_t n) {
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(text, n, "%.*g", digits, value);
    if (strtod(text, NULL) == value) return;
  }
}

char *sl_size_text(const sl_size *s, const void *sizes, char *text, size_t n) {
  *text = 0;
  if (s->kind == SL_SIZE_REAL) {
    if (*real(s, sizes) > 0) show_real(*real(s, sizes), text, n);
  } else if (s->kind == SL_SIZE_CHOICE) {
    snprintf(text, n, "%s", s->choices[*whole(s, sizes)]);
  } else {
    const int numbers = s->kind == SL_SIZE_LIST ? list_length(s, sizes) : *whole(s, sizes) != 0 || !s->derived;
    for (int i = 0; i < numbers; i++)
      snprintf(text + strlen(text), n - strlen(text), "%s%lld", i ? "-" : "", (long long)whole(s, sizes)[i]);
  }
  return text;
}

char *sl_sizes_text(const sl_size *table, const void *sizes, char *text, size_t n) {
  *text = 0;
  for (const sl_size *s = table; s && s->name; s++) {
    char value[128];
    if (!*sl_size_text(s, sizes, value, sizeof value)) continue;
    snprintf(text + strlen(text), n - strlen(text), "%s%s=%s", *text ? "," : "", s->name, value);
  }
  return text;
}

int sl_size_equal(const sl_size *s, const void *a, const void *b) {
  if (s->kind == SL_SIZE_REAL) return *real(s, a) == *real(s, b);
  return memcmp(whole(s, a), whole(s, b), (s->kind == SL_SIZE_LIST ? SL_SIZE_LIST_MOST : 1) * sizeof(int64_t)) == 0;
}
