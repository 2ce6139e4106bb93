/* Reading images. PNG goes through libpng's simplified interface, which does the conversions. */
#include "tools/image.h"

#include <errno.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/idx.h"

static sl_status wrong_size(const char *path, int64_t h, int64_t w, int64_t height, int64_t width) {
  return sl_fail(SL_ESHAPE, "%s is %lld high and %lld wide, the model takes %lldx%lld", path, (long long)h,
                 (long long)w, (long long)height, (long long)width);
}

static sl_status read_png(const char *path, int64_t height, int64_t width, int64_t channels, sl__images *images) {
  png_image png = {.version = PNG_IMAGE_VERSION};
  const png_color black = {0};
  if (channels != 1 && channels != 3)
    return sl_fail(SL_EUNSUPPORTED, "%s: a PNG has 1 or 3 channels and the model takes %lld", path,
                   (long long)channels);
  if (!png_image_begin_read_from_file(&png, path)) return sl_fail(SL_EFORMAT, "%s: %s", path, png.message);
  if (png.height != height || png.width != width) {
    sl_status status = wrong_size(path, png.height, png.width, height, width);
    png_image_free(&png);
    return status;
  }
  png.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  images->pixels = malloc(PNG_IMAGE_SIZE(png));
  images->n = 1;
  if (!images->pixels) {
    png_image_free(&png);
    return sl_fail(SL_ENOMEM, "no memory for %s", path);
  }
  if (png_image_finish_read(&png, &black, images->pixels, 0, NULL)) return SL_OK;
  const sl_status status = sl_fail(SL_EFORMAT, "%s: %s", path, png.message);
  png_image_free(&png);
  sl__images_clear(images);
  return status;
}

/* [n, H, W], [n, H, W, C], or one image [H, W]. */
static sl_status read_idx(const char *path, int64_t height, int64_t width, int64_t channels, sl__images *images) {
  sl_idx idx;
  char text[SL_SHAPE_TEXT];
  SL_TRY(sl_idx_read(path, &idx));
  sl_shape s = idx.shape;
  sl_status status = SL_OK;
  if (idx.dtype != SL_U8 || s.ndim < 2)
    status = sl_fail(SL_EFORMAT, "%s holds %s %s, not images of bytes", path, sl_dtype_name(idx.dtype),
                     sl_shape_text(&s, text, sizeof text));
  if (status == SL_OK && s.ndim == 2) s = SL_SHAPE(1, s.dim[0], s.dim[1]);
  if (status == SL_OK && s.ndim == 3) s = SL_SHAPE(s.dim[0], s.dim[1], s.dim[2], 1);
  if (status == SL_OK && (s.dim[1] != height || s.dim[2] != width))
    status = wrong_size(path, s.dim[1], s.dim[2], height, width);
  if (status == SL_OK && s.dim[3] != channels)
    status = sl_fail(SL_ESHAPE, "%s has %lld channels, the model takes %lld", path, (long long)s.dim[3],
                     (long long)channels);
  if (status != SL_OK) {
    sl_idx_clear(&idx);
    return status;
  }
  *images = (sl__images){.n = s.dim[0], .indexed = idx.shape.ndim > 2, .pixels = idx.data};
  return SL_OK;
}

sl_status sl__images_read(const char *path, int64_t height, int64_t width, int64_t channels, sl__images *images) {
  unsigned char head[8] = {0};
  memset(images, 0, sizeof *images);
  FILE *file = fopen(path, "rbe");
  if (!file) return sl_fail(errno == ENOENT ? SL_ENOTFOUND : SL_EIO, "cannot read %s: %s", path, strerror(errno));
  const size_t n = fread(head, 1, sizeof head, file);
  fclose(file);
  if (n == sizeof head && memcmp(head, "\x89PNG\r\n\x1a\n", sizeof head) == 0)
    return read_png(path, height, width, channels, images);
  if (n >= 3 && memcmp(head, "\xff\xd8\xff", 3) == 0)
    return sl_fail(SL_EUNSUPPORTED, "%s is a JPEG: this version reads PNG and IDX files", path);
  return read_idx(path, height, width, channels, images);
}

void sl__images_clear(sl__images *images) {
  free(images->pixels);
  memset(images, 0, sizeof *images);
}
