/* runtime/files/checkpoint.c and checkpoint_writer.c: checkpoints are read as written, on any number of ranks; damaged
 * files are refused by name; failures leave earlier checkpoints unchanged. Starts itself over under mpiexec. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/files/checkpoint_writer.h"
#include "runtime/machine/comm.h"
#include "tests/support/failing.h"
#include "tests/support/ranks.h"
#include "tests/support/scratch.h"

/* ---- a state of some tensors ------------------------------------------------------------------------------------ */

enum { TENSORS = 6, STEPS = 5 };
static const struct {
  const char *name;
  sl_dtype dtype;
  sl_shape shape;
} kinds[TENSORS] = {{"large.weight", SL_F32, {2, {1000, 37}}},
                    {"large.bias", SL_F32, {1, {37}}},
                    {"scalar", SL_F64, {0, {0}}},
                    {"none", SL_I64, {2, {0, 5}}},
                    {"small.weight", SL_F32, {2, {3, 5}}},
                    {"last.bytes", SL_U8, {3, {7, 2, 3}}}};
static unsigned char *memory[TENSORS];
static sl_checkpoint_piece whole[TENSORS];

static size_t bytes_of(int i) { return (size_t)sl_shape_count(&kinds[i].shape) * sl_dtype_bytes(kinds[i].dtype); }
static unsigned char byte_of(int64_t step, int i, size_t k) {
  return (unsigned char)(step * 31 + i * 7 + (int64_t)(k * 2654435761u >> 9));
}

static void fill(int64_t step) {
  for (int i = 0; i < TENSORS; i++)
    for (size_t k = 0; k < bytes_of(i); k++) memory[i][k] = byte_of(step, i, k);
}

static void make_state(void) {
  for (int i = 0; i < TENSORS; i++) {
    if (!memory[i]) memory[i] = malloc(bytes_of(i) + 1);
    const int64_t rows = kinds[i].shape.ndim ? kinds[i].shape.dim[0] : 1;
    whole[i] = (sl_checkpoint_piece){kinds[i].name, kinds[i].dtype, kinds[i].shape, 0, rows, memory[i]};
  }
}

static json_t *header(int64_t step) {
  return json_pack("{s:s, s:{s:I, s:f}}", "format", "test", "progress", "cursor", (json_int_t)(64 * step), "loss",
                   0.1 * (double)step);
}

/* 1 if the checkpoint of the step holds the contents that fill made. */
static int holds(const char *folder, int64_t step) {
  char *path = sl_checkpoint_path(folder, step);
  sl_checkpoint *c;
  const sl_status status = sl_checkpoint_open(path, &c);
  free(path);
  if (status != SL_OK) return 0;
  int same = sl_checkpoint_step(c) == step && sl_checkpoint_count(c) == TENSORS &&
             strcmp(sl_checkpoint_metadata(c, "format"), "test") == 0 && !sl_checkpoint_metadata(c, "nothing");
  json_t *mine = header(step);
  same &= json_equal(mine, sl_checkpoint_header(c));
  json_decref(mine);
  for (int i = 0; i < TENSORS && same; i++) {
    const int k = sl_checkpoint_find(c, kinds[i].name);
    unsigned char *data = malloc(bytes_of(i) + 1);
    same &= k >= 0 && sl_checkpoint_get(c, k)->dtype == kinds[i].dtype &&
            sl_shape_equal(&sl_checkpoint_get(c, k)->shape, &kinds[i].shape) && sl_checkpoint_read(c, k, data) == SL_OK;
    for (size_t b = 0; same && b < bytes_of(i); b++) same &= data[b] == byte_of(step, i, b);
    free(data);
  }
  sl_checkpoint_close(c);
  return same;
}

static sl_status open_step(const char *folder, int64_t step) {
  char *path = sl_checkpoint_path(folder, step);
  sl_checkpoint *c;
  const sl_status status = sl_checkpoint_open(path, &c);
  sl_checkpoint_close(c);
  free(path);
  return status;
}

static sl_status create(const char *folder, int keep, int64_t from, sl_checkpoint_writer **w) {
  make_state();
  const sl_checkpoint_options options = {
      .folder = folder, .comm = MPI_COMM_NULL, .keep = keep, .from = from, .piece = whole, .n = TENSORS};
  return sl_checkpoint_writer_create(&options, w);
}

