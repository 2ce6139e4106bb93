/* Loads YAML documents by libyaml, within limits. */
#include "tools/settings/yaml_document.h"

#include <stdlib.h>
#include <string.h>

#include "tools/settings/table.h"

/* Refuses deep nesting and many directives ("%TAG ..."): libyaml's time grows with the square of either. A file of
 * settings has at most three levels, and needs no directive. */
static sl_status check_tokens(const char *name, const char *text, size_t n) {
  enum { DEPTH = 16, DIRECTIVES = 4 };
  yaml_parser_t parser;
  sl_status status = SL_OK;
  if (!yaml_parser_initialize(&parser)) return sl_no_memory("for %s", name);
  yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
  for (int depth = 0, directives = 0, end = 0; !end && status == SL_OK;) {
    yaml_token_t token;
    if (!yaml_parser_scan(&parser, &token)) break; /* yaml_parser_load reports the error */
    const yaml_token_type_t type = token.type;
    const size_t line = token.start_mark.line + 1;
    yaml_token_delete(&token);
    depth += type == YAML_BLOCK_SEQUENCE_START_TOKEN || type == YAML_BLOCK_MAPPING_START_TOKEN ||
             type == YAML_FLOW_SEQUENCE_START_TOKEN || type == YAML_FLOW_MAPPING_START_TOKEN;
    depth -=
        type == YAML_BLOCK_END_TOKEN || type == YAML_FLOW_SEQUENCE_END_TOKEN || type == YAML_FLOW_MAPPING_END_TOKEN;
    directives += type == YAML_VERSION_DIRECTIVE_TOKEN || type == YAML_TAG_DIRECTIVE_TOKEN;
    end = type == YAML_STREAM_END_TOKEN;
    if (depth > DEPTH)
      status = sl_fail(SL_EINVAL, "%s, line %zu: nested deeper than %d levels", name, line, DEPTH);
    else if (directives > DIRECTIVES)
      status = sl_fail(SL_EINVAL, "%s, line %zu: more than %d directives (lines that begin with %%): remove them", name,
                       line, DIRECTIVES);
  }
  yaml_parser_delete(&parser);
  return status;
}

/* Refuses thousands of values: all may be anchors, and libyaml's time grows with the square of their number, too. */
static sl_status check_events(const char *name, const char *text, size_t n) {
  enum { EVENTS = 10000 };
  yaml_parser_t parser;
  sl_status status = SL_OK;
  if (!yaml_parser_initialize(&parser)) return sl_no_memory("for %s", name);
  yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
  for (int events = 1, documents = 0, end = 0; !end && status == SL_OK; events++) {
    yaml_event_t event;
    if (!yaml_parser_parse(&parser, &event)) break; /* yaml_parser_load reports the error */
    documents += event.type == YAML_DOCUMENT_START_EVENT;
    end = event.type == YAML_STREAM_END_EVENT;
    const size_t line = event.start_mark.line + 1;
    yaml_event_delete(&event);
    if (events > EVENTS)
      status = sl_fail(SL_EINVAL, "%s, line %zu: more than %d keys and values", name, line, EVENTS);
    else if (documents > 1)
      status = sl_fail(SL_EINVAL, "%s, line %zu: a second document begins; a file holds one", name, line);
  }
  yaml_parser_delete(&parser);
  return status;
}

sl_status sl__yaml_parse(const char *name, const char *text, size_t n, yaml_document_t *document) {
  yaml_parser_t parser;
  SL_TRY(check_tokens(name, text, n));
  SL_TRY(check_events(name, text, n));
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
    if (name && same && (sl__same_name(name, same) || sl__same_name(same, name))) return other;
  }
  return NULL;
}
