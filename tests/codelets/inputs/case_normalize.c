/* Cases of normalize. */
#include "tests/codelets/cases.h"

static const sl_normalize_attr fashion = {1, {0.2860f}, {0.3530f}},
                               imagenet = {3, {0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}},
                               two = {2, {0.1f, 0.9f}, {0.5f, 0.05f}},
                               four = {4, {0.5f, 0, 0.25f, 1}, {0.5f, 1, 0.125f, 2}};

static void normalize(const case_run *r) {
  const sl_normalize_attr *a = r->c->attr;
  for (int64_t i = 0; i < case_count(r->shape_out[0]); i++) {
    const double mean = (double)a->mean[i % a->channels], deviation = (double)a->deviation[i % a->channels];
    r->out[0][i] = (r->in[0][i] / 255 - mean) / deviation;
    r->scale[0][i] = (r->in[0][i] / 255 + mean) / deviation;
  }
}

const test_case cases_normalize[] = {
    {"normalize",
     "[5, 7, 7, 3]",
     1,
     1,
     {INPUT(SL_U8, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 255, 5, 7, 7, 3)},
     .attr = &fashion,
     .reference = normalize,
     .tolerance = {4 * EPS},
     .exact = 1},
    {"normalize",
     "[6, 9, 11, 3], channels",
     1,
     1,
     {INPUT(SL_U8, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 255, 6, 9, 11, 3)},
     .attr = &imagenet,
     .reference = normalize,
     .tolerance = {4 * EPS},
     .exact = 1},
    {"normalize",
     "[5, 7, 3, 2], channels",
     1,
     1,
     {INPUT(SL_U8, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 255, 5, 7, 3, 2)},
     .attr = &two,
     .reference = normalize,
     .tolerance = {4 * EPS},
     .exact = 1},
    {"normalize",
     "[3, 5, 7, 4], channels",
     1,
     1,
     {INPUT(SL_U8, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 255, 3, 5, 7, 4)},
     .attr = &four,
     .reference = normalize,
     .tolerance = {4 * EPS},
     .exact = 1},
    {"normalize",
     "[256, 28, 28, 1]",
     1,
     1,
     {INPUT(SL_U8, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 255, 256, 28, 28, 1)},
     .attr = &fashion,
     .reference = normalize,
     .bench = 1},
    {"normalize",
     "[32, 224, 224, 3], channels",
     1,
     1,
     {INPUT(SL_U8, SL_SCOPE_SAMPLE, FILL_INTEGERS, 0, 255, 32, 224, 224, 3)},
     .attr = &imagenet,
     .reference = normalize,
     .bench = 1},
    {0},
};
