/* JPEG by libjpeg(-turbo), PNG by libpng, orientation by libexif. Both decoders report errors by longjmp, so what
 * must survive it is in the caller's structure, not in locals. */
#include "tools/images/decode.h"

#include <libexif/exif-data.h>
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* libjpeg's headers want stdio.h first */
#include <jerror.h>
#include <jpeglib.h>

/* Largest number of pixels that a byte of a file can hold: of a blank JPEG (512 by Huffman codes of one bit per 64
 * pixels, more by arithmetic coding); for a PNG bits (deflate's 1032 bytes). */
enum { JPEG_PIXELS_A_BYTE = 1 << 14, PNG_BITS_A_BYTE = 8 * 1032 };

int sl__is_jpeg(const void *bytes, size_t n) { return n >= 3 && memcmp(bytes, "\xff\xd8\xff", 3) == 0; }
int sl__is_png(const void *bytes, size_t n) { return n >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0; }

void sl__picture_clear(sl__picture *picture) {
  free(picture->pixels);
  memset(picture, 0, sizeof *picture);
}

/* Allocates a picture that n bytes claim to hold, with at most per_byte pixels each; NULL, or what is wrong. */
static const char *make_room(sl__picture *p, int64_t height, int64_t width, int64_t channels, size_t n,
                             int64_t per_byte) {
  if (height < 1 || width < 1) return "it has no pixels";
  if (height * width > SL__PICTURE_PIXELS) return "its header promises more pixels than the limit of 2^28";
  if (height * width / per_byte > (int64_t)n) return "its header promises more pixels than its bytes can hold";
  p->pixels = malloc((size_t)(height * width * channels));
  p->height = height, p->width = width, p->channels = channels;
  return p->pixels ? NULL : "no memory for its pixels";
}

/* Orientation (EXIF tag 0x0112), 1 to 8, of an EXIF block that begins with "Exif\0\0", as in a JPEG. */
static int orientation_of(const uint8_t *block, size_t n) {
  int orientation = 1;
  ExifData *exif = n <= UINT32_MAX ? exif_data_new_from_data(block, (unsigned)n) : NULL;
  const ExifEntry *e = exif ? exif_content_get_entry(exif->ifd[EXIF_IFD_0], EXIF_TAG_ORIENTATION) : NULL;
  if (e && e->format == EXIF_FORMAT_SHORT && e->components >= 1 && e->size >= 2)
    orientation = exif_get_short(e->data, exif_data_get_byte_order(exif));
  if (exif) exif_data_unref(exif);
  return orientation >= 1 && orientation <= 8 ? orientation : 1;
}

/* EXIF 2.3, 4.6.4 A: orientations from 5 on exchange rows and columns. */
static const char *turn(sl__picture *p, int orientation) {
  static const uint8_t upside_down[9] = {[3] = 1, [4] = 1, [6] = 1, [7] = 1},
                       mirrored[9] = {[2] = 1, [3] = 1, [7] = 1, [8] = 1};
  if (orientation == 1) return NULL;
  const int64_t H = p->height, W = p->width, C = p->channels;
  const int swap = orientation >= 5;
  uint8_t *turned = malloc((size_t)(H * W * C)), *to = turned;
  if (!turned) return "no memory for turning it";
  for (int64_t y = 0; y < (swap ? W : H); y++)
    for (int64_t x = 0; x < (swap ? H : W); x++, to += C) {
      int64_t row = swap ? x : y, column = swap ? y : x;
      if (upside_down[orientation]) row = H - 1 - row;
      if (mirrored[orientation]) column = W - 1 - column;
      memcpy(to, p->pixels + (row * W + column) * C, (size_t)C);
    }
  free(p->pixels);
  p->pixels = turned, p->height = swap ? W : H, p->width = swap ? H : W;
  return NULL;
}

/* Grey from colour by ITU-R BT.601, rounded, in 16-bit fixed point. */
static uint8_t luma(const uint8_t *p) {
  return (uint8_t)((19595u * p[0] + 38470u * p[1] + 7471u * p[2] + 32768u) >> 16);
}

static const char *convert(sl__picture *p, int64_t channels) {
  const int64_t n = p->height * p->width;
  if (p->channels == channels) return NULL;
  if (channels == 1) {
    for (int64_t i = 0; i < n; i++) p->pixels[i] = luma(p->pixels + 3 * i);
  } else {
    uint8_t *larger = realloc(p->pixels, (size_t)n * 3);
    if (!larger) return "no memory for its colours";
    for (int64_t i = n - 1; i >= 0; i--) memset(larger + 3 * i, larger[i], 3);
    p->pixels = larger;
  }
  p->channels = channels;
  return NULL;
}

