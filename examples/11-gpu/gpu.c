/* Lesson 11: runs the codelet of linear.c on a core and on a GPU. It reads the questions that judge.c made from
 * standard input, writes its answers to descriptor 3, and says nothing about right and wrong: judge.c does.
 *
 * First, many tasks of two sizes under scheduling policies: who gets them, what is copied, how long it takes. Then
 * small networks, whose tasks go where this program says. Each part is a process of its own, so that one that dies
 * leaves the others their answers. An emulated GPU (Starling's docs/how-to/emulated-gpus.md) is a thousand times slower
 * than a core, so in the first part it only waits as long as a fast one would compute; in the second it computes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "answers.h"
#include "linear.h"

static questions q;
static answers *a;            /* shared by the processes */
static int worker[2], bus[2]; /* a core and a GPU; the way to the GPU and back */

/* ---- kernels that reach an emulated GPU are counted; those of a real one are not ----------------------------------
 */

extern void __real_emulated_queue_kernel(void *launch, const void *arguments, void *stream) __attribute__((weak));
void __wrap_emulated_queue_kernel(void *launch, const void *arguments, void *stream);
void __wrap_emulated_queue_kernel(void *launch, const void *arguments, void *stream) {
  a->kernels++;
  __real_emulated_queue_kernel(launch, arguments, stream);
}

/* ---- StarPU -------------------------------------------------------------------------------------------------------
 */

static float images[SIZES][TASKS][64 * P], hidden[SIZES][TASKS][64 * H], weights[H * P], bias[H];

static int start(const char *policy) {
  struct starpu_conf conf;
  starpu_conf_init(&conf);
  conf.precedence_over_environment_variables = 1;
  conf.ncpus = conf.ncuda = 1, conf.nopencl = 0;
  conf.sched_policy_name = policy;
  if (starpu_init(&conf) != 0 || starpu_worker_get_ids_by_type(STARPU_CPU_WORKER, &worker[ON_CPU], 1) != 1 ||
      starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, &worker[ON_GPU], 1) != 1)
    return 0;
  const int gpu = (int)starpu_worker_get_memory_node((unsigned)worker[ON_GPU]);
  bus[0] = starpu_bus_get_id(STARPU_MAIN_RAM, gpu), bus[1] = starpu_bus_get_id(gpu, STARPU_MAIN_RAM);
  starpu_profiling_status_set(STARPU_PROFILING_ENABLE);
  /* A GPU copies from and to pinned memory while the core that drives it goes on. */
  starpu_memory_pin(&q, sizeof q), starpu_memory_pin(a, sizeof *a);
  starpu_memory_pin(images, sizeof images), starpu_memory_pin(hidden, sizeof hidden);
  starpu_memory_pin(weights, sizeof weights), starpu_memory_pin(bias, sizeof bias);
  return 1;
}

static starpu_data_handle_t handle(const float *array, int n) {
  starpu_data_handle_t h;
  starpu_vector_data_register(&h, STARPU_MAIN_RAM, (uintptr_t)array, (uint32_t)n, sizeof *array);
  return h;
}

/* Counts a task that has ended. Each of the two workers has a counter of its own. */
static void ended(void *counters) {
  const int on_gpu = starpu_worker_get_type(starpu_worker_get_id_check()) == STARPU_CUDA_WORKER;
  ((int32_t *)counters)[on_gpu ? ON_GPU : ON_CPU]++;
}

/* place: ON_CPU or ON_GPU; PLACES: the policy decides. 0: that worker cannot run the task. */
static int submit(struct starpu_codelet *codelet, starpu_data_handle_t y, starpu_data_handle_t x,
                  starpu_data_handle_t w, starpu_data_handle_t b, int rows, int in, int out, int place,
                  int32_t *counters) {
  struct starpu_task *task =
      starpu_task_build(codelet, STARPU_R, x, STARPU_R, w, STARPU_R, b, STARPU_W, y, STARPU_VALUE, &rows, sizeof rows,
                        STARPU_VALUE, &in, sizeof in, STARPU_VALUE, &out, sizeof out, 0);
  task->callback_func = ended, task->callback_arg = counters;
  if (place != PLACES) task->execute_on_a_specific_worker = 1, task->workerid = (unsigned)worker[place];
  task->destroy = 1;
  return starpu_task_submit(task) == 0;
}

