/* Writes checkpoints: training copies tensors into a buffer with the layout of this rank's file, and a thread writes
 * the buffer to the disk. The ranks' threads have their own communicator and poll it with pauses: MPI's busy waiting
 * would take a core from the workers.
 *
 * Even if one rank fails, the ranks exchange the same messages at each checkpoint. So all memory for messages is
 * allocated when the writer is made, and each rank's report has a fixed size. */
#include "runtime/files/checkpoint_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "runtime/base/activity.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/base/time.h"
#include "runtime/machine/comm.h"

enum { CHUNK = 1 << 20, HUGE_PAGE = 2 << 20 };
#define PART "part-%05d.safetensors"

/* A rank's report on its part to rank 0, and rank 0's report on the checkpoint to all ranks. */
typedef struct report {
  sl_failure failure;
  uint64_t xxh3;
} report;

struct sl_checkpoint_writer {
  char *folder;
  MPI_Comm comm;
  int rank, ranks, keep;
  int *sends;     /* [ranks] 1: the rank sends its part to rank 0 */
  int64_t *bytes; /* [ranks] bytes of the rank's part; 0: it has none */
  sl_checkpoint_piece *piece;
  int n;
  json_t *tensors;     /* the pieces' entries in the manifest */
  json_t *all_tensors; /* rank 0: an array of all ranks' entries */
  XXH3_state_t *hash;
  report *reports; /* [ranks] on rank 0 */
  char *chunk;     /* [CHUNK] on rank 0, if any rank sends its part */
  char *buffer;    /* the file: its head, then the pieces */
  size_t head, size, room;
  double stood, waited;

  pthread_t thread;
  int started;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int busy, stop; /* guarded by lock, as are the fields below */
  int64_t step;
  int64_t written; /* the newest step on disk */
  json_t *header;
  sl_failure failure; /* not reported to the caller yet */
};

static size_t row_bytes(const sl_checkpoint_piece *p) {
  return (size_t)sl_shape_row(&p->shape) * sl_dtype_bytes(p->dtype);
}
static size_t piece_bytes(const sl_checkpoint_piece *p) { return (size_t)p->rows * row_bytes(p); }

/* ---- shares ----------------------------------------------------------------------------------------------------- */

/* Finds the cut between two shares that is nearest to byte `at` of all tensors: before row *row of tensor *i. Only a
 * tensor larger than a share is cut inside. */
static void nearest_cut(const sl_checkpoint_piece *whole, int n, size_t at, size_t share, int *i, int64_t *row) {
  size_t begin = 0;
  for (*i = 0, *row = 0; *i < n; ++*i) {
    const size_t bytes = piece_bytes(&whole[*i]), each = row_bytes(&whole[*i]);
    if (at < begin + bytes) {
      if (bytes > share && each)
        *row = (int64_t)((at - begin + each / 2) / each);
      else if (at - begin > bytes / 2)
        *row = whole[*i].rows;
      return;
    }
    begin += bytes;
  }
}

int sl_checkpoint_share(const sl_checkpoint_piece *whole, int n, int rank, int ranks, sl_checkpoint_piece *mine) {
  size_t total = 0;
  int first, last, count = 0;
  int64_t from, to;
  for (int i = 0; i < n; i++) total += piece_bytes(&whole[i]);
  const size_t share = total / (size_t)ranks;
  nearest_cut(whole, n, (size_t)((double)total * rank / ranks), share, &first, &from);
  nearest_cut(whole, n, (size_t)((double)total * (rank + 1) / ranks), share, &last, &to);
  if (rank == 0) first = 0, from = 0;
  if (rank == ranks - 1) last = n, to = 0;
  for (int i = first; i < n && i <= last; i++) {
    sl_checkpoint_piece p = whole[i];
    const int64_t begin = i == first ? from : 0, end = i == last ? to : p.rows;
    if (end <= begin && (p.rows > 0 || i == last)) continue;
    p.first = begin, p.rows = end - begin;
    p.data = (const char *)p.data + (size_t)begin * row_bytes(&p);
    mine[count++] = p;
  }
  return count;
}

/* ---- between the threads of the ranks --------------------------------------------------------------------------- */