/* ---- JPEG ------------------------------------------------------------------------------------------------------- */

typedef struct jpeg_job {
  struct jpeg_error_mgr errors; /* first member: libjpeg hands its address back */
  jmp_buf back;
  char text[JMSG_LENGTH_MAX];
  struct jpeg_decompress_struct z;
  struct jpeg_progress_mgr progress;
  const uint8_t *bytes;
  size_t n;
  sl__picture *picture;
  int orientation;
} jpeg_job;

static void jpeg_fail(jpeg_job *j, const char *why) {
  snprintf(j->text, sizeof j->text, "%s", why);
  longjmp(j->back, 1);
}

static void on_jpeg_error(j_common_ptr z) {
  jpeg_job *j = (jpeg_job *)z->err;
  z->err->format_message(z, j->text);
  longjmp(j->back, 1);
}

/* After damage libjpeg continues with grey; such a picture is refused. Oddities that lose no pixel pass. */
static void on_jpeg_message(j_common_ptr z, int level) {
  const int code = z->err->msg_code;
  if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_JFIF_MAJOR && code != JWRN_ADOBE_XFORM)
    on_jpeg_error(z);
}

/* A progressive file of a few kB may ask for thousands of passes over the picture. */
static void on_jpeg_progress(j_common_ptr z) {
  if (((j_decompress_ptr)z)->input_scan_number > 200) jpeg_fail((jpeg_job *)z->err, "more than 200 scans");
}

/* CMYK to RGB: with Adobe's marker the values are stored inverted. */
static void from_cmyk(const uint8_t *from, uint8_t *to, int64_t width, int inverted) {
  for (int64_t x = 0; x < width; x++, from += 4, to += 3)
    for (int c = 0; c < 3; c++) {
      const unsigned paper = inverted ? from[3] : 255u - from[3], ink = inverted ? 255u - from[c] : from[c];
      const unsigned covered = ink * paper + 128;
      to[c] = (uint8_t)(paper - ((covered + (covered >> 8)) >> 8));
    }
}

static int run_jpeg(jpeg_job *j) {
  if (setjmp(j->back)) return 0;
  jpeg_create_decompress(&j->z);
  j->z.progress = &j->progress;
  j->progress.progress_monitor = on_jpeg_progress;
  jpeg_mem_src(&j->z, j->bytes, j->n);
  jpeg_save_markers(&j->z, JPEG_APP0 + 1, 0xffff);
  jpeg_read_header(&j->z, TRUE);
  for (const struct jpeg_marker_struct *m = j->z.marker_list; m; m = m->next)
    if (m->data_length > 6 && memcmp(m->data, "Exif\0\0", 6) == 0) {
      j->orientation = orientation_of(m->data, m->data_length);
      break;
    }
  const J_COLOR_SPACE space = j->z.jpeg_color_space;
  const int cmyk = space == JCS_CMYK || space == JCS_YCCK, grey = space == JCS_GRAYSCALE;
  if (space == JCS_UNKNOWN) jpeg_fail(j, "neither grey, colour nor CMYK");
  j->z.out_color_space = cmyk ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
  const char *why = make_room(j->picture, j->z.image_height, j->z.image_width, grey ? 1 : 3, j->n, JPEG_PIXELS_A_BYTE);
  if (why) jpeg_fail(j, why);
  jpeg_start_decompress(&j->z);
  const int64_t width = j->picture->width, row_bytes = width * j->picture->channels;
  JSAMPARRAY inks = cmyk ? j->z.mem->alloc_sarray((j_common_ptr)&j->z, JPOOL_IMAGE, (JDIMENSION)(4 * width), 1) : NULL;
  while (j->z.output_scanline < j->z.output_height) {
    JSAMPROW row = j->picture->pixels + j->z.output_scanline * row_bytes;
    jpeg_read_scanlines(&j->z, cmyk ? inks : &row, 1);
    if (cmyk) from_cmyk(inks[0], row, width, j->z.saw_Adobe_marker);
  }
  jpeg_finish_decompress(&j->z);
  return 1;
}

