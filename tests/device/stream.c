/* Streams: queues whose operations run one after another, each queue on a thread of its own. Events are operations too.
 * With a seed each operation waits a while at first, as long as seed, stream and place in the stream say: streams
 * overtake one another, and what nobody waited for is not there yet. A lazy device runs an operation only when someone
 * waits for it or asks whether it has ended: what nobody waited for is never there. */
#include <execinfo.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device.h"

typedef enum operation_kind { COPY, SET, KERNEL, RECORD, WAIT_EVENT, WAIT_STREAM } operation_kind;

typedef struct operation {
  struct operation *next;
  operation_kind kind;
  enum cudaMemcpyKind direction;
  char *to;
  const char *from; /* as the caller named them */
  size_t width, height, to_pitch, from_pitch;
  int value;
  struct emulated_event *event;
  struct emulated_stream *stream;
  unsigned long number, place; /* of the event's record; of the stream's operation */
  emulated_launch launch;
  char arguments[]; /* of a kernel */
} operation;

struct emulated_stream {
  struct emulated_stream *next;
  device *device;
  bool blocking, quit;
  uint64_t seed;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t more, less;
  operation *head, **tail;
  unsigned long queued, done, wanted; /* wanted: how many someone has waited for or asked about */
};

struct emulated_event {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  unsigned flags;
  unsigned long recorded, passed;
  struct emulated_stream *stream; /* where it was recorded last, and as which operation */
  unsigned long place;
  double when; /* the last one passed */
  int users;   /* the owner, and operations in streams */
};

double emulated_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014): the finaliser. */
uint64_t emulated_mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static void pause_for(double seconds) {
  if (seconds <= 0) return;
  struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&t, NULL);
}

