/* The tree: the phase between nodes. One rank of each node, its leader, exchanges the node's sums by reduce-scatter and
 * allgather of each segment. Segments that move without a sum are sent from leader to leader. Long copies, and long
 * sums for one rank, are relayed: leaders pass on parts of them (move.h).
 *
 * Lossy sums can be compressed. A leader packs its node's items, and later the sums of its own part, each together with
 * what earlier messages left out. It unpacks the other leaders' messages, and its own sums too, so that all nodes have
 * the same sums. */
#include <stdlib.h>
#include <string.h>

#include "runtime/exchange/tree.h"

static char *received_memory(const sl__lane *l, uint64_t number, int item) {
  return l->received + ((size_t)(number % SL__DEPTH) * (size_t)l->node_items[l->nodes] + (size_t)item) * l->part_most;
}

/* Address of a segment's compressed message. Slots: this node's items for each node (out) or all nodes' items (in),
 * then the sums of each node. */
static char *packed_memory(const sl__lane *l, char *memory, uint64_t number, int slot) {
  return memory + ((size_t)(number % SL__DEPTH) * (size_t)l->packed_slots + (size_t)slot) * l->packed_most;
}

/* The elements of a segment that node k sends as results. Sums: it adds them up. Relayed copies: it passes them on. */
static void part_of_node(const sl__lane *l, const sl__cargo *c, const sl__segment *g, int k, int64_t *from,
                         int64_t *to) {
  const int whole = c->b->sum ? g->to : g->from;
  if (whole < 0 || c->relayed) {
    sl__part_of(g->count, c->b->width, k, l->nodes, from, to);
  } else {
    *from = 0;
    *to = k == sl__node_of(l, whole) ? g->count : 0;
  }
}

/* Whether node k gets the results of a segment from the nodes that have them. */
static int node_gets(const sl__lane *l, const sl__segment *g, int k) {
  return (g->to < 0 || sl__node_of(l, g->to) == k) && (g->from < 0 || sl__node_of(l, g->from) != k);
}

static void request(sl__lane *l, sl__crossing *x, int code, int peer, const char *what) {
  const int n = x->n;
  if (code != MPI_SUCCESS) x->request[n] = MPI_REQUEST_NULL;
  x->peer[n] = peer;
  x->n = n + 1;
  x->left = n + 1;
  if (code != MPI_SUCCESS) sl__exchange_fail(l->e, code, what);
}

static void send_to(sl__lane *l, sl__crossing *x, const void *data, size_t bytes, int node, int tag) {
  ((sl__tree *)l->e)->sent += bytes;
  request(l, x, MPI_Isend(data, (int)bytes, MPI_BYTE, node, tag, l->leaders, &x->request[x->n]), node, "MPI_Isend");
}

static void receive_from(sl__lane *l, sl__crossing *x, void *data, size_t bytes, int node, int tag) {
  request(l, x, MPI_Irecv(data, (int)bytes, MPI_BYTE, node, tag, l->leaders, &x->request[x->n]), node, "MPI_Irecv");
}

/* Bytes of a message of n elements of the bucket. */
static size_t message_bytes(const sl__cargo *c, const sl_compression *how, int64_t n) {
  return c->residual ? sl_compressed_bytes(how, n) : (size_t)n * c->b->width;
}

static sl_compression compression_at(const sl__lane *l, const sl__cursor *at, int sums) {
  return sl_compression_at(&((const sl__tree *)l->e)->compression, at->round, sums);
}

/* Sends the part that node k passes on from the origin's leader, or receives it there. */
static void relay_part(sl__lane *l, sl__crossing *x, const sl__cursor *at, int k, int tag) {
  const sl__cargo *c = sl__cargo_at(l, at->bucket);
  const sl__segment *g = sl__segment_at(l, at);
  const int origin = sl__node_of(l, g->from);
  int64_t from, to;
  part_of_node(l, c, g, k, &from, &to);
  char *part = sl__item_memory(l, at->number, 0) + (size_t)from * c->b->width;
  const size_t bytes = (size_t)(to - from) * c->b->width;
  if (k == origin || from == to) return;
  if (l->my_node == origin)
    send_to(l, x, part, bytes, k, tag);
  else if (l->my_node == k)
    receive_from(l, x, part, bytes, origin, tag);
}

