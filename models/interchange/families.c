/* Which published tensor is which of ours, and in which layout; what config.json calls the sizes. */
#include "models/interchange/families.h"

#define LINEAR(layout, ours, published) \
  {ours ".weight", layout, {published ".weight"}, 0}, { ours ".bias", SL__SAME, {published ".bias"}, 0 }
#define NORM(ours, published) LINEAR(SL__SAME, ours, published)
#define END \
  { NULL, SL__SAME, {NULL}, 0 }

#define QKV(ours, published)                                                                                        \
  {ours ".weight", SL__STACKED, {published "query.weight", published "key.weight", published "value.weight"}, 0}, { \
    ours ".bias", SL__STACKED, {published "query.bias", published "key.bias", published "value.bias"}, 0            \
  }

/* Hugging Face's GPT2LMHeadModel. Its Conv1D holds the transpose of a linear layer. */
static const sl__rule gpt2_rules[] = {
    {"wte.weight", SL__SAME, {"transformer.wte.weight"}, 0},
    {"wpe.weight", SL__LONGER, {"transformer.wpe.weight"}, 0},
    NORM("h.#.ln_1", "transformer.h.#.ln_1"),
    LINEAR(SL__TRANSPOSED, "h.#.attn.qkv", "transformer.h.#.attn.c_attn"),
    LINEAR(SL__TRANSPOSED, "h.#.attn.proj", "transformer.h.#.attn.c_proj"),
    NORM("h.#.ln_2", "transformer.h.#.ln_2"),
    LINEAR(SL__TRANSPOSED, "h.#.mlp.fc", "transformer.h.#.mlp.c_fc"),
    LINEAR(SL__TRANSPOSED, "h.#.mlp.proj", "transformer.h.#.mlp.c_proj"),
    NORM("ln_f", "transformer.ln_f"),
    END,
};
static const sl__key gpt2_keys[] = {
    {"vocab_size", SL_SIZE_VOCABULARY, "wte.weight", 0, 50257},
    {"n_positions", SL_SIZE_POSITIONS, "wpe.weight", 0, 1024},
    {"n_embd", SL_SIZE_WIDTH, "wte.weight", 1, 768},
    {"n_layer", SL_SIZE_LAYERS, NULL, 0, 12},
    {"n_head", SL_SIZE_HEADS, NULL, 0, 12},
    {"n_inner", SL_SIZE_HIDDEN, "h.0.mlp.fc.weight", 0, -1},
    {NULL, SL_SIZE_COUNT, NULL, 0, 0},
};
static const sl_family gpt2 = {
    .name = "gpt2",
    .library = "hf",
    .architecture = "GPT2LMHeadModel",
    .marker = "ln_f.weight",
    .mark = "h.0.attn.c_attn.weight",
    .classes = "wte.weight",
    .prefix = "transformer.",
    .rules = gpt2_rules,
    .spellings = (const char *const[][2]){{NULL, NULL}},
    .tied = (const char *const[][2]){{"lm_head.weight", "wte.weight"}, {NULL, NULL}},
    .left_out = (const char *const[]){"h.#.attn.bias", "h.#.attn.masked_bias", NULL}, /* masks */
    .keys = gpt2_keys,
    .eps_key = "layer_norm_epsilon",
    .eps_standard = 1e-5,
    .gelu_key = "activation_function",
    .gelu_standard = "gelu_new",
    .fixed = (const sl__fixed[]){{"scale_attn_weights", "true"},
                                 {"scale_attn_by_inverse_layer_idx", "false"},
                                 {"add_cross_attention", "false"},
                                 {"tie_word_embeddings", "true"},
                                 {NULL, NULL}},
    .written = (const sl__fixed[]){{"bos_token_id", "null"}, {"eos_token_id", "null"}, {NULL, NULL}},
};

