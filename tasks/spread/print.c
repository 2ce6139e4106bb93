/* Tables and JSON of transfers: what moves between the ranks in a step, and why. */
#include "tasks/spread/print.h"

/* Megabytes that move; a wait moves none. */
static double megabytes(const sl_graph *g, const sl_transfer *t) {
  return t->kind == SL_TRANSFER_WAIT ? 0 : 1e-6 * (double)sl_value_bytes(g->value[t->value]);
}

static const char *where(const sl_graph *g, const sl_transfer *t) {
  return t->before < g->n_nodes ? g->node[t->before]->name : "the step's end";
}

/* The layer of the node that reads the value. A fetch moves while an earlier node runs. */
static const char *reader(const sl_graph *g, const sl_transfer *t) {
  return t->fetched ? g->node[t->since]->name : where(g, t);
}

/* Whether the transfer moves anything: if one rank computes all samples, only messages move. */
static int moves(const sl_placements *p, const sl_transfer *t) { return p->ranks > 1 || t->kind == SL_TRANSFER_SEND; }

static const char *name_of(const sl_transfer *t) { return t->fetched ? "fetch" : sl_transfer_name(t->kind); }

/* The names of the sender and the receiver of a value. */
static const char *sender(const sl_placements *p, const sl_transfer *t, char *text) {
  return t->kind == SL_TRANSFER_SEND ? sl_model_rank_text(t->sender, p->tensor, text)
                                     : sl_placement_text(t->have, text);
}

static const char *receiver(const sl_placements *p, const sl_transfer *t, char *text) {
  return t->kind == SL_TRANSFER_SEND ? sl_model_rank_text(t->receiver, p->tensor, text)
                                     : sl_placement_text(t->need, text);
}

void sl_model_rank_describe(const sl_graph *g, const sl_placements *p, int model_rank, sl_model_rank *s) {
  *s = (sl_model_rank){0};
  for (int i = 0; i < g->n_nodes; i++) {
    const sl_node *node = g->node[i];
    if (!sl_placement_on(p->computes, i, model_rank)) continue;
    s->flops += sl_node_cost(g, node, &(sl_tiles){0}).flops;
    if (node->phase != SL_PHASE_FORWARD || node->n_in == 0) continue;
    for (int k = 0; k < node->n_in && !s->first; k++) /* every model rank computes nodes that depend on inputs alone */
      if (g->value[node->in[k]]->role != SL_ROLE_TEMPORARY) s->first = node->name;
    s->last = node->name;
  }
  for (sl_value v = 0; v < g->n_values; v++)
    if (g->value[v]->role != SL_ROLE_TEMPORARY && sl_placement_on(p->keeps, v, model_rank))
      s->kept += sl_value_bytes(g->value[v]);
  for (int i = 0; i < p->n_transfers; i++) {
    const sl_transfer *t = &p->transfer[i];
    if (t->kind == SL_TRANSFER_SEND && t->sender == model_rank) s->sent += sl_value_bytes(g->value[t->value]);
  }
}

sl_status sl_print_model_ranks(const sl_graph *g, const sl_placements *p, int n, FILE *file) {
  fprintf(file, "\nthe model divided among %d ranks\n\n%-18s  %10s  %9s  %9s  %s\n", n, "rank", "GFLOP", "MB kept",
          "MB sent", "layers");
  for (int k = 0; k < n; k++) {
    char text[SL_PLACEMENT_TEXT];
    sl_model_rank s;
    sl_model_rank_describe(g, p, k, &s);
    fprintf(file, "%-18s  %10.3f  %9.3f  %9.3f  %s to %s\n", sl_model_rank_text(k, p->tensor, text), 1e-9 * s.flops,
            1e-6 * (double)s.kept, 1e-6 * (double)s.sent, s.first ? s.first : "-", s.last ? s.last : "-");
  }
  return ferror(file) ? sl_fail(SL_EIO, "the table of ranks cannot be written") : SL_OK;
}

sl_status sl_model_ranks_to_json(const sl_graph *g, const sl_placements *p, int n, json_t **json) {
  *json = json_array();
  for (int k = 0; k < n && *json; k++) {
    sl_model_rank s;
    sl_model_rank_describe(g, p, k, &s);
    json_array_append_new(
        *json, json_pack("{s:i, s:i, s:s, s:s, s:f, s:I, s:I}", "stage", k / p->tensor, "part", k % p->tensor,
                         "first_layer", s.first ? s.first : "", "last_layer", s.last ? s.last : "", "flops", s.flops,
                         "kept_bytes", (json_int_t)s.kept, "sent_bytes", (json_int_t)s.sent));
  }
  return *json ? SL_OK : sl_no_memory("for the ranks as JSON");
}

sl_status sl_print_transfers(const sl_graph *g, const sl_placements *p, FILE *file) {
  int n = 0;
  for (int i = 0; i < p->n_transfers; i++) n += moves(p, &p->transfer[i]);
  fprintf(file, "\nbetween the ranks: %d transfers\n\n%-32s  %-18s  %-18s  %-8s %9s  %s\n", n, "value", "lies",
          "is needed", "transfer", "MB", "in front of, for");
  for (int i = 0; i < p->n_transfers; i++) {
    const sl_transfer *t = &p->transfer[i];
    if (!moves(p, t)) continue;
    char have[SL_PLACEMENT_TEXT], need[SL_PLACEMENT_TEXT];
    fprintf(file, "%-32s  %-18s  %-18s  %-8s %9.3f  %s%s%s\n", g->value[t->value]->name, sender(p, t, have),
            receiver(p, t, need), name_of(t), megabytes(g, t), where(g, t), t->fetched ? ", " : "",
            t->fetched ? reader(g, t) : "");
  }
  return ferror(file) ? sl_fail(SL_EIO, "the table of transfers cannot be written") : SL_OK;
}

sl_status sl_transfers_to_json(const sl_graph *g, const sl_placements *p, json_t **json) {
  *json = json_array();
  for (int i = 0; i < p->n_transfers && *json; i++) {
    const sl_transfer *t = &p->transfer[i];
    if (!moves(p, t)) continue;
    char have[SL_PLACEMENT_TEXT], need[SL_PLACEMENT_TEXT];
    json_array_append_new(
        *json, json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:s}", "value", g->value[t->value]->name, "lies",
                         sender(p, t, have), "needed", receiver(p, t, need), "transfer", name_of(t), "bytes",
                         (json_int_t)(1e6 * megabytes(g, t) + 0.5), "before", where(g, t), "reader", reader(g, t)));
  }
  return *json ? SL_OK : sl_no_memory("for the transfers as JSON");
}
