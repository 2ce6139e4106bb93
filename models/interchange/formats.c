/* The formats: tables that map published tensors and their layouts to Starling's tensors, and keys of config.json to
 * sizes. */
#include "models/interchange/formats.h"

#define LINEAR(layout, ours, published) \
  {ours ".weight", layout, {published ".weight"}, 0}, { ours ".bias", SL__SAME, {published ".bias"}, 0 }
#define NORM(ours, published) LINEAR(SL__SAME, ours, published)
#define END \
  { NULL, SL__SAME, {NULL}, 0 }

#define QKV(ours, published)                                                                                        \
  {ours ".weight", SL__STACKED, {published "query.weight", published "key.weight", published "value.weight"}, 0}, { \
    ours ".bias", SL__STACKED, {published "query.bias", published "key.bias", published "value.bias"}, 0            \
  }

/* These macros make lists of names, of pairs of names, and of keys with values, each with its end. */
#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define PAIRS(...) ((const char *const[][2]){__VA_ARGS__, {NULL, NULL}})
#define VALUES(...) ((const sl__fixed[]){__VA_ARGS__, {NULL, NULL, NULL}})
static const char *const no_names[] = {NULL}, *const no_pairs[][2] = {{NULL, NULL}};
static const sl__fixed no_values[] = {{NULL, NULL, NULL}};

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
    {"head.weight", SL__SAME, {"lm_head.weight"}, 0}, /* untied */
    END,
};
static const char *const activations[][2] = {{"gelu", "gelu"},
                                             {"gelu_new", "gelu-tanh"},
                                             {"relu", "relu"},
                                             {"gelu_python", "gelu"},
                                             {"gelu_fast", "gelu-tanh"},
                                             {"gelu_pytorch_tanh", "gelu-tanh"},
                                             {"gelu_python_tanh", "gelu-tanh"},
                                             {"gelu_accurate", "gelu-tanh"},
                                             {"linear", "linear"},
                                             {NULL, NULL}};
static const char *const no_yes[][2] = {{"true", "1"}, {"false", "0"}, {NULL, NULL}};
static const char *const yes_no[][2] = {{"false", "1"}, {"true", "0"}, {NULL, NULL}};
static const sl__key gpt2_keys[] = {
    {"vocab_size", "vocabulary", "50257", SL__DIM, "wte.weight", .dim = 0},
    {"n_positions", "positions", "1024", SL__DIM, "wpe.weight", .dim = 0},
    {"n_embd", "width", "768", SL__DIM, "wte.weight", .dim = 1},
    {"n_layer", "layers", "12", SL__COUNT, .tensor = "h.#.ln_1.weight"},
    {"n_head", "heads", .standard = "12"},
    {"n_inner", "hidden", "null", SL__DIM, "h.#.mlp.c_fc.weight", .dim = 1},
    {"activation_function", "activation", "\"gelu_new\"", .words = activations},
    {"layer_norm_epsilon", "eps", .standard = "1e-5"},
    {"tie_word_embeddings", "untied", .standard = "true", .words = yes_no},
    {0},
};
#define CROSS_ATTENTION \
  { "add_cross_attention", "false", "attention over the output of another network (cross attention)" }
static const sl_format gpt2 = {
    .name = "gpt2",
    .library = "hf",
    .architecture = "GPT2LMHeadModel",
    .family = &sl_family_gpt2,
    .mark = "h.0.attn.c_attn.weight",
    .classes = "wte.weight",
    .prefix = "transformer.",
    .rules = gpt2_rules,
    .spellings = no_pairs,
    .tied = PAIRS({"lm_head.weight", "wte.weight"}),
    .buffers = NAMES("h.#.attn.bias", "h.#.attn.masked_bias"),
    .parts = PAIRS({"score.*", "classifier of texts"}, {"classifier.*", "classifier of tokens"},
                   {"qa_outputs.*", "head for answers"}, {"multiple_choice_head.*", "head for choices"}),
    .has_config = 1,
    .keys = gpt2_keys,
    .fixed =
        VALUES({"scale_attn_weights", "true", "attention whose scores are not divided by the root of a head's width"},
               {"scale_attn_by_inverse_layer_idx", "false", "attention whose scores are divided by the layer's number"},
               CROSS_ATTENTION),
    .written = VALUES({"bos_token_id", "null", NULL}, {"eos_token_id", "null", NULL}),
};

