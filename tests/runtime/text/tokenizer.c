/* runtime/text/tokenizer.c and the files under it: ids equal those of Hugging Face's tokenizers (recorded by
 * tests/figures/peers/tokenizers_compare.py), decoding restores every byte, cuts change nothing, learning, and wrong
 * files. */
#include "runtime/text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "runtime/base/json.h"
#include "tests/support/scratch.h"

static const char *const recorded[] = {"bpe", "uncased", "cased"};

static const char *data_path(const char *name) {
  static char path[4200];
  const char *top = getenv("top_srcdir");
  snprintf(path, sizeof path, "%s/tests/runtime/text/tokenizer_%s.json", top ? top : ".", name);
  return path;
}

static void assert_encodes(sl_tokenizer *t, const char *text, size_t bytes, const json_t *wanted) {
  int32_t *tokens;
  size_t n;
  assert_ok(sl_tokenizer_encode(t, text, bytes, &tokens, &n));
  if (n != json_array_size(wanted)) fail_msg("'%s': %zu tokens, not %zu", text, n, json_array_size(wanted));
  for (size_t i = 0; i < n; i++)
    if (tokens[i] != json_integer_value(json_array_get(wanted, i)))
      fail_msg("'%s': token %zu is %d, not %lld", text, i, (int)tokens[i],
               json_integer_value(json_array_get(wanted, i)));
  free(tokens);
}

/* Checks the ids and the decoded text, and both again after saving and opening. */
static void as_recorded(void **state) {
  json_t *cases, *one;
  size_t i;
  assert_ok(sl_json_read(data_path("cases"), &cases));
  assert_true(json_array_size(cases) > 20);
  for (int k = 0; k < 3; k++) {
    const char *copy = scratch_path(*state, "tokenizer.json");
    for (int again = 0; again < 2; again++) {
      sl_tokenizer *t;
      char key[64];
      snprintf(key, sizeof key, "%s_text", recorded[k]);
      assert_ok(sl_tokenizer_open(again ? copy : data_path(recorded[k]), &t));
      json_array_foreach(cases, i, one) {
        const json_t *text = json_object_get(one, "text"), *ids = json_object_get(one, recorded[k]);
        const json_t *wanted = k ? json_object_get(one, key) : text;
        int32_t tokens[1024];
        char *back;
        size_t n;
        assert_encodes(t, json_string_value(text), json_string_length(text), ids);
        assert_true(json_array_size(ids) <= 1024);
        for (n = 0; n < json_array_size(ids); n++) tokens[n] = (int32_t)json_integer_value(json_array_get(ids, n));
        assert_ok(sl_tokenizer_decode(t, tokens, n, &back, &n));
        assert_int_equal(n, json_string_length(wanted));
        assert_memory_equal(back, json_string_value(wanted), n);
        free(back);
      }
      assert_ok(sl_tokenizer_save(t, copy));
      sl_tokenizer_close(t);
    }
  }
  json_decref(cases);
}

/* vocab.json with merges.txt, and vocab.txt, of the same vocabularies give the same ids; the folder is enough. */
static void other_files(void **state) {
  json_t *cases, *one, *root, *merge;
  size_t i;
  const char *name;
  assert_ok(sl_json_read(data_path("cases"), &cases));
  for (int k = 0; k < 3; k++) {
    sl_tokenizer *t;
    assert_ok(sl_json_read(data_path(recorded[k]), &root));
    const json_t *model = json_object_get(root, "model");
    json_t *vocab = json_object_get(model, "vocab"), *id;
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", scratch_path(*state, recorded[k]));
    assert_int_equal(mkdir(folder, 0777), 0);
    if (k == 0) {
      assert_ok(sl_json_write(scratch_path(folder, "vocab.json"), vocab));
      FILE *file = fopen(scratch_path(folder, "merges.txt"), "w");
      fputs("#version: 0.2\n", file);
      json_array_foreach(json_object_get(model, "merges"), i, merge) fprintf(
          file, "%s %s\n", json_string_value(json_array_get(merge, 0)), json_string_value(json_array_get(merge, 1)));
      fclose(file);
    } else {
      const char *tokens[1024];
      json_object_foreach(vocab, name, id) tokens[json_integer_value(id)] = name;
      FILE *file = fopen(scratch_path(folder, "vocab.txt"), "w");
      for (i = 0; i < json_object_size(vocab); i++) fprintf(file, "%s\n", tokens[i]);
      fclose(file);
    }
    assert_ok(sl_tokenizer_open(folder, &t));
    assert_int_equal(sl_tokenizer_vocabulary(t), json_object_size(vocab));
    json_array_foreach(cases, i, one) {
      const json_t *text = json_object_get(one, "text");
      assert_encodes(t, json_string_value(text), json_string_length(text), json_object_get(one, recorded[k]));
    }
    sl_tokenizer_close(t);
    json_decref(root);
  }
  json_decref(cases);
}

