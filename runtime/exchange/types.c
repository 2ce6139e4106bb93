/* The list of exchanges. A new implementation adds an X here. */
#include <string.h>

#include "runtime/exchange/exchange.h"
#include "runtime/exchange/mpi.h"
#include "runtime/exchange/tree.h"

#define EXCHANGES(X) X(tree) X(mpi)

#define POINTER(name) &sl__exchange_##name,
#define NAME(name) #name,
const sl_exchange_type *const sl_exchange_types[] = {EXCHANGES(POINTER) NULL};
const char *const sl_exchange_names[] = {EXCHANGES(NAME) NULL};

const sl_exchange_type *sl_exchange_find(const char *name) {
  for (int i = 0; sl_exchange_types[i]; i++)
    if (strcmp(sl_exchange_types[i]->name, name) == 0) return sl_exchange_types[i];
  return NULL;
}
