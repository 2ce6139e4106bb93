/* The subcommands, one file each. A failure is returned as a status, whose text is sl_error(). A function that returns
 * SL_OK may set another exit code than 0. */
#ifndef SL_TOOLS_COMMANDS_H
#define SL_TOOLS_COMMANDS_H

#include <jansson.h>

#include "tools/settings/options.h"

sl_status sl__train(sl__options *options, int *exit_code);
sl_status sl__eval(sl__options *options, int *exit_code);
sl_status sl__predict(sl__options *options, int *exit_code);
sl_status sl__generate(sl__options *options, int *exit_code);
sl_status sl__simulate(sl__options *options, int *exit_code);
sl_status sl__bench(sl__options *options, int *exit_code);
sl_status sl__calibrate(sl__options *options, int *exit_code);
sl_status sl__compare(sl__options *options, int *exit_code);
sl_status sl__scale(sl__options *options, int *exit_code);
sl_status sl__graph(sl__options *options, int *exit_code);
sl_status sl__import(sl__options *options, int *exit_code);
sl_status sl__tokenize(sl__options *options, int *exit_code);
sl_status sl__convert(sl__options *options, int *exit_code);
sl_status sl__trace(sl__options *options, int *exit_code);
sl_status sl__report(sl__options *options, int *exit_code);
sl_status sl__grade(sl__options *options, int *exit_code);
sl_status sl__hand_out(sl__options *options, int *exit_code);
sl_status sl__plan(sl__options *options, int *exit_code);
sl_status sl__info(sl__options *options, int *exit_code);

#endif
