/* A YAML document as a tree, for every file of settings: options, machines. */
#ifndef SL_TOOLS_YAML_DOCUMENT_H
#define SL_TOOLS_YAML_DOCUMENT_H

#include <yaml.h>

#include "runtime/base/file.h"

/* Reads the one document of a text of n bytes; `name` begins the messages. SL_EINVAL: not YAML, several documents,
 * nested too deep, too many values. The caller must call yaml_document_delete. */
sl_status sl__yaml_parse(const char *name, const char *text, size_t n, yaml_document_t *document);
/* The same for a file of at most 1 MiB, which `read` reads: sl_file_read or sl_file_read_regular. SL_ENOTFOUND, SL_EIO,
 * SL_EFORMAT (larger). */
sl_status sl__yaml_load(const char *path, sl_file_reader *read, yaml_document_t *document);

/* The text of a plain value; NULL: a list or a section. */
const char *sl__yaml_text(const yaml_node_t *node);
/* The pair before `pair` in the section that has the same key; NULL: there is none. */
const yaml_node_pair_t *sl__yaml_twice(yaml_document_t *document, const yaml_node_t *section,
                                       const yaml_node_pair_t *pair);

#endif
