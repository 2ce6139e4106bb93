/* Finds the family of each parameter (the nodes and values that concern it alone) and gives each family to a rank. */
#include "tasks/spread/owners.h"

#include <stdlib.h>

#include "tasks/graph/masks.h"
#include "tasks/spread/exchange_node.h"
#include "tasks/spread/placement.h"

enum { NONE = -1, SEVERAL = -2 };

typedef struct finder {
  const sl_graph *g;
  int *value, *node; /* parameter whose family each belongs to; NONE, SEVERAL */
  int *last;         /* [values] the last node that writes it */
} finder;

static void join(int *family, int with) {
  if (*family == NONE)
    *family = with;
  else if (*family != with)
    *family = SEVERAL;
}

static int updates(const finder *f, int i) {
  return f->g->node[i]->phase == SL_PHASE_UPDATE && sl_node_scope(f->g, f->g->node[i]) == SL_SCOPE_WHOLE;
}

/* A gradient: a sum over samples that the backward pass completes. */
static int is_gradient(const finder *f, sl_value v) {
  const sl_value_info *info = f->g->value[v];
  const int last = f->last[v];
  return info->role == SL_ROLE_TEMPORARY && info->scope == SL_SCOPE_WHOLE && last >= 0 &&
         f->g->node[last]->phase == SL_PHASE_BACKWARD && sl_node_scope(f->g, f->g->node[last]) != SL_SCOPE_WHOLE;
}

/* The family of a parameter: nodes of the update phase that read no other parameter, and state that only they read. */
static void find_families(finder *f) {
  const sl_graph *g = f->g;
  for (int i = 0; i < g->n_nodes; i++) {
    const sl_node *node = g->node[i];
    for (int k = 0; k < node->n_in && updates(f, i); k++)
      if (g->value[node->in[k]]->role == SL_ROLE_PARAMETER) join(&f->node[i], node->in[k]);
  }
  for (int i = 0; i < g->n_nodes; i++)
    for (int k = 0; k < g->node[i]->n_in; k++) {
      const sl_value v = g->node[i]->in[k];
      if (g->value[v]->role == SL_ROLE_STATE) join(&f->value[v], f->node[i] == NONE ? SEVERAL : f->node[i]);
    }
}

/* A gradient joins a family if no other family reads it. Nodes that take the gradient by rows join too, and so do
 * temporaries that the family makes. */
static void follow_values(finder *f) {
  const sl_graph *g = f->g;
  for (int i = 0; i < g->n_nodes; i++) {
    const sl_node *node = g->node[i];
    for (int k = 0; k < node->n_in; k++) {
      if (!is_gradient(f, node->in[k]) || i <= f->last[node->in[k]]) continue;
      if (!updates(f, i))
        f->value[node->in[k]] = SEVERAL;
      else if (f->node[i] != NONE)
        join(&f->value[node->in[k]], f->node[i]);
      else if (!sl__mask_has(node->op->map_in, k))
        f->value[node->in[k]] = SEVERAL;
    }
  }
  for (int i = 0; i < g->n_nodes; i++) {
    const sl_node *node = g->node[i];
    if (!updates(f, i)) continue;
    for (int k = 0; k < node->n_in && f->node[i] == NONE; k++)
      if (sl__mask_has(node->op->map_in, k) && f->value[node->in[k]] >= 0) f->node[i] = f->value[node->in[k]];
    for (int j = 0; j < node->n_out && f->node[i] >= 0; j++)
      if (g->value[node->out[j]]->role == SL_ROLE_TEMPORARY) f->value[node->out[j]] = f->node[i];
  }
}

/* A parameter gets no owner if a node updates it together with another one, or if two families share its state. */
static void leave_out(const finder *f, char *listed) {
  const sl_graph *g = f->g;
  for (int i = 0; i < g->n_nodes; i++)
    for (int k = 0; k < g->node[i]->n_in && updates(f, i); k++) {
      const sl_value v = g->node[i]->in[k];
      if (f->node[i] == SEVERAL && g->value[v]->role == SL_ROLE_PARAMETER) listed[v] = 1;
      if (f->node[i] >= 0 && g->value[v]->role == SL_ROLE_STATE && f->value[v] == SEVERAL) listed[f->node[i]] = 1;
    }
}

/* Parameters of the same model ranks, about a bucket's bytes, that get the same owner. */
typedef struct run {
  int first; /* number of the first of them */
  sl_rank_set keepers;
  size_t bytes;
  int owner;
} run;

static int largest_first(const void *a, const void *b) {
  const run *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return x->first - y->first;
}

/* Lists parameters with a family, in the order in which their gradients are complete. */
static void order_parameters(const finder *f, sl__owners *o, char *listed) {
  const sl_graph *g = f->g;
  for (int i = 0; i < g->n_nodes; i++)
    for (int j = 0; j < g->node[i]->n_out; j++) {
      const sl_value v = g->node[i]->out[j];
      const int p = f->last[v] != i ? NONE : is_gradient(f, v) ? f->value[v] : f->node[i];
      if (p < 0 || listed[p]) continue;
      listed[p] = 1;
      o->parameter[o->n++] = p;
    }
}

