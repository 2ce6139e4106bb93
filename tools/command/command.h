/* The table of subcommands, and the manual page made from it and from the table of settings. */
#ifndef SL_TOOLS_COMMAND_H
#define SL_TOOLS_COMMAND_H

#include <stdio.h>

#include "tools/settings/options.h"

extern const sl__command *const sl__commands[]; /* ended by NULL */

/* Prints the manual page starling.1 from the tables of commands and options. */
void sl__print_manual(FILE *file);

#endif
