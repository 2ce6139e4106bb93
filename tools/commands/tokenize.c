/* starling tokenize: turns texts into token files, and back. Texts are read in pieces, cut where a cut changes no
 * token, so memory does not grow with them. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/text.h"
#include "runtime/data/token_file.h"
#include "runtime/text/tokenizer.h"
#include "tools/commands/commands.h"
#include "tools/run/meter.h"

enum { PIECE = 4 << 20, TOKENS = 1 << 16 };

static double seconds(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

typedef struct reader {
  const char *path;
  int fd, ended;
  char *text; /* read but not yet used */
  size_t n, room;
  int64_t offset; /* bytes of text in the file */
} reader;

static sl_status reader_open(const char *path, reader *r) {
  *r = (reader){.path = path, .fd = sl_file_open(path, O_RDONLY | O_CLOEXEC, 0)};
  if (r->fd < 0) return sl_fail(errno == ENOENT ? SL_ENOTFOUND : SL_EIO, "cannot read %s: %s", path, strerror(errno));
  return SL_OK;
}

static void reader_close(reader *r) {
  if (r->fd >= 0) close(r->fd);
  free(r->text);
}

static sl_status reader_more(reader *r) {
  const size_t most = r->n < PIECE / 2 ? PIECE : 2 * r->n;
  if (most > r->room) {
    char *larger = realloc(r->text, most);
    if (!larger) return sl_no_memory("for %zu bytes of %s, which cannot be cut anywhere", most, r->path);
    r->text = larger, r->room = most;
  }
  while (!r->ended && r->n < r->room) {
    const ssize_t got = read(r->fd, r->text + r->n, r->room - r->n);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return sl_fail(SL_EIO, "cannot read %s: %s", r->path, strerror(errno));
    r->ended = got == 0;
    r->n += (size_t)got;
  }
  return SL_OK;
}

/* *n: length of the next piece, which ends where the tokenizer (NULL: a trainer) may cut; 0: the end of the text. */
static sl_status reader_next(reader *r, const sl_tokenizer *tokenizer, size_t *n) {
  do {
    SL_TRY(reader_more(r));
    *n = r->ended ? r->n : tokenizer ? sl_tokenizer_cut(tokenizer, r->text, r->n) : sl_bpe_trainer_cut(r->text, r->n);
  } while (*n == 0 && !r->ended);
  return SL_OK;
}

static void reader_drop(reader *r, size_t n) {
  memmove(r->text, r->text + n, r->n - n);
  r->n -= n, r->offset += (int64_t)n;
}

/* ---- texts to tokens -------------------------------------------------------------------------------------------- */

typedef struct job {
  char **paths;
  int n;
  int first_validation; /* first path for validation; n: none */
  int64_t tail;         /* byte of the only text at which validation begins; -1: none */
  int64_t bytes;
  sl__meter meter; /* of a pass over all texts */
  int64_t read;    /* bytes read so far */
  sl_tokenizer *tokenizer;
  sl_token_file *train, *validation;
} job;

static void show_progress(job *j, const char *what, size_t n) {
  j->read += (int64_t)n;
  sl__meter_show(&j->meter, (double)j->read, (double)j->bytes, "%s: %.0f of %.0f MB", what, 1e-6 * (double)j->read,
                 1e-6 * (double)j->bytes);
}

static sl_status learn(job *j, int64_t vocabulary, sl_tokenizer **tokenizer) {
  sl_bpe_trainer *trainer = NULL;
  SL_TRY(sl_bpe_trainer_create(&trainer));
  sl_status status = SL_OK;
  for (int i = 0; status == SL_OK && i < j->n; i++) {
    reader r;
    size_t n = 1;
    status = reader_open(j->paths[i], &r);
    while (status == SL_OK && n > 0) {
      status = reader_next(&r, NULL, &n);
      if (status == SL_OK) status = sl_bpe_trainer_add(trainer, r.text, n);
      if (status == SL_OK) reader_drop(&r, n);
      if (status == SL_OK) show_progress(j, "counting words", n);
    }
    reader_close(&r);
  }
  sl__meter_show(&j->meter, 0, 0, "learning %lld tokens", (long long)vocabulary);
  if (status == SL_OK) status = sl_bpe_trainer_finish(trainer, vocabulary, tokenizer);
  sl_bpe_trainer_destroy(trainer);
  return status;
}