static void special_tokens(void **state) {
  (void)state;
  sl_tokenizer *t;
  assert_ok(sl_tokenizer_open(data_path("bpe"), &t));
  assert_int_equal(sl_tokenizer_special(t, SL_SPECIAL_END), 0);
  assert_int_equal(sl_tokenizer_special(t, SL_SPECIAL_MASK), -1);
  assert_int_equal(sl_tokenizer_special(t, SL_SPECIAL_UNKNOWN), -1);
  sl_tokenizer_close(t);
  assert_ok(sl_tokenizer_open(data_path("uncased"), &t));
  const int32_t wanted[] = {-1, 4, 1, 2, 3, 0};
  for (int i = 0; i < 6; i++) assert_int_equal(sl_tokenizer_special(t, (sl_special)i), wanted[i]);
  sl_tokenizer_close(t);
}

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

static uint32_t drawn(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

/* Random bytes, letters and spaces; mostly not UTF-8. */
static void fill(char *text, size_t n, uint32_t seed) {
  for (size_t i = 0; i < n; i++) {
    const uint32_t x = drawn(&seed) >> 8;
    text[i] = x % 4 == 0 ? (char)(x >> 8) : x % 4 == 1 ? "  \n'"[x >> 8 & 3] : "etaoin shrdlu.,A"[x >> 8 & 15];
  }
}

static void every_byte_comes_back(void **state) {
  enum { N = 100000 };
  static char text[N];
  const char *copy = scratch_path(*state, "tokenizer.json");
  for (int k = 0; k < 3; k++) { /* BPE; bytes; bytes after saving as a BPE */
    sl_tokenizer *t;
    int32_t *tokens;
    char *back;
    size_t n, bytes;
    assert_ok(sl_tokenizer_open(k == 0 ? data_path("bpe") : k == 1 ? "bytes" : copy, &t));
    assert_int_equal(sl_tokenizer_vocabulary(t), k ? 256 : 400);
    fill(text, N, 1);
    assert_ok(sl_tokenizer_encode(t, text, N, &tokens, &n));
    assert_true(k == 0 ? n < N : n == N);
    for (size_t i = 0; k && i < n; i++) assert_int_equal(tokens[i], (unsigned char)text[i]);
    assert_ok(sl_tokenizer_decode(t, tokens, n, &back, &bytes));
    assert_int_equal(bytes, N);
    assert_memory_equal(back, text, N);
    free(tokens), free(back);
    if (k == 1) assert_ok(sl_tokenizer_save(t, copy));
    sl_tokenizer_close(t);
  }
}

/* A text of characters beyond ASCII: ideographs, their punctuation and space, and accents that stand alone. */
static void fill_wide(char *text, size_t n) {
  static const char *const piece[] = {"\xe5\xad\x97",   "\xe5\xa5\xbd", "\xe3\x80\x82",
                                      "\xe3\x80\x80",   "\xc3\xa9",     "\xcc\x81",
                                      "\xe3\x80\x82\n", "\n",           " ",
                                      "\xc2\xa0"};
  unsigned random = 1;
  size_t at = 0;
  while (at + 4 < n) {
    random = random * 1103515245u + 12345u;
    const char *p = piece[(random >> 16) % (sizeof piece / sizeof *piece)];
    memcpy(text + at, p, strlen(p));
    at += strlen(p);
  }
  memset(text + at, 'x', n - at);
}

/* Parts that are cut at allowed places give the tokens of the whole. */
static void cuts_change_nothing(void **state) {
  enum { N = 20000, PART = 61 };
  static char text[N];
  (void)state;
  for (int i = 0; i < 6; i++) {
    const int k = i % 3;
    sl_tokenizer *t;
    int32_t *whole, *part;
    size_t n, m, done = 0, at = 0, cuts = 0;
    assert_ok(sl_tokenizer_open(data_path(recorded[k]), &t));
    if (i < 3)
      fill(text, N, 2);
    else
      fill_wide(text, N);
    assert_ok(sl_tokenizer_encode(t, text, N, &whole, &n));
    while (at < N) {
      size_t bytes = PART;
      size_t cut = 0;
      while (at + bytes < N && (cut = sl_tokenizer_cut(t, text + at, bytes)) == 0) bytes += PART;
      if (at + bytes >= N) cut = N - at;
      assert_ok(sl_tokenizer_encode(t, text + at, cut, &part, &m));
      assert_true(done + m <= n);
      assert_memory_equal(part, whole + done, m * sizeof *part);
      free(part);
      at += cut, done += m, cuts++;
    }
    assert_int_equal(done, n);
    assert_true(cuts > 100);
    free(whole);
    sl_tokenizer_close(t);
  }
}

/* The time for a word of a million letters or spaces is not quadratic. */
static void long_words(void **state) {
  enum { N = 1000000 };
  char *text = malloc(N), *back;
  (void)state;
  for (int k = 0; k < 2; k++) {
    sl_tokenizer *t;
    int32_t *tokens;
    size_t n, bytes;
    for (size_t i = 0; i < N; i++) text[i] = k ? ' ' : "the"[i % 3];
    assert_ok(sl_tokenizer_open(data_path("bpe"), &t));
    assert_ok(sl_tokenizer_encode(t, text, N, &tokens, &n));
    assert_ok(sl_tokenizer_decode(t, tokens, n, &back, &bytes));
    assert_int_equal(bytes, N);
    assert_memory_equal(back, text, N);
    free(tokens), free(back);
    sl_tokenizer_close(t);
  }
  free(text);
}

static void ids_beyond_the_vocabulary(void **state) {
  (void)state;
  sl_tokenizer *t;
  char *text;
  size_t n;
  assert_ok(sl_tokenizer_open("bytes", &t));
  assert_fails(SL_EINVAL, "token 1 is 256", sl_tokenizer_decode(t, (const int32_t[]){0, 256}, 2, &text, &n));
  assert_fails(SL_EINVAL, "token 0 is -1", sl_tokenizer_decode(t, (const int32_t[]){-1}, 1, &text, &n));
  sl_tokenizer_close(t);
}

/* ---- learning --------------------------------------------------------------------------------------------------- */

static void learnt_merges(void **state) {
  const char *path = scratch_path(*state, "tokenizer.json");
  sl_bpe_trainer *r;
  sl_tokenizer *t;
  assert_ok(sl_bpe_trainer_create(&r));
  /* abab: ab 4 times; then abab and xab twice each, of which the pair (x, ab) has the other ids. */
  assert_ok(sl_bpe_trainer_add(r, "abab<|endoftext|>abab", 21));
  assert_fails(SL_EINVAL, "need 257", sl_bpe_trainer_finish(r, 256, &t));
  assert_ok(sl_bpe_trainer_finish(r, 1000, &t));
  assert_int_equal(sl_tokenizer_vocabulary(t), 259); /* ab, abab, the end: no other pair occurs twice */
  assert_int_equal(sl_tokenizer_special(t, SL_SPECIAL_END), 258);
  sl_bpe_trainer_destroy(r);
  assert_ok(sl_tokenizer_save(t, path));
  for (int again = 0; again < 2; again++) {
    const int32_t wanted[] = {257, 258, 256, 'a' - 33};
    int32_t *tokens;
    size_t n;
    assert_ok(sl_tokenizer_encode(t, "abab<|endoftext|>aba", 20, &tokens, &n));
    assert_int_equal(n, 4);
    assert_memory_equal(tokens, wanted, sizeof wanted);
    free(tokens);
    sl_tokenizer_close(t);
    t = NULL;
    if (!again) assert_ok(sl_tokenizer_open(path, &t));
  }
}

/* Incremental counts equal a new count: each merge is the most frequent pair of the merged text, the smaller among
 * equals. */
static void most_frequent_first(void **state) {
  enum { N = 3000, SIZE = 330 };
  static char text[N];
  (void)state;
  for (uint32_t seed = 0; seed < 4; seed++) {
    uint32_t draw = seed + 5;
    static int32_t s[N];
    static int counts[SIZE][SIZE];
    sl_bpe_trainer *r;
    sl_tokenizer *t;
    size_t n = N;
    for (size_t i = 0; i < N; i++) text[i] = "abcab"[drawn(&draw) >> 12 & 3];
    assert_ok(sl_bpe_trainer_create(&r));
    for (size_t i = 0; i < N; i += 1000) assert_ok(sl_bpe_trainer_add(r, text + i, 1000)); /* three words */
    assert_ok(sl_bpe_trainer_finish(r, SIZE, &t));
    sl_bpe_trainer_destroy(r);
    for (size_t i = 0; i < N; i++) s[i] = text[i] - 33;
    size_t length[3] = {1000, 1000, 1000};
    for (int32_t made = 256; made < SIZE - 1; made++) {
      int best = 0, a = 0, b = 0;
      memset(counts, 0, sizeof counts);
      for (size_t w = 0, at = 0; w < 3; at += length[w++])
        for (size_t i = at; i + 1 < at + length[w]; i++) counts[s[i]][s[i + 1]]++;
      for (int x = 0; x < made; x++)
        for (int y = 0; y < made; y++)
          if (counts[x][y] > best) best = counts[x][y], a = x, b = y;
      char *one, *two;
      size_t n_one, n_two;
      assert_ok(sl_tokenizer_decode(t, &made, 1, &one, &n_one));
      assert_ok(sl_tokenizer_decode(t, (const int32_t[]){a, b}, 2, &two, &n_two));
      assert_string_equal(one, two);
      free(one), free(two);
      size_t to = 0, at = 0;
      for (size_t w = 0; w < 3; w++) {
        const size_t begin = to, end = at + length[w];
        for (; at < end; at++)
          if (at + 1 < end && s[at] == a && s[at + 1] == b)
            s[to++] = made, at++;
          else
            s[to++] = s[at];
        length[w] = to - begin;
      }
      n = to;
    }
    assert_true(n < N / 2);
    sl_tokenizer_close(t);
  }
}

/* ---- files that are wrong --------------------------------------------------------------------------------------- */

static void wrong(void **state, const char *name, const char *text, sl_status code, const char *words) {
  const char *path = scratch_path(*state, name);
  sl_tokenizer *t;
  scratch_write(path, text, strlen(text));
  assert_fails(code, words, sl_tokenizer_open(path, &t));
  assert_null(t);
  if (!strstr(sl_error(), name)) fail_msg("\"%s\" does not name %s", sl_error(), name);
}

#define BPE(vocab, merges)                                                                                         \
  "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":" vocab ",\"merges\":" merges \
  "}"                                                                                                              \
  "}"

static void wrong_json(void **state) {
  static const struct {
    const char *text;
    sl_status code;
    const char *words;
  } cases[] = {
      {"{", SL_EFORMAT, "line 1"},
      {"{}", SL_EFORMAT, "no object 'model'"},
      {"[1]", SL_EFORMAT, "no object 'model'"},
      {"{\"model\":{\"type\":\"Unigram\"}}", SL_EUNSUPPORTED, "model.type is Unigram"},
      {BPE("[]", "[]"), SL_EFORMAT, "model.vocab must be an object"},
      {BPE("{}", "[]"), SL_EFORMAT, "has no tokens"},
      {BPE("{\"a\":0.5}", "[]"), SL_EFORMAT, "model.vocab: the id of token 'a'"},
      {BPE("{\"a\":0,\"b\":2}", "[]"), SL_EFORMAT, "no token has id 1, but 'b' has 2"},
      {BPE("{\"a\":-1}", "[]"), SL_EFORMAT, "no token has id 0"},
      {BPE("{\"a\":0,\"b\":0}", "[]"), SL_EFORMAT, "both have id 0"},
      {BPE("{\"a\":0,\"a\":1}", "[]"), SL_EFORMAT, "duplicate object key"},
      {BPE("{\"a\":0,\"b\":1}", "3"), SL_EFORMAT, "model.merges must be a list"},
      {BPE("{\"a\":0,\"b\":1,\"ab\":2}", "[\"a b\",\"a c\"]"), SL_EFORMAT, "model.merges[1]: 'c' is not in the"},
      {BPE("{\"a\":0,\"b\":1}", "[\"a b\"]"), SL_EFORMAT, "model.merges[0]: 'ab' is not in the"},
      {BPE("{\"a\":0,\"b\":1,\"ab\":2}", "[\"a b\",[\"a\",\"b\"]]"), SL_EFORMAT, "model.merges[1]: merge 'a b'"},
      {BPE("{\"a\":0}", "[\"ab\"]"), SL_EFORMAT, "is not two tokens"},
      {BPE("{\"a\":0}", "[[\"a\"]]"), SL_EFORMAT, "is neither"},
      {"{\"normalizer\":{\"type\":\"NFC\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
       SL_EUNSUPPORTED, "normalizer is NFC"},
      {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}", SL_EUNSUPPORTED, "pre_tokenizer is none"},
      {"{\"added_tokens\":[{\"id\":3,\"content\":\"a\"}],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}", SL_EFORMAT,
       "added_tokens[0] 'a' has id 3, but 0"},
      {"{\"added_tokens\":[{\"id\":3}],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}", SL_EFORMAT,
       "added_tokens[0] lacks"},
      {"{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0},"
       "\"unk_token\":\"b\"}}",
       SL_EFORMAT, "model.unk_token 'b' is not"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    wrong(state, "tokenizer.json", cases[i].text, cases[i].code, cases[i].words);
}

static void wrong_text(void **state) {
  sl_tokenizer *t;
  wrong(state, "vocab.txt", "", SL_EFORMAT, "has no [UNK]");
  wrong(state, "vocab.txt", "[UNK]\na\na\n", SL_EFORMAT, "line 3: token 'a' is already in line 2");
  wrong(state, "vocab.txt", "[UNK]\n\na\n", SL_EFORMAT, "line 2: the line is empty");
  const char *vocab = "{\"a\":0,\"b\":1,\"ab\":2}";
  scratch_write(scratch_path(*state, "vocab.json"), vocab, strlen(vocab));
  assert_int_equal(remove(scratch_path(*state, "vocab.txt")), 0);
  assert_fails(SL_ENOTFOUND, "holds neither", sl_tokenizer_open(*state, &t));
  const char *merges = "#version: 0.2\na b\nb c\n";
  scratch_write(scratch_path(*state, "merges.txt"), merges, strlen(merges));
  assert_fails(SL_EFORMAT, "merges.txt, line 3: 'c' is not in the vocabulary", sl_tokenizer_open(*state, &t));
  assert_fails(SL_ENOTFOUND, "no tokenizer at", sl_tokenizer_open(scratch_path(*state, "none"), &t));
  /* Bytes that the small vocabulary lacks. */
  scratch_write(scratch_path(*state, "merges.txt"), "a b\n", 4);
  int32_t *tokens;
  size_t n;
  assert_ok(sl_tokenizer_open(*state, &t));
  assert_ok(sl_tokenizer_encode(t, "ab", 2, &tokens, &n));
  assert_int_equal(n, 1);
  assert_int_equal(tokens[0], 2);
  free(tokens);
  assert_fails(SL_EINVAL, "byte 0x63 is not a token", sl_tokenizer_encode(t, "abc", 3, &tokens, &n));
  sl_tokenizer_close(t);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      WITH_FOLDER(as_recorded),
      WITH_FOLDER(other_files),
      cmocka_unit_test(special_tokens),
      WITH_FOLDER(every_byte_comes_back),
      cmocka_unit_test(cuts_change_nothing),
      cmocka_unit_test(long_words),
      cmocka_unit_test(ids_beyond_the_vocabulary),
      WITH_FOLDER(learnt_merges),
      cmocka_unit_test(most_frequent_first),
      WITH_FOLDER(wrong_json),
      WITH_FOLDER(wrong_text),
  };
  return cmocka_run_group_tests_name("tokenizer", tests, NULL, NULL);
}
