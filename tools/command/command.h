/* The table of subcommands, and the manual page that is made of it and of the table of settings. */
#ifndef SL_TOOLS_COMMAND_H
#define SL_TOOLS_COMMAND_H

#include <stdio.h>

#include "tools/settings/options.h"

extern const sl__command *const sl__commands[]; /* ended by NULL */

/* starling.1, whole, made from the tables of commands and options. */
void sl__print_manual(FILE *file);

#endif