static sl_status write_step(sl_checkpoint_writer *w, int64_t step) {
  fill(step);
  SL_TRY(sl_checkpoint_begin(w, step, header(step)));
  fill(-1); /* training goes on while the copy is written */
  return sl_checkpoint_wait(w);
}

static int newest(const char *folder, int64_t *step) {
  int64_t *steps;
  int n;
  assert_ok(sl_checkpoint_newest(folder, &steps, &n));
  if (n) *step = steps[0];
  for (int i = 1; i < n; i++) assert_true(steps[i] < steps[i - 1]);
  free(steps);
  return n;
}

/* ---- one process ------------------------------------------------------------------------------------------------ */

static void written_and_read(void **state) {
  const char *folder = scratch_path(*state, "checkpoints");
  sl_checkpoint_writer *w;
  int64_t step = -1;
  assert_int_equal(newest(folder, &step), 0);
  assert_ok(create(folder, 2, 0, &w));
  for (int s = 1; s <= STEPS; s++) assert_ok(write_step(w, 10 * s));
  assert_true(sl_checkpoint_bytes(w) > bytes_of(0) && sl_checkpoint_stood(w) > 0);
  sl_checkpoint_writer_destroy(w);
  assert_int_equal(newest(folder, &step), 2);
  assert_int_equal(step, 10 * STEPS);
  assert_int_equal(scratch_entries(folder), 2);
  assert_true(holds(folder, 50) && holds(folder, 40));
  assert_true(sl_checkpoint_is(scratch_path(folder, "step-00000050")));
  assert_false(sl_checkpoint_is(folder));
}

static void ends_what_it_began(void **state) {
  const char *folder = scratch_path(*state, "checkpoints");
  sl_checkpoint_writer *w;
  assert_ok(create(folder, 3, 0, &w));
  for (int s = 1; s <= 3; s++) { /* the second waits for the first */
    fill(s);
    assert_ok(sl_checkpoint_begin(w, s, header(s)));
  }
  sl_checkpoint_writer_destroy(w);
  for (int s = 1; s <= 3; s++) assert_true(holds(folder, s));
}

static void leftovers_go_and_later_steps_are_put_aside(void **state) {
  const char *folder = scratch_path(*state, "checkpoints");
  sl_checkpoint_writer *w;
  int64_t step = -1;
  assert_ok(create(folder, 3, 0, &w));
  for (int s = 1; s <= 3; s++) assert_ok(write_step(w, s));
  sl_checkpoint_writer_destroy(w);
  assert_int_equal(rename(scratch_path(folder, "step-00000001"), scratch_path(folder, ".step-00000001.partial")), 0);
  scratch_write(scratch_path(folder, ".shared-0123.tmp"), "x", 1);
  scratch_write(scratch_path(folder, "notes.txt"), "mine", 4);
  for (int twice = 0; twice < 2; twice++) {
    assert_ok(create(folder, 3, 2, &w)); /* continues from step 2 */
    assert_int_equal(newest(folder, &step), 1);
    assert_int_equal(step, 2);
    assert_ok(write_step(w, 3));
    assert_true(holds(folder, 3));
    sl_checkpoint_writer_destroy(w);
  }
  /* step 2 and 3, two of step 3 that were put aside, notes */
  assert_int_equal(scratch_entries(folder), 5);
  int others;
  assert_ok(sl_checkpoint_tidy(folder, 1, &others));
  assert_int_equal(others, 1);
  assert_int_equal(scratch_entries(folder), 1);
  unlink(scratch_path(folder, "notes.txt"));
  assert_ok(sl_checkpoint_tidy(folder, 1, &others));
  assert_int_equal(others, 0);
  assert_int_equal(access(folder, F_OK), -1);
  assert_ok(sl_checkpoint_tidy(folder, 1, &others));
}