static sl_status await(MPI_Request *request) {
  const struct timespec pause = {.tv_nsec = 500000};
  int done = 0, code = MPI_SUCCESS;
  sl_activity_begin(SL_WAITS, "messages of other ranks");
  while (!done && code == MPI_SUCCESS) {
    sl_comm_enter();
    code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
    sl_comm_leave();
    if (!done) nanosleep(&pause, NULL);
  }
  sl_activity_end();
  return sl_comm_status(code, "MPI_Test");
}

/* Rank 0 gets the reports of all ranks. */
static sl_status gather(sl_checkpoint_writer *w, const report *mine) {
  MPI_Request request;
  if (w->comm == MPI_COMM_NULL) {
    w->reports[0] = *mine;
    return SL_OK;
  }
  sl_comm_enter();
  const int code = MPI_Igather(mine, sizeof *mine, MPI_BYTE, w->reports, sizeof *mine, MPI_BYTE, 0, w->comm, &request);
  sl_comm_leave();
  SL_TRY(sl_comm_status(code, "MPI_Igather"));
  return await(&request);
}

/* Gives all ranks rank 0's status. */
static sl_status announce(sl_checkpoint_writer *w, sl_status status) {
  sl_failure verdict = sl_failure_keep(status);
  MPI_Request request;
  if (w->comm == MPI_COMM_NULL) return status;
  sl_comm_enter();
  const int code = MPI_Ibcast(&verdict, sizeof verdict, MPI_BYTE, 0, w->comm, &request);
  sl_comm_leave();
  SL_TRY(sl_comm_status(code, "MPI_Ibcast"));
  SL_TRY(await(&request));
  return sl_failure_again(&verdict);
}

/* ---- parts ------------------------------------------------------------------------------------------------------ */

static char *part_path(const char *folder, int rank) {
  char *path;
  return asprintf(&path, "%s/" PART, folder, rank) < 0 ? NULL : path;
}

/* Rank 0 checks for room before any rank writes: a checkpoint that fills the disk would leave no room for metrics and
 * models. */
static sl_status check_room(const sl_checkpoint_writer *w) {
  struct statvfs disk;
  double needed = 0;
  for (int r = 0; r < w->ranks; r++) needed += 1.0625 * (double)w->bytes[r];
  if (statvfs(w->folder, &disk) != 0) return SL_OK; /* writing will report it */
  const double left = (double)disk.f_bavail * (double)disk.f_frsize;
  return left >= needed ? SL_OK
                        : sl_blame(sl_fail(SL_EWRITE,
                                           "cannot write a checkpoint to %s: it takes %.1f MB, and %.1f MB are left; "
                                           "free some space or choose another place",
                                           w->folder, 1e-6 * needed, 1e-6 * left),
                                   "path");
}

static size_t chunk_at(size_t at, size_t size) { return size - at < CHUNK ? size - at : CHUNK; }

/* Reads a part back from the disk, because memory and disks may change bits silently. */
static sl_status read_back(const char *path, uint64_t size, uint64_t xxh3) {
  char wanted[17], found[17];
  uint64_t bytes;
  snprintf(wanted, sizeof wanted, "%016" PRIx64, xxh3);
  SL_TRY(sl_checkpoint_hash(path, 1, &bytes, found));
  return bytes == size && strcmp(found, wanted) == 0
             ? SL_OK
             : sl_blame(sl_fail(SL_EWRITE,
                                "cannot write %s: read back, its checksum is %s and not %s; the disk or this machine's "
                                "memory is faulty: choose another place",
                                path, found, wanted),
                        "path");
}

static sl_status write_part(sl_checkpoint_writer *w, const char *partial) {
  sl_status status = SL_OK;
  sl_file *file = NULL;
  char *path = part_path(partial, w->rank);
  if (!path) return sl_no_memory("for a path");
  SL_TRY_OUT(sl_folder_make(partial));
  SL_TRY_OUT(sl_file_create(path, &file));
  XXH3_64bits_reset(w->hash);
  for (size_t at = 0; at < w->size; at += CHUNK) {
    XXH3_64bits_update(w->hash, w->buffer + at, chunk_at(at, w->size));
    SL_TRY_OUT(sl_file_write(file, w->buffer + at, chunk_at(at, w->size)));
  }
  status = sl_file_commit(file);
  file = NULL;
  if (status == SL_OK) status = read_back(path, w->size, XXH3_64bits_digest(w->hash));
out:
  sl_file_discard(file);
  free(path);
  return status;
}

