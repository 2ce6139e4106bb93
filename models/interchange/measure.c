/* Finds the sizes of published networks in the shapes of their tensors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/interchange/formats.h"

enum { MOST_PIXELS = 1 << 16, MOST_NUMBER = 1 << 20 }; /* of an image's side; of a layer in a tensor's name */

/* number: the index in a list. */
static void put(const sl_format *f, const sl__key *k, int64_t number, int64_t value, sl_config *c) {
  const sl_size *s = sl_size_find(f->family->sizes, k->size);
  if (!s && !(value >= 0 && value <= MOST_PIXELS)) return;
  if (strcmp(k->size, SL__CHANNELS) == 0) {
    c->channels = value;
  } else if (strcmp(k->size, SL__IMAGE) == 0) {
    c->height = c->width = value;
  } else {
    const int64_t place = s->kind == SL_SIZE_LIST ? number - f->first : 0;
    int64_t *at = (int64_t *)((char *)c->sizes + s->offset);
    if (place < 0 || place >= SL_SIZE_LIST_MOST || !(value >= 1 && (double)value <= s->most)) return;
    if (k->how != SL__COUNT || at[place] < value) at[place] = value;
  }
}

static int64_t side_of(const sl_config *c, int64_t positions) {
  const sl_size *patch = sl_size_find(c->format->family->sizes, "patch");
  for (int64_t tokens = positions - 1; tokens >= positions - 2; tokens--) { /* one for the class, or two (DeiT) */
    const int64_t side = (int64_t)sqrt((double)tokens + 0.5);
    if (side > 0 && side * side == tokens) return side * *(const int64_t *)((const char *)c->sizes + patch->offset);
  }
  return 0;
}

/* Refuses ResNeXt, which divides the channels of its 3x3 convolutions into groups. */
static sl_status check_groups(const sl_format *f, const sl_weights *w) {
  for (int i = 0; f->square && i < sl_weights_count(w); i++) {
    const sl_named_array *a = sl_weights_get(w, i);
    int64_t number[2];
    if (!sl__name_matches(f, f->square, a->name, number) || a->shape.ndim != 4) continue;
    const int64_t out = a->shape.dim[0], in = a->shape.dim[1];
    if (in > 0 && in < out && out % in == 0)
      return sl_fail(SL_EUNSUPPORTED,
                     "%s: tensor %s has %lld output and %lld input channels: a convolution in %lld groups, as ResNeXt "
                     "has it; Starling's convolutions have one group",
                     sl_weights_path(w), a->name, (long long)out, (long long)in, (long long)(out / in));
  }
  return SL_OK;
}

sl_status sl_config_measure(const sl_format *f, const sl_weights *w, sl_config *c) {
  *c = (sl_config){.format = f, .sizes = calloc(1, f->family->size_bytes)};
  if (!c->sizes) return sl_no_memory("for the sizes of %s", sl_weights_path(w));
  SL_TRY(check_groups(f, w));
  if (f->sizes) SL_TRY(sl_sizes_parse(f->family->sizes, f->name, f->sizes, c->sizes));
  for (const sl__key *k = f->keys; k->size; k++) {
    int matches = 0;
    for (int i = 0; k->tensor && i < sl_weights_count(w); i++) {
      const sl_named_array *a = sl_weights_get(w, i);
      int64_t number[2];
      if (!sl__name_matches(f, k->tensor, a->name, number)) continue;
      if (number[0] > MOST_NUMBER || number[1] > MOST_NUMBER) continue;
      matches++;
      if (k->how == SL__LACKS) continue;
      const int64_t length = k->dim < a->shape.ndim ? a->shape.dim[k->dim] : 0;
      put(f, k, number[0],
          k->how == SL__EXISTS  ? 1
          : k->how == SL__IS    ? length == k->is
          : k->how == SL__SIDE  ? side_of(c, length)
          : k->how == SL__COUNT ? (number[1] >= 0 ? number[1] : number[0]) + 1
                                : length,
          c);
    }
    if (k->how == SL__LACKS && !matches) put(f, k, 0, 1, c);
  }
  return SL_OK;
}
