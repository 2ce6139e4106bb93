/* PNG by libpng. It reports errors by longjmp, so what must survive one is in the job, not in locals. */
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/images/format.h"

enum { BITS_A_BYTE = 8 * 1032 }; /* largest number of bits of pixels that a byte of a file can hold (deflate) */

typedef struct job {
  jmp_buf back;
  char text[160];
  png_structp z;
  png_infop info;
  png_bytepp rows;
  const uint8_t *bytes;
  size_t n, at;
  sl__picture *picture;
  int orientation;
} job;

static void on_error(png_structp z, png_const_charp why) {
  job *j = png_get_error_ptr(z);
  snprintf(j->text, sizeof j->text, "%s", why);
  longjmp(j->back, 1);
}

static void on_warning(png_structp z, png_const_charp why) { (void)z, (void)why; }

static void read_bytes(png_structp z, png_bytep to, size_t n) {
  job *j = png_get_io_ptr(z);
  if (n > j->n - j->at) png_error(z, "the file ends early");
  memcpy(to, j->bytes + j->at, n);
  j->at += n;
}

/* EXIF in a PNG lacks the word that begins it in a JPEG, which libexif requires. */
static int find_orientation(const job *j) {
  png_bytep block;
  png_uint_32 n;
  int orientation = 1;
  if (!png_get_eXIf_1(j->z, j->info, &n, &block) || n > 0xffff) return 1;
  uint8_t *whole = malloc(6 + (size_t)n);
  if (!whole) return 1;
  memcpy(whole, "Exif\0\0", 6);
  memcpy(whole + 6, block, n);
  orientation = sl__exif_orientation(whole, 6 + (size_t)n);
  free(whole);
  return orientation;
}

static int run(job *j) {
  if (setjmp(j->back)) return 0;
  png_set_read_fn(j->z, j, read_bytes);
  png_set_user_limits(j->z, SL__PICTURE_PIXELS, SL__PICTURE_PIXELS);
  png_set_chunk_malloc_max(j->z, 1 << 23);
  png_read_info(j->z, j->info);
  const int stored_bits = png_get_bit_depth(j->z, j->info) * png_get_channels(j->z, j->info); /* bits of a pixel */
  const int64_t height = png_get_image_height(j->z, j->info);
  const int channels =
      png_get_color_type(j->z, j->info) & PNG_COLOR_MASK_COLOR ? 3 : 1; /* palettes have that bit too */
  const char *why = sl__picture_reserve(j->picture, height, png_get_image_width(j->z, j->info), channels, j->n,
                                        BITS_A_BYTE / stored_bits);
  if (why) png_error(j->z, why);
  png_set_scale_16(j->z);
  png_set_expand(j->z);
  png_set_strip_alpha(j->z);
  png_set_interlace_handling(j->z);
  png_read_update_info(j->z, j->info); /* allocates a row, so it comes after the checks */
  const int64_t row_bytes = j->picture->width * channels;
  if ((int64_t)png_get_rowbytes(j->z, j->info) != row_bytes) png_error(j->z, "pixels of an unknown kind");
  j->rows = malloc((size_t)height * sizeof *j->rows);
  if (!j->rows) png_error(j->z, "no memory for its rows");
  for (int64_t y = 0; y < height; y++) j->rows[y] = j->picture->pixels + y * row_bytes;
  png_read_image(j->z, j->rows);
  png_read_end(j->z, j->info);
  j->orientation = find_orientation(j);
  return 1;
}

static const char *decode(const uint8_t *bytes, size_t n, sl__picture *picture, int *orientation, char *text,
                          size_t room) {
  job j = {.bytes = bytes, .n = n, .picture = picture, .orientation = 1, .text = "no memory for libpng"};
  j.z = png_create_read_struct(PNG_LIBPNG_VER_STRING, &j, on_error, on_warning);
  j.info = j.z ? png_create_info_struct(j.z) : NULL;
  const int done = j.info && run(&j);
  png_destroy_read_struct(&j.z, &j.info, NULL);
  free(j.rows);
  *orientation = j.orientation;
  if (done) return NULL;
  snprintf(text, room, "%s", j.text);
  return text;
}

const sl__format sl__format_png = {.name = "PNG",
                                   .endings = (const char *const[]){".png", NULL},
                                   .mark = "\x89PNG\r\n\x1a\n",
                                   .mark_bytes = 8,
                                   .decode = decode};
