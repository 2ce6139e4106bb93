/* Fuzz target: the readers of tokenizers. The first byte selects the file: v: vocab.txt; p: vocab.json and, after a
 * byte 0xff, merges.txt; else tokenizer.json. */
#include "runtime/text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

enum { KINDS = 3, FILES = 2 };

/* Folders whose files are in memory; the files in a folder determine the kind of tokenizer. */
static char folder[KINDS][64];
static int fd[FILES];

static void clear(void) {
  static const char *const names[] = {"tokenizer.json", "vocab.txt", "vocab.json", "merges.txt"};
  for (int k = 0; k < KINDS; k++) {
    char path[256];
    for (int i = 0; i < 4; i++) {
      snprintf(path, sizeof path, "%s/%s", folder[k], names[i]);
      unlink(path);
    }
    rmdir(folder[k]);
  }
}

static void put(int kind, const char *name, int number) {
  char path[128], target[64];
  snprintf(path, sizeof path, "%s/%s", folder[kind], name);
  snprintf(target, sizeof target, "/proc/%ld/fd/%d", (long)getpid(), fd[number]);
  if (symlink(target, path) != 0) abort();
}

static void prepare(void) {
  for (int i = 0; i < FILES; i++)
    if ((fd[i] = memfd_create("fuzz", MFD_CLOEXEC)) < 0) abort();
  for (int k = 0; k < KINDS; k++) {
    snprintf(folder[k], sizeof folder[k], "/tmp/starling-fuzz-XXXXXX");
    if (!mkdtemp(folder[k])) abort();
  }
  atexit(clear);
  put(0, "tokenizer.json", 0), put(1, "vocab.txt", 0), put(2, "vocab.json", 0), put(2, "merges.txt", 1);
}

static void fill(int number, const uint8_t *data, size_t n) {
  if (ftruncate(fd[number], 0) != 0 || pwrite(fd[number], data, n, 0) != (ssize_t)n) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char text[] = "ab aB, abba\n\xff 12 caf\xc3\xa9 \xe6\xbc\xa2<|endoftext|>[MASK] b";
  if (!folder[0][0]) prepare();
  if (n == 0) return -1;
  const int kind = data[0] == 'v' ? 1 : data[0] == 'p' ? 2 : 0;
  const uint8_t *cut = kind == 2 ? memchr(data, 0xff, n) : NULL, *end = data + n;
  fill(0, data + 1, (size_t)((cut ? cut : end) - data) - 1);
  fill(1, cut ? cut + 1 : end, cut ? (size_t)(end - cut) - 1 : 0);
  sl_tokenizer *t;
  if (sl_tokenizer_open(folder[kind], &t) != SL_OK) {
    if (t || !strstr(sl_error(), folder[kind])) abort();
    return -1;
  }
  int32_t *tokens;
  char *back;
  size_t count, bytes;
  for (int again = 0; again < 2; again++) { /* the second time from memory */
    if (sl_tokenizer_encode(t, text, sizeof text - 1, &tokens, &count) != SL_OK) continue;
    if (sl_tokenizer_decode(t, tokens, count, &back, &bytes) != SL_OK) abort();
    free(tokens), free(back);
  }
  if (sl_tokenizer_cut(t, text, sizeof text - 1) >= sizeof text - 1) abort();
  for (int i = 0; i <= SL_SPECIAL_PAD; i++)
    if (sl_tokenizer_special(t, (sl_special)i) >= sl_tokenizer_vocabulary(t)) abort();
  sl_tokenizer_close(t);
  return 0;
}

size_t fuzz_seed(int number, uint8_t *data, size_t room) {
  static const char *const seeds[] = {
      "j{\"added_tokens\":[{\"id\":3,\"content\":\"<|endoftext|>\",\"special\":true,\"lstrip\":true},{\"id\":0,"
      "\"content\":\"a\",\"single_word\":true,\"rstrip\":true,\"normalized\":false}],\"normalizer\":null,"
      "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"model\":{\"type\":\"BPE\",\"unk_token\":"
      "\"a\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"aba\":4},\"merges\":[\"a b\",[\"ab\",\"a\"]]}}",
      "j{\"added_tokens\":[{\"id\":4,\"content\":\"[MASK]\",\"normalized\":true}],\"normalizer\":{\"type\":"
      "\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_accents\":null,\"lowercase\":true},"
      "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\","
      "\"max_input_chars_per_word\":5,\"vocab\":{\"[UNK]\":0,\"a\":1,\"##b\":2,\"caf\":3}}}",
      "v[UNK]\n[MASK]\na\n##b\n##ba\ncafe\n,\n",
      "v[UNK]\r\na\r\n##B\r\n\xe6\xbc\xa2",
      "p{\"a\":0,\"b\":1,\"ab\":2,\"\\u0120\":3,\"\\u0120ab\":4,\"<|endoftext|>\":5}\xff#version: 0.2\na b\n\xc4\xa0 "
      "ab\n",
  };
  return fuzz_text(seeds, sizeof seeds / sizeof *seeds, number, data, room);
}
