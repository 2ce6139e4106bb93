/* Finds a function's name by an address in it. */
#ifndef SL_TOOLS_SYMBOLS_H
#define SL_TOOLS_SYMBOLS_H

#include <stddef.h>

/* "sl_program_run+0x1c", or for a library "MPI_Wait+0x40 (libmpich.so.12)"; without a symbol "starling+0x1234", which
 * addr2line reads. Returns text. Allocates nothing after the first call, which reads this program's table of symbols.
 */
char *sl__symbol_of(const void *address, char *text, size_t n);

#endif
