/* The keys of a machine's file, private to this folder. One table serves reader and writer. */
#ifndef SL_TOOLS_MACHINE_KEYS_H
#define SL_TOOLS_MACHINE_KEYS_H

#include "tools/machines/description.h"

typedef enum sl__key_kind {
  SL__KEY_NAME,     /* text of letters, digits and .-_+ */
  SL__KEY_TEXT,     /* any text */
  SL__KEY_COUNT,    /* int */
  SL__KEY_REAL,     /* double: value times unit */
  SL__KEY_TOPOLOGY, /* sl__topology */
  SL__KEY_WHOLE,    /* double without fraction */
  SL__KEY_EXTENTS   /* double[3]: a list of one to three whole numbers */
} sl__key_kind;

/* When a key must be given. */
typedef enum sl__key_set {
  SL__SET_SECTION,  /* if its section is there */
  SL__SET_NONE,     /* never: the key is optional */
  SL__SET_BETWEEN,  /* if another key of the network between nodes is given */
  SL__SET_FAT_TREE, /* if the topology is a fat tree; with others the key is an error. Likewise the next two */
  SL__SET_DRAGONFLY,
  SL__SET_TORUS
} sl__key_set;

typedef struct sl__machine_key {
  const char *path;    /* "cpu.gflops.fp32" */
  const char *section; /* "cpu": the section that needs it; "": every machine */
  sl__key_set set;
  sl__key_kind kind;
  size_t offset, size; /* of the field; of a text, with its zero byte */
  double unit;         /* the field is the key's number times unit, such as 1e9 */
  double least, most;  /* in the key's unit */
  const char *example;
  const char *meaning; /* completes "KEY: " in messages */
} sl__machine_key;

extern const sl__machine_key sl__machine_keys[];
extern const int sl__machine_keys_count;
enum { SL__MACHINE_KEYS_MOST = 64 };

extern const char *const sl__topology_names[]; /* ends with NULL; in the order of sl__topology */

/* Whether the key belongs to any network, or to one of the machine's topology. */
int sl__machine_has_topology_of(const sl__machine_description *machine, const sl__machine_key *key);

#endif