static void damage_is_refused(void **state) {
  const char *folder = scratch_path(*state, "checkpoints");
  char part[4096], manifest[4096];
  sl_checkpoint_writer *w;
  size_t n, m;
  assert_ok(create(folder, 3, 0, &w));
  assert_ok(write_step(w, 7));
  sl_checkpoint_writer_destroy(w);
  snprintf(part, sizeof part, "%s/step-00000007/part-00000.safetensors", folder);
  snprintf(manifest, sizeof manifest, "%s/step-00000007/checkpoint.json", folder);
  char *bytes = scratch_read(part, &n), *text = scratch_read(manifest, &m);

  scratch_write(part, bytes, n - 1);
  assert_fails(SL_EFORMAT, "part-00000.safetensors has", open_step(folder, 7));
  scratch_write(part, bytes, 0);
  assert_fails(SL_EFORMAT, "part-00000.safetensors has 0 bytes", open_step(folder, 7));
  unlink(part);
  assert_fails(SL_EFORMAT, "part-00000.safetensors", open_step(folder, 7));
  for (size_t at = 0; at < n; at += 1 + n / 50) {
    bytes[at] = (char)(bytes[at] ^ 1 << at % 8);
    scratch_write(part, bytes, n);
    assert_fails(SL_EFORMAT, "part-00000.safetensors changed since it was written", open_step(folder, 7));
    bytes[at] = (char)(bytes[at] ^ 1 << at % 8);
  }
  scratch_write(part, bytes, n);
  assert_true(holds(folder, 7));

  scratch_write(manifest, text, m / 2);
  assert_fails(SL_EFORMAT, "checkpoint.json", open_step(folder, 7));
  int refused = 0;
  for (size_t at = 0; at < m; at++) {
    text[at] = (char)(text[at] ^ 4);
    scratch_write(manifest, text, m);
    if (!holds(folder, 7)) { /* the last digit of a number with 17 may not matter */
      assert_fails(SL_EFORMAT, "checkpoint.json", open_step(folder, 7));
      refused++;
    }
    text[at] = (char)(text[at] ^ 4);
  }
  assert_true(refused + 3 >= (int)m);
  scratch_write(manifest, "{\"format\": \"starling-checkpoint-9\"}", 35);
  assert_fails(SL_EFORMAT, "of format starling-checkpoint-9; this version reads", open_step(folder, 7));
  scratch_write(manifest, "{}", 2);
  assert_fails(SL_EFORMAT, "not the manifest of a checkpoint", open_step(folder, 7));
  unlink(manifest);
  assert_fails(SL_EFORMAT, "checkpoint.json", open_step(folder, 7));
  free(bytes), free(text);
}

/* Whole parts that do not cover the tensors, as if a rank had written too little. */
static void gaps_are_refused(void **state) {
  const char *folder = scratch_path(*state, "checkpoints");
  sl_checkpoint_writer *w;
  make_state();
  sl_checkpoint_piece half = whole[0];
  half.rows = 500;
  const sl_checkpoint_options options = {.folder = folder, .comm = MPI_COMM_NULL, .keep = 1, .piece = &half, .n = 1};
  assert_ok(sl_checkpoint_writer_create(&options, &w));
  assert_ok(write_step(w, 1));
  sl_checkpoint_writer_destroy(w);
  assert_fails(SL_EFORMAT, "do not make up tensor large.weight: row 500", open_step(folder, 1));
}

/* A checkpoint is written, too, if an older one cannot be removed, now or by the next writer. */
static void an_older_one_stays(void **state) {
  const char *folder = scratch_path(*state, "checkpoints"), *blocked = scratch_path(folder, "step-00000001/part-x");
  sl_checkpoint_writer *w;
  int64_t step = -1;
  assert_ok(create(folder, 1, 0, &w));
  assert_ok(write_step(w, 1));
  assert_int_equal(mkdir(blocked, 0777), 0); /* a folder where a part would be */
  assert_ok(write_step(w, 2));
  assert_int_equal(sl_checkpoint_written(w), 2);
  assert_ok(write_step(w, 3));
  sl_checkpoint_writer_destroy(w);
  assert_int_equal(newest(folder, &step), 1);
  assert_int_equal(step, 3);
  assert_ok(create(folder, 1, 3, &w));
  assert_ok(write_step(w, 4));
  sl_checkpoint_writer_destroy(w);
  assert_true(holds(folder, 4));
}

