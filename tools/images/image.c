/* Reading images: recognises the kind of file and checks that it fits the model. */
#include "tools/images/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/file.h"
#include "runtime/data/idx.h"
#include "tools/images/decode.h"
#include "tools/images/resize.h"

static sl_status wrong_size(const char *path, int64_t h, int64_t w, int64_t height, int64_t width) {
  return sl_fail(SL_ESHAPE, "%s is %lld high and %lld wide, the model takes %lldx%lld; --resize fits picture files",
                 path, (long long)h, (long long)w, (long long)height, (long long)width);
}

/* Reads a picture. With resize, it is resized (shorter side) and its middle is cut out. */
static sl_status read_picture(const char *path, int64_t height, int64_t width, int64_t channels, int64_t resize,
                              sl__images *images) {
  const sl__fit fit = {.shorter = resize, .crop_height = height, .crop_width = width};
  char *bytes;
  size_t n;
  sl__picture picture = {0};
  if (channels != 1 && channels != 3)
    return sl_fail(SL_EUNSUPPORTED, "%s: a picture has 1 or 3 channels and the model takes %lld", path,
                   (long long)channels);
  SL_TRY(sl_file_read(path, SL__PICTURE_BYTES, &bytes, &n));
  sl_status status = sl__decode(path, bytes, n, channels, &picture);
  free(bytes);
  if (status == SL_OK && resize > 0)
    status = sl__fit_picture(path, &fit, &picture);
  else if (status == SL_OK && (picture.height != height || picture.width != width))
    status = wrong_size(path, picture.height, picture.width, height, width);
  if (status == SL_OK)
    *images = (sl__images){.n = 1, .pixels = picture.pixels};
  else
    sl__picture_clear(&picture);
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

sl_status sl__images_read(const char *path, int64_t height, int64_t width, int64_t channels, int64_t resize,
                          sl__images *images) {
  unsigned char head[SL__PICTURE_MARK] = {0};
  memset(images, 0, sizeof *images);
  FILE *file = sl_file_stream(path);
  if (!file) return sl_fail(errno == ENOENT ? SL_ENOTFOUND : SL_EIO, "cannot read %s: %s", path, strerror(errno));
  const size_t n = fread(head, 1, sizeof head, file);
  fclose(file);
  if (sl__is_picture(head, n)) return read_picture(path, height, width, channels, resize, images);
  return read_idx(path, height, width, channels, images);
}

void sl__images_clear(sl__images *images) {
  free(images->pixels);
  memset(images, 0, sizeof *images);
}
