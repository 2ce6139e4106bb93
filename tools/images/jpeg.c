/* JPEG by libjpeg(-turbo). It reports errors by longjmp, so what must survive one is in the job, not in locals. */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
/* libjpeg's headers want stdio.h first */
#include <jerror.h>
#include <jpeglib.h>

#include "tools/images/format.h"

/* Largest number of pixels that a byte of a file can hold: 512 of a blank picture by Huffman codes of one bit per 64
 * pixels, more by arithmetic coding. */
enum { PIXELS_A_BYTE = 1 << 14 };

typedef struct job {
  struct jpeg_error_mgr errors; /* first member: libjpeg hands its address back */
  jmp_buf back;
  char text[JMSG_LENGTH_MAX];
  struct jpeg_decompress_struct z;
  struct jpeg_progress_mgr progress;
  const uint8_t *bytes;
  size_t n;
  sl__picture *picture;
  int orientation;
} job;

static void fail(job *j, const char *why) {
  snprintf(j->text, sizeof j->text, "%s", why);
  longjmp(j->back, 1);
}

static void on_error(j_common_ptr z) {
  job *j = (job *)z->err;
  z->err->format_message(z, j->text);
  longjmp(j->back, 1);
}

/* After damage libjpeg continues with grey; such a picture is refused. Oddities that lose no pixel pass. */
static void on_message(j_common_ptr z, int level) {
  const int code = z->err->msg_code;
  if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_JFIF_MAJOR && code != JWRN_ADOBE_XFORM) on_error(z);
}

/* A progressive file of a few kB may ask for thousands of passes over the picture. */
static void on_progress(j_common_ptr z) {
  if (((j_decompress_ptr)z)->input_scan_number > 200) fail((job *)z->err, "more than 200 scans");
}

/* CMYK to RGB. The values are stored inverted, as Adobe has it, and PIL assumes in all files. */
static void from_cmyk(const uint8_t *from, uint8_t *to, int64_t width) {
  for (int64_t x = 0; x < width; x++, from += 4, to += 3)
    for (int c = 0; c < 3; c++) {
      const unsigned paper = from[3], ink = 255u - from[c];
      const unsigned covered = ink * paper + 128;
      to[c] = (uint8_t)(paper - ((covered + (covered >> 8)) >> 8));
    }
}

static int run(job *j) {
  if (setjmp(j->back)) return 0;
  jpeg_create_decompress(&j->z);
  j->z.progress = &j->progress;
  j->progress.progress_monitor = on_progress;
  jpeg_mem_src(&j->z, j->bytes, j->n);
  jpeg_save_markers(&j->z, JPEG_APP0 + 1, 0xffff);
  jpeg_read_header(&j->z, TRUE);
  for (const struct jpeg_marker_struct *m = j->z.marker_list; m; m = m->next)
    if (m->data_length > 6 && memcmp(m->data, "Exif\0\0", 6) == 0) {
      j->orientation = sl__exif_orientation(m->data, m->data_length);
      break;
    }
  const J_COLOR_SPACE space = j->z.jpeg_color_space;
  const int cmyk = space == JCS_CMYK || space == JCS_YCCK, grey = space == JCS_GRAYSCALE;
  if (space == JCS_UNKNOWN) fail(j, "neither grey, colour nor CMYK");
  j->z.out_color_space = cmyk ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
  const char *why =
      sl__picture_reserve(j->picture, j->z.image_height, j->z.image_width, grey ? 1 : 3, j->n, PIXELS_A_BYTE);
  if (why) fail(j, why);
  jpeg_start_decompress(&j->z);
  const int64_t width = j->picture->width, row_bytes = width * j->picture->channels;
  JSAMPARRAY inks = cmyk ? j->z.mem->alloc_sarray((j_common_ptr)&j->z, JPOOL_IMAGE, (JDIMENSION)(4 * width), 1) : NULL;
  while (j->z.output_scanline < j->z.output_height) {
    JSAMPROW row = j->picture->pixels + j->z.output_scanline * row_bytes;
    jpeg_read_scanlines(&j->z, cmyk ? inks : &row, 1);
    if (cmyk) from_cmyk(inks[0], row, width);
  }
  jpeg_finish_decompress(&j->z);
  return 1;
}

static const char *decode(const uint8_t *bytes, size_t n, sl__picture *picture, int *orientation, char *text,
                          size_t room) {
  job j = {.bytes = bytes, .n = n, .picture = picture, .orientation = 1};
  j.z.err = jpeg_std_error(&j.errors);
  j.errors.error_exit = on_error;
  j.errors.emit_message = on_message;
  const int done = run(&j);
  jpeg_destroy_decompress(&j.z);
  *orientation = j.orientation;
  if (done) return NULL;
  snprintf(text, room, "%s", j.text);
  return text;
}

const sl__format sl__format_jpeg = {.name = "JPEG",
                                    .endings = (const char *const[]){".jpg", ".jpeg", ".jpe", NULL},
                                    .mark = "\xff\xd8\xff",
                                    .mark_bytes = 3,
                                    .decode = decode};