/* The keys of config.json that describe an encoder, in BERT and ViT alike. */
#define ENCODER_KEYS                                                                                           \
  {"num_hidden_layers", "layers", "12", SL__COUNT, .tensor = "encoder.layer.#.output.dense.weight"},           \
      {"num_attention_heads", "heads", .standard = "12"},                                                      \
      {"intermediate_size", "hidden", "3072", SL__DIM, "encoder.layer.#.intermediate.dense.weight", .dim = 0}, \
      {"hidden_act", "activation", "\"gelu\"", .words = activations}, {                                        \
    "layer_norm_eps", "eps", .standard = "1e-12"                                                               \
  }

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
    LINEAR(SL__SAME, "head.decoder", "cls.predictions.decoder"), /* untied */
    END,
};
static const sl__key bert_keys[] = {
    {"vocab_size", "vocabulary", "30522", SL__DIM, "embeddings.word_embeddings.weight", .dim = 0},
    {"max_position_embeddings", "positions", "512", SL__DIM, "embeddings.position_embeddings.weight", .dim = 0},
    {"type_vocab_size", "types", "2", SL__DIM, "embeddings.token_type_embeddings.weight", .dim = 0},
    {"hidden_size", "width", "768", SL__DIM, "embeddings.word_embeddings.weight", .dim = 1},
    ENCODER_KEYS,
    {"tie_word_embeddings", "untied", .standard = "true", .words = yes_no},
    {0},
};
static const sl_format bert = {
    .name = "bert",
    .library = "hf",
    .architecture = "BertForMaskedLM",
    .family = &sl_family_bert,
    .mark = "embeddings.token_type_embeddings.weight",
    .classes = "embeddings.word_embeddings.weight",
    .prefix = "bert.",
    .rules = bert_rules,
    .spellings = PAIRS({".gamma", ".weight"}, {".beta", ".bias"}),
    .tied = PAIRS({"cls.predictions.decoder.weight", "embeddings.word_embeddings.weight"},
                  {"cls.predictions.decoder.bias", "cls.predictions.bias"},
                  /* of an untied decoder, in files of transformers 4 */
                  {"cls.predictions.bias", "cls.predictions.decoder.bias"}),
    .buffers = NAMES("embeddings.position_ids"),
    .parts = PAIRS({"pooler.*", "pooler"}, {"cls.seq_relationship.*", "head for next sentences"},
                   {"classifier.*", "classifier"}, {"qa_outputs.*", "head for answers"},
                   {"cls.predictions.bias", "second bias of the decoder, which transformers does not use"}),
    .has_config = 1,
    .keys = bert_keys,
    .fixed = VALUES({"position_embedding_type", "\"absolute\"", "relative positions"},
                    {"is_decoder", "false", "BERT that learns the next token; its BERT restores masked ones"},
                    CROSS_ATTENTION),
    .written = VALUES({"pad_token_id", "0", NULL}),
};

/* Hugging Face's ViTForImageClassification, and DeiTForImageClassification, which has one token more. */
#define VIT_RULES(model, layer)                                                                                     \
  {"cls.weight", SL__PADDED, {model "embeddings.cls_token"}, 3},                                                    \
      {"wpe.weight", SL__PADDED, {model "embeddings.position_embeddings"}, 3},                                      \
      LINEAR(SL__FILTERS, "patch", model "embeddings.patch_embeddings.projection"),                                 \
      NORM("h.#.ln_1", layer "layernorm_before"), QKV("h.#.attn.qkv", layer "attention.attention."),                \
      LINEAR(SL__SAME, "h.#.attn.proj", layer "attention.output.dense"), NORM("h.#.ln_2", layer "layernorm_after"), \
      LINEAR(SL__SAME, "h.#.mlp.fc", layer "intermediate.dense"),                                                   \
      LINEAR(SL__SAME, "h.#.mlp.proj", layer "output.dense"), NORM("ln_f", model "layernorm"),                      \
      LINEAR(SL__SAME, "head", "classifier")
static const sl__rule vit_rules[] = {VIT_RULES("vit.", "vit.encoder.layer.#."), END};
static const sl__rule deit_rules[] = {
    {"distill.weight", SL__PADDED, {"deit.embeddings.distillation_token"}, 3},
    VIT_RULES("deit.", "deit.encoder.layer.#."),
    END,
};
static const sl__key vit_keys[] = {
    {"patch_size", "patch", "16", SL__DIM, "embeddings.patch_embeddings.projection.weight", .dim = 2},
    {"image_size", SL__IMAGE, "224", SL__SIDE, "embeddings.position_embeddings", .dim = 1},
    {"num_channels", SL__CHANNELS, "3", SL__DIM, "embeddings.patch_embeddings.projection.weight", .dim = 1},
    {"hidden_size", "width", "768", SL__DIM, "embeddings.cls_token", .dim = 2},
    {"qkv_bias", "unbiased", "true", SL__LACKS, "encoder.layer.#.attention.attention.query.bias", .words = yes_no},
    ENCODER_KEYS,
    {0},
};
#define VIT_FORMAT(format, type, only)                                                                               \
  .name = format, .library = "hf", .architecture = type "ForImageClassification", .family = &sl_family_vit,          \
  .sizes = only, .classes = "classifier.weight", .prefix = format ".", .spellings = no_pairs, .tied = no_pairs,      \
  .buffers = no_names,                                                                                               \
  .parts =                                                                                                           \
      PAIRS({"pooler.*", "pooler"}, {"embeddings.mask_token", "token for masked patches"},                           \
            {"decoder.*", "decoder of masked patches"}, {"cls_classifier.*", "classifier of the class token alone"}, \
            {"distillation_classifier.*", "classifier of the distillation token"}),                                  \
  .has_config = 1, .keys = vit_keys, .fixed = no_values, .written = no_values, .labels = 1
