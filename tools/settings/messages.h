/* Prints the library's messages on standard error, for every program of the command: starling and starling-sim. */
#ifndef SL_MESSAGES_H
#define SL_MESSAGES_H

/* From now on the library's warnings and errors are printed, "starling: warning: ..."; errors alone if `quiet` is set.
 * Call before threads start. */
void sl__messages_print(int quiet);

#endif
