/* Loads YAML documents by libyaml, within limits. */
#include "tools/settings/yaml_document.h"

#include <stdlib.h>
#include <string.h>

/* Refuses deep nesting and thousands of anchors, for which libyaml's time grows with the square of the file's size. A
 * file of settings has at most three levels and one value for each of them. */
static sl_status check_size(const char *name, const char *text, size_t n) {
  enum { DEPTH = 16, EVENTS = 10000 };
  yaml_parser_t parser;
  sl_status status = SL_OK;
  if (!yaml_parser_initialize(&parser)) return sl_no_memory("for %s", name);
  yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
  for (int events = 1, depth = 0, documents = 0, end = 0; !end && status == SL_OK; events++) {
    yaml_event_t event;
    if (!yaml_parser_parse(&parser, &event)) break; /* yaml_parser_load reports the error */
    depth += event.type == YAML_SEQUENCE_START_EVENT || event.type == YAML_MAPPING_START_EVENT;
    depth -= event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT;
    documents += event.type == YAML_DOCUMENT_START_EVENT;
    end = event.type == YAML_STREAM_END_EVENT;
    const size_t line = event.start_mark.line + 1;
    yaml_event_delete(&event);
    if (depth > DEPTH)
      status = sl_fail(SL_EINVAL, "%s, line %zu: nested deeper than %d levels", name, line, DEPTH);
    else if (events > EVENTS)
      status = sl_fail(SL_EINVAL, "%s, line %zu: more than %d keys and values", name, line, EVENTS);
    else if (documents > 1)
      status = sl_fail(SL_EINVAL, "%s, line %zu: a second document begins; a file holds one", name, line);
  }
  yaml_parser_delete(&parser);
  return status;
}

sl_status sl__yaml_parse(const char *name, const char *text, size_t n, yaml_document_t *document) {
  yaml_parser_t parser;
  SL_TRY(check_size(name, text, n));
  if (!yaml_parser_initialize(&parser)) return sl_no_memory("for %s", name);
  yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
  sl_status status = SL_OK;
  if (!yaml_parser_load(&parser, document))
    status = parser.error == YAML_MEMORY_ERROR
                 ? sl_no_memory("for %s", name)
                 : sl_fail(SL_EINVAL, "%s, line %zu: not YAML: %s", name, parser.problem_mark.line + 1,
                           parser.problem ? parser.problem : "?");
  yaml_parser_delete(&parser);
  return status;
}

sl_status sl__yaml_load(const char *path, sl_file_reader *read, yaml_document_t *document) {
  enum { LIMIT = 1 << 20 };
  char *text;
  size_t n;
  SL_TRY(read(path, LIMIT, &text, &n));
  const sl_status status = sl__yaml_parse(path, text, n, document);
  free(text);
  return status;
}

const char *sl__yaml_text(const yaml_node_t *node) {
  return node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

const yaml_node_pair_t *sl__yaml_twice(yaml_document_t *document, const yaml_node_t *section,
                                       const yaml_node_pair_t *pair) {
  const char *name = sl__yaml_text(yaml_document_get_node(document, pair->key));
  for (const yaml_node_pair_t *other = section->data.mapping.pairs.start; other < pair; other++) {
    const char *same = sl__yaml_text(yaml_document_get_node(document, other->key));
    if (name && same && strcmp(name, same) == 0) return other;
  }
  return NULL;
}
