/* The stage of the exchange engine between nodes: one rank of each, its leader, exchanges what the node has added up,
 * by reduce-scatter and allgather of each segment.
 *
 * Lossy sums can be compressed: leaders pack their parts and later the sums of their own part, with what earlier
 * messages lacked, and unpack the others'. The own part is unpacked too, so that all nodes have the same sums. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exchange/exchange_parts.h"

static char *received_memory(const sl_exchange *e, uint64_t number, int item) {
  return e->received + ((size_t)(number % SL__DEPTH) * (size_t)e->node_items[e->nodes] + (size_t)item) * e->part_most;
}

/* Messages of a segment: a node's items for the nodes, or those of the nodes' items; then the sums, of each node. */
static char *packed_memory(const sl_exchange *e, char *memory, uint64_t number, int slot) {
  return memory + ((size_t)(number % SL__DEPTH) * (size_t)e->packed_slots + (size_t)slot) * e->packed_most;
}

/* The elements of a segment of `count` that node k adds up, or has. */
static void part_of_node(const sl_exchange *e, const sl__bucket *b, int64_t count, int k, int64_t *from, int64_t *to) {
  if (b->home < 0) {
    sl__part_of(count, sl_dtype_bytes(b->dtype), k, e->nodes, from, to);
  } else {
    *from = 0;
    *to = k == b->home ? count : 0;
  }
}

static void fail(sl_exchange *e, int code, const char *what) {
  if (e->status != SL_OK) return;
  const sl_status status = sl_comm_status(code, what);
  pthread_mutex_lock(&e->lock);
  snprintf(e->error, sizeof e->error, "%s", sl_error());
  e->status = status;
  pthread_mutex_unlock(&e->lock);
}

static void request(sl_exchange *e, sl__crossing *x, int code, int peer, const char *what) {
  x->peer[x->n++] = peer;
  x->left = x->n;
  if (code == MPI_SUCCESS) return;
  x->request[x->n - 1] = MPI_REQUEST_NULL;
  fail(e, code, what);
}

static void send_to(sl_exchange *e, sl__crossing *x, const void *data, size_t bytes, int node, int tag) {
  e->sent += bytes;
  request(e, x, MPI_Isend(data, (int)bytes, MPI_BYTE, node, tag, e->leaders, &x->request[x->n]), node, "MPI_Isend");
}

static void receive_from(sl_exchange *e, sl__crossing *x, void *data, size_t bytes, int node, int tag) {
  request(e, x, MPI_Irecv(data, (int)bytes, MPI_BYTE, node, tag, e->leaders, &x->request[x->n]), node, "MPI_Irecv");
}

/* A message of n elements of the bucket. */
static size_t message_bytes(const sl__bucket *b, const sl_compression *how, int64_t n) {
  return b->lacks ? sl_compressed_bytes(how, n) : (size_t)n * sl_dtype_bytes(b->dtype);
}

/* Sends the other leaders their parts of this node's items, and receives this one's part of theirs. */
static void send_parts(sl_exchange *e, sl__crossing *x, const sl__cursor *c) {
  sl__bucket *b = &e->bucket[c->bucket];
  const uint64_t number = c->number;
  const sl_compression how = sl_compression_at(&e->compression, c->round, 0);
  const int64_t count = sl__segment_count(e, c);
  const int tag = (int)(number % SL__DEPTH) * 2;
  const size_t bytes = sl_dtype_bytes(b->dtype);
  int64_t from, to;
  x->n = x->left = 0;
  if (b->move.kind == SL_EXCHANGE_COPY) return;
  part_of_node(e, b, count, e->my_node, &from, &to);
  for (int k = 0; k < e->nodes && from < to; k++)
    for (int i = e->node_items[k]; k != e->my_node && i < e->node_items[k + 1]; i++)
      receive_from(e, x, b->lacks ? packed_memory(e, e->unpacked, number, i) : received_memory(e, number, i),
                   message_bytes(b, &how, to - from), k, tag);
  const int mine = e->node_items[e->my_node + 1] - e->node_items[e->my_node];
  for (int step = 1; step < e->nodes; step++) {
    const int k = (e->my_node + step) % e->nodes; /* not all to the same node at once */
    part_of_node(e, b, count, k, &from, &to);
    for (int i = 0; i < mine && from < to; i++) {
      const char *data = sl__item_memory(e, number, e->place[i]) + (size_t)from * bytes;
      if (b->lacks) {
        char *message = packed_memory(e, e->packed, number, k * mine + i);
        sl_compress(&how, (const float *)data, b->lacks + i * b->count + c->at + from, to - from, message);
        data = message;
      }
      send_to(e, x, data, message_bytes(b, &how, to - from), k, tag);
    }
  }
}