/* A lazy device now runs the first `number` operations of the stream. */
static void want(struct emulated_stream *s, unsigned long number) {
  if (!emulated_settings.lazy || !s) return;
  pthread_mutex_lock(&s->lock);
  if (number > s->wanted) s->wanted = number;
  pthread_cond_signal(&s->more);
  pthread_mutex_unlock(&s->lock);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static void release(cudaEvent_t e) {
  pthread_mutex_lock(&e->lock);
  const int left = --e->users;
  pthread_mutex_unlock(&e->lock);
  if (left == 0) free(e);
}
static void await(cudaEvent_t e, unsigned long number) {
  pthread_mutex_lock(&e->lock);
  while (e->passed < number) pthread_cond_wait(&e->changed, &e->lock);
  pthread_mutex_unlock(&e->lock);
}

/* ---- what a stream's thread does --------------------------------------------------------------------------------- */

static char *reached(const void *address) {
  device *d = emulated_owner(address);
  return d ? emulated_alias(d, address) : (char *)address;
}

static void move(device *d, const operation *o) {
  device *to = emulated_owner(o->to), *from = emulated_owner(o->from);
  for (size_t row = 0; row < o->height; row++) {
    char *there = o->to + row * o->to_pitch;
    const char *here = o->from + row * o->from_pitch;
    if ((to && !emulated_inside(to, there, o->width)) || (from && !emulated_inside(from, here, o->width))) {
      emulated_say(d->number, "a copy of %zu bytes from %p to %p finds its memory freed", o->width, (const void *)here,
                   (void *)there);
      d->error = cudaErrorIllegalAddress;
      return;
    }
    memmove(reached(there), reached(here), o->width);
    if (to && from)
      memmove(emulated_shadow(to, there), emulated_shadow(from, here), o->width);
    else if (to)
      memset(emulated_shadow(to, there), SHADOW_WRITTEN, o->width);
  }
}

static void copy(device *d, const operation *o) {
  const double begin = emulated_now(), long_pause = 0.01;
  move(d, o);
  if (d->error) return;
  const device *from = emulated_owner(o->from), *to = emulated_owner(o->to);
  const int kind = from ? to ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost : to ? cudaMemcpyHostToDevice : 0;
  d->copies[kind]++;
  d->copied[kind] += o->width * o->height;
  if (emulated_settings.copy_rate <= 0 || (from && from == to)) return;
  const double left = (double)(o->width * o->height) / emulated_settings.copy_rate - (emulated_now() - begin);
  pause_for(left);
  /* Again at the end, so that memory that was freed or filled anew meanwhile shows. */
  if (left > long_pause) move(d, o);
}

static void perform(struct emulated_stream *s, operation *o) {
  device *d = s->device;
  switch (o->kind) {
    case COPY:
      if (!d->error) copy(d, o);
      break;
    case SET:
      if (d->error) break;
      memset(emulated_alias(d, o->to), o->value, o->width);
      memset(emulated_shadow(d, o->to), SHADOW_WRITTEN, o->width);
      break;
    case KERNEL:
      if (!d->error) emulated_run(d, &o->launch, o->arguments, s->seed ? emulated_mix(s->seed + s->done) | 1 : 0);
      break;
    case RECORD:
      pthread_mutex_lock(&o->event->lock);
      o->event->when = emulated_now();
      if (o->number > o->event->passed) o->event->passed = o->number; /* another stream may have been faster */
      pthread_cond_broadcast(&o->event->changed);
      pthread_mutex_unlock(&o->event->lock);
      release(o->event);
      break;
    case WAIT_EVENT:
      want(o->stream, o->place);
      await(o->event, o->number);
      release(o->event);
      break;
    case WAIT_STREAM:
      want(o->stream, o->place);
      pthread_mutex_lock(&o->stream->lock);
      while (o->stream->done < o->place) pthread_cond_wait(&o->stream->less, &o->stream->lock);
      pthread_mutex_unlock(&o->stream->lock);
      break;
  }
}

static bool may_run(const struct emulated_stream *s) {
  return s->head && (!emulated_settings.lazy || s->done < s->wanted);
}

static void *serve(void *of) {
  struct emulated_stream *s = of;
  pthread_mutex_lock(&s->lock);
  for (;;) {
    while (!may_run(s) && !s->quit) pthread_cond_wait(&s->more, &s->lock);
    operation *o = s->head;
    if (!o) break;
    s->head = o->next;
    if (!s->head) s->tail = &s->head;
    const uint64_t seed = s->seed + s->done;
    pthread_mutex_unlock(&s->lock);
    if (s->seed && o->kind <= KERNEL) /* a third of them at once */
      pause_for((double)(emulated_mix(seed) % 1500) / 1000 * emulated_settings.delay * 1e-6 -
                0.5e-6 * emulated_settings.delay);
    perform(s, o);
    free(o);
    pthread_mutex_lock(&s->lock);
    s->done++;
    pthread_cond_broadcast(&s->less);
  }
  pthread_mutex_unlock(&s->lock);
  return NULL;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/* The cores of the process as it began: a thread of a worker would inherit that worker's one core. */
static cpu_set_t cores;
__attribute__((constructor)) static void note_cores(void) { sched_getaffinity(0, sizeof cores, &cores); }

static struct emulated_stream *open_stream(device *d, bool blocking) {
  struct emulated_stream *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  pthread_attr_t attributes;
  sigset_t all, before;
  s->device = d;
  s->blocking = blocking;
  s->tail = &s->head;
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->more, NULL);
  pthread_cond_init(&s->less, NULL);
  pthread_attr_init(&attributes);
  pthread_attr_setaffinity_np(&attributes, sizeof cores, &cores);
  pthread_mutex_lock(&d->stream_list);
  unsigned number = 1;
  for (const struct emulated_stream *other = d->streams; other; other = other->next) number++;
  if (emulated_settings.seed)
    s->seed = emulated_mix(emulated_settings.seed ^ (uint64_t)d->number << 56 ^ (uint64_t)number << 48);
  s->next = d->streams;
  d->streams = s;
  pthread_mutex_unlock(&d->stream_list);
  /* signals are for the program's own threads, except those that a thread raises itself */
  sigfillset(&all);
  sigdelset(&all, SIGSEGV);
  sigdelset(&all, SIGBUS);
  sigdelset(&all, SIGABRT);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int failed = pthread_create(&s->thread, &attributes, serve, s);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return failed ? NULL : s;
}

static struct emulated_stream *default_of(device *d) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  if (!d->default_stream) d->default_stream = open_stream(d, true);
  pthread_mutex_unlock(&lock);
  return d->default_stream;
}

static unsigned long append(struct emulated_stream *s, operation *o) {
  o->next = NULL;
  pthread_mutex_lock(&s->lock);
  *s->tail = o;
  s->tail = &o->next;
  const unsigned long number = ++s->queued;
  pthread_cond_signal(&s->more);
  pthread_mutex_unlock(&s->lock);
  return number;
}

static operation *new_operation(operation_kind kind, size_t bytes) {
  operation *o = calloc(1, sizeof *o + bytes);
  if (!o) abort();
  o->kind = kind;
  return o;
}

static unsigned long queued(struct emulated_stream *s) {
  pthread_mutex_lock(&s->lock);
  const unsigned long number = s->queued;
  pthread_mutex_unlock(&s->lock);
  return number;
}