/* ---- many tasks under a policy ------------------------------------------------------------------------------------
 */

static starpu_data_handle_t on_x[SIZES][TASKS], on_y[SIZES][TASKS], on_w, on_b;

static void register_all(void) {
  on_w = handle(weights, H * P), on_b = handle(bias, H);
  for (int s = 0; s < SIZES; s++)
    for (int t = 0; t < TASKS; t++)
      on_x[s][t] = handle(images[s][t], rows_of[s] * P), on_y[s][t] = handle(hidden[s][t], rows_of[s] * H);
}

/* Acquires an array for writing, so that its copy on the GPU becomes invalid. */
static void renew(starpu_data_handle_t on) { starpu_data_acquire(on, STARPU_W), starpu_data_release(on); }
static void renew_all(void) {
  for (int s = 0; s < SIZES; s++)
    for (int t = 0; t < TASKS; t++) renew(on_x[s][t]);
}

/* The first kernel of a program takes far longer than the next: its code must reach the GPU. No samples of it are kept.
 */
static int warm_up(void) {
  static int32_t counters[2];
  struct starpu_codelet codelet = linear_codelet;
  codelet.model = NULL;
  for (int s = 0; s < SIZES; s++)
    if (!submit(&codelet, on_y[s][0], on_x[s][0], on_w, on_b, rows_of[s], P, H, ON_GPU, counters)) return 0;
  starpu_task_wait_for_all();
  renew_all(), renew(on_w), renew(on_b);
  return 1;
}

static double moved(int direction) {
  struct starpu_profiling_bus_info info;
  return starpu_bus_get_profiling_info(bus[direction], &info) == 0 ? (double)info.transferred_bytes : 0;
}

/* From the first task's submission until all results are in main()'s memory. place: as submit's, or IN_TURN. */
static int run(int number, int place) {
  const double begin = starpu_timing_now();
  moved(0), moved(1); /* asking sets the counters back to 0 */
  for (int t = 0; t < TASKS; t++)
    for (int s = 0; s < SIZES; s++)
      if (!submit(&linear_codelet, on_y[s][t], on_x[s][t], on_w, on_b, rows_of[s], P, H,
                  place == IN_TURN ? t % 2 : place, a->placed[number][s]))
        return 0;
  for (int s = 0; s < SIZES; s++)
    for (int t = 0; t < TASKS; t++) starpu_data_acquire(on_y[s][t], STARPU_R), starpu_data_release(on_y[s][t]);
  starpu_task_wait_for_all();
  a->ms[number] = (starpu_timing_now() - begin) / 1e3;
  a->to_gpu[number] = moved(0), a->back[number] = moved(1);
  a->scheduled[number] = 1;
  return 1;
}

/* What StarPU predicts for a task of each size on each kind of worker. */
static void predict(void) {
  for (int s = 0; s < SIZES; s++)
    for (int kind = 0; kind < 2; kind++) {
      struct starpu_task *task = starpu_task_build(&linear_codelet, STARPU_R, on_x[s][0], STARPU_R, on_w, STARPU_R,
                                                   on_b, STARPU_W, on_y[s][0], 0);
      const double us =
          starpu_task_expected_length(task, starpu_worker_get_perf_archtype(worker[kind], STARPU_NMAX_SCHED_CTXS), 0);
      a->expected[s][kind] = us > 0 ? us : 0; /* NaN: too few samples */
      task->destroy = 0;
      starpu_task_destroy(task);
    }
}

/* The speed of an emulated GPU: about eight times that of a core. */
static void be_fast(void) {
  setenv("EMULATED_TIMED", "12", 1);
  setenv("EMULATED_GBPS", "12", 1);
}

static int schedule(void) {
  be_fast();
  setenv("STARPU_CALIBRATE", "2", 1);                  /* forgets the samples of earlier programs */
  setenv("STARPU_HISTORY_MAX_ERROR", "1000000000", 1); /* else one outlier makes StarPU forget all earlier samples */
  if (!start("dmda")) return 0;
  register_all();
  if (!warm_up() || !run(FIRST, PLACES)) return 0;
  renew_all();
  if (!run(SAMPLING, IN_TURN)) return 0;
  renew_all();
  if (!run(CALIBRATED, PLACES) || !run(AGAIN, PLACES)) return 0;
  predict();
  return 1;
}

