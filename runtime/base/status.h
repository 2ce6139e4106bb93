/* Status codes: what every fallible function of the library returns.
 *
 * The library neither prints nor exits. A function that fails returns a code from the one list below and leaves a
 * sentence in the calling thread's error text, which names the thing (layer, file, offset, option) and a remedy; the
 * caller adds context or passes the code up with SL_TRY. */
#ifndef SL_STATUS_H
#define SL_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* code, text, and 1 if the object can still be used afterwards, 0 if it can only be destroyed */
#define SL_STATUS_LIST(X)                                            \
  X(SL_OK, "done", 1)                                                \
  X(SL_EINVAL, "invalid argument", 1)                                \
  X(SL_ENOMEM, "out of memory", 1)                                   \
  X(SL_EIO, "input or output failed", 1)                             \
  X(SL_EWRITE, "a file cannot be stored", 1)                         \
  X(SL_EFORMAT, "malformed file", 1)                                 \
  X(SL_ESHAPE, "shapes do not fit", 0)                               \
  X(SL_ENOTFOUND, "not found", 1)                                    \
  X(SL_EEXIST, "exists already", 1)                                  \
  X(SL_EMPI, "MPI failed", 0)                                        \
  X(SL_ESTARPU, "StarPU failed", 0)                                  \
  X(SL_ETOPOLOGY, "the machine cannot be divided as asked", 1)       \
  X(SL_ETASK, "a task failed", 0)                                    \
  X(SL_ENONFINITE, "a value is not finite", 1)                       \
  X(SL_ESPIKE, "the loss leaps", 1)                                  \
  X(SL_EMEMORY, "the ranks' memory differs", 1)                      \
  X(SL_EUNSUPPORTED, "not supported by this build or machine", 1)    \
  X(SL_EUNCALIBRATED, "performance models are not calibrated", 1)    \
  X(SL_EPLAN, "the plan does not match", 1)                          \
  X(SL_EPOLICY, "the scheduling policy leaves ready tasks lying", 0) \
  X(SL_EINTERRUPTED, "stopped by a signal", 1)

typedef enum sl_status {
#define SL_STATUS_ENUM(code, text, survives) code,
  SL_STATUS_LIST(SL_STATUS_ENUM)
#undef SL_STATUS_ENUM
      SL_STATUS_COUNT
} sl_status;

/* Sets the calling thread's error text and returns code. */
sl_status sl_fail(sl_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Fails with SL_ENOMEM and the text "no memory ..."; format says for what ("for %d rows", "to read %s"). */
sl_status sl_no_memory(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Puts "context: " before the calling thread's error text and returns code. */
sl_status sl_context(sl_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The calling thread's last error text; never NULL. Valid until the thread's next failure. */
const char *sl_error(void);

/* Names the setting at fault in the last failure and returns code. The setting is a field of the options that the
 * caller gave ("threads_per_worker"), "path" for a place on disk, or several with commas between; at most 63 bytes. The
 * error text states the fact in words; a program with an option for the setting can name that option. sl_fail forgets
 * the setting, sl_context keeps it. */
sl_status sl_blame(sl_status code, const char *setting);
const char *sl_error_setting(void); /* "": the last failure names none */

/* The calling thread's last failure, kept while other things may fail. Plain bytes: threads and ranks may send it. */
enum { SL_ERROR_TEXT_BYTES = 2048 };
typedef struct sl_failure {
  sl_status code; /* SL_OK: none */
  char text[SL_ERROR_TEXT_BYTES], setting[64];
} sl_failure;

sl_failure sl_failure_keep(sl_status code); /* code: what the failed call returned, or SL_OK */
/* Makes f the calling thread's last failure and returns its code; does nothing for SL_OK. */
sl_status sl_failure_again(const sl_failure *f);
/* The first failure of two outcomes: f or, if f is SL_OK, `second`, which came later. */
sl_status sl_failure_first(const sl_failure *f, sl_status second);

const char *sl_status_name(sl_status code); /* "SL_EIO" */
const char *sl_status_text(sl_status code); /* "input or output failed" */
int sl_status_survives(sl_status code);

#define SL_TRY(expression)                            \
  do {                                                \
    sl_status sl_try_status = (expression);           \
    if (sl_try_status != SL_OK) return sl_try_status; \
  } while (0)

/* The same inside a function that owns things: sets the local `status` and goes to its `out:`. */
#define SL_TRY_OUT(expression)     \
  do {                             \
    status = (expression);         \
    if (status != SL_OK) goto out; \
  } while (0)

#ifdef __cplusplus
}
#endif
#endif