static sl_status append(const job *j, const char *path, const char *text, size_t n, sl_token_file *file) {
  int32_t *tokens;
  size_t count;
  sl_status status = sl_tokenizer_encode(j->tokenizer, text, n, &tokens, &count);
  if (status != SL_OK) return sl_context(status, "%s", path);
  status = sl_token_file_append(file, tokens, count);
  free(tokens);
  return status;
}

static sl_status encode_text(job *j, int i) {
  sl_token_file *file = i < j->first_validation ? j->train : j->validation;
  int64_t tail = j->tail;
  int32_t between = sl_tokenizer_special(j->tokenizer, SL_SPECIAL_END);
  reader r;
  if (between < 0) between = sl_tokenizer_special(j->tokenizer, SL_SPECIAL_SEP);
  if (i > 0 && i != j->first_validation && between >= 0) SL_TRY(sl_token_file_append(file, &between, 1));
  SL_TRY(reader_open(j->paths[i], &r));
  sl_status status = SL_OK;
  for (size_t n;;) {
    SL_TRY_OUT(reader_next(&r, j->tokenizer, &n));
    if (n == 0) break;
    int then_validation = 0;
    if (tail >= 0 &&
        r.offset + (int64_t)n > tail) { /* the last possible cut before the tail in this piece, or the piece's start */
      const size_t cut = tail > r.offset ? sl_tokenizer_cut(j->tokenizer, r.text, (size_t)(tail - r.offset) + 1) : 0;
      if (cut)
        n = cut, then_validation = 1;
      else if (r.offset > 0)
        file = j->validation, tail = -1;
    }
    SL_TRY_OUT(append(j, r.path, r.text, n, file));
    reader_drop(&r, n);
    show_progress(j, "encoding", n);
    if (then_validation) file = j->validation, tail = -1;
  }
out:
  reader_close(&r);
  return status;
}

/* Chooses the texts for validation, or a part of the only text. */
static sl_status divide(job *j, double fraction) {
  struct stat info;
  int64_t *size = calloc((size_t)j->n, sizeof *size);
  if (!size) return sl_no_memory("for the sizes of %d files", j->n);
  sl_status status = SL_OK;
  for (int i = 0; i < j->n; i++) {
    if (stat(j->paths[i], &info) != 0)
      SL_TRY_OUT(sl_fail(errno == ENOENT ? SL_ENOTFOUND : SL_EIO, "cannot read %s: %s", j->paths[i], strerror(errno)));
    if (S_ISDIR(info.st_mode)) SL_TRY_OUT(sl_fail(SL_EINVAL, "%s is a folder: name its files", j->paths[i]));
    size[i] = info.st_size, j->bytes += info.st_size;
  }
  j->first_validation = j->n, j->tail = -1;
  if (!(fraction > 0)) goto out;
  int64_t validation = 0;
  if (j->n == 1)
    j->tail = (int64_t)((1 - fraction) * (double)j->bytes);
  else
    do validation += size[--j->first_validation];
    while (j->first_validation > 1 && (double)validation < fraction * (double)j->bytes);
out:
  free(size);
  return status;
}

static sl_status in_folder(const char *folder, const char *name, char path[4200]) {
  return snprintf(path, 4200, "%s/%s", folder, name) < 4200 ? SL_OK : sl_fail(SL_EINVAL, "--out: the name is too long");
}