static int compare(void) {
  be_fast();
  if (!start("eager")) return 0;
  register_all();
  if (!warm_up() || !run(EAGER, PLACES)) return 0;
  renew_all();
  return run(ALONE, ON_CPU);
}

/* ---- networks whose tasks this program places ---------------------------------------------------------------------
 */

static int run_network(int place, int k) {
  static float between[MOST_Y]; /* the hidden units, between the two layers */
  const network *n = &networks[k];
  enum { MOST_TILES = 8, ON_X = 0, ON_H = MOST_TILES, ON_Y = 2 * MOST_TILES, ON_W = 3 * MOST_TILES };
  starpu_data_handle_t on[ON_W + 4];
  const int tiles = (n->rows + n->tile - 1) / n->tile;
  int fine = 1;
  on[ON_W] = handle(q.w1[k], n->hidden * n->in), on[ON_W + 1] = handle(q.b1[k], n->hidden);
  on[ON_W + 2] = handle(q.w2[k], n->out * n->hidden), on[ON_W + 3] = handle(q.b2[k], n->out);
  for (int t = 0; t < tiles; t++) {
    const int first = t * n->tile, rows = n->rows - first < n->tile ? n->rows - first : n->tile;
    int32_t *ran = a->ran[place][k];
    on[ON_X + t] = handle(q.x[k] + first * n->in, rows * n->in),
              on[ON_H + t] = handle(between + first * n->hidden, rows * n->hidden);
    on[ON_Y + t] = handle(a->y[place][k] + first * n->out, rows * n->out);
    const int one = place == IN_TURN ? t % 2 : place, other = place == IN_TURN ? !one : place;
    fine =
        fine &&
        submit(&linear_codelet, on[ON_H + t], on[ON_X + t], on[ON_W], on[ON_W + 1], rows, n->in, n->hidden, one, ran) &&
        submit(&linear_codelet, on[ON_Y + t], on[ON_H + t], on[ON_W + 2], on[ON_W + 3], rows, n->hidden, n->out, other,
               ran);
  }
  starpu_task_wait_for_all();
  for (int t = 0; fine && t < tiles; t++)
    for (int part = ON_X; part <= ON_Y; part += MOST_TILES) starpu_data_unregister(on[part + t]);
  for (int i = 0; fine && i < 4; i++) starpu_data_unregister(on[ON_W + i]);
  a->ended[place][k] = fine;
  return fine;
}

static int compute(void) {
  char seed[16];
  snprintf(seed, sizeof seed, "%u", q.seed);
  setenv("EMULATED_SEED", seed, 1);
  setenv("EMULATED_LAZY", "1", 1); /* what nobody waits for does not happen */
  a->kernels = __real_emulated_queue_kernel ? 0 : -1;
  if (!start("eager")) return 0;
  for (int place = 0; place < PLACES; place++)
    for (int k = 0; k < NETWORKS; k++)
      if (!run_network(place, k)) break;
  return 1;
}

/* ---- all of it ----------------------------------------------------------------------------------------------------
 */

/* Each process ends without starpu_shutdown, which would wait for a task that no worker can run. */
static void in_a_process(int (*part)(void)) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) _exit(part() ? 0 : 3);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) puts("a part of the program ended early");
}

int main(void) {
  if (fread(&q, sizeof q, 1, stdin) != 1) return puts("no questions on standard input: use make run"), 2;
  a = mmap(NULL, sizeof *a, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (a == MAP_FAILED) return puts("no memory"), 2;
  a->nonce = q.nonce;
  /* The emulated GPU gets as much memory as the tasks need. It can tell arrays apart only if StarPU allocates each of
   * them alone. */
  setenv("EMULATED_MEMORY", "40", 1);
  setenv("STARPU_SUBALLOCATOR", "0", 1);
  setenv("STARPU_SILENT", "1", 0);
  in_a_process(schedule);
  in_a_process(compare);
  in_a_process(compute);
  FILE *channel = fdopen(3, "wb");
  if (!channel || fwrite(a, sizeof *a, 1, channel) != 1 || fclose(channel) != 0)
    return puts("descriptor 3 is not open for the answers: use make run"), 2;
  return 0;
}