/* Sends the other leaders their parts of this node's items, and receives this leader's part of theirs. */
static void send_parts(sl__lane *l, sl__crossing *x, const sl__cursor *at) {
  const sl__cargo *c = sl__cargo_at(l, at->bucket);
  const sl__segment *g = sl__segment_at(l, at);
  const uint64_t number = at->number;
  const sl_compression how = compression_at(l, at, 0);
  const int tag = (int)(number % SL__DEPTH) * 2;
  int64_t from, to;
  x->left = 0;
  x->n = 0;
  for (int k = 0; k < l->nodes && !c->b->sum && c->relayed; k++) relay_part(l, x, at, k, tag);
  if (!c->b->sum) return;
  part_of_node(l, c, g, l->my_node, &from, &to);
  for (int k = 0; k < l->nodes && from < to; k++)
    for (int i = l->node_items[k]; k != l->my_node && i < l->node_items[k + 1]; i++)
      receive_from(l, x, c->residual ? packed_memory(l, l->unpacked, number, i) : received_memory(l, number, i),
                   message_bytes(c, &how, to - from), k, tag);
  const int mine = l->node_items[l->my_node + 1] - l->node_items[l->my_node];
  for (int step = 1; step < l->nodes; step++) {
    const int k = (l->my_node + step) % l->nodes; /* each leader begins with another node */
    part_of_node(l, c, g, k, &from, &to);
    for (int i = 0; i < mine && from < to; i++) {
      const char *data = sl__item_memory(l, number, l->place[i]) + (size_t)from * c->b->width;
      if (c->residual) {
        char *message = packed_memory(l, l->packed, number, k * mine + i);
        sl_compress(&how, (const float *)data, c->residual + i * c->b->count + g->at + from, to - from, message);
        data = message;
      }
      send_to(l, x, data, message_bytes(c, &how, to - from), k, tag);
    }
  }
}

/* Address of this leader's part of a node's item. */
static char *part_of_item(const sl__lane *l, uint64_t number, int item, size_t offset) {
  const int mine = l->node_items[l->my_node];
  return item >= mine && item < l->node_items[l->my_node + 1]
             ? sl__item_memory(l, number, l->place[item - mine]) + offset
             : received_memory(l, number, item);
}

/* Adds up this leader's part of the items, into item 0. */
static void add_parts(sl__lane *l, uint64_t number, int64_t from, int64_t to, const sl__bucket *b) {
  const size_t offset = (size_t)from * b->width;
  for (int i = 0; i < l->across.n; i++)
    sl__add(part_of_item(l, number, l->across.step[i].to, offset),
            part_of_item(l, number, l->across.step[i].from, offset), to - from, b->dtype);
  char *sums = sl__item_memory(l, number, 0) + offset, *sum = part_of_item(l, number, 0, offset);
  if (sum != sums) memcpy(sums, sum, (size_t)(to - from) * b->width);
}

/* Unpacks the other nodes' items. */
static void unpack_parts(sl__lane *l, const sl__cursor *at, int64_t n) {
  const sl_compression how = compression_at(l, at, 0);
  for (int i = 0; i < l->node_items[l->nodes]; i++)
    if (i < l->node_items[l->my_node] || i >= l->node_items[l->my_node + 1])
      sl_decompress(&how, packed_memory(l, l->unpacked, at->number, i), n, (float *)received_memory(l, at->number, i));
}

static char *sums_of_node(const sl__lane *l, char *memory, uint64_t number, int node) {
  return packed_memory(l, memory, number, l->packed_slots - l->nodes + node);
}

/* Adds up this leader's part, sends this node's results to the nodes that need them, and receives the others' results
 * into item 0. A sum for one rank that is not relayed is formed on that rank's node and stays there. */
static void send_results(sl__lane *l, sl__crossing *x, const sl__cursor *at) {
  const sl__cargo *c = sl__cargo_at(l, at->bucket);
  const sl__segment *g = sl__segment_at(l, at);
  const uint64_t number = at->number;
  const sl_compression how = compression_at(l, at, 1);
  const int tag = (int)(number % SL__DEPTH) * 2 + 1;
  int64_t from, to;
  x->left = 0;
  x->n = 0;
  part_of_node(l, c, g, l->my_node, &from, &to);
  char *whole = sl__item_memory(l, number, 0), *own = whole + (size_t)from * c->b->width;
  if (c->residual && from < to) unpack_parts(l, at, to - from);
  if (c->b->sum && from < to) add_parts(l, number, from, to, c->b);
  if (c->b->sum && g->to >= 0 && !c->relayed) return;
  for (int k = 0; k < l->nodes && node_gets(l, g, l->my_node); k++) {
    int64_t begin, end;
    part_of_node(l, c, g, k, &begin, &end);
    if (k == l->my_node || begin == end) continue;
    receive_from(l, x, c->residual ? sums_of_node(l, l->unpacked, number, k) : whole + (size_t)begin * c->b->width,
                 message_bytes(c, &how, end - begin), k, tag);
  }
  if (c->residual && from < to) {
    char *message = sums_of_node(l, l->packed, number, l->my_node);
    sl_compress(&how, (const float *)own, c->residual + g->at + from, to - from, message);
    sl_decompress(&how, message, to - from, (float *)own);
    own = message;
  }
  for (int step = 1; step < l->nodes && from < to; step++) {
    const int k = (l->my_node + step) % l->nodes;
    if (node_gets(l, g, k)) send_to(l, x, own, message_bytes(c, &how, to - from), k, tag);
  }
}