static sl_status tell(const sl__options *o, const job *j, int bits, int64_t train, int64_t validation,
                      const double *spent) {
  const double tokens = (double)(train + validation), bytes = (double)j->bytes;
  const long long vocabulary = (long long)sl_tokenizer_vocabulary(j->tokenizer);
  const double ratio = j->bytes ? tokens / bytes : 0;
  if (o->json) {
    json_t *told = json_pack("{s:I, s:I, s:I, s:i, s:I, s:f, s:f, s:f, s:f}", "train_tokens", (json_int_t)train,
                             "validation_tokens", (json_int_t)validation, "bytes", (json_int_t)j->bytes, "bits", bits,
                             "vocabulary", (json_int_t)vocabulary, "tokens_per_byte", ratio, "seconds", spent[0],
                             "cpu_seconds", spent[1], "learn_seconds", spent[2]);
    const sl_status status = sl_json_print(stdout, told, 9);
    json_decref(told);
    return status;
  }
  if (spent[2] > 0) printf("learnt %lld tokens in %.2f s\n", vocabulary, spent[2]);
  sl_text_print("%s/train.bin: %lld tokens of %d bits\n", o->out, (long long)train, bits);
  if (validation) sl_text_print("%s/val.bin: %lld tokens of %d bits\n", o->out, (long long)validation, bits);
  printf("vocabulary %lld, %.4f tokens per byte, %.2f s, %.1f MB/s\n", vocabulary, ratio, spent[0],
         spent[0] > 0 ? 1e-6 * bytes / spent[0] : 0);
  return SL_OK;
}

/* Writes the tokenizer's text to *file, which the caller must still commit to its path. */
static sl_status write_tokenizer(const sl_tokenizer *tokenizer, const char *path, sl_file **file) {
  char *text;
  *file = NULL;
  SL_TRY(sl_tokenizer_text(tokenizer, &text));
  sl_status status = sl_file_create(path, file);
  if (status == SL_OK) status = sl_file_write(*file, text, strlen(text));
  if (status == SL_OK) status = sl_file_write(*file, "\n", 1);
  free(text);
  return status;
}

/* Tokens never lie beside another text's tokenizer, even after a kill: the old tokenizer is removed first, and the new
 * one is put into place last. A failure after the removal leaves none of the three files; a failure before it leaves
 * the old files. */
static sl_status commit(job *j, const char *const path[3], int halves) {
  sl_file *tokenizer;
  int removed = 0;
  sl_status status = write_tokenizer(j->tokenizer, path[2], &tokenizer);
  if (status == SL_OK && unlink(path[2]) != 0 && errno != ENOENT) status = sl_file_failed("replace", path[2], errno);
  if (status == SL_OK) {
    removed = 1;
    status = sl_token_file_commit(j->train);
    j->train = NULL;
  }
  if (status == SL_OK && halves) {
    status = sl_token_file_commit(j->validation);
    j->validation = NULL;
  }
  if (status == SL_OK) {
    status = sl_file_commit(tokenizer);
    tokenizer = NULL;
  }
  if (status == SL_OK) return SL_OK;
  const sl_failure why = sl_failure_keep(status);
  sl_file_discard(tokenizer);
  for (int i = 0; i < 3 && removed; i++) unlink(path[i]);
  return sl_failure_again(&why);
}

