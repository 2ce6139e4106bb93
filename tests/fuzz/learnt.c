/* Fuzz target: texts that a byte-level BPE is learnt from. The first byte says how many tokens beyond the bytes, the
 * second where the text is cut. What is learnt encodes the text, decodes it to the same bytes, and reads back the same
 * from its file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/text/tokenizer.h"
#include "tests/fuzz/fuzz.h"

static int32_t *encode(sl_tokenizer *t, const char *text, size_t n, size_t *count) {
  int32_t *tokens;
  char *back;
  size_t bytes;
  if (sl_tokenizer_encode(t, text, n, &tokens, count) != SL_OK) abort();
  if (sl_tokenizer_decode(t, tokens, *count, &back, &bytes) != SL_OK) abort();
  if (bytes != n || memcmp(back, text, n) != 0) abort();
  free(back);
  return tokens;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  char path[FUZZ_PATH];
  sl_bpe_trainer *trainer;
  sl_tokenizer *t, *again;
  if (n < 2) return -1;
  const char *text = (const char *)data + 2;
  const size_t bytes = n - 2, cut = bytes ? data[1] % (bytes + 1) : 0;
  if (sl_bpe_trainer_cut(text, bytes) >= bytes && bytes) abort();
  if (sl_bpe_trainer_create(&trainer) != SL_OK || sl_bpe_trainer_add(trainer, text, cut) != SL_OK ||
      sl_bpe_trainer_add(trainer, text + cut, bytes - cut) != SL_OK)
    abort();
  const sl_status status = sl_bpe_trainer_finish(trainer, 257 + data[0] % 64, &t);
  sl_bpe_trainer_destroy(trainer);
  if (status != SL_OK) abort();
  if (sl_tokenizer_vocabulary(t) < 257 || sl_tokenizer_vocabulary(t) > 257 + data[0] % 64) abort();
  size_t count, same;
  int32_t *tokens = encode(t, text, bytes, &count), *others;
  if (sl_tokenizer_save(t, fuzz_path("tokenizer.json", path)) != SL_OK || sl_tokenizer_open(path, &again) != SL_OK)
    abort();
  others = encode(again, text, bytes, &same);
  if (count != same || (count && memcmp(tokens, others, count * sizeof *tokens) != 0)) abort();
  free(tokens), free(others);
  sl_tokenizer_close(t), sl_tokenizer_close(again);
  return 0;
}

size_t fuzz_seed(int number, uint8_t *data, size_t room) {
  static const char *const seeds[] = {"\x20\x09the cat and the dog and the cat",
                                      "\x3f\x05"
                                      "aaaaaaaaaaaaaaaa",
                                      "\x10\x03one<|endoftext|>two<|endoftext|>",
                                      "\x08\x04\xe6\xbc\xa2\xff\xfe  12'll"};
  return fuzz_text(seeds, sizeof seeds / sizeof *seeds, number, data, room);
}