static int by_first(const void *a, const void *b) { return ((const run *)a)->first - ((const run *)b)->first; }

/* The most bytes that a rank has for any model rank of a set. load[model ranks][ranks] */
static size_t load_of(const size_t *load, int ranks, int rank, sl_rank_set model_ranks) {
  size_t most = 0;
  for (int s = 0; s < SL_MAX_MODEL_RANKS; s++)
    if (sl_rank_set_has(model_ranks, s) && load[s * ranks + rank] > most) most = load[s * ranks + rank];
  return most;
}

/* Divides the parameters into runs and gives each run to a rank: the largest run first, each to the rank with the
 * fewest bytes so far. of[parameters]: the parameter's run. */
static void choose_owners(const finder *f, const sl_rank_set *keeps, sl__owners *o, int ranks, run *runs, int *of,
                          size_t *load, int *owner) {
  int n = 0;
  for (int i = 0; i < o->n; i++) {
    const sl_rank_set keepers = keeps ? keeps[o->parameter[i]] : 1;
    int k = n;
    while (k > 0 && runs[k - 1].keepers != keepers) k--;
    if (k == 0 || runs[k - 1].bytes >= SL__BUCKET_BYTES) runs[n] = (run){.first = i, .keepers = keepers}, k = ++n;
    runs[k - 1].bytes += sl_value_bytes(f->g->value[o->parameter[i]]);
    of[i] = k - 1;
  }
  qsort(runs, (size_t)n, sizeof *runs, largest_first);
  for (int k = 0; k < n; k++) {
    for (int r = 1; r < ranks; r++)
      if (load_of(load, ranks, r, runs[k].keepers) < load_of(load, ranks, runs[k].owner, runs[k].keepers))
        runs[k].owner = r;
    for (int s = 0; s < SL_MAX_MODEL_RANKS; s++)
      if (sl_rank_set_has(runs[k].keepers, s)) load[s * ranks + runs[k].owner] += runs[k].bytes;
  }
  qsort(runs, (size_t)n, sizeof *runs, by_first);
  for (int i = 0; i < o->n; i++) owner[o->parameter[i]] = runs[of[i]].owner;
}

sl_status sl__owners_find(const sl_graph *g, int ranks, const sl_rank_set *keeps, sl__owners **owners) {
  *owners = NULL;
  const size_t values = (size_t)g->n_values + 1, nodes = (size_t)g->n_nodes + 1;
  sl__owners *o = calloc(1, sizeof *o);
  finder f = {.g = g,
              .value = malloc(values * sizeof(int)),
              .node = malloc(nodes * sizeof(int)),
              .last = malloc(values * sizeof(int))};
  char *listed = calloc(values, 1);
  run *runs = malloc(values * sizeof *runs);
  size_t *load = calloc((size_t)ranks * SL_MAX_MODEL_RANKS, sizeof *load);
  int *owner = malloc(values * sizeof *owner), *of = malloc(values * sizeof *of);
  sl_status status = SL_OK;
  if (!o || !f.value || !f.node || !f.last || !listed || !runs || !load || !owner || !of ||
      !(o->value = malloc(values * sizeof *o->value)) || !(o->node = malloc(nodes * sizeof *o->node)) ||
      !(o->parameter = malloc(values * sizeof *o->parameter))) {
    status = sl_no_memory("to divide %d values among %d ranks", g->n_values, ranks);
    goto out;
  }
  for (sl_value v = 0; v < g->n_values; v++) f.value[v] = f.last[v] = owner[v] = NONE;
  for (int i = 0; i < g->n_nodes; i++) {
    f.node[i] = NONE;
    for (int j = 0; j < g->node[i]->n_out; j++) f.last[g->node[i]->out[j]] = i;
  }
  find_families(&f);
  follow_values(&f);
  leave_out(&f, listed);
  order_parameters(&f, o, listed);
  choose_owners(&f, keeps, o, ranks, runs, of, load, owner);
  for (sl_value v = 0; v < g->n_values; v++) {
    const int family = g->value[v]->role == SL_ROLE_PARAMETER ? v : f.value[v];
    o->value[v] = family >= 0 ? owner[family] : NONE;
  }
  for (int i = 0; i < g->n_nodes; i++) o->node[i] = f.node[i] >= 0 ? owner[f.node[i]] : NONE;
  o->family = f.value, o->family_of_node = f.node;
  f.value = f.node = NULL;
  *owners = o;
  o = NULL;
out:
  sl__owners_destroy(o);
  free(f.value), free(f.node), free(f.last), free(listed), free(runs), free(load), free(owner), free(of);
  return status;
}

void sl__owners_destroy(sl__owners *o) {
  if (!o) return;
  free(o->value), free(o->node), free(o->family), free(o->family_of_node), free(o->parameter), free(o);
}