static sl_status encode(const sl__options *o, job *j) {
  const int learning = strcmp(o->tokenizer, "train") == 0, halves = o->val_fraction > 0;
  char train[4200], validation[4200], tokenizer[4200];
  double spent[3] = {0};
  sl_status status = SL_OK;
  if (learning != (o->vocabulary > 0))
    return sl_fail(SL_EINVAL,
                   "--vocabulary N and --tokenizer train need each other: N is the number of tokens to learn");
  SL_TRY(in_folder(o->out, "train.bin", train));
  SL_TRY(in_folder(o->out, "val.bin", validation));
  SL_TRY(in_folder(o->out, "tokenizer.json", tokenizer));
  SL_TRY(divide(j, halves ? o->val_fraction : 0));
  const double start = seconds(CLOCK_MONOTONIC);
  sl__meter_start(&j->meter, o->quiet, 0);
  SL_TRY(learning ? learn(j, o->vocabulary, &j->tokenizer) : sl_tokenizer_open(o->tokenizer, &j->tokenizer));
  if (learning) spent[2] = seconds(CLOCK_MONOTONIC) - start;
  const int64_t vocabulary = sl_tokenizer_vocabulary(j->tokenizer);
  const int bits = o->bits ? atoi(o->bits) : vocabulary > 65536 ? 32 : 16;
  if (bits == 16 && vocabulary > 65536)
    return sl_fail(SL_EINVAL, "--bits 16: a vocabulary of %lld needs 32", (long long)vocabulary);
  SL_TRY(sl_folder_make(o->out));
  if (!halves && access(validation, F_OK) == 0)
    return sl_fail(SL_EEXIST,
                   "%s exists from before and would be taken for this text's: remove it, or choose another --out",
                   validation);
  const double begin = seconds(CLOCK_MONOTONIC), begin_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
  const char *const paths[] = {train, validation, tokenizer};
  for (int i = 0; i < 3; i++) sl_file_tidy(paths[i]);
  SL_TRY(sl_token_file_create(train, bits, &j->train));
  if (halves) SL_TRY(sl_token_file_create(validation, bits, &j->validation));
  sl__meter_clear(&j->meter);
  sl__meter_start(&j->meter, o->quiet, 0);
  j->read = 0;
  for (int i = 0; i < j->n; i++) SL_TRY(encode_text(j, i));
  sl__meter_clear(&j->meter);
  const int64_t n = sl_token_file_count(j->train), n_validation = halves ? sl_token_file_count(j->validation) : 0;
  spent[0] = seconds(CLOCK_MONOTONIC) - begin, spent[1] = seconds(CLOCK_PROCESS_CPUTIME_ID) - begin_cpu;
  if (n == 0 || (halves && n_validation == 0))
    return sl_fail(SL_EINVAL, "the text is too short: %lld tokens to train on, %lld for validation", (long long)n,
                   (long long)n_validation);
  status = commit(j, paths, halves);
  if (status == SL_OK) status = tell(o, j, bits, n, n_validation, spent);
  return status;
}

/* ---- tokens to text --------------------------------------------------------------------------------------------- */

/* Each part is decoded together with the last token of the previous part, whose text is left out. So the parts join
 * exactly. */
static sl_status print_tokens(FILE *to, const sl_tokenizer *t, const int32_t *tokens, size_t n, int again) {
  char *text, *known = NULL;
  size_t bytes, skip = 0;
  SL_TRY(sl_tokenizer_decode(t, tokens, n, &text, &bytes));
  if (again) sl_tokenizer_decode(t, tokens, 1, &known, &skip);
  if (fwrite(text + skip, 1, bytes - skip, to) != bytes - skip) {
    free(text), free(known);
    return sl_fail(SL_EIO, "cannot write the text: %s", strerror(errno));
  }
  free(text), free(known);
  return SL_OK;
}

