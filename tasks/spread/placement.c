/* The kinds of placement, and the table of transitions between them. */
#include "tasks/spread/placement.h"

#include <stdio.h>

enum { ANY = SL_PLACE_READS | SL_PLACE_OVERWRITES };

/* A new kind of parallelism adds its rows here. Without a matching row sl_placements_create fails, so nothing is
 * exchanged by accident. */
static const sl_transition table[] = {
    /* Gradients and losses of plain data parallelism: every rank gets the sum. */
    {SL_PLACE_PARTIAL, SL_PLACE_REPLICATED, ANY, SL_TRANSFER_SUM, SL_PLACE_REPLICATED},
    /* ZeRO 1: only the rank that updates a parameter needs its gradient. */
    {SL_PLACE_PARTIAL, SL_PLACE_OWNED, ANY, SL_TRANSFER_SUM, SL_PLACE_OWNED},
    /* ZeRO 1: every rank reads the norms that clipping adds up, and in the next step the updated parameters. */
    {SL_PLACE_OWNED, SL_PLACE_REPLICATED, ANY, SL_TRANSFER_COPY, SL_PLACE_REPLICATED},
    /* Gathered sums: a rank that adds up needs the samples of all ranks. They are small, so all ranks get them, even if
     * only one adds up. */
    {SL_PLACE_BY_SAMPLE, SL_PLACE_REPLICATED, SL_PLACE_READS, SL_TRANSFER_GATHER, SL_PLACE_REPLICATED},
    {SL_PLACE_BY_SAMPLE, SL_PLACE_OWNED, SL_PLACE_READS, SL_TRANSFER_GATHER, SL_PLACE_REPLICATED},
    /* After a gathering: each rank has its own samples among them. */
    {SL_PLACE_REPLICATED, SL_PLACE_BY_SAMPLE, SL_PLACE_READS, SL_TRANSFER_NONE, SL_PLACE_REPLICATED},
    /* The owner has a copy, such as the factor of clipping. */
    {SL_PLACE_REPLICATED, SL_PLACE_OWNED, SL_PLACE_READS, SL_TRANSFER_NONE, SL_PLACE_REPLICATED},
    /* Ranks of a node may share a parameter's memory: the owner overwrites it after all ranks have read it. */
    {SL_PLACE_REPLICATED, SL_PLACE_OWNED, SL_PLACE_OVERWRITES, SL_TRANSFER_WAIT, SL_PLACE_REPLICATED},
};

const sl_transition *sl_transition_find(sl_placement have, sl_placement need, unsigned access) {
  static const sl_transition same = {.kind = SL_TRANSFER_NONE};
  if (sl_placement_equal(have, need)) return &same;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (table[i].have == have.kind && table[i].need == need.kind && (table[i].access & access)) return &table[i];
  return NULL;
}

int sl_placement_equal(sl_placement a, sl_placement b) { return a.kind == b.kind && a.rank == b.rank; }

int sl_placement_elsewhere(sl_placement p, int rank) { return p.kind == SL_PLACE_OWNED && p.rank != rank; }

int sl_placement_on(const sl_rank_set *sets, int index, int model_rank) {
  return !sets || sl_rank_set_has(sets[index], model_rank);
}

const char *sl_placement_text(sl_placement p, char *text) {
  static const char *const name[SL_PLACE_KINDS] = {"by sample",  "by rows",       "by columns",
                                                   "replicated", "owned by rank", "partial sums"};
  if ((unsigned)p.kind >= SL_PLACE_KINDS)
    snprintf(text, SL_PLACEMENT_TEXT, "?");
  else if (p.kind == SL_PLACE_OWNED)
    snprintf(text, SL_PLACEMENT_TEXT, "%s %d", name[p.kind], p.rank);
  else
    snprintf(text, SL_PLACEMENT_TEXT, "%s", name[p.kind]);
  return text;
}

const char *sl_model_rank_text(int model_rank, int tensor, char *text) {
  if (tensor > 1)
    snprintf(text, SL_PLACEMENT_TEXT, "stage %d, part %d", model_rank / tensor, model_rank % tensor);
  else
    snprintf(text, SL_PLACEMENT_TEXT, "stage %d", model_rank);
  return text;
}

const char *sl_transfer_name(sl_transfer_kind kind) {
  static const char *const name[] = {"none", "sum", "copy", "gather", "wait", "send"};
  return (unsigned)kind < sizeof name / sizeof *name ? name[kind] : "?";
}