/* Sends this rank's part to rank 0, a chunk at a time. Allocates nothing, so only MPI can fail. */
static sl_status send_part(sl_checkpoint_writer *w) {
  XXH3_64bits_reset(w->hash);
  for (size_t at = 0; at < w->size; at += CHUNK) {
    const size_t n = chunk_at(at, w->size);
    MPI_Request request;
    XXH3_64bits_update(w->hash, w->buffer + at, n);
    sl_comm_enter();
    const int code = MPI_Isend(w->buffer + at, (int)n, MPI_BYTE, 0, 0, w->comm, &request);
    sl_comm_leave();
    SL_TRY(sl_comm_status(code, "MPI_Isend"));
    SL_TRY(await(&request));
  }
  return SL_OK;
}

/* Rank 0: receives and writes the part of a rank that does not see the folder. After a failure it still receives all
 * messages. partial NULL: rank 0 had failed earlier. */
static sl_status receive_part(sl_checkpoint_writer *w, const char *partial, int rank) {
  sl_status status = SL_OK, moved = SL_OK;
  sl_file *file = NULL;
  char *path = partial ? part_path(partial, rank) : NULL;
  status = !path ? sl_no_memory("for a path") : sl_folder_make(partial);
  if (status == SL_OK) status = sl_file_create(path, &file);
  for (int64_t at = 0; at < w->bytes[rank] && moved == SL_OK; at += CHUNK) {
    const int64_t n = w->bytes[rank] - at < CHUNK ? w->bytes[rank] - at : CHUNK;
    MPI_Request request;
    sl_comm_enter();
    const int code = MPI_Irecv(w->chunk, (int)n, MPI_BYTE, rank, 0, w->comm, &request);
    sl_comm_leave();
    moved = sl_comm_status(code, "MPI_Irecv");
    if (moved == SL_OK) moved = await(&request);
    if (moved == SL_OK && status == SL_OK) status = sl_file_write(file, w->chunk, (size_t)n);
  }
  if (status == SL_OK && moved == SL_OK) {
    status = sl_file_commit(file);
    file = NULL;
  }
  sl_file_discard(file);
  free(path);
  return moved == SL_OK ? status : moved;
}

