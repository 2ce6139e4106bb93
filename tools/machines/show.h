/* What `starling info` prints about machines. */
#ifndef SL_TOOLS_MACHINES_SHOW_H
#define SL_TOOLS_MACHINES_SHOW_H

#include <stdio.h>

#include "tools/machines/description.h"

/* The machines that come with Starling: a table, or JSON. */
sl_status sl__machines_print(FILE *to);
sl_status sl__machines_print_json(FILE *to);
/* A machine as YAML: the file of one that comes with Starling, with its comments; a file as Starling understands it. */
sl_status sl__machine_show(const char *name, FILE *to);

#endif