static const sl_format deit = {
    VIT_FORMAT("deit", "DeiT", "stem=0,distilled=1"),
    .mark = "embeddings.distillation_token",
    .rules = deit_rules,
};
static const sl_format vit = {
    VIT_FORMAT("vit", "ViT", "stem=0,distilled=0"),
    .mark = "embeddings.cls_token",
    .rules = vit_rules,
};

/* torchvision's VisionTransformer. Its files do not state the number of heads. */
#define VISION_LAYER "encoder.layers.encoder_layer_#."
static const sl__rule vision_rules[] = {
    {"cls.weight", SL__PADDED, {"class_token"}, 3},
    {"wpe.weight", SL__PADDED, {"encoder.pos_embedding"}, 3},
    LINEAR(SL__FILTERS, "patch", "conv_proj"),
    NORM("h.#.ln_1", VISION_LAYER "ln_1"),
    {"h.#.attn.qkv.weight", SL__SAME, {VISION_LAYER "self_attention.in_proj_weight"}, 0},
    {"h.#.attn.qkv.bias", SL__SAME, {VISION_LAYER "self_attention.in_proj_bias"}, 0},
    LINEAR(SL__SAME, "h.#.attn.proj", VISION_LAYER "self_attention.out_proj"),
    NORM("h.#.ln_2", VISION_LAYER "ln_2"),
    LINEAR(SL__SAME, "h.#.mlp.fc", VISION_LAYER "mlp.0"),
    LINEAR(SL__SAME, "h.#.mlp.proj", VISION_LAYER "mlp.3"),
    NORM("ln_f", "encoder.ln"),
    LINEAR(SL__SAME, "head", "heads.head"),
    END,
};
static const sl__key vision_keys[] = {
    {NULL, "patch", NULL, SL__DIM, "conv_proj.weight", .dim = 2},
    {NULL, SL__IMAGE, NULL, SL__SIDE, "encoder.pos_embedding", .dim = 1},
    {NULL, SL__CHANNELS, NULL, SL__DIM, "conv_proj.weight", .dim = 1},
    {NULL, "width", NULL, SL__DIM, "class_token", .dim = 2},
    {NULL, "layers", NULL, SL__COUNT, .tensor = VISION_LAYER "ln_1.weight"},
    {NULL, .size = "heads"},
    {NULL, "hidden", NULL, SL__DIM, VISION_LAYER "mlp.0.weight", .dim = 0},
    {0},
};
static const sl_format vision = {
    .name = "vit",
    .library = "torchvision",
    .family = &sl_family_vit,
    .sizes = "stem=0,distilled=0,activation=gelu,eps=1e-6,unbiased=0",
    .mark = "encoder.pos_embedding",
    .classes = "heads.head.weight",
    .prefix = "",
    .rules = vision_rules,
    .spellings = PAIRS({".linear_1.weight", ".0.weight"}, {".linear_1.bias", ".0.bias"},
                       {".linear_2.weight", ".3.weight"}, {".linear_2.bias", ".3.bias"}),
    .tied = no_pairs,
    .buffers = no_names,
    .parts = no_pairs,
    .before = PAIRS({"heads.pre_logits.*", "a layer and a tanh before the classifier (representation_size)"},
                    {"conv_proj.conv_*",
                     "convolutions that make the patches, whose strides the file does not state "
                     "(conv_stem_configs)"}),
    .keys = vision_keys,
    .labels = 1,
};

