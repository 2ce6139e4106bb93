/* What decoders of all formats share: the memory of a picture, and the orientation that EXIF gives it. */
#include "tools/images/picture.h"

#include <libexif/exif-data.h>
#include <stdlib.h>
#include <string.h>

void sl__picture_clear(sl__picture *picture) {
  free(picture->pixels);
  memset(picture, 0, sizeof *picture);
}

const char *sl__picture_reserve(sl__picture *p, int64_t height, int64_t width, int64_t channels, size_t n,
                                int64_t per_byte) {
  if (height < 1 || width < 1) return "it has no pixels";
  if (height > SL__PICTURE_PIXELS / width) return "its header promises more pixels than the limit of 2^28";
  if (height * width / per_byte > (int64_t)n) return "its header promises more pixels than its bytes can hold";
  p->pixels = malloc((size_t)(height * width * channels));
  p->height = height, p->width = width, p->channels = channels;
  return p->pixels ? NULL : "no memory for its pixels";
}

int sl__exif_orientation(const uint8_t *block, size_t n) {
  int orientation = 1;
  ExifData *exif = n <= UINT32_MAX ? exif_data_new_from_data(block, (unsigned)n) : NULL;
  const ExifEntry *e = exif ? exif_content_get_entry(exif->ifd[EXIF_IFD_0], EXIF_TAG_ORIENTATION) : NULL;
  if (e && e->format == EXIF_FORMAT_SHORT && e->components >= 1 && e->size >= 2)
    orientation = exif_get_short(e->data, exif_data_get_byte_order(exif));
  if (exif) exif_data_unref(exif);
  return orientation >= 1 && orientation <= 8 ? orientation : 1;
}