/* Adds up this leader's part of the items, into item 0. */
static void add_parts(sl_exchange *e, uint64_t number, int64_t from, int64_t to, sl_dtype dtype) {
  const size_t bytes = sl_dtype_bytes(dtype);
  const int mine = e->node_items[e->my_node];
#define PART(i)                                                                \
  ((i) >= mine && (i) < e->node_items[e->my_node + 1]                          \
       ? sl__item_memory(e, number, e->place[(i)-mine]) + (size_t)from * bytes \
       : received_memory(e, number, i))
  for (int i = 0; i < e->across.n; i++)
    sl__add(PART(e->across.step[i].to), PART(e->across.step[i].from), to - from, dtype);
  char *sums = sl__item_memory(e, number, 0) + (size_t)from * bytes;
  if (PART(0) != sums) memcpy(sums, PART(0), (size_t)(to - from) * bytes);
#undef PART
}

/* The others' items, out of their messages. */
static void unpack_parts(sl_exchange *e, const sl__cursor *c, int64_t n) {
  const sl_compression how = sl_compression_at(&e->compression, c->round, 0);
  for (int i = 0; i < e->node_items[e->nodes]; i++)
    if (i < e->node_items[e->my_node] || i >= e->node_items[e->my_node + 1])
      sl_decompress(&how, packed_memory(e, e->unpacked, c->number, i), n, (float *)received_memory(e, c->number, i));
}

static char *sums_of_node(const sl_exchange *e, char *memory, uint64_t number, int node) {
  return packed_memory(e, memory, number, e->packed_slots - e->nodes + node);
}

/* Adds up this leader's part, and where all are to have it sends it to the others and receives theirs into item 0. Of
 * what is copied, one node's part is all of it. */
static void send_sums(sl_exchange *e, sl__crossing *x, const sl__cursor *c) {
  sl__bucket *b = &e->bucket[c->bucket];
  const uint64_t number = c->number;
  const sl_compression how = sl_compression_at(&e->compression, c->round, 1);
  const int64_t count = sl__segment_count(e, c);
  const size_t bytes = sl_dtype_bytes(b->dtype);
  const int tag = (int)(number % SL__DEPTH) * 2 + 1;
  int64_t from, to;
  x->n = x->left = 0;
  part_of_node(e, b, count, e->my_node, &from, &to);
  char *whole = sl__item_memory(e, number, 0), *own = whole + (size_t)from * bytes;
  if (b->lacks && from < to) unpack_parts(e, c, to - from);
  if (b->move.kind == SL_EXCHANGE_SUM && from < to) add_parts(e, number, from, to, b->dtype);
  if (b->move.kind == SL_EXCHANGE_SUM && b->home >= 0) return;
  for (int k = 0; k < e->nodes; k++) {
    int64_t begin, end;
    part_of_node(e, b, count, k, &begin, &end);
    if (k == e->my_node || begin == end) continue;
    receive_from(e, x, b->lacks ? sums_of_node(e, e->unpacked, number, k) : whole + (size_t)begin * bytes,
                 message_bytes(b, &how, end - begin), k, tag);
  }
  if (b->lacks && from < to) {
    char *message = sums_of_node(e, e->packed, number, e->my_node);
    sl_compress(&how, (const float *)own, b->lacks + c->at + from, to - from, message);
    sl_decompress(&how, message, to - from, (float *)own);
    own = message;
  }
  for (int step = 1; step < e->nodes && from < to; step++)
    send_to(e, x, own, message_bytes(b, &how, to - from), (e->my_node + step) % e->nodes, tag);
}

/* The other nodes' parts of the sums, out of their messages. */
static void unpack_sums(sl_exchange *e, const sl__cursor *c) {
  const sl__bucket *b = &e->bucket[c->bucket];
  const sl_compression how = sl_compression_at(&e->compression, c->round, 1);
  if (!b->lacks || b->home >= 0) return;
  for (int k = 0; k < e->nodes; k++) {
    int64_t from, to;
    part_of_node(e, b, sl__segment_count(e, c), k, &from, &to);
    if (k != e->my_node && from < to)
      sl_decompress(&how, sums_of_node(e, e->unpacked, c->number, k), to - from,
                    (float *)sl__item_memory(e, c->number, 0) + from);
  }
}