/* torchvision's ResNet. Starling uses the same names. */
static const sl__rule resnet_rules[] = {{"*", SL__FILTERS, {"*"}, 0}, END};
static const sl__key resnet_keys[] = {
    {NULL, SL__CHANNELS, NULL, SL__DIM, "conv1.weight", .dim = 1},
    {NULL, "width", NULL, SL__DIM, "conv1.weight", .dim = 0},
    {NULL, "stem", NULL, SL__DIM, "conv1.weight", .dim = 0},
    {NULL, "small", NULL, SL__IS, "conv1.weight", .dim = 2, .is = 3},
    {NULL, "bottleneck", NULL, SL__EXISTS, .tensor = "layer#.0.conv3.weight"},
    {NULL, "blocks", NULL, SL__COUNT, .tensor = "layer#.#.conv1.weight"},
    {NULL, "channels", NULL, SL__DIM, "layer#.0.conv2.weight", .dim = 0},
    {NULL, "channels", NULL, SL__DIM, "layer#.0.conv3.weight", .dim = 0},
    {NULL, "inner", NULL, SL__DIM, "layer#.0.conv3.weight", .dim = 1},
    {0},
};
static const sl_format resnet = {
    .name = "resnet",
    .library = "torchvision",
    .family = &sl_family_resnet,
    .sizes = "first_stride=1,early_stride=0,activation=relu",
    .square = "layer#.#.conv2.weight",
    .mark = "layer1.0.conv1.weight",
    .classes = "fc.weight",
    .prefix = "",
    .rules = resnet_rules,
    .spellings = no_pairs,
    .tied = no_pairs,
    .buffers = NAMES("*.num_batches_tracked"),
    .parts = no_pairs,
    .counters = 1,
    .first = 1,
    .keys = resnet_keys,
    .labels = 1,
};

/* Hugging Face's ResNetForImageClassification: convolution 1 of block 0 of stage 1 is stages.0.layers.0.layer.0. */
#define STAGES "resnet.encoder.stages."
static const sl__rule hf_resnet_rules[] = {
    {"conv1.weight", SL__FILTERS, {"resnet.embedder.embedder.convolution.weight"}, 0},
    {"bn1.*", SL__SAME, {"resnet.embedder.embedder.normalization.*"}, 0},
    {"layer#.#.conv#.weight", SL__FILTERS, {STAGES "^.layers.#.layer.^.convolution.weight"}, 0},
    {"layer#.#.bn#.*", SL__SAME, {STAGES "^.layers.#.layer.^.normalization.*"}, 0},
    {"layer#.#.downsample.0.weight", SL__FILTERS, {STAGES "^.layers.#.shortcut.convolution.weight"}, 0},
    {"layer#.#.downsample.1.*", SL__SAME, {STAGES "^.layers.#.shortcut.normalization.*"}, 0},
    LINEAR(SL__SAME, "fc", "classifier.1"),
    END,
};
static const char *const blocks[][2] = {{"bottleneck", "1"}, {"basic", "0"}, {NULL, NULL}};
static const char *const strides[][2] = {{"true", "2"}, {"false", "1"}, {NULL, NULL}};
static const sl__key hf_resnet_keys[] = {
    {"num_channels", SL__CHANNELS, "3", SL__DIM, "embedder.embedder.convolution.weight", .dim = 1},
    {"embedding_size", "width", "64", SL__DIM, "embedder.embedder.convolution.weight", .dim = 0},
    {"embedding_size", "stem", "64", SL__DIM, "embedder.embedder.convolution.weight", .dim = 0},
    {"layer_type", "bottleneck", "\"bottleneck\"", SL__EXISTS, "encoder.stages.#.layers.0.layer.2.convolution.weight",
     .words = blocks},
    {"depths", "blocks", "[3, 4, 6, 3]", SL__COUNT, .tensor = "encoder.stages.#.layers.#.layer.0.convolution.weight"},
    {"hidden_sizes", "channels", "[256, 512, 1024, 2048]", SL__DIM,
     "encoder.stages.#.layers.0.layer.1.convolution.weight", .dim = 0},
    {"hidden_sizes", "channels", "[256, 512, 1024, 2048]", SL__DIM,
     "encoder.stages.#.layers.0.layer.2.convolution.weight", .dim = 0},
    {NULL, "inner", NULL, SL__DIM, "encoder.stages.#.layers.0.layer.2.convolution.weight", .dim = 1},
    {"downsample_in_first_stage", "first_stride", .standard = "false", .words = strides},
    {"downsample_in_bottleneck", "early_stride", .standard = "false", .words = no_yes},
    {"hidden_act", "activation", .standard = "\"relu\"", .words = activations},
    {0},
};
static const sl_format hf_resnet = {
    .name = "resnet",
    .library = "hf",
    .architecture = "ResNetForImageClassification",
    .family = &sl_family_resnet,
    .sizes = "small=0",
    .square = "encoder.stages.#.layers.#.layer.1.convolution.weight",
    .mark = "embedder.embedder.convolution.weight",
    .classes = "classifier.1.weight",
    .prefix = "resnet.",
    .rules = hf_resnet_rules,
    .spellings = no_pairs,
    .tied = no_pairs,
    .buffers = NAMES("*.num_batches_tracked"),
    .parts = no_pairs,
    .counters = 1,
    .has_config = 1,
    .keys = hf_resnet_keys,
    .fixed = no_values,
    .written = no_values,
    .labels = 1,
};

/* If the mark of a format also occurs in other formats, the format comes after these. */
const sl_format *const sl__formats[] = {&bert, &deit, &vit, &vision, &gpt2, &hf_resnet, &resnet, NULL};