static void full_disk(void **state) {
  const char *disk = scratch_path(*state, "disk"), *folder = scratch_path(*state, "disk/checkpoints");
  sl_checkpoint_writer *w;
  int64_t step;
  assert_int_equal(mkdir(disk, 0777), 0);
  if (!scratch_small_disk(disk, 400 << 10)) skip(); /* two of them fit, three do not */
  assert_ok(create(folder, 3, 0, &w));
  assert_ok(write_step(w, 1));
  assert_ok(write_step(w, 2));
  assert_fails(SL_EWRITE, "disk/checkpoints: it takes 0.2 MB, and 0.1 MB are left; free some space", write_step(w, 3));
  assert_ok(sl_checkpoint_poll(w)); /* reported once */
  assert_int_equal(newest(folder, &step), 2);
  assert_int_equal(step, 2);
  assert_int_equal(scratch_entries(folder), 2);
  assert_true(holds(folder, 1) && holds(folder, 2));
  assert_ok(sl_checkpoint_remove(folder, 1));
  assert_ok(write_step(w, 4));
  assert_true(holds(folder, 4));
  sl_checkpoint_writer_destroy(w);
  scratch_small_disk_end(disk);
}

static void shares(void **state) {
  (void)state;
  make_state();
  size_t total = 0;
  for (int i = 0; i < TENSORS; i++) total += bytes_of(i);
  for (int ranks = 1; ranks <= 40; ranks++) {
    int next = 0;
    int64_t row = 0;
    for (int r = 0; r < ranks; r++) {
      sl_checkpoint_piece mine[TENSORS];
      size_t bytes = 0;
      const int n = sl_checkpoint_share(whole, TENSORS, r, ranks, mine);
      for (int k = 0; k < n; k++) { /* in order, without a gap */
        if (next < TENSORS && row == whole[next].rows && row > 0) next++, row = 0;
        assert_string_equal(mine[k].name, whole[next].name);
        assert_int_equal(mine[k].first, row);
        const size_t each = (size_t)sl_shape_row(&mine[k].shape) * sl_dtype_bytes(mine[k].dtype);
        assert_ptr_equal(mine[k].data, memory[next] + (size_t)row * each);
        bytes += (size_t)mine[k].rows * each;
        row += mine[k].rows;
        if (whole[next].rows == 0) next++, row = 0;
      }
      assert_true(bytes <= total / (size_t)ranks + 37 * 4 + 500);
    }
    assert_int_equal(next, TENSORS - 1);
    assert_int_equal(row, whole[TENSORS - 1].rows);
  }
}

/* ---- several ranks ---------------------------------------------------------------------------------------------- */

static void ranks_write(const char *folder, int send) {
  int rank, ranks;
  sl_checkpoint_piece mine[TENSORS];
  sl_checkpoint_writer *w;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  make_state();
  const int n = sl_checkpoint_share(whole, TENSORS, rank, ranks, mine);
  const sl_checkpoint_options options = {
      .folder = rank == 0 ? folder : NULL, .comm = MPI_COMM_WORLD, .keep = 2, .send = send, .piece = mine, .n = n};
  RANK_CHECK(sl_checkpoint_writer_create(&options, &w) == SL_OK);
  RANK_CHECK(sl_checkpoint_sends(w) == (send && rank != 0));
  for (int s = 1; s <= 4; s++) {
    fill(s);
    RANK_CHECK(sl_checkpoint_begin(w, s, rank == 0 ? header(s) : NULL) == SL_OK);
    fill(-1);
  }
  RANK_CHECK(sl_checkpoint_wait(w) == SL_OK);
  MPI_Barrier(MPI_COMM_WORLD);
  RANK_CHECK(holds(folder, 3) && holds(folder, 4)); /* each rank reads all of it */
  MPI_Barrier(MPI_COMM_WORLD);

  /* A part cannot be put into place: all ranks get the failure, with rank 1's text. */
  char *partial = sl_checkpoint_partial(folder, 5), blocked[4096];
  snprintf(blocked, sizeof blocked, "%s/part-00001.safetensors", partial);
  if (rank == 0) RANK_CHECK(mkdir(partial, 0777) == 0 && mkdir(blocked, 0777) == 0);
  MPI_Barrier(MPI_COMM_WORLD);
  fill(5);
  RANK_CHECK(sl_checkpoint_begin(w, 5, rank == 0 ? header(5) : NULL) == SL_OK);
  RANK_CHECK(sl_checkpoint_wait(w) == SL_EIO && strstr(sl_error(), "part-00001.safetensors"));
  RANK_CHECK(send ? !strstr(sl_error(), "rank 1: ") : strstr(sl_error(), "rank 1: ") != NULL);
  MPI_Barrier(MPI_COMM_WORLD);
  RANK_CHECK(holds(folder, 3) && holds(folder, 4));
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) RANK_CHECK(rmdir(blocked) == 0);
  MPI_Barrier(MPI_COMM_WORLD);
  fill(6);
  RANK_CHECK(sl_checkpoint_begin(w, 6, rank == 0 ? header(6) : NULL) == SL_OK);
  RANK_CHECK(sl_checkpoint_wait(w) == SL_OK);
  RANK_CHECK(holds(folder, 6));
  sl_checkpoint_writer_destroy(w);
  free(partial);
}