int sl__exchange_cross(sl_exchange *e) {
  int moved = 0;
  if (e->local != 0 || e->nodes == 1) return 0;
  while (e->cross.number < SL__LEAST(e, reduced) && e->cross.number < e->ready.number + SL__DEPTH) {
    sl__crossing *x = &e->crossing[e->cross.number % SL__DEPTH];
    send_parts(e, x, &e->cross);
    x->stage = 1;
    sl__advance(e, &e->cross);
    moved = 1;
  }
  sl__cursor c = e->ready;
  for (; c.number < e->cross.number; sl__advance(e, &c)) {
    sl__crossing *x = &e->crossing[c.number % SL__DEPTH];
    if (x->stage == 3) continue;
    /* those that are done become MPI_REQUEST_NULL, so that sl_exchange_waits_for can tell */
    int done = 0;
    const int code = MPI_Testsome(x->n, x->request, &done, x->done, x->status);
    if (code != MPI_SUCCESS) fail(e, code, "MPI_Testsome");
    if (done != MPI_UNDEFINED) x->left -= done;
    if (x->left > 0) continue;
    moved = 1;
    if (x->stage == 1)
      send_sums(e, x, &c);
    else
      unpack_sums(e, &c);
    x->stage++;
  }
  while (e->ready.number < e->cross.number && e->crossing[e->ready.number % SL__DEPTH].stage == 3) {
    e->crossing[e->ready.number % SL__DEPTH].stage = 0;
    sl__advance(e, &e->ready);
    sl__set(&e->boards[0].ready, e->ready.number);
  }
  return moved;
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* Memory for compressed messages. */
static sl_status find_packed(sl_exchange *e) {
  const int mine = e->node_items[e->my_node + 1] - e->node_items[e->my_node], all = e->node_items[e->nodes];
  e->packed_slots = (mine * e->nodes > all ? mine * e->nodes : all) + e->nodes;
  const sl_compression most = sl_compression_at(&e->compression, 0, 1);
  e->packed_most = sl__round_up(sl_compressed_bytes(&most, (int64_t)(e->part_most / sizeof(float))), SL__LINE);
  const size_t bytes = SL__DEPTH * (size_t)e->packed_slots * e->packed_most;
  e->packed = aligned_alloc(SL__LINE, bytes);
  e->unpacked = aligned_alloc(SL__LINE, bytes);
  e->memory += 2 * bytes;
  return e->packed && e->unpacked ? SL_OK : sl_fail(SL_ENOMEM, "no memory for messages of %zu bytes", bytes);
}

sl_status sl__crossings_prepare(sl_exchange *e) {
  e->part_most = sl__round_up(e->segment / (size_t)e->nodes + SL__LINE, SL__LINE);
  const size_t received = SL__DEPTH * (size_t)e->node_items[e->nodes] * e->part_most;
  e->received = aligned_alloc(SL__LINE, received);
  e->most_requests = 2 * e->node_items[e->nodes] * e->nodes + 2 * e->nodes;
  e->memory += received;
  if (!e->received) return sl_fail(SL_ENOMEM, "no memory for exchanging %zu bytes at once", received);
  memset(e->received, 0, received);
  if (e->compression.kind != SL_COMPRESSION_NONE) SL_TRY(find_packed(e));
  for (int d = 0; d < SL__DEPTH; d++) {
    e->crossing[d].request = malloc((size_t)e->most_requests * sizeof(MPI_Request));
    e->crossing[d].peer = malloc((size_t)e->most_requests * sizeof(int));
    e->crossing[d].done = malloc((size_t)e->most_requests * sizeof(int));
    e->crossing[d].status = malloc((size_t)e->most_requests * sizeof(MPI_Status));
    if (!e->crossing[d].request || !e->crossing[d].peer || !e->crossing[d].done || !e->crossing[d].status)
      return sl_fail(SL_ENOMEM, "no memory for requests");
  }
  return SL_OK;
}

void sl__crossings_release(sl_exchange *e) {
  for (int d = 0; d < SL__DEPTH; d++) {
    free(e->crossing[d].request), free(e->crossing[d].peer), free(e->crossing[d].done), free(e->crossing[d].status);
    e->crossing[d] = (sl__crossing){0};
  }
  free(e->received), free(e->packed), free(e->unpacked);
  e->received = e->packed = e->unpacked = NULL;
}
