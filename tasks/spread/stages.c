/* Divides a logical graph among the model ranks. */
#include "tasks/spread/stages.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/graph/folds.h"
#include "tasks/spread/owners.h"

enum { NONE = -1 };

/* Speeds of an ordinary machine, by which the cuts are chosen. Only their ratios count. */
static const double flops_per_s = 1e11, bytes_per_s = 2e10, message_bytes_per_s = 1e9;

typedef struct cutter {
  const sl_graph *g;
  int stages;    /* of the pipeline */
  int runs;      /* of layers, some on each stage */
  int tensor;    /* ranks of a stage, which divide the folds */
  int n;         /* forward nodes that are divided */
  int *node;     /* [n] the divided nodes, in order */
  int *place;    /* [logical nodes] place in `node`; NONE */
  char *learns;  /* [logical values] 1: depends on parameters or state */
  int *moved;    /* [n] run of a lookup that is computed where its table is needed; NONE */
  double *until; /* [n + 1] predicted seconds of the nodes before a place, backward nodes included */
  double *cross; /* [n + 1] seconds of the messages between the nodes before a place and those after it */
  int *cut;      /* [runs + 1] run k has the nodes at places cut[k] ... cut[k + 1] - 1 */
  double *share; /* [runs] the seconds of the runs shall be in proportion to this */
  int *run;      /* [logical nodes] the run in whose passes a node is computed; NONE */
} cutter;

/* The ranks of a stage. */
static sl_rank_set all_of(const cutter *c, int stage) { return sl_rank_set_of(c->tensor) << stage * c->tensor; }

static int is_whole(const cutter *c, sl_run fold) { return fold.to - fold.from >= c->g->folds; }

/* The ranks of a stage that compute these folds. */
static sl_rank_set ranks_of(const cutter *c, int stage, sl_run fold) {
  sl_rank_set set = 0;
  if (is_whole(c, fold)) return all_of(c, stage);
  for (int t = 0; t < c->tensor; t++)
    if (sl_first_fold(c->g->folds, c->tensor, t) < fold.to && sl_first_fold(c->g->folds, c->tensor, t + 1) > fold.from)
      set |= (sl_rank_set)1 << (stage * c->tensor + t);
  return set;
}

/* All ranks of the first stage in the set. */
static sl_rank_set stage_of(const cutter *c, sl_rank_set set) {
  for (int s = 0; s < c->stages; s++)
    if (set & all_of(c, s)) return all_of(c, s);
  return 0;
}

/* The members of the set that are ranks of its first stage. */
static sl_rank_set first_of(const cutter *c, sl_rank_set set) { return set & stage_of(c, set); }

static double seconds_of(const sl_graph *g, const sl_node *node) {
  const sl_cost cost = sl_node_cost(g, node, &(sl_tiles){0});
  return cost.flops / flops_per_s + cost.bytes / bytes_per_s;
}

/* Whether a node is divided: a forward node that depends on samples and on parameters. Others follow their readers. */
static int is_divided(const cutter *c, const sl_node *node) {
  int learns = 0;
  for (int k = 0; k < node->n_in; k++) learns |= c->learns[node->in[k]];
  return node->phase == SL_PHASE_FORWARD && learns && sl_node_scope(c->g, node) != SL_SCOPE_WHOLE;
}

/* Finds the values that depend on parameters or state. */
static void find_learning(cutter *c) {
  const sl_graph *g = c->g;
  for (sl_value v = 0; v < g->n_values; v++) c->learns[v] = g->value[v]->role != SL_ROLE_TEMPORARY;
  for (int i = 0; i < g->n_nodes; i++)
    for (int k = 0; k < g->node[i]->n_in; k++)
      for (int j = 0; j < g->node[i]->n_out; j++) c->learns[g->node[i]->out[j]] |= c->learns[g->node[i]->in[k]];
}

/* The place of the last divided node in the layer of `node`; NONE. key[n]: keys of the divided nodes; the nodes of a
 * layer have the same key. */
static int place_of_layer(const cutter *c, const uint32_t *key, const sl_node *node) {
  for (int k = c->n; k-- > 0;)
    if (key[k] == node->key && strcmp(c->g->node[c->node[k]]->name, node->name) == 0) return k;
  return NONE;
}

