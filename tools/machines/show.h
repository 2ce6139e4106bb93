/* What `starling info` prints about machines. */
#ifndef SL_TOOLS_MACHINES_SHOW_H
#define SL_TOOLS_MACHINES_SHOW_H

#include <stdio.h>

#include "tools/machines/description.h"

/* The machines that come with Starling: a table, or JSON. */
sl_status sl__machines_print(FILE *to);
sl_status sl__machines_print_json(FILE *to);
/* Prints a machine as YAML: for a machine that comes with Starling its file, comments included; for another file, the
 * description as Starling understands it. */
sl_status sl__machine_show(const char *name, FILE *to);

#endif