/* Unpacks the other nodes' parts of the sums. */
static void unpack_sums(sl__lane *l, const sl__cursor *at) {
  const sl__cargo *c = sl__cargo_at(l, at->bucket);
  const sl__segment *g = sl__segment_at(l, at);
  const sl_compression how = compression_at(l, at, 1);
  if (!c->residual || g->to >= 0) return;
  for (int k = 0; k < l->nodes; k++) {
    int64_t from, to;
    part_of_node(l, c, g, k, &from, &to);
    if (k != l->my_node && from < to)
      sl_decompress(&how, sums_of_node(l, l->unpacked, at->number, k), to - from,
                    (float *)sl__item_memory(l, at->number, 0) + from);
  }
}

int sl__lane_cross(sl__lane *l) {
  int moved = 0;
  if (l->local != 0 || l->nodes == 1) return 0;
  while (l->cross.number < SL__LEAST(l, reduced) && l->cross.number < l->ready.number + SL__DEPTH) {
    sl__crossing *x = &l->crossing[l->cross.number % SL__DEPTH];
    send_parts(l, x, &l->cross);
    x->phase = 1;
    sl__step_on(l, &l->cross);
    moved = 1;
  }
  sl__cursor c = l->ready;
  for (; c.number < l->cross.number; sl__step_on(l, &c)) {
    sl__crossing *x = &l->crossing[c.number % SL__DEPTH];
    if (x->phase == 3) continue;
    /* finished requests become MPI_REQUEST_NULL, which sl__tree_waits_for reads */
    int done = 0;
    const int code = MPI_Testsome(x->n, x->request, &done, x->done, x->status);
    if (code != MPI_SUCCESS) sl__exchange_fail(l->e, code, "MPI_Testsome");
    if (done != MPI_UNDEFINED) x->left -= done;
    if (x->left > 0) continue;
    moved = 1;
    if (x->phase == 1)
      send_results(l, x, &c);
    else
      unpack_sums(l, &c);
    x->phase++;
  }
  while (l->ready.number < l->cross.number && l->crossing[l->ready.number % SL__DEPTH].phase == 3) {
    l->crossing[l->ready.number % SL__DEPTH].phase = 0;
    sl__step_on(l, &l->ready);
    sl__set(&l->boards[0].ready, l->ready.number);
  }
  return moved;
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* Memory for compressed messages. */
static sl_status find_packed(sl__lane *l) {
  const sl__tree *t = (const sl__tree *)l->e;
  const int mine = l->node_items[l->my_node + 1] - l->node_items[l->my_node], all = l->node_items[l->nodes];
  l->packed_slots = (mine * l->nodes > all ? mine * l->nodes : all) + l->nodes;
  const sl_compression most = sl_compression_at(&t->compression, 0, 1);
  l->packed_most = sl__round_up(sl_compressed_bytes(&most, (int64_t)(l->part_most / sizeof(float))), SL__LINE);
  const size_t bytes = SL__DEPTH * (size_t)l->packed_slots * l->packed_most;
  l->packed = aligned_alloc(SL__LINE, bytes);
  l->unpacked = aligned_alloc(SL__LINE, bytes);
  l->memory += 2 * bytes;
  return l->packed && l->unpacked ? SL_OK : sl_no_memory("for messages of %zu bytes", bytes);
}

sl_status sl__crossings_prepare(sl__lane *l) {
  l->part_most = sl__round_up(l->segment / (size_t)l->nodes + SL__LINE, SL__LINE);
  const size_t received = SL__DEPTH * (size_t)l->node_items[l->nodes] * l->part_most;
  l->received = aligned_alloc(SL__LINE, received);
  l->most_requests = 2 * l->node_items[l->nodes] * l->nodes + 2 * l->nodes;
  l->memory += received;
  if (!l->received) return sl_no_memory("for exchanging %zu bytes at once", received);
  memset(l->received, 0, received);
  if (((const sl__tree *)l->e)->compression.kind != SL_COMPRESSION_NONE) SL_TRY(find_packed(l));
  for (int d = 0; d < SL__DEPTH; d++) {
    sl__crossing *x = &l->crossing[d];
    x->request = malloc((size_t)l->most_requests * sizeof *x->request);
    x->peer = malloc((size_t)l->most_requests * sizeof *x->peer);
    x->done = malloc((size_t)l->most_requests * sizeof *x->done);
    x->status = malloc((size_t)l->most_requests * sizeof *x->status);
    if (!x->request || !x->peer || !x->done || !x->status) return sl_no_memory("for requests");
  }
  return SL_OK;
}

void sl__crossings_release(sl__lane *l) {
  for (int d = 0; d < SL__DEPTH; d++) {
    free(l->crossing[d].request), free(l->crossing[d].peer), free(l->crossing[d].done), free(l->crossing[d].status);
    l->crossing[d] = (sl__crossing){0};
  }
  free(l->received), free(l->packed), free(l->unpacked);
  l->received = l->packed = l->unpacked = NULL;
}