static void list_nodes(cutter *c, uint32_t *key) {
  const sl_graph *g = c->g;
  for (int i = 0; i < g->n_nodes; i++) {
    c->place[i] = NONE;
    if (!is_divided(c, g->node[i])) continue;
    c->place[i] = c->n;
    key[c->n] = g->node[i]->key;
    c->node[c->n++] = i;
  }
  for (int i = 0; i < g->n_nodes; i++) {
    if (g->node[i]->phase == SL_PHASE_BACKWARD) c->place[i] = place_of_layer(c, key, g->node[i]);
    const double share = is_whole(c, g->node[i]->fold) ? 1 : 1.0 / c->tensor;
    if (c->place[i] != NONE) c->until[c->place[i] + 1] += share * seconds_of(g, g->node[i]);
  }
  for (int k = 0; k < c->n; k++) c->until[k + 1] += c->until[k];
}

/* A value that a node at place a makes and one at place b > a reads crosses every cut between them; its gradient
 * crosses them, too. */
static void find_crossings(cutter *c, int *made, int *read) {
  const sl_graph *g = c->g;
  for (sl_value v = 0; v < g->n_values; v++) made[v] = read[v] = NONE;
  for (int k = 0; k < c->n; k++) {
    const sl_node *node = g->node[c->node[k]];
    for (int i = 0; i < node->n_in; i++)
      if (made[node->in[i]] != NONE) read[node->in[i]] = k;
    for (int j = 0; j < node->n_out; j++)
      if (g->value[node->out[j]]->scope != SL_SCOPE_WHOLE && made[node->out[j]] == NONE) made[node->out[j]] = k;
  }
  for (sl_value v = 0; v < g->n_values; v++)
    for (int k = made[v] + 1; made[v] != NONE && k <= read[v]; k++)
      c->cross[k] += 2 * (double)sl_value_bytes(g->value[v]) / message_bytes_per_s;
}

/* Whether the node computes the last part of the positions, between two stretches (folds.h). */
static int is_last_part(const cutter *c, const sl_node *node) {
  return node->op->along && node->fold.to == c->g->folds && node->fold.from == node->fold.to - 1;
}

/* Forbids a cut behind each node that computes only some folds, so a stretch (folds.h) stays in one run up to the sum
 * over all folds. */
static void keep_stretches(cutter *c) {
  for (int k = 0; k < c->n; k++) {
    const sl_node *node = c->g->node[c->node[k]];
    if (!is_whole(c, node->fold) && !is_last_part(c, node)) c->cross[k + 1] = INFINITY;
  }
}

/* Forbids a cut between two nodes of a layer. All its backward nodes are computed in one run, so with such a cut its
 * parameters would move between stages in each step. */
static void keep_layers(cutter *c, const uint32_t *key) {
  for (int k = 0; k + 1 < c->n; k++)
    if (key[k] == key[k + 1] && strcmp(c->g->node[c->node[k]]->name, c->g->node[c->node[k + 1]]->name) == 0)
      c->cross[k + 1] = INFINITY;
}

/* Forbids each cut between a backward node and a backward node of a later layer that reads the first node's outputs, as
 * in a block that is computed again: the backward passes go from the last stage to the first. */
static void forbid_cuts(cutter *c, int *made) {
  const sl_graph *g = c->g;
  for (sl_value v = 0; v < g->n_values; v++) made[v] = NONE;
  for (int i = 0; i < g->n_nodes; i++) {
    const sl_node *node = g->node[i];
    if (node->phase != SL_PHASE_BACKWARD || c->place[i] == NONE) continue;
    for (int k = 0; k < node->n_in; k++)
      for (int at = made[node->in[k]]; at != NONE && at < c->place[i]; at++) c->cross[at + 1] = INFINITY;
    for (int j = 0; j < node->n_out; j++)
      if (g->value[node->out[j]]->scope != SL_SCOPE_WHOLE) made[node->out[j]] = c->place[i];
  }
}

/* Seconds of run k with places [from, to), over its share. */
static double run_seconds(const cutter *c, int k, int from, int to) {
  return (c->until[to] - c->until[from] + c->cross[from] + c->cross[to]) / c->share[k];
}

static sl_status bad_cuts(sl_status status) { return sl_blame(status, "stages"); }