static const char *decode_jpeg(const uint8_t *bytes, size_t n, sl__picture *picture, char *text, size_t room) {
  jpeg_job j = {.bytes = bytes, .n = n, .picture = picture, .orientation = 1};
  j.z.err = jpeg_std_error(&j.errors);
  j.errors.error_exit = on_jpeg_error;
  j.errors.emit_message = on_jpeg_message;
  const int done = run_jpeg(&j);
  jpeg_destroy_decompress(&j.z);
  if (done) return turn(picture, j.orientation);
  snprintf(text, room, "%s", j.text);
  return text;
}

/* ---- PNG -------------------------------------------------------------------------------------------------------- */

typedef struct png_job {
  jmp_buf back;
  char text[160];
  png_structp z;
  png_infop info;
  png_bytepp rows;
  const uint8_t *bytes;
  size_t n, at;
  sl__picture *picture;
  int orientation;
} png_job;

static void on_png_error(png_structp z, png_const_charp why) {
  png_job *j = png_get_error_ptr(z);
  snprintf(j->text, sizeof j->text, "%s", why);
  longjmp(j->back, 1);
}

static void on_png_warning(png_structp z, png_const_charp why) { (void)z, (void)why; }

static void read_png_bytes(png_structp z, png_bytep to, size_t n) {
  png_job *j = png_get_io_ptr(z);
  if (n > j->n - j->at) png_error(z, "the file ends early");
  memcpy(to, j->bytes + j->at, n);
  j->at += n;
}

/* EXIF in a PNG lacks the word that begins it in a JPEG, which libexif requires. */
static int png_orientation(const png_job *j) {
  png_bytep block;
  png_uint_32 n;
  int orientation = 1;
  if (!png_get_eXIf_1(j->z, j->info, &n, &block) || n > 0xffff) return 1;
  uint8_t *whole = malloc(6 + (size_t)n);
  if (!whole) return 1;
  memcpy(whole, "Exif\0\0", 6);
  memcpy(whole + 6, block, n);
  orientation = orientation_of(whole, 6 + (size_t)n);
  free(whole);
  return orientation;
}

static int run_png(png_job *j) {
  if (setjmp(j->back)) return 0;
  png_set_read_fn(j->z, j, read_png_bytes);
  png_set_user_limits(j->z, SL__PICTURE_PIXELS, SL__PICTURE_PIXELS);
  png_set_chunk_malloc_max(j->z, 1 << 23);
  png_read_info(j->z, j->info);
  const int stored_bits = png_get_bit_depth(j->z, j->info) * png_get_channels(j->z, j->info); /* bytes of a pixel */
  const int64_t height = png_get_image_height(j->z, j->info);
  const int channels =
      png_get_color_type(j->z, j->info) & PNG_COLOR_MASK_COLOR ? 3 : 1; /* palettes have that bit too */
  const char *why =
      make_room(j->picture, height, png_get_image_width(j->z, j->info), channels, j->n, PNG_BITS_A_BYTE / stored_bits);
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
  j->orientation = png_orientation(j);
  return 1;
}

static const char *decode_png(const uint8_t *bytes, size_t n, sl__picture *picture, char *text, size_t room) {
  png_job j = {.bytes = bytes, .n = n, .picture = picture, .orientation = 1, .text = "no memory for libpng"};
  j.z = png_create_read_struct(PNG_LIBPNG_VER_STRING, &j, on_png_error, on_png_warning);
  j.info = j.z ? png_create_info_struct(j.z) : NULL;
  const int done = j.info && run_png(&j);
  png_destroy_read_struct(&j.z, &j.info, NULL);
  free(j.rows);
  if (done) return turn(picture, j.orientation);
  snprintf(text, room, "%s", j.text);
  return text;
}

sl_status sl__decode(const char *name, const void *bytes, size_t n, int64_t channels, sl__picture *picture) {
  char text[JMSG_LENGTH_MAX];
  const char *why;
  memset(picture, 0, sizeof *picture);
  const int jpeg = sl__is_jpeg(bytes, n);
  if (!jpeg && !sl__is_png(bytes, n))
    return sl_fail(SL_EUNSUPPORTED, "%s is neither a JPEG nor a PNG%s", name, n ? "" : ": it is empty");
  if (jpeg)
    why = decode_jpeg(bytes, n, picture, text, sizeof text);
  else
    why = decode_png(bytes, n, picture, text, sizeof text);
  if (!why) why = convert(picture, channels);
  if (!why) return SL_OK;
  sl__picture_clear(picture);
  if (strncmp(why, "no memory", 9) == 0) return sl_fail(SL_ENOMEM, "%s: %s", name, why);
  return sl_fail(SL_EFORMAT, "%s: broken %s: %s", name, jpeg ? "JPEG" : "PNG", why);
}
