/* Fills the timetables of a pipeline's orders. */
#include "tasks/spread/timetable.h"

#include <stdlib.h>

enum { NONE = -1 };

typedef struct pass {
  sl__pass_kind kind;
  int run, m;
} pass;

/* Passes of each kind that a stage has carried out. */
typedef struct progress {
  int n[SL__PASS_KINDS];
} progress;

static int *slot_of(const sl__timetable *t, const pass *p) {
  const int kind = (int)p->kind < t->kinds ? p->kind : SL__PASS_BACKWARD;
  return &t->slot[(kind * t->stages * t->chunks + p->run) * t->parts + p->m];
}

/* The k-th pass of a kind on a stage. Micro-batches go through the stage's runs in groups, one run after another: GPipe
 * has one group; in the other orders a group has as many micro-batches as there are stages. */
static pass pass_of(const sl__timetable *t, sl_pipe_order order, int stage, sl__pass_kind kind, int k) {
  const int group = order == SL_PIPE_GPIPE ? t->parts : t->stages, all = group * t->chunks;
  const int chunk = k % all / group;
  return (pass){.kind = kind,
                .run = (kind == SL__PASS_FORWARD ? chunk : t->chunks - 1 - chunk) * t->stages + stage,
                .m = k / all * group + k % group};
}

/* The most forward passes of a stage whose backward passes have not run. */
static int most_ahead(const sl__timetable *t, sl_pipe_order order, int stage) {
  if (order == SL_PIPE_GPIPE) return t->chunks * t->parts;
  if (t->chunks == 1 && order != SL_PIPE_EAGER_1F1B) return t->stages - stage;
  return 2 * (t->stages - stage - 1) + (t->chunks - 1) * t->stages + 1;
}

/* Whether the input of a pass was made in an earlier slot: by the forward pass of the run before, by the backward pass
 * of the run after, or by the same run's previous kind of pass. */
static int may_begin(const sl__timetable *t, const pass *p, int slot) {
  const int last = t->stages * t->chunks - 1;
  pass before = *p;
  if (p->kind == SL__PASS_FORWARD && p->run == 0) return 1;
  if (p->kind == SL__PASS_FORWARD)
    before.run--;
  else if (p->kind == SL__PASS_BACKWARD && p->run < last)
    before.run++;
  else
    before.kind--;
  const int at = *slot_of(t, &before);
  return at != NONE && at < slot;
}

/* The kind of a stage's next pass. Forward passes run as far ahead as the order allows; then backward and forward
 * passes alternate. If the stage already holds as many micro-batches as the first stage may, gradients of weights come
 * before the next forward pass. */
static sl__pass_kind next_kind(const sl__timetable *t, sl_pipe_order order, int stage, const progress *did) {
  const int n = t->chunks * t->parts, forward = did->n[SL__PASS_FORWARD], back = did->n[SL__PASS_BACKWARD];
  const int done = t->kinds > SL__PASS_WEIGHTS ? did->n[SL__PASS_WEIGHTS] : back;
  if (forward < n && forward - back < most_ahead(t, order, stage))
    return done < back && forward - done >= most_ahead(t, order, 0) ? SL__PASS_WEIGHTS : SL__PASS_FORWARD;
  return back < n ? SL__PASS_BACKWARD : SL__PASS_WEIGHTS;
}

/* Chooses a stage's pass in a slot; 0: none. If the next one has to wait, gradients of weights take its slot. */
static int choose(const sl__timetable *t, sl_pipe_order order, int stage, const progress *did, int slot, pass *p) {
  const int n = t->chunks * t->parts;
  sl__pass_kind kind = next_kind(t, order, stage, did);
  for (;; kind = SL__PASS_WEIGHTS) {
    if ((int)kind < t->kinds && did->n[kind] < n) {
      *p = pass_of(t, order, stage, kind, did->n[kind]);
      if (may_begin(t, p, slot)) return 1;
    }
    if (kind == SL__PASS_WEIGHTS) return 0;
  }
}