/* A folder that cannot be made is a failure on all ranks. */
static void ranks_fail(const char *folder) {
  int rank;
  sl_checkpoint_writer *w;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const sl_checkpoint_options options = {.folder = folder, .comm = MPI_COMM_WORLD, .keep = 2};
  RANK_CHECK(sl_checkpoint_writer_create(&options, &w) == SL_EIO && strstr(sl_error(), "rank 0: cannot make"));
}

/* Makes a writer and a checkpoint while something fails; the status must be the same on all ranks. */
static sl_status try_checkpoint(const char *folder, int send, int64_t step) {
  int rank, ranks, codes[2];
  sl_checkpoint_piece mine[2];
  sl_checkpoint_writer *w;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int n = sl_checkpoint_share(whole, 2, rank, ranks, mine); /* of two tensors: each rank has a part */
  const sl_checkpoint_options options = {
      .folder = folder, .comm = MPI_COMM_WORLD, .keep = 2, .send = send, .piece = mine, .n = n};
  sl_status status = sl_checkpoint_writer_create(&options, &w);
  fill(step);
  if (status == SL_OK) {
    status = sl_checkpoint_begin(w, step, rank == 0 ? header(step) : NULL);
    const sl_status written = sl_checkpoint_wait(w);
    if (status == SL_OK) status = written;
    sl_checkpoint_writer_destroy(w);
  }
  const int code = status;
  MPI_Allreduce(&code, &codes[0], 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&code, &codes[1], 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  RANK_CHECK(codes[0] == codes[1]);
  return status;
}

/* Memory runs out on each rank in turn, at each of its allocations. If a rank left the others waiting, the test would
 * hang. */
static void ranks_without_memory(const char *folder, int send) {
  int rank, ranks, failed = 0, tried = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  make_state();
  for (int r = 0; r < ranks; r++)
    for (long number = 1, count = 1; count >= number - 1; number++) {
      if (rank == r) failing_at(number);
      const sl_status status = try_checkpoint(folder, send, 1);
      if (rank == r) count = failing_end();
      MPI_Bcast(&count, 1, MPI_LONG, r, MPI_COMM_WORLD);
      RANK_CHECK(count >= number || status == SL_OK);
      RANK_CHECK(status == SL_OK || status == SL_ENOMEM || status == SL_EIO);
      failed += status != SL_OK, tried++;
      RANK_CHECK(rank != 0 || status != SL_OK || open_step(folder, 1) == SL_OK);
      if (rank == 0) RANK_CHECK(sl_checkpoint_tidy(folder, 1, NULL) == SL_OK);
      MPI_Barrier(MPI_COMM_WORLD);
    }
  if (rank == 0) fprintf(stderr, "# %d of %d checkpoints failed\n", failed, tried);
  RANK_CHECK(failed > 20 * ranks);
}

static int run_ranks(const char *folder) {
  char path[4096];
  snprintf(path, sizeof path, "%s/shared", folder);
  ranks_write(path, 0);
  snprintf(path, sizeof path, "%s/sent", folder);
  ranks_write(path, 1);
  snprintf(path, sizeof path, "%s/none/none", folder);
  ranks_fail(path);
  return 0;
}

/* Each of three ranks finds the damage in its share of the parts, and only there. */
static void check_shares(const char *folder, int64_t step) {
  char *path = sl_checkpoint_path(folder, step), part[4096], stated[17];
  sl_checkpoint *c;
  size_t n;
  for (int p = 0; p < 3; p++) {
    snprintf(part, sizeof part, "%s/part-0000%d.safetensors", path, p);
    char *bytes = scratch_read(part, &n);
    bytes[n - 1] ^= 1;
    scratch_write(part, bytes, n);
    for (int share = 0; share < 3; share++) {
      const sl_status status = sl_checkpoint_open_share(path, share, 3, &c);
      assert_int_equal(status, share == p ? SL_EFORMAT : SL_OK);
      if (share == p) assert_non_null(strstr(sl_error(), "changed since it was written"));
      int failed = 0; /* tensors in the changed part are not read */
      for (int i = 0; status == SL_OK && i < sl_checkpoint_count(c); i++) {
        const sl_named_array *a = sl_checkpoint_get(c, i);
        void *data = malloc((size_t)sl_shape_count(&a->shape) * sl_dtype_bytes(a->dtype) + 1);
        const sl_status got = sl_checkpoint_read(c, i, data);
        assert_true(got == SL_OK || got == SL_EFORMAT);
        failed += got != SL_OK;
        free(data);
      }
      assert_true(share == p || failed > 0);
      sl_checkpoint_close(c);
    }
    bytes[n - 1] ^= 1;
    scratch_write(part, bytes, n - 1); /* cut short: every rank sees that */
    for (int share = 0; share < 3; share++) assert_int_equal(sl_checkpoint_open_share(path, share, 3, &c), SL_EFORMAT);
    scratch_write(part, bytes, n);
    free(bytes);
  }
  assert_ok(sl_checkpoint_checksum(path, stated));
  snprintf(part, sizeof part, "%s/checkpoint.json", path);
  char *text = scratch_read(part, &n);
  assert_non_null(strstr(text, stated));
  assert_int_equal(strlen(stated), 16);
  scratch_write(part, "{}", 2);
  assert_fails(SL_EFORMAT, "its checksum is missing", sl_checkpoint_checksum(path, stated));
  unlink(part);
  assert_fails(SL_EFORMAT, "checkpoint.json", sl_checkpoint_checksum(path, stated));
  scratch_write(part, text, n);
  free(text), free(path);
}

/* One process reads what three ranks wrote, and writes the same checkpoint. */
static void three_ranks(void **state) {
  ranks_run(3, *state);
  char folder[4096];
  snprintf(folder, sizeof folder, "%s/shared", (const char *)*state);
  check_shares(folder, 6);
  snprintf(folder, sizeof folder, "%s/shared", (const char *)*state);
  assert_true(holds(folder, 6));
  snprintf(folder, sizeof folder, "%s/sent", (const char *)*state);
  assert_true(holds(folder, 6));
}
static void eight_ranks(void **state) { ranks_run(8, *state); }
static void memory_runs_out(void **state) {
  char what[4096];
  if (!failing_possible()) skip();
  for (int send = 0; send < 2; send++) {
    snprintf(what, sizeof what, "%s/checkpoints %s", (const char *)*state, send ? "send" : "share");
    ranks_run(2, what);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) {
    ranks_begin();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (argc > 2) ranks_without_memory(argv[1], strcmp(argv[2], "send") == 0);
    const int failed = argc > 2 ? 0 : run_ranks(argv[1]);
    MPI_Finalize();
    return failed;
  }
#define CASE(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)
  const struct CMUnitTest tests[] = {
      CASE(written_and_read),  CASE(ends_what_it_began), CASE(leftovers_go_and_later_steps_are_put_aside),
      CASE(damage_is_refused), CASE(gaps_are_refused),   cmocka_unit_test(shares),
      CASE(three_ranks),       CASE(eight_ranks),        CASE(memory_runs_out),
      CASE(full_disk),         CASE(an_older_one_stays)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