/* Hugging Face's BertForMaskedLM. */
#define BERT_LAYER "bert.encoder.layer.#."
static const sl__rule bert_rules[] = {
    {"wte.weight", SL__SAME, {"bert.embeddings.word_embeddings.weight"}, 0},
    {"wpe.weight", SL__LONGER, {"bert.embeddings.position_embeddings.weight"}, 0},
    {"token_type.weight", SL__SAME, {"bert.embeddings.token_type_embeddings.weight"}, 0},
    NORM("ln_e", "bert.embeddings.LayerNorm"),
    QKV("h.#.attn.qkv", BERT_LAYER "attention.self."),
    LINEAR(SL__SAME, "h.#.attn.proj", BERT_LAYER "attention.output.dense"),
    NORM("h.#.ln_1", BERT_LAYER "attention.output.LayerNorm"),
    LINEAR(SL__SAME, "h.#.mlp.fc", BERT_LAYER "intermediate.dense"),
    LINEAR(SL__SAME, "h.#.mlp.proj", BERT_LAYER "output.dense"),
    NORM("h.#.ln_2", BERT_LAYER "output.LayerNorm"),
    LINEAR(SL__SAME, "head.dense", "cls.predictions.transform.dense"),
    NORM("head.ln_f", "cls.predictions.transform.LayerNorm"),
    {"decoder.bias", SL__SAME, {"cls.predictions.bias"}, 0},
    END,
};
static const sl__key bert_keys[] = {
    {"vocab_size", SL_SIZE_VOCABULARY, "wte.weight", 0, 30522},
    {"max_position_embeddings", SL_SIZE_POSITIONS, "wpe.weight", 0, 512},
    {"type_vocab_size", SL_SIZE_TYPES, "token_type.weight", 0, 2},
    {"hidden_size", SL_SIZE_WIDTH, "wte.weight", 1, 768},
    {"num_hidden_layers", SL_SIZE_LAYERS, NULL, 0, 12},
    {"num_attention_heads", SL_SIZE_HEADS, NULL, 0, 12},
    {"intermediate_size", SL_SIZE_HIDDEN, "h.0.mlp.fc.weight", 0, 3072},
    {NULL, SL_SIZE_COUNT, NULL, 0, 0},
};
static const sl_family bert = {
    .name = "bert",
    .library = "hf",
    .architecture = "BertForMaskedLM",
    .marker = "token_type.weight",
    .mark = "embeddings.token_type_embeddings.weight",
    .classes = "embeddings.word_embeddings.weight",
    .prefix = "bert.",
    .rules = bert_rules,
    .spellings = (const char *const[][2]){{".gamma", ".weight"}, {".beta", ".bias"}, {NULL, NULL}},
    .tied = (const char *const[][2]){{"cls.predictions.decoder.weight", "embeddings.word_embeddings.weight"},
                                     {"cls.predictions.decoder.bias", "cls.predictions.bias"},
                                     {NULL, NULL}},
    /* a buffer, and what next sentences were told by */
    .left_out = (const char *const[]){"embeddings.position_ids", "pooler.dense.*", "cls.seq_relationship.*", NULL},
    .keys = bert_keys,
    .eps_key = "layer_norm_eps",
    .eps_standard = 1e-12,
    .gelu_key = "hidden_act",
    .gelu_standard = "gelu",
    .fixed = (const sl__fixed[]){{"position_embedding_type", "\"absolute\""},
                                 {"is_decoder", "false"},
                                 {"add_cross_attention", "false"},
                                 {"tie_word_embeddings", "true"},
                                 {NULL, NULL}},
    .written = (const sl__fixed[]){{"pad_token_id", "0"}, {NULL, NULL}},
};

/* Hugging Face's ViTForImageClassification. */
#define VIT_LAYER "vit.encoder.layer.#."
static const sl__rule vit_rules[] = {
    {"cls.weight", SL__PADDED, {"vit.embeddings.cls_token"}, 3},
    {"wpe.weight", SL__PADDED, {"vit.embeddings.position_embeddings"}, 3},
    LINEAR(SL__FILTERS, "patch", "vit.embeddings.patch_embeddings.projection"),
    NORM("h.#.ln_1", VIT_LAYER "layernorm_before"),
    QKV("h.#.attn.qkv", VIT_LAYER "attention.attention."),
    LINEAR(SL__SAME, "h.#.attn.proj", VIT_LAYER "attention.output.dense"),
    NORM("h.#.ln_2", VIT_LAYER "layernorm_after"),
    LINEAR(SL__SAME, "h.#.mlp.fc", VIT_LAYER "intermediate.dense"),
    LINEAR(SL__SAME, "h.#.mlp.proj", VIT_LAYER "output.dense"),
    NORM("ln_f", "vit.layernorm"),
    LINEAR(SL__SAME, "head", "classifier"),
    END,
};
static const sl__key vit_keys[] = {
    {"image_size", SL_SIZE_IMAGE, NULL, 0, 224},
    {"patch_size", SL_SIZE_PATCH, "patch.weight", 1, 16},
    {"num_channels", SL_SIZE_CHANNELS, NULL, 0, 3},
    {"hidden_size", SL_SIZE_WIDTH, "patch.weight", 0, 768},
    {"num_hidden_layers", SL_SIZE_LAYERS, NULL, 0, 12},
    {"num_attention_heads", SL_SIZE_HEADS, NULL, 0, 12},
    {"intermediate_size", SL_SIZE_HIDDEN, "h.0.mlp.fc.weight", 0, 3072},
    {NULL, SL_SIZE_COUNT, NULL, 0, 0},
};
static const sl_family vit = {
    .name = "vit",
    .library = "hf",
    .architecture = "ViTForImageClassification",
    .marker = "patch.weight",
    .mark = "embeddings.cls_token",
    .classes = "classifier.weight",
    .prefix = "vit.",
    .rules = vit_rules,
    .spellings = (const char *const[][2]){{NULL, NULL}},
    .tied = (const char *const[][2]){{NULL, NULL}},
    .left_out = (const char *const[]){"pooler.dense.*", NULL},
    .keys = vit_keys,
    .eps_key = "layer_norm_eps",
    .eps_standard = 1e-12,
    .gelu_key = "hidden_act",
    .gelu_standard = "gelu",
    .fixed = (const sl__fixed[]){{"qkv_bias", "true"}, {NULL, NULL}},
    .written = (const sl__fixed[]){{NULL, NULL}},
    .labels = 1,
};

/* torchvision's ResNet: our names are its names. */
static const sl__rule resnet_rules[] = {{"*", SL__FILTERS, {"*"}, 0}, END};
static const sl_family resnet = {
    .name = "resnet",
    .library = "torchvision",
    .marker = "layer1.0.conv1.weight",
    .mark = "layer1.0.conv1.weight",
    .classes = "fc.weight",
    .prefix = "",
    .rules = resnet_rules,
    .spellings = (const char *const[][2]){{NULL, NULL}},
    .tied = (const char *const[][2]){{NULL, NULL}},
    .left_out = (const char *const[]){"*.num_batches_tracked", NULL},
    .counters = 1,
    .labels = 1,
};

const sl_family *const sl__families[] = {&bert, &vit, &gpt2, &resnet, NULL};