/* In each slot each stage carries out one pass, if one can begin. */
static sl_status fill_slots(sl__timetable *t, sl_pipe_order order) {
  int left = t->kinds * t->stages * t->chunks * t->parts;
  progress *did = calloc((size_t)t->stages, sizeof *did);
  if (!did) return sl_no_memory("for the passes of %d stages", t->stages);
  for (int i = 0; i < left; i++) t->slot[i] = NONE;
  int began = 1;
  for (int slot = 0; left > 0 && began; slot++) {
    began = 0;
    for (int s = 0; s < t->stages; s++) {
      pass p;
      if (!choose(t, order, s, &did[s], slot, &p)) continue;
      *slot_of(t, &p) = slot;
      did[s].n[p.kind]++, began++;
    }
    left -= began;
  }
  free(did);
  if (left > 0) return sl_fail(SL_EINVAL, "%d stages wait for each other in a circle", t->stages);
  return SL_OK;
}

/* One run on each stage: a message from one stage to the next one is used in the next slot. */
static int simple_slot(sl_pipe_order order, int stages, int stage, int parts, int backward, int m) {
  if (!backward) return order == SL_PIPE_GPIPE ? m + stage : 2 * m + stage;
  return order == SL_PIPE_GPIPE ? parts + 2 * (stages - 1) - stage + m : 2 * m + 2 * stages - 1 - stage;
}

sl_status sl__timetable_create(sl_pipe_order order, int stages, int chunks, int parts, sl__timetable **table) {
  *table = NULL;
  if (chunks > 1 && order != SL_PIPE_GPIPE && parts % stages)
    return sl_blame(sl_fail(SL_EINVAL, "%d chunks on each of %d stages, which do not divide %d micro-batches", chunks,
                            stages, parts),
                    "pipe_chunks");
  sl__timetable *t = calloc(1, sizeof *t);
  if (!t) return sl_no_memory("for a timetable");
  *t = (sl__timetable){.stages = stages, .chunks = chunks, .parts = parts, .kinds = sl_pipe_pass_kinds(order)};
  const int simple = chunks == 1 && t->kinds == 2 && order != SL_PIPE_EAGER_1F1B;
  sl_status status = SL_OK;
  if (!(t->slot = malloc((size_t)(t->kinds * stages * chunks * parts) * sizeof *t->slot)))
    status = sl_no_memory("for the timetable of %d stages", stages);
  else if (!simple)
    status = fill_slots(t, order);
  for (int i = 0; i < 2 * stages * parts && simple && t->slot; i++)
    t->slot[i] = simple_slot(order, stages, i / parts % stages, parts, i / parts / stages, i % parts);
  if (status == SL_OK)
    *table = t;
  else
    sl__timetable_destroy(t);
  return status;
}

void sl__timetable_destroy(sl__timetable *t) {
  if (!t) return;
  free(t->slot), free(t);
}

int sl__timetable_slot(const sl__timetable *t, sl__pass_kind kind, int run, int m) {
  return *slot_of(t, &(pass){kind, run, m});
}

int sl__timetable_passes(const sl__timetable *t) { return t->kinds * t->chunks * t->parts; }

/* The number of a stage's passes in slots up to this one. */
static int passes_until(const sl__timetable *t, int stage, int slot) {
  int n = 0;
  for (int run = stage; run < t->stages * t->chunks; run += t->stages)
    for (int i = 0; i < t->kinds * t->parts; i++)
      n += *slot_of(t, &(pass){(sl__pass_kind)(i / t->parts), run, i % t->parts}) <= slot;
  return n;
}

void sl__timetable_turns(const sl__timetable *t, int stage, int *turn) {
  for (int kind = 0; kind < SL__PASS_KINDS; kind++)
    for (int chunk = 0; chunk < t->chunks; chunk++)
      for (int m = 0; m < t->parts; m++)
        *turn++ = passes_until(t, stage, *slot_of(t, &(pass){(sl__pass_kind)kind, chunk * t->stages + stage, m})) - 1;
}

int sl__timetable_turn(const sl__timetable *t, int stage, int slot) { return passes_until(t, stage, slot) - 1; }

int sl__timetable_turn_after(const sl__timetable *t, int stage, int slot) {
  const int turn = passes_until(t, stage, slot), last = sl__timetable_passes(t) - 1;
  return turn < last ? turn : last;
}