static sl_status decode_to(FILE *to, const char *path, const char *name) {
  static uint32_t raw[TOKENS];
  static int32_t tokens[TOKENS + 1];
  uint32_t header[SL_TOKEN_FILE_HEADER_BYTES / 4] = {0};
  sl_tokenizer *t = NULL;
  struct stat info;
  FILE *file = NULL;
  SL_TRY(sl_tokenizer_open(name, &t));
  sl_status status = SL_OK;
  file = sl_file_stream(path);
  if (!file || fstat(fileno(file), &info) != 0)
    SL_TRY_OUT(sl_fail(errno == ENOENT ? SL_ENOTFOUND : SL_EIO, "cannot read %s: %s", path, strerror(errno)));
  const size_t got = fread(header, 1, sizeof header, file);
  const uint32_t magic = le32toh(header[0]), version = le32toh(header[1]), count = le32toh(header[2]);
  const int wide = magic == SL_TOKEN_FILE_MAGIC_32 && version == SL_TOKEN_FILE_VERSION_32;
  if (got < sizeof header || (!wide && !(magic == SL_TOKEN_FILE_MAGIC_16 && version == SL_TOKEN_FILE_VERSION_16)))
    SL_TRY_OUT(
        sl_fail(SL_EFORMAT, "%s is not a token file: it begins with magic %u, version %u", path, magic, version));
  const size_t width = wide ? 4 : 2;
  if (S_ISREG(info.st_mode) && (uint64_t)info.st_size != sizeof header + (uint64_t)count * width)
    SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s has %lld bytes, but %u tokens of %zu bits take %llu", path,
                       (long long)info.st_size, count, 8 * width,
                       (unsigned long long)(sizeof header + (uint64_t)count * width)));
  for (size_t done = 0, n; done < count; done += n) {
    n = count - done < TOKENS ? count - done : TOKENS;
    if (fread(raw, width, n, file) != n) SL_TRY_OUT(sl_fail(SL_EIO, "%s: cannot read from token %zu on", path, done));
    for (size_t i = 0; i < n; i++) {
      const uint32_t id = wide ? le32toh(raw[i]) : le16toh(((const uint16_t *)raw)[i]);
      if (id >= (uint64_t)sl_tokenizer_vocabulary(t))
        SL_TRY_OUT(sl_fail(SL_EFORMAT, "%s: token %zu (byte %zu) is %u, but the vocabulary of %s has %lld", path,
                           done + i, sizeof header + (done + i) * width, id, name,
                           (long long)sl_tokenizer_vocabulary(t)));
      tokens[i + 1] = (int32_t)id;
    }
    SL_TRY_OUT(done ? print_tokens(to, t, tokens, n + 1, 1) : print_tokens(to, t, tokens + 1, n, 0));
    tokens[0] = tokens[n];
  }
out:
  if (file) fclose(file);
  sl_tokenizer_close(t);
  return status;
}

/* JSON holds UTF-8 only, and tokens may end within a character. */
static sl_status decode_json(const char *path, const char *name) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *to = open_memstream(&text, &bytes);
  if (!to) return sl_no_memory("for a text");
  sl_status status = decode_to(to, path, name);
  if (fclose(to) != 0 && status == SL_OK) status = sl_no_memory("for a text");
  if (status == SL_OK) {
    json_t *string = json_stringn(text, bytes), *all = string ? json_pack("{s:o}", "text", string) : NULL;
    status = string ? sl_json_print(stdout, all, 9)
                    : sl_fail(SL_EFORMAT, "the text of %s is not UTF-8, which JSON needs: leave out --json", path);
    json_decref(all);
  }
  free(text);
  return status;
}

static sl_status decode(const sl__options *o) {
  return o->json ? decode_json(o->decode, o->tokenizer) : decode_to(stdout, o->decode, o->tokenizer);
}

sl_status sl__tokenize(sl__options *o, int *exit_code) {
  job j = {0};
  (void)exit_code;
  if (!o->tokenizer) return sl_fail(SL_EINVAL, "--tokenizer PATH is needed: bytes, the files of a tokenizer, or train");
  if (o->decode) return o->model ? sl_fail(SL_EINVAL, "unexpected argument '%s' beside --decode", o->model) : decode(o);
  if (!o->model) return sl_fail(SL_EINVAL, "an argument is missing; usage: starling tokenize FILE... [OPTION]...");
  if (!o->out) return sl_fail(SL_EINVAL, "--out DIR is needed: where the token files go");
  j.n = 1 + o->n_files;
  j.paths = malloc((size_t)j.n * sizeof *j.paths);
  if (!j.paths) return sl_no_memory("for %d names", j.n);
  j.paths[0] = o->model;
  for (int i = 0; i < o->n_files; i++) j.paths[1 + i] = o->files[i];
  const sl_status status = encode(o, &j);
  sl__meter_clear(&j.meter);
  sl_token_file_discard(j.train), sl_token_file_discard(j.validation);
  sl_tokenizer_close(j.tokenizer);
  free(j.paths);
  return status;
}