/* Reads pipe->cuts as a list of numbers. */
static sl_status read_shares(cutter *c, const char *cuts) {
  int n = 0;
  for (const char *at = cuts; *at || n == 0 || at[-1] == ','; n++) {
    char *end;
    const int length = (int)strcspn(at, ",");
    const double share = strtod(at, &end);
    if (end != at + length || !(share >= 1e-6 && share <= 1e6))
      return bad_cuts(
          sl_fail(SL_EINVAL, "the share of a stage, '%.*s', must be a number from 0.000001 to 1000000", length, at));
    if (n < c->runs) c->share[n] = share;
    at += length + (at[length] == ',');
  }
  if (n == c->runs) return SL_OK;
  return bad_cuts(
      sl_fail(SL_EINVAL, "%d shares ('%.80s') for %d %s of layers", n, cuts, c->runs, c->runs > 1 ? "runs" : "run"));
}

/* The place of the first divided node of a layer, or of the first layer of a block; NONE. */
static int place_named(const cutter *c, const char *name, int length) {
  for (int k = 0; k < c->n; k++) {
    const char *layer = c->g->node[c->node[k]]->name;
    if (strncmp(layer, name, (size_t)length) == 0 && (layer[length] == '\0' || layer[length] == '.')) return k;
  }
  return NONE;
}

/* Reads pipe->cuts as a list of layers, and cuts in front of them. */
static sl_status cut_by_names(cutter *c, const char *cuts) {
  int n = 0;
  for (const char *at = cuts; *at || n == 0 || at[-1] == ','; n++) {
    const int length = (int)strcspn(at, ","), place = place_named(c, at, length), last = n < c->runs ? c->cut[n] : 0;
    if (place == NONE)
      return bad_cuts(sl_fail(SL_EINVAL, "the model has no layer '%.*s' that can begin a stage; the first one is '%s'",
                              length, at, c->g->node[c->node[0]]->name));
    if (n < c->runs && place <= last)
      return bad_cuts(
          sl_fail(SL_EINVAL, "layer '%.*s' must come after the layer with which the run before begins", length, at));
    if (!isfinite(c->cross[place]))
      return bad_cuts(
          sl_fail(SL_EINVAL,
                  "the layers cannot be cut in front of '%.*s': a part that must stay on one stage, such as "
                  "a block that is computed again, goes on there",
                  length, at));
    if (n + 1 < c->runs) c->cut[n + 1] = place;
    at += length + (at[length] == ',');
  }
  c->cut[c->runs] = c->n;
  if (n + 1 == c->runs) return SL_OK;
  return bad_cuts(sl_fail(SL_EINVAL, "%d layers ('%.80s') at which runs begin, for %d %s of layers: name one less", n,
                          cuts, c->runs, c->runs > 1 ? "runs" : "run"));
}

/* Chooses the cuts that make the slowest run fastest: for each number of runs and each end, the best last cut. */
static sl_status choose_cuts(cutter *c) {
  const int width = c->n + 1;
  double *best = malloc((size_t)(c->runs + 1) * (size_t)width * sizeof *best);
  int *from = malloc((size_t)(c->runs + 1) * (size_t)width * sizeof *from);
  if (!best || !from) {
    free(best), free(from);
    return sl_no_memory("to cut %d layers into %d runs", c->n, c->runs);
  }
  for (int k = 0; k <= c->n; k++) best[k] = k ? INFINITY : 0;
  for (int s = 1; s <= c->runs; s++)
    for (int k = 0; k <= c->n; k++) {
      best[s * width + k] = INFINITY;
      from[s * width + k] = 0;
      if (k < c->n && !isfinite(c->cross[k])) continue; /* no cut is allowed here */
      for (int j = s - 1; j < k; j++) {
        if (!isfinite(best[(s - 1) * width + j])) continue;
        const double slowest = fmax(best[(s - 1) * width + j], run_seconds(c, s - 1, j, k));
        if (slowest < best[s * width + k]) best[s * width + k] = slowest, from[s * width + k] = j;
      }
    }
  const int possible = isfinite(best[c->runs * width + c->n]);
  c->cut[c->runs] = c->n;
  for (int s = c->runs; s > 0; s--) c->cut[s - 1] = from[s * width + c->cut[s]];
  free(best), free(from);
  if (possible) return SL_OK;
  return sl_blame(sl_fail(SL_EINVAL, "the model's layers cannot be cut into %d %s: use fewer", c->runs,
                          c->runs > c->stages ? "runs (stages times chunks)" : "stages"),
                  c->runs > c->stages ? "pipe_chunks" : "mesh");
}