static void wait_stream(struct emulated_stream *s, struct emulated_stream *other) {
  operation *o = new_operation(WAIT_STREAM, 0);
  o->stream = other;
  o->place = queued(other);
  append(s, o);
}

/* The default stream and the blocking ones wait for one another, as CUDA's legacy default stream has it. */
static struct emulated_stream *ready(cudaStream_t stream) {
  if (!stream) {
    device *d = emulated_device(emulated_current());
    struct emulated_stream *s = d ? default_of(d) : NULL;
    if (!s) return NULL;
    pthread_mutex_lock(&d->stream_list);
    struct emulated_stream *other = d->streams;
    pthread_mutex_unlock(&d->stream_list);
    for (; other; other = other->next)
      if (other != s && other->blocking) wait_stream(s, other);
    return s;
  }
  if (stream->blocking && stream->device->default_stream && stream->device->default_stream != stream)
    wait_stream(stream, stream->device->default_stream);
  return stream;
}

static void drain(struct emulated_stream *s) {
  pthread_mutex_lock(&s->lock);
  const unsigned long until = s->queued;
  pthread_mutex_unlock(&s->lock);
  want(s, until);
  pthread_mutex_lock(&s->lock);
  while (s->done < until) pthread_cond_wait(&s->less, &s->lock);
  pthread_mutex_unlock(&s->lock);
}

void emulated_wait_device(device *d) {
  pthread_mutex_lock(&d->stream_list);
  struct emulated_stream *s = d->streams; /* streams are added at the head and never leave the list */
  pthread_mutex_unlock(&d->stream_list);
  for (; s; s = s->next) drain(s);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  device *d = emulated_device(emulated_current());
  if (!d) return emulated_fail(cudaErrorNoDevice);
  emulated_guard_host();
  *stream = open_stream(d, !(flags & cudaStreamNonBlocking));
  return *stream ? cudaSuccess : emulated_fail(cudaErrorMemoryAllocation);
}
cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }

