/* Writes test images with libjpeg and libpng, as other programs do. */
#include "tests/support/pictures.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* libjpeg's headers want stdio.h first */
#include <jpeglib.h>

/* TIFF, little-endian, with one entry: tag 0x0112, a short. */
static const uint8_t exif_block[] = {'E',  'x', 'i', 'f', 0, 0, 'I', 'I', '*', 0, 8, 0, 0, 0, 1, 0,
                                     0x12, 1,   3,   0,   1, 0, 0,   0,   0,   0, 0, 0, 0, 0, 0, 0};
enum { ORIENTATION_AT = 24, WORD = 6 };

uint8_t *picture_jpeg(const uint8_t *samples, int height, int width, int channels, int progressive, int orientation,
                      size_t *n) {
  struct jpeg_compress_struct z;
  struct jpeg_error_mgr errors;
  unsigned char *bytes = NULL;
  unsigned long length = 0;
  z.err = jpeg_std_error(&errors);
  jpeg_create_compress(&z);
  jpeg_mem_dest(&z, &bytes, &length);
  z.image_height = (JDIMENSION)height, z.image_width = (JDIMENSION)width, z.input_components = channels;
  z.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&z);
  jpeg_set_quality(&z, 100, TRUE);
  for (int c = 0; c < z.num_components; c++) z.comp_info[c].h_samp_factor = z.comp_info[c].v_samp_factor = 1;
  if (progressive) jpeg_simple_progression(&z);
  if (channels == 4) z.write_Adobe_marker = TRUE;
  jpeg_start_compress(&z, TRUE);
  if (orientation) {
    uint8_t block[sizeof exif_block];
    memcpy(block, exif_block, sizeof block);
    block[ORIENTATION_AT] = (uint8_t)orientation;
    jpeg_write_marker(&z, JPEG_APP0 + 1, block, sizeof block);
  }
  while (z.next_scanline < z.image_height) {
    JSAMPROW row = (JSAMPROW)(uintptr_t)(samples + (size_t)z.next_scanline * (size_t)(width * channels));
    jpeg_write_scanlines(&z, &row, 1);
  }
  jpeg_finish_compress(&z);
  jpeg_destroy_compress(&z);
  *n = length;
  return bytes;
}

typedef struct sink {
  uint8_t *bytes;
  size_t n;
} sink;

static void put(png_structp z, png_bytep from, size_t n) {
  sink *s = png_get_io_ptr(z);
  s->bytes = realloc(s->bytes, s->n + n);
  if (!s->bytes) abort();
  memcpy(s->bytes + s->n, from, n);
  s->n += n;
}

uint8_t *picture_png(const uint8_t *rows, size_t row_bytes, int height, int width, int colour_type, int depth,
                     int interlaced, int orientation, size_t *n) {
  sink s = {0};
  png_structp z = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
  png_infop info = z ? png_create_info_struct(z) : NULL;
  if (!info) abort();
  if (setjmp(png_jmpbuf(z))) abort();
  png_set_write_fn(z, &s, put, NULL);
  png_set_IHDR(z, info, (png_uint_32)width, (png_uint_32)height, depth, colour_type,
               interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (colour_type == PNG_COLOR_TYPE_PALETTE) {
    png_color palette[256];
    for (int i = 0; i < 256; i++) palette[i] = (png_color){(png_byte)i, (png_byte)(255 - i), (png_byte)(i / 2)};
    png_set_PLTE(z, info, palette, 1 << depth);
  }
  if (orientation) {
    uint8_t block[sizeof exif_block];
    memcpy(block, exif_block, sizeof block);
    block[ORIENTATION_AT] = (uint8_t)orientation;
    png_set_eXIf_1(z, info, sizeof block - WORD, block + WORD);
  }
  png_write_info(z, info);
  png_bytepp list = malloc((size_t)height * sizeof *list);
  if (!list) abort();
  for (int y = 0; y < height; y++) list[y] = (png_bytep)(uintptr_t)(rows + (size_t)y * row_bytes);
  png_write_image(z, list);
  png_write_end(z, info);
  png_destroy_write_struct(&z, &info);
  free(list);
  *n = s.n;
  return s.bytes;
}