/* cuts: as in sl_pipeline. */
static sl_status cut(cutter *c, const char *cuts) {
  for (int k = 0; k < c->runs; k++) c->share[k] = 1;
  if (cuts && (isalpha((unsigned char)cuts[0]) || cuts[0] == '_')) return cut_by_names(c, cuts);
  if (cuts) SL_TRY(read_shares(c, cuts));
  return choose_cuts(c);
}

static int run_at(const cutter *c, int place) {
  int k = 0;
  if (c->moved[place] != NONE) return c->moved[place];
  while (place >= c->cut[k + 1]) k++;
  return k;
}

/* The last run with a node, other than at this place, that reads a value or a copy of it in 16 bits; NONE. */
static int last_reader(const cutter *c, sl_value v, int place) {
  const sl_graph *g = c->g;
  int last = NONE;
  for (int i = 0; i < g->n_nodes; i++)
    for (int k = 0; k < g->node[i]->n_in; k++) {
      if (g->node[i]->in[k] != v || g->node[i]->phase != SL_PHASE_FORWARD || c->place[i] == place) continue;
      int run = NONE;
      if (c->place[i] != NONE)
        for (run = 0; c->place[i] >= c->cut[run + 1];) run++;
      else if (g->node[i]->op == g->convert)
        run = last_reader(c, g->node[i]->out[0], place);
      if (run > last) last = run;
    }
  return last;
}

/* Moves lookups in a table that a later run reads as a whole, as a language model's head does. That run's stage then
 * computes the lookup before the first pass, and its gradient after the last pass, so rows move and not the table. The
 * condition on bytes is that of a node that gathers (place.c). Lookups in folds stay: their gradients have the place of
 * the sum over folds. */
static void move_lookups(cutter *c) {
  const sl_graph *g = c->g;
  for (int k = 0; k < c->n; k++) c->moved[k] = NONE;
  for (int k = 0; k < c->n; k++) {
    const sl_node *node = g->node[c->node[k]];
    sl_value table = SL_NONE;
    size_t bytes = 0;
    int others = 0, gathers = 0;
    for (int i = 0; i < node->n_in; i++) {
      const sl_value_info *info = g->value[node->in[i]];
      if (info->scope != SL_SCOPE_WHOLE) bytes += sl_value_bytes(info);
      if (!c->learns[node->in[i]]) continue;
      if (table != SL_NONE || info->scope != SL_SCOPE_WHOLE) others = 1;
      table = node->in[i];
    }
    for (int i = 0; i < g->n_nodes; i++)
      gathers |= c->place[i] == k && g->node[i]->phase == SL_PHASE_BACKWARD && g->node[i]->op->gathers;
    if (table == SL_NONE || others || !gathers || node->n_out != 1) continue;
    bytes += sl_value_bytes(g->value[node->out[0]]);
    if (2 * bytes >= sl_value_bytes(g->value[table])) continue;
    const int run = last_reader(c, table, k);
    if (run != NONE && k < c->cut[run]) c->moved[k] = run;
  }
}

/* The model ranks that read a node's outputs. */
static sl_rank_set readers_of(const sl_rank_set *reads, const sl_node *node) {
  sl_rank_set all = 0;
  for (int j = 0; j < node->n_out; j++) all |= reads[node->out[j]];
  return all;
}

/* Whether a node depends on inputs alone: every model rank that reads it computes it. */
static int is_free(const cutter *c, const sl_node *node) {
  int learns = 0;
  for (int k = 0; k < node->n_in; k++) learns |= c->learns[node->in[k]];
  for (int j = 0; j < node->n_out; j++) learns |= c->g->value[node->out[j]]->role != SL_ROLE_TEMPORARY;
  return !learns;
}

/* The run of the first node that reads an output. first[values]: of the first reader so far; NONE */
static int first_run(const int *first, const sl_node *node) {
  int run = NONE;
  for (int j = 0; j < node->n_out && run == NONE; j++) run = first[node->out[j]];
  return run;
}

