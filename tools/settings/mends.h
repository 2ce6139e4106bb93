/* Names the options that remedy a failure. The library names the setting at fault by its own field; this maps the field
 * to the option that sets it. */
#ifndef SL_MENDS_H
#define SL_MENDS_H

#include <stddef.h>

#include "tools/settings/options.h"

/* From now on only options of this command are named. */
void sl__mends_for(const sl__command *command);
/* " (--length, --val-fraction)" for the settings "window, validation_fraction" (sl_error_setting), in buffer; "" if no
 * setting has an option. */
const char *sl__mending_options(const char *settings, char *buffer, size_t n);

#endif
