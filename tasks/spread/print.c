/* Tables and JSON of transfers: what moves between the ranks in a step, and why. */
#include "tasks/spread/print.h"

/* Megabytes that move; a wait moves none. */
static double megabytes(const sl_graph *g, const sl_transfer *t) {
  return t->kind == SL_TRANSFER_WAIT ? 0 : 1e-6 * (double)sl_value_bytes(g->value[t->value]);
}

static const char *where(const sl_graph *g, const sl_transfer *t) {
  return t->before < g->n_nodes ? g->node[t->before]->name : "the step's end";
}

/* A fetch moves while an earlier node runs than the one that needs the value. */
static const char *reader(const sl_graph *g, const sl_transfer *t) {
  return t->fetched ? g->node[t->since]->name : where(g, t);
}

static const char *name_of(const sl_transfer *t) { return t->fetched ? "fetch" : sl_transfer_name(t->kind); }

sl_status sl_print_transfers(const sl_graph *g, const sl_placements *p, FILE *file) {
  fprintf(file, "\nbetween %d ranks: %d transfers\n\n%-32s  %-18s  %-18s  %-8s %9s  %s\n", p->ranks, p->n_transfers,
          "value", "lies", "is needed", "transfer", "MB", "in front of, for");
  for (int i = 0; i < p->n_transfers; i++) {
    const sl_transfer *t = &p->transfer[i];
    char have[SL_PLACEMENT_TEXT], need[SL_PLACEMENT_TEXT];
    fprintf(file, "%-32s  %-18s  %-18s  %-8s %9.3f  %s%s%s\n", g->value[t->value]->name,
            sl_placement_text(t->have, have), sl_placement_text(t->need, need), name_of(t), megabytes(g, t),
            where(g, t), t->fetched ? ", " : "", t->fetched ? reader(g, t) : "");
  }
  return ferror(file) ? sl_fail(SL_EIO, "the table of transfers cannot be written") : SL_OK;
}

sl_status sl_transfers_to_json(const sl_graph *g, const sl_placements *p, json_t **json) {
  *json = json_array();
  for (int i = 0; i < p->n_transfers && *json; i++) {
    const sl_transfer *t = &p->transfer[i];
    char have[SL_PLACEMENT_TEXT], need[SL_PLACEMENT_TEXT];
    json_array_append_new(
        *json,
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:s}", "value", g->value[t->value]->name, "lies",
                  sl_placement_text(t->have, have), "needed", sl_placement_text(t->need, need), "transfer", name_of(t),
                  "bytes", (json_int_t)(1e6 * megabytes(g, t) + 0.5), "before", where(g, t), "reader", reader(g, t)));
  }
  return *json ? SL_OK : sl_no_memory("for the transfers as JSON");
}