cudaError_t cudaStreamDestroy(cudaStream_t s) {
  if (!s) return emulated_fail(cudaErrorInvalidResourceHandle);
  pthread_mutex_lock(&s->lock);
  s->quit = true;
  pthread_cond_signal(&s->more);
  pthread_mutex_unlock(&s->lock);
  pthread_join(s->thread, NULL); /* what it holds stays, since other streams may yet wait for it */
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  struct emulated_stream *s = ready(stream);
  if (!s) return emulated_fail(cudaErrorNoDevice);
  drain(s);
  return emulated_fail((cudaError_t)s->device->error);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  device *d = emulated_device(emulated_current());
  struct emulated_stream *s = stream ? stream : d ? default_of(d) : NULL;
  if (!s) return emulated_fail(cudaErrorNoDevice);
  pthread_mutex_lock(&s->lock);
  const unsigned long until = s->queued;
  const bool busy = s->done < until;
  pthread_mutex_unlock(&s->lock);
  want(s, until);
  return busy ? cudaErrorNotReady : emulated_fail((cudaError_t)s->device->error);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t e, unsigned flags) {
  (void)flags;
  struct emulated_stream *s = ready(stream);
  if (!s) return emulated_fail(cudaErrorNoDevice);
  operation *o = new_operation(WAIT_EVENT, 0);
  pthread_mutex_lock(&e->lock);
  e->users++;
  o->event = e;
  o->number = e->recorded;
  o->stream = e->stream;
  o->place = e->place;
  pthread_mutex_unlock(&e->lock);
  append(s, o);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  cudaEvent_t e = calloc(1, sizeof *e);
  if (!e) return emulated_fail(cudaErrorMemoryAllocation);
  pthread_mutex_init(&e->lock, NULL);
  pthread_cond_init(&e->changed, NULL);
  e->flags = flags;
  e->users = 1;
  *event = e;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  if (!e) return emulated_fail(cudaErrorInvalidResourceHandle);
  release(e);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t stream) {
  struct emulated_stream *s = ready(stream);
  if (!s) return emulated_fail(cudaErrorNoDevice);
  operation *o = new_operation(RECORD, 0);
  pthread_mutex_lock(&e->lock);
  e->users++;
  o->event = e;
  o->number = ++e->recorded;
  e->stream = s;
  e->place = append(s, o);
  pthread_mutex_unlock(&e->lock);
  return emulated_fail((cudaError_t)s->device->error);
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
  pthread_mutex_lock(&e->lock);
  const bool waits = e->passed < e->recorded;
  struct emulated_stream *s = e->stream;
  const unsigned long place = e->place;
  pthread_mutex_unlock(&e->lock);
  want(s, place);
  device *d = emulated_device(emulated_current());
  return waits ? cudaErrorNotReady : emulated_fail(d ? (cudaError_t)d->error : cudaSuccess);
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  pthread_mutex_lock(&e->lock);
  const unsigned long number = e->recorded, place = e->place;
  struct emulated_stream *s = e->stream;
  pthread_mutex_unlock(&e->lock);
  want(s, place);
  await(e, number);
  device *d = emulated_device(emulated_current());
  return emulated_fail(d ? (cudaError_t)d->error : cudaSuccess);
}
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to) {
  if ((from->flags | to->flags) & cudaEventDisableTiming) return emulated_fail(cudaErrorInvalidResourceHandle);
  if (!from->recorded || !to->recorded) return emulated_fail(cudaErrorInvalidResourceHandle);
  if (cudaEventQuery(from) == cudaErrorNotReady || cudaEventQuery(to) == cudaErrorNotReady) return cudaErrorNotReady;
  *milliseconds = (float)((to->when - from->when) * 1e3);
  return cudaSuccess;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

static const char *side(device *d) { return d ? "device" : "host"; }

static cudaError_t queue_copy(const char *name, void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream, bool wait) {
  if (width == 0 || height == 0) return cudaSuccess;
  device *there = emulated_owner(to), *here = emulated_owner(from);
  struct emulated_stream *s = ready(stream);
  if (!s) return emulated_fail(cudaErrorNoDevice);
  if (s->device->error) return emulated_fail((cudaError_t)s->device->error);
  const int number = s->device->number;
  const bool wants_there = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice,
             wants_here = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind != cudaMemcpyDefault && (wants_there != !!there || wants_here != !!here)) {
    emulated_say(number, "%s from %s memory %p to %s memory %p, asked for as %s to %s", name, side(here), from,
                 side(there), to, wants_here ? "device" : "host", wants_there ? "device" : "host");
    return emulated_fail(cudaErrorInvalidValue);
  }
  if (there && here && there != here && !emulated_settings.peers && strstr(name, "Peer") == NULL) {
    emulated_say(number, "%s between GPU %d and GPU %d, which are no peers", name, here->number, there->number);
    return emulated_fail(cudaErrorPeerAccessNotEnabled);
  }
  for (size_t row = 0; row<height; row += height> 1 ? height - 1 : 1) {
    const void *ends[2] = {(char *)to + row * to_pitch, (const char *)from + row * from_pitch};
    device *owner[2] = {there, here};
    for (int i = 0; i < 2; i++)
      if (owner[i] && !emulated_inside(owner[i], ends[i], width)) {
        char what[160];
        emulated_describe(owner[i], (uintptr_t)ends[i], what, sizeof what);
        emulated_say(owner[i]->number, "%s of %zu bytes %s %p, %s: beyond its end", name, width, i ? "from" : "to",
                     ends[i], what);
        return emulated_fail(cudaErrorInvalidValue);
      }
  }
  operation *o = new_operation(COPY, 0);
  o->to = to, o->from = from, o->direction = kind;
  o->width = width, o->height = height, o->to_pitch = to_pitch, o->from_pitch = from_pitch;
  if (!wait && !(there && here) &&
      !emulated_pinned(there ? from : to, (height - 1) * (there ? from_pitch : to_pitch) + width))
    s->device->unpinned += width * height;
  append(s, o);
  if (!wait) return cudaSuccess;
  drain(s);
  return emulated_fail((cudaError_t)s->device->error);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
  return queue_copy("cudaMemcpy", to, bytes, from, bytes, bytes, 1, kind, NULL, true);
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
  return queue_copy("cudaMemcpyAsync", to, bytes, from, bytes, bytes, 1, kind, stream, false);
}
cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes) {
  (void)to_device, (void)from_device;
  return queue_copy("cudaMemcpyPeer", to, bytes, from, bytes, bytes, 1, cudaMemcpyDeviceToDevice, NULL, true);
}
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                cudaStream_t stream) {
  (void)to_device, (void)from_device;
  return queue_copy("cudaMemcpyPeerAsync", to, bytes, from, bytes, bytes, 1, cudaMemcpyDeviceToDevice, stream, false);
}
cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                         enum cudaMemcpyKind kind) {
  return queue_copy("cudaMemcpy2D", to, to_pitch, from, from_pitch, width, height, kind, NULL, true);
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream) {
  return queue_copy("cudaMemcpy2DAsync", to, to_pitch, from, from_pitch, width, height, kind, stream, false);
}

