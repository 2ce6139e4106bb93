/* Names the options that remedy a failure. The library names the setting at fault by its own field; this maps the field
 * to the option that sets it. */
#ifndef SL_MENDS_H
#define SL_MENDS_H

#include <stddef.h>

/* " (--length, --val-fraction)" for the settings "window, validation_fraction" (sl_error_setting), in buffer; "" if no
 * setting has an option. */
const char *sl__mending_options(const char *settings, char *buffer, size_t n);

#endif