static sl_status receive_parts(sl_checkpoint_writer *w, const char *partial) {
  sl_status status = SL_OK;
  for (int r = 1; r < w->ranks; r++) {
    if (!w->sends[r] || w->bytes[r] == 0) continue;
    const sl_failure before = sl_failure_keep(status);
    status = sl_failure_first(&before, receive_part(w, partial, r));
  }
  return status;
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

/* Rank 0: the first failure among the ranks' reports, with its error text. */
static sl_status first_reported(const sl_checkpoint_writer *w) {
  for (int r = 0; r < w->ranks; r++) {
    const sl_status code = sl_failure_again(&w->reports[r].failure);
    if (code != SL_OK) return r == 0 ? code : sl_context(code, "rank %d", r);
  }
  return SL_OK;
}

/* Rank 0: the manifest's list of parts. */
static sl_status list_parts(const sl_checkpoint_writer *w, json_t *parts) {
  for (int r = 0; r < w->ranks; r++) {
    char file[32], xxh3[17];
    if (w->bytes[r] == 0) continue;
    snprintf(file, sizeof file, PART, r);
    snprintf(xxh3, sizeof xxh3, "%016" PRIx64, w->reports[r].xxh3);
    json_t *part = json_pack("{s:s, s:I, s:s, s:O}", "file", file, "bytes", (json_int_t)w->bytes[r], "xxh3", xxh3,
                             "tensors", json_array_get(w->all_tensors, (size_t)r));
    if (json_array_append_new(parts, part) != 0) return sl_no_memory("for a checkpoint's manifest");
  }
  return SL_OK;
}

/* Rank 0: checks that it sees all parts that the manifest will list. */
static sl_status check_parts(const sl_checkpoint_writer *w, const char *partial) {
  for (int r = 0; r < w->ranks; r++) {
    struct stat info;
    if (w->bytes[r] == 0) continue;
    char *path = part_path(partial, r);
    if (!path) return sl_no_memory("for a path");
    const int there = SL_CALL_OF_FILE("stat", path, stat(path, &info)) == 0 && info.st_size == w->bytes[r];
    sl_status status = there ? SL_OK : sl_fail(SL_EIO, "rank 0 does not see %s, which rank %d wrote", path, r);
    /* The others have read their own parts back. */
    if (there && w->sends[r]) status = read_back(path, (uint64_t)w->bytes[r], w->reports[r].xxh3);
    free(path);
    SL_TRY(status);
  }
  return SL_OK;
}

/* The checkpoint is in its place, so what fails now is no reason to write it again. */
static void keep_newest(const sl_checkpoint_writer *w) {
  int64_t *steps;
  int n;
  if (sl_checkpoint_newest(w->folder, &steps, &n) != SL_OK) {
    sl_log(SL_LOG_WARNING, "older checkpoints stay: %s", sl_error());
    return;
  }
  for (int i = n - 1; i >= w->keep; i--)
    if (sl_checkpoint_remove(w->folder, steps[i]) != SL_OK)
      sl_log(SL_LOG_WARNING, "the checkpoint of step %lld stays: %s", (long long)steps[i], sl_error());
  free(steps);
}

/* Rank 0: writes the manifest and renames the checkpoint into place. */
static sl_status put_in_place(sl_checkpoint_writer *w, const char *partial, json_t *header) {
  sl_status status = SL_OK;
  if (!header) return sl_no_memory("for a checkpoint's header");
  char *manifest_path = NULL, *path = sl_checkpoint_path(w->folder, w->step);
  json_t *parts = json_array(), *manifest = NULL;
  if (!parts || !path || asprintf(&manifest_path, "%s/%s", partial, SL_CHECKPOINT_MANIFEST) < 0) {
    manifest_path = NULL;
    SL_TRY_OUT(sl_no_memory("for a checkpoint's manifest"));
  }
  SL_TRY_OUT(list_parts(w, parts));
  SL_TRY_OUT(check_parts(w, partial));
  SL_TRY_OUT(sl_folder_make(partial)); /* missing if no rank has a part */
  manifest = json_pack("{s:s, s:I, s:O, s:O}", "format", SL_CHECKPOINT_FORMAT, "step", (json_int_t)w->step, "header",
                       header, "parts", parts);
  if (!manifest) SL_TRY_OUT(sl_no_memory("for a checkpoint's manifest"));
  SL_TRY_OUT(sl_checkpoint_seal(manifest));
  SL_TRY_OUT(sl_json_write(manifest_path, manifest));
  if (SL_CALL_OF_FILE("rename", path, rename(partial, path)) != 0) SL_TRY_OUT(sl_file_failed("write", path, errno));
  if (sl_folder_sync(w->folder) == SL_OK)
    keep_newest(w);
  else
    sl_log(SL_LOG_WARNING, "the checkpoint of step %lld may be lost if this machine crashes: %s", (long long)w->step,
           sl_error());
out:
  json_decref(manifest), json_decref(parts);
  free(manifest_path), free(path);
  return status;
}

/* Writes one checkpoint, from the buffer to its place. Every rank exchanges the same messages, even after a failure. */
static sl_status write_one(sl_checkpoint_writer *w, json_t *header) {
  report mine = {0};
  SL_TRY(announce(w, w->rank == 0 ? check_room(w) : SL_OK));
  char *partial = sl_checkpoint_partial(w->folder, w->step);
  sl_status status = partial ? SL_OK : sl_no_memory("for a path");
  if (w->sends[w->rank]) {
    const sl_failure before = sl_failure_keep(status);
    status = sl_failure_first(&before, send_part(w));
  } else if (status == SL_OK && w->size) {
    status = write_part(w, partial);
  }
  if (status == SL_OK && w->size) mine.xxh3 = XXH3_64bits_digest(w->hash);
  if (w->rank == 0) {
    const sl_failure before = sl_failure_keep(status);
    status = sl_failure_first(&before, receive_parts(w, partial));
  }
  mine.failure = sl_failure_keep(status);
  status = sl_failure_first(&mine.failure, gather(w, &mine));
  if (w->rank == 0) {
    if (status == SL_OK) status = first_reported(w);
    if (status == SL_OK) status = put_in_place(w, partial, header);
    if (status != SL_OK) { /* before any rank may begin the next checkpoint */
      const sl_failure why = sl_failure_keep(status);
      sl_checkpoint_tidy(w->folder, 0, NULL);
      sl_failure_again(&why);
    }
  }
  status = announce(w, status);
  free(partial);
  return status;
}

static void *writer_main(void *arg) {
  sl_checkpoint_writer *w = arg;
  pthread_mutex_lock(&w->lock);
  for (;;) {
    while (!w->busy && !w->stop) pthread_cond_wait(&w->changed, &w->lock);
    if (!w->busy) break;
    json_t *header = w->header;
    pthread_mutex_unlock(&w->lock);
    sl_activity_begin(SL_WORKS, "a checkpoint");
    const sl_status status = write_one(w, header);
    sl_activity_end();
    json_decref(header);
    pthread_mutex_lock(&w->lock);
    w->header = NULL;
    if (status == SL_OK)
      w->written = w->step;
    else
      w->failure = sl_failure_keep(status);
    w->busy = 0;
    pthread_cond_broadcast(&w->changed);
  }
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

/* ---- what training calls ---------------------------------------------------------------------------------------- */

/* Waits for the checkpoint of all ranks, which they write together. The caller holds the lock. */
static void wait_until_written(sl_checkpoint_writer *w) {
  if (!w->busy) return;
  sl_activity_begin(SL_WAITS, "the end of a checkpoint");
  while (w->busy) pthread_cond_wait(&w->changed, &w->lock);
  sl_activity_end();
}

sl_status sl_checkpoint_begin(sl_checkpoint_writer *w, int64_t step, json_t *header) {
  const double from = sl_seconds();
  pthread_mutex_lock(&w->lock);
  wait_until_written(w);
  pthread_mutex_unlock(&w->lock);
  w->waited = sl_seconds() - from;
  char *at = w->buffer + w->head;
  for (int i = 0; i < w->n; at += piece_bytes(&w->piece[i]), i++)
    memcpy(at, w->piece[i].data, piece_bytes(&w->piece[i]));
  pthread_mutex_lock(&w->lock);
  w->step = step, w->header = header, w->busy = 1;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
  w->stood += sl_seconds() - from;
  return SL_OK;
}

static sl_status ask(sl_checkpoint_writer *w, int wait) {
  pthread_mutex_lock(&w->lock);
  if (wait) wait_until_written(w);
  const sl_status status = sl_failure_again(&w->failure);
  w->failure.code = SL_OK;
  pthread_mutex_unlock(&w->lock);
  return status;
}

int64_t sl_checkpoint_written(sl_checkpoint_writer *w) {
  pthread_mutex_lock(&w->lock);
  const int64_t step = w->written;
  pthread_mutex_unlock(&w->lock);
  return step;
}

sl_status sl_checkpoint_poll(sl_checkpoint_writer *w) { return ask(w, 0); }
sl_status sl_checkpoint_wait(sl_checkpoint_writer *w) { return ask(w, 1); }

size_t sl_checkpoint_bytes(const sl_checkpoint_writer *w) { return w->size; }
double sl_checkpoint_waited(const sl_checkpoint_writer *w) { return w->waited; }
double sl_checkpoint_stood(const sl_checkpoint_writer *w) { return w->stood; }
int sl_checkpoint_sends(const sl_checkpoint_writer *w) { return w->sends[w->rank]; }

/* ---- making one ------------------------------------------------------------------------------------------------- */

/* Synchronises the folder's parent: without the folder's name on the disk, its checkpoints would not outlive a crash.
 */
static sl_status sync_above(const char *folder) {
  const char *slash = strrchr(folder, '/');
  char *above = slash ? strndup(folder, slash > folder ? (size_t)(slash - folder) : 1) : strdup(".");
  if (!above) return sl_no_memory("for a path");
  const sl_status status = sl_folder_sync(above);
  free(above);
  return status;
}

/* Rank 0: makes the folder, removes leftovers of killed runs, and puts aside checkpoints of steps after `from`. */
static sl_status prepare_folder(const sl_checkpoint_writer *w, int64_t from) {
  int64_t *steps;
  int n;
  SL_TRY(sl_folder_make(w->folder));
  SL_TRY(sync_above(w->folder));
  if (sl_checkpoint_tidy(w->folder, 0, NULL) != SL_OK) sl_log(SL_LOG_WARNING, "leftovers stay: %s", sl_error());
  SL_TRY(sl_checkpoint_newest(w->folder, &steps, &n));
  sl_status status = SL_OK;
  for (int i = 0; i < n && steps[i] > from && status == SL_OK; i++)
    status = sl_checkpoint_put_aside(w->folder, steps[i]);
  free(steps);
  return status;
}

/* Whether this rank sees the file with these bytes. Tries for a while, because a network file system may lag. */
static int sees(const char *path, const void *bytes, size_t n) {
  enum { TRIES = 10 };
  const struct timespec pause = {.tv_nsec = 100000000};
  for (int i = 0; i < TRIES; i++) {
    char *text = NULL;
    size_t size;
    const int same = sl_file_read(path, n, &text, &size) == SL_OK && size == n && memcmp(text, bytes, n) == 0;
    free(text);
    if (same) return 1;
    nanosleep(&pause, NULL);
  }
  return 0;
}

/* Rank 0 writes a file with a unique name and content; ranks that do not see it, or may not write there, will send
 * their parts. Collective. */
static sl_status find_senders(sl_checkpoint_writer *w, int send) {
  uint64_t token = 0;
  char *path = NULL;
  sl_status status = SL_OK;
  if (w->rank == 0 && getrandom(&token, sizeof token, 0) != (ssize_t)sizeof token)
    token = (uint64_t)getpid() << 32 ^ (uint64_t)time(NULL);
  SL_TRY(sl_comm_status(MPI_Bcast(&token, sizeof token, MPI_BYTE, 0, w->comm), "MPI_Bcast"));
  if (asprintf(&path, "%s/.shared-%016" PRIx64 ".tmp", w->folder, token) < 0) {
    path = NULL;
    status = sl_no_memory("for a path");
  }
  if (status == SL_OK && w->rank == 0) status = sl_file_replace(path, &token, sizeof token);
  status = sl_comm_agree(w->comm, status);
  if (status == SL_OK) {
    int sends = w->rank != 0 && (send || !sees(path, &token, sizeof token) || access(w->folder, W_OK | X_OK) != 0);
    status = sl_comm_status(MPI_Allgather(&sends, 1, MPI_INT, w->sends, 1, MPI_INT, w->comm), "MPI_Allgather");
  }
  if (w->rank == 0 && path) SL_CALL_OF_FILE("unlink", path, unlink(path));
  free(path);
  return status;
}

/* Makes the file's head, the buffer for the rest, and the manifest's entries. */
static sl_status lay_out(sl_checkpoint_writer *w) {
  sl_status status = SL_OK;
  char *head = NULL;
  sl_named_array *arrays = calloc((size_t)w->n + 1, sizeof *arrays);
  w->tensors = json_array();
  if (!arrays || !w->tensors) SL_TRY_OUT(sl_no_memory("for a checkpoint's list of tensors"));
  for (int i = 0; i < w->n; i++) {
    const sl_checkpoint_piece *p = &w->piece[i];
    arrays[i] = (sl_named_array){.name = p->name, .dtype = p->dtype, .shape = p->shape};
    if (p->shape.ndim) arrays[i].shape.dim[0] = p->rows;
    json_t *shape = json_array();
    int whole = shape != NULL;
    for (int d = 0; d < p->shape.ndim && whole; d++)
      whole = json_array_append_new(shape, json_integer(p->shape.dim[d])) == 0;
    json_t *tensor = json_pack("{s:s, s:o, s:I}", "name", p->name, "shape", shape, "first", (json_int_t)p->first);
    if (json_array_append_new(w->tensors, tensor) != 0 || !whole)
      SL_TRY_OUT(sl_no_memory("for a checkpoint's list of tensors"));
    w->size += piece_bytes(p);
  }
  if (w->n == 0) goto out;
  SL_TRY_OUT(sl_safetensors_head(w->folder, arrays, w->n, NULL, 0, &head, &w->head));
  w->size += w->head;
  w->room = (w->size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  w->buffer = mmap(NULL, w->room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (w->buffer == MAP_FAILED) {
    w->buffer = NULL;
    SL_TRY_OUT(sl_no_memory("for the %zu bytes that checkpoints are copied to before they are written", w->size));
  }
  madvise(w->buffer, w->room, MADV_HUGEPAGE);
  memset(w->buffer, 0, w->size); /* takes the page faults now, not while a step waits */
  memcpy(w->buffer, head, w->head);
out:
  free(head), free(arrays);
  return status;
}

/* Rank 0 gets all ranks' texts in *all, in rank order, each ended by a zero byte, and must free(*all). Collective. */
static sl_status gather_texts(const sl_checkpoint_writer *w, MPI_Comm comm, const char *text, char **all) {
  sl_status status = SL_OK;
  int mine = (int)strlen(text) + 1, total = 0;
  int *length = calloc((size_t)w->ranks, sizeof *length), *place = calloc((size_t)w->ranks, sizeof *place);
  *all = NULL;
  SL_TRY_OUT(sl_comm_agree(comm, length && place ? SL_OK : sl_no_memory("for a checkpoint's list of tensors")));
  SL_TRY_OUT(sl_comm_status(MPI_Gather(&mine, 1, MPI_INT, length, 1, MPI_INT, 0, comm), "MPI_Gather"));
  for (int r = 0; r < w->ranks; r++) place[r] = total, total += length[r];
  if (w->rank == 0) *all = malloc((size_t)total);
  SL_TRY_OUT(sl_comm_agree(comm, w->rank != 0 || *all ? SL_OK : sl_no_memory("for a checkpoint's list of tensors")));
  SL_TRY_OUT(sl_comm_status(MPI_Gatherv(text, mine, MPI_CHAR, *all, length, place, MPI_CHAR, 0, comm), "MPI_Gatherv"));
out:
  free(length), free(place);
  return status;
}

/* Rank 0: the lists of all ranks' tensors, from their texts. */
static sl_status parse_tensors(sl_checkpoint_writer *w, const char *all) {
  if (!(w->all_tensors = json_array())) return sl_no_memory("for a checkpoint's list of tensors");
  for (int r = 0; r < w->ranks; r++, all += strlen(all) + 1) {
    json_t *tensors;
    SL_TRY(sl_json_parse(all, strlen(all), 0, &tensors, NULL));
    if (json_array_append_new(w->all_tensors, tensors) != 0) return sl_no_memory("for a checkpoint's list of tensors");
  }
  return SL_OK;
}

/* Rank 0 collects the manifest's entries for all ranks' tensors. Collective. */
static sl_status collect_tensors(sl_checkpoint_writer *w, MPI_Comm comm) {
  sl_status status = SL_OK;
  char *all = NULL, *text = NULL;
  if (w->ranks == 1) {
    w->all_tensors = json_pack("[O]", w->tensors);
    return w->all_tensors ? SL_OK : sl_no_memory("for a checkpoint's list of tensors");
  }
  text = sl_json_text(w->tensors, JSON_COMPACT);
  SL_TRY_OUT(sl_comm_agree(comm, text ? SL_OK : sl_no_memory("for a checkpoint's list of tensors")));
  SL_TRY_OUT(gather_texts(w, comm, text, &all));
  SL_TRY_OUT(sl_comm_agree(comm, w->rank == 0 ? parse_tensors(w, all) : SL_OK));
out:
  free(text), free(all);
  return status;
}

/* Allocates the memory that a checkpoint's messages need. */
static sl_status prepare_messages(sl_checkpoint_writer *w) {
  int any = 0;
  for (int r = 0; r < w->ranks; r++) any |= w->sends[r];
  w->hash = XXH3_createState();
  w->reports = w->rank == 0 ? calloc((size_t)w->ranks, sizeof *w->reports) : NULL;
  w->chunk = w->rank == 0 && any ? malloc(CHUNK) : NULL;
  return w->hash && (w->rank != 0 || (w->reports && (w->chunk || !any)))
             ? SL_OK
             : sl_no_memory("for %d ranks' reports on a checkpoint", w->ranks);
}

/* Gives all ranks the name of rank 0's folder. Collective. */
static sl_status name_folder(sl_checkpoint_writer *w, const sl_checkpoint_options *o) {
  int bytes = w->rank == 0 ? (int)strlen(o->folder) + 1 : 0;
  if (w->ranks > 1) SL_TRY(sl_comm_status(MPI_Bcast(&bytes, 1, MPI_INT, 0, o->comm), "MPI_Bcast"));
  w->folder = malloc((size_t)bytes);
  SL_TRY(sl_comm_agree(o->comm, w->folder ? SL_OK : sl_no_memory("for a path")));
  if (w->rank == 0) memcpy(w->folder, o->folder, (size_t)bytes);
  return w->ranks > 1 ? sl_comm_status(MPI_Bcast(w->folder, bytes, MPI_CHAR, 0, o->comm), "MPI_Bcast") : SL_OK;
}

static sl_status prepare(sl_checkpoint_writer *w, const sl_checkpoint_options *o) {
  w->piece = calloc((size_t)o->n + 1, sizeof *w->piece);
  if (!w->piece) return sl_no_memory("for %d pieces of a checkpoint", o->n);
  for (; w->n < o->n; w->n++) {
    w->piece[w->n] = o->piece[w->n];
    if (!(w->piece[w->n].name = strdup(o->piece[w->n].name)))
      return sl_no_memory("for %d pieces of a checkpoint", o->n);
  }
  SL_TRY(lay_out(w));
  return w->rank == 0 ? prepare_folder(w, o->from) : SL_OK;
}

static sl_status start(sl_checkpoint_writer *w) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals go to the training thread */
  w->started = pthread_create(&w->thread, NULL, writer_main, w) == 0;
  if (w->started) pthread_setname_np(w->thread, "sl-checkpoint");
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return w->started ? SL_OK : sl_fail(SL_ENOMEM, "cannot start a thread to write checkpoints");
}

sl_status sl_checkpoint_writer_create(const sl_checkpoint_options *o, sl_checkpoint_writer **result) {
  sl_status status = SL_OK;
  int rank = 0, ranks = 1;
  *result = NULL;
  if (o->keep < 1) return sl_fail(SL_EINVAL, "checkpoints to keep: %d, which is less than 1", o->keep);
  if (o->comm != MPI_COMM_NULL) MPI_Comm_rank(o->comm, &rank), MPI_Comm_size(o->comm, &ranks);
  sl_checkpoint_writer *w = calloc(1, sizeof *w);
  if (w) {
    *w = (sl_checkpoint_writer){
        .comm = MPI_COMM_NULL, .rank = rank, .ranks = ranks, .keep = o->keep, .written = o->from};
    pthread_mutex_init(&w->lock, NULL), pthread_cond_init(&w->changed, NULL);
    w->sends = calloc((size_t)ranks, sizeof *w->sends), w->bytes = calloc((size_t)ranks, sizeof *w->bytes);
  }
  SL_TRY_OUT(sl_comm_agree(o->comm, w && w->sends && w->bytes ? SL_OK : sl_no_memory("to write checkpoints")));
  SL_TRY_OUT(name_folder(w, o));
  SL_TRY_OUT(sl_comm_agree(o->comm, prepare(w, o)));
  w->bytes[rank] = (int64_t)w->size;
  if (ranks > 1) {
    SL_TRY_OUT(sl_comm_status(MPI_Comm_dup(o->comm, &w->comm), "MPI_Comm_dup"));
    int64_t mine = (int64_t)w->size;
    SL_TRY_OUT(
        sl_comm_status(MPI_Allgather(&mine, 1, MPI_INT64_T, w->bytes, 1, MPI_INT64_T, w->comm), "MPI_Allgather"));
    SL_TRY_OUT(find_senders(w, o->send));
  }
  SL_TRY_OUT(collect_tensors(w, o->comm));
  status = prepare_messages(w);
  if (status == SL_OK) status = start(w);
  SL_TRY_OUT(sl_comm_agree(o->comm, status));
  *result = w;
  w = NULL;
out:
  sl_checkpoint_writer_destroy(w);
  return status;
}

void sl_checkpoint_writer_destroy(sl_checkpoint_writer *w) {
  if (!w) return;
  if (w->started) {
    pthread_mutex_lock(&w->lock);
    w->stop = 1;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
  }
  if (w->comm != MPI_COMM_NULL) MPI_Comm_free(&w->comm);
  pthread_mutex_destroy(&w->lock), pthread_cond_destroy(&w->changed);
  for (int i = 0; w->piece && i < w->n; i++) free((char *)w->piece[i].name);
  if (w->buffer) munmap(w->buffer, w->room);
  json_decref(w->tensors), json_decref(w->all_tensors);
  if (w->hash) XXH3_freeState(w->hash);
  free(w->piece), free(w->folder), free(w->sends), free(w->bytes), free(w->reports), free(w->chunk), free(w);
}