/* Each layer is a copy of rows. */
static cudaError_t copy_layers(const char *name, struct cudaPitchedPtr to, struct cudaPitchedPtr from,
                               struct cudaExtent extent, enum cudaMemcpyKind kind, cudaStream_t stream, bool wait) {
  for (size_t z = 0; z < extent.depth; z++) {
    const cudaError_t error = queue_copy(name, (char *)to.ptr + z * to.pitch * to.ysize, to.pitch,
                                         (char *)from.ptr + z * from.pitch * from.ysize, from.pitch, extent.width,
                                         extent.height, kind, stream, wait);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}
cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *c) {
  return copy_layers("cudaMemcpy3D", c->dstPtr, c->srcPtr, c->extent, c->kind, NULL, true);
}
cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *c, cudaStream_t stream) {
  return copy_layers("cudaMemcpy3DAsync", c->dstPtr, c->srcPtr, c->extent, c->kind, stream, false);
}
cudaError_t cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *c) {
  return copy_layers("cudaMemcpy3DPeer", c->dstPtr, c->srcPtr, c->extent, cudaMemcpyDeviceToDevice, NULL, true);
}
cudaError_t cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *c, cudaStream_t stream) {
  return copy_layers("cudaMemcpy3DPeerAsync", c->dstPtr, c->srcPtr, c->extent, cudaMemcpyDeviceToDevice, stream, false);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  struct emulated_stream *s = ready(stream);
  if (!s) return emulated_fail(cudaErrorNoDevice);
  if (s->device->error) return emulated_fail((cudaError_t)s->device->error);
  device *d = emulated_owner(to);
  if (d != s->device || !emulated_inside(d, to, bytes)) {
    char what[160] = "host memory";
    if (d) emulated_describe(d, (uintptr_t)to, what, sizeof what);
    emulated_say(s->device->number, "cudaMemset of %zu bytes at %p, %s", bytes, to, what);
    return emulated_fail(cudaErrorInvalidValue);
  }
  operation *o = new_operation(SET, 0);
  o->to = to, o->value = value, o->width = bytes;
  append(s, o);
  return cudaSuccess;
}
cudaError_t cudaMemset(void *to, int value, size_t bytes) {
  const cudaError_t error = cudaMemsetAsync(to, value, bytes, NULL);
  return error == cudaSuccess ? cudaStreamSynchronize(NULL) : error;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static atomic_int allowed_shared = SHARED_DEFAULT;

cudaError_t emulated_allow_shared(int bytes) {
  if (bytes > SHARED_BYTES) return emulated_fail(cudaErrorInvalidValue);
  if (bytes > allowed_shared) allowed_shared = bytes;
  return cudaSuccess;
}

void emulated_queue_kernel(emulated_launch *l, const void *arguments, cudaStream_t stream) {
  struct emulated_stream *s = ready(stream);
  if (!s) {
    emulated_fail(cudaErrorNoDevice);
    return;
  }
  device *d = s->device;
  const uint64_t threads = (uint64_t)l->block.x * l->block.y * l->block.z,
                 blocks = (uint64_t)l->grid.x * l->grid.y * l->grid.z;
  const char *wrong = NULL;
  if (threads != 0 || blocks != 0 || l->block.x != 0) {
    if (threads == 0 || threads > 1024 || l->block.x > 1024 || l->block.y > 1024 || l->block.z > 64)
      wrong = "a block has 1 to 1024 threads";
    else if (blocks == 0 || l->grid.x > INT32_MAX || l->grid.y > 65535 || l->grid.z > 65535)
      wrong = "a grid has 1 to 2147483647 blocks in x and to 65535 in y and z";
    else if (l->shared_bytes > (size_t)allowed_shared)
      wrong = "more dynamic shared memory than 49152 bytes needs cudaFuncSetAttribute, up to 232448";
  }
  if (wrong) {
    emulated_say(d->number, "kernel %s (%s:%d), grid (%u,%u,%u), block (%u,%u,%u), %zu bytes of shared memory: %s",
                 l->kernel, l->file, l->line, l->grid.x, l->grid.y, l->grid.z, l->block.x, l->block.y, l->block.z,
                 l->shared_bytes, wrong);
    emulated_fail(l->shared_bytes > (size_t)allowed_shared ? cudaErrorInvalidValue : cudaErrorInvalidConfiguration);
    return;
  }
  if (d->error) {
    emulated_fail((cudaError_t)d->error);
    return;
  }
  l->callers = backtrace(l->caller, EMULATED_CALLERS);
  operation *o = new_operation(KERNEL, l->argument_bytes);
  o->launch = *l;
  memcpy(o->arguments, arguments, l->argument_bytes);
  append(s, o);
}