/* Chooses the model ranks of the nodes of the forward and backward passes. Goes from the last node to the first,
 * because nodes without a place take the model ranks of their readers. reads[values]: those that read a value;
 * first[values]: run of its first reader. */
static void place_passes(const cutter *c, sl_rank_set *computes, sl_rank_set *reads, int *first) {
  const sl_graph *g = c->g;
  for (sl_value v = 0; v < g->n_values; v++) first[v] = NONE;
  for (int i = g->n_nodes; i-- > 0;) {
    const sl_node *node = g->node[i];
    if (node->phase == SL_PHASE_UPDATE) continue;
    if (c->place[i] != NONE) {
      c->run[i] = run_at(c, c->place[i]);
      computes[i] = ranks_of(c, c->run[i] % c->stages, node->fold);
    } else if (is_free(c, node)) {
      computes[i] = readers_of(reads, node);
    } else {
      c->run[i] = first_run(first, node);
      computes[i] = readers_of(reads, node) & (c->run[i] == NONE ? 0 : all_of(c, c->run[i] % c->stages));
      if (!computes[i]) computes[i] = first_of(c, readers_of(reads, node));
    }
    if (!computes[i]) {
      c->run[i] = c->runs - 1;
      computes[i] = ranks_of(c, c->stages - 1, node->fold);
    }
    for (int k = 0; k < node->n_in; k++) {
      reads[node->in[k]] |= computes[i];
      if (c->run[i] != NONE) first[node->in[k]] = c->run[i];
    }
  }
}

/* A parameter lies on the first stage that reads it in the forward pass, on those ranks that read it. State that a node
 * of the passes writes lies with this node. */
static void place_parameters(const cutter *c, const sl_rank_set *computes, sl_rank_set *keeps) {
  const sl_graph *g = c->g;
  for (int i = 0; i < g->n_nodes; i++) {
    const sl_node *node = g->node[i];
    for (int k = 0; k < node->n_in && node->phase != SL_PHASE_UPDATE; k++) {
      sl_rank_set *lies = &keeps[node->in[k]];
      if (g->value[node->in[k]]->role == SL_ROLE_TEMPORARY) continue;
      if (!*lies)
        *lies = first_of(c, computes[i]);
      else if (g->value[node->in[k]]->role == SL_ROLE_PARAMETER)
        *lies |= computes[i] & stage_of(c, *lies);
    }
    for (int j = 0; j < node->n_out && node->phase != SL_PHASE_UPDATE; j++)
      if (g->value[node->out[j]]->role != SL_ROLE_TEMPORARY) keeps[node->out[j]] = computes[i];
  }
}

/* Updates of one parameter are computed where it lies, all other updates by every model rank. */
static sl_status place_updates(const cutter *c, sl_rank_set *computes, sl_rank_set *keeps) {
  const sl_graph *g = c->g;
  const sl_rank_set all = sl_rank_set_of(c->stages * c->tensor);
  sl__owners *families;
  SL_TRY(sl__owners_find(g, c->stages * c->tensor, NULL, &families));
  for (int i = 0; i < g->n_nodes; i++) {
    if (g->node[i]->phase != SL_PHASE_UPDATE) continue;
    const int family = families->family_of_node[i];
    computes[i] = family >= 0 && keeps[family] ? keeps[family] : all;
  }
  for (sl_value v = 0; v < g->n_values; v++) {
    const int family = families->family[v];
    if (g->value[v]->role == SL_ROLE_STATE && !keeps[v]) keeps[v] = family >= 0 && keeps[family] ? keeps[family] : all;
    if (g->value[v]->role != SL_ROLE_TEMPORARY && !keeps[v]) keeps[v] = all;
  }
  /* State that every model rank updates is kept by every one. */
  for (int i = 0; i < g->n_nodes; i++)
    for (int j = 0; j < g->node[i]->n_out && computes[i] == all; j++)
      if (g->value[g->node[i]->out[j]]->role == SL_ROLE_STATE) keeps[g->node[i]->out[j]] = all;
  sl__owners_destroy(families);
  return SL_OK;
}

/* Finds the backward nodes whose outputs no forward or backward pass reads. Only updates read these outputs, and nodes
 * of this kind on the same ranks. Gradients of samples are excluded, also in the first run, which sends them to no
 * stage: so the backward pass of the first run is about as long as that of other runs. reads[values]: the
 * model ranks of the readers found so far. needed[values]: whether one of these readers belongs to a backward pass. */
