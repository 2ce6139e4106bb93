/* Makes JPEG and PNG files in memory, for tests of the image readers. */
#ifndef SL_TESTS_PICTURES_H
#define SL_TESTS_PICTURES_H

#include <stddef.h>
#include <stdint.h>

/* Samples [height, width, C]: C is 1 (grey), 3 (colour) or, of a JPEG, 4 (CMYK as Adobe stores it, inverted).
 * Orientation 1 to 8 goes into an EXIF block; 0: none. The caller frees the result. */
uint8_t *picture_jpeg(const uint8_t *samples, int height, int width, int channels, int progressive, int orientation,
                      size_t *n);
/* Rows are in the format of libpng's colour type and bit depth; a palette has 256 colours (i, 255 - i, i / 2). */
uint8_t *picture_png(const uint8_t *rows, size_t row_bytes, int height, int width, int colour_type, int depth,
                     int interlaced, int orientation, size_t *n);

#endif