static void find_deferrable(const cutter *c, const sl_rank_set *computes, char *deferrable, sl_rank_set *reads,
                            char *needed) {
  const sl_graph *g = c->g;
  memset(reads, 0, (size_t)g->n_values * sizeof *reads);
  memset(needed, 0, (size_t)g->n_values);
  for (int i = g->n_nodes; i-- > 0;) {
    const sl_node *node = g->node[i];
    deferrable[i] = node->phase == SL_PHASE_BACKWARD;
    for (int j = 0; j < node->n_out; j++)
      if (needed[node->out[j]] || (reads[node->out[j]] & ~computes[i]) ||
          g->value[node->out[j]]->role != SL_ROLE_TEMPORARY || g->value[node->out[j]]->scope == SL_SCOPE_SAMPLE)
        deferrable[i] = 0;
    for (int k = 0; k < node->n_in && node->phase != SL_PHASE_UPDATE; k++) {
      reads[node->in[k]] |= computes[i];
      needed[node->in[k]] |= !deferrable[i];
    }
  }
}

sl_status sl__stages_find(const sl_graph *g, int ranks, int tensor, const sl_pipeline *pipe, sl_rank_set *computes,
                          sl_rank_set *keeps, int *run, char *deferrable) {
  const int stages = ranks / tensor, chunks = pipe->chunks > 1 && stages > 1 ? pipe->chunks : 1;
  const size_t nodes = (size_t)g->n_nodes + 1, values = (size_t)g->n_values + 1;
  cutter c = {.g = g,
              .stages = stages,
              .runs = stages * chunks,
              .tensor = tensor,
              .run = run,
              .node = malloc(nodes * sizeof *c.node),
              .place = malloc(nodes * sizeof *c.place),
              .learns = calloc(values, 1),
              .moved = malloc(nodes * sizeof *c.moved),
              .until = calloc(nodes + 1, sizeof *c.until),
              .cross = calloc(nodes + 1, sizeof *c.cross),
              .cut = calloc((size_t)(stages * chunks) + 1, sizeof *c.cut),
              .share = calloc((size_t)(stages * chunks) + 1, sizeof *c.share)};
  int *made = malloc(values * sizeof *made), *read = malloc(values * sizeof *read);
  uint32_t *key = malloc(nodes * sizeof *key);
  sl_rank_set *reads = calloc(values, sizeof *reads);
  sl_status status = SL_OK;
  if (!c.node || !c.place || !c.learns || !c.moved || !c.until || !c.cross || !c.cut || !c.share || !made || !read ||
      !reads || !key)
    SL_TRY_OUT(sl_no_memory("to cut a graph of %d nodes into %d stages", g->n_nodes, stages));
  memset(computes, 0, (size_t)g->n_nodes * sizeof *computes);
  memset(keeps, 0, (size_t)g->n_values * sizeof *keeps);
  find_learning(&c);
  list_nodes(&c, key);
  for (int i = 0; i < g->n_nodes; i++) run[i] = NONE;
  if (c.n < stages)
    SL_TRY_OUT(
        sl_blame(sl_fail(SL_EINVAL, "a pipeline of %d stages, and the model has only %d layers", stages, c.n), "mesh"));
  if (c.n < c.runs)
    SL_TRY_OUT(sl_blame(
        sl_fail(SL_EINVAL, "%d chunks on each of %d stages, and the model has only %d layers", chunks, stages, c.n),
        "pipe_chunks"));
  find_crossings(&c, made, read);
  forbid_cuts(&c, made);
  keep_stretches(&c);
  keep_layers(&c, key);
  SL_TRY_OUT(cut(&c, pipe->cuts));
  move_lookups(&c);
  place_passes(&c, computes, reads, made);
  place_parameters(&c, computes, keeps);
  SL_TRY_OUT(place_updates(&c, computes, keeps));
  find_deferrable(&c, computes, deferrable, reads, c.learns);
out:
  free(c.node), free(c.place), free(c.learns), free(c.moved), free(c.until), free(c.cross), free(c.cut), free(c.share),
      free(made), free(read), free(reads), free(key);
  return status;
}
