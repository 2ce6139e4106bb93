/* The run directory: holds a run's configuration, environment, metrics and models (docs/reference/formats.md lists the
 * files). It is made completely or not at all, and an existing one is never used by accident. Each file in it is
 * written atomically; metrics are appended one whole line at a time. */
#ifndef SL_RUNDIR_H
#define SL_RUNDIR_H

#include <jansson.h>
#include <stdint.h>

#include "runtime/base/status.h"
#include "tools/settings/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The files of a run directory, which --force removes. CHECKPOINTS is a folder; earlier versions wrote STATE in its
 * place. */
#define SL__RUNDIR_FILES(X)                     \
  X(SL__RUNDIR_MARKER, ".starling-run")         \
  X(SL__RUNDIR_CONFIG, SL__CONFIG_NAME)         \
  X(SL__RUNDIR_ENVIRONMENT, "environment.json") \
  X(SL__RUNDIR_PLAN, "plan.json")               \
  X(SL__RUNDIR_METRICS, "metrics.jsonl")        \
  X(SL__RUNDIR_MODEL, "model.safetensors")      \
  X(SL__RUNDIR_CHECKPOINTS, "checkpoints")      \
  X(SL__RUNDIR_STATE, "state.safetensors")      \
  X(SL__RUNDIR_TOKENIZER, "tokenizer.json")     \
  X(SL__RUNDIR_SUMMARY, "summary.json")         \
  X(SL__RUNDIR_HEARTBEAT, "heartbeat.json")     \
  X(SL__RUNDIR_REPORT, "report.html")

typedef enum sl__rundir_file {
#define SL__RUNDIR_ENUM(name, file) name,
  SL__RUNDIR_FILES(SL__RUNDIR_ENUM)
#undef SL__RUNDIR_ENUM
      SL__RUNDIR_FILE_COUNT
} sl__rundir_file;

typedef enum sl__rundir_mode {
  SL__RUNDIR_NEW,    /* refuses a directory that exists, unless its run ended before it began: no configuration */
  SL__RUNDIR_RESUME, /* opens an earlier run's directory; if a run still writes there, waits SL__RUNDIR_WAIT_S for it */
  SL__RUNDIR_FORCE   /* removes an earlier run's files only; refuses folders that are not run directories */
} sl__rundir_mode;

enum { SL__RUNDIR_WAIT_S = 10 };

typedef struct sl__rundir sl__rundir;

/* Opens or makes the directory. path NULL: runs/NAME-YYYYMMDD-HHMMSS, with a number appended if that exists. Makes
 * missing parents. SL_EEXIST names the options to use; SL_ENOTFOUND (nothing to resume); SL_EIO (cannot be written). A
 * failure leaves nothing behind. */
sl_status sl__rundir_open(const char *path, const char *name, sl__rundir_mode mode, sl__rundir **rundir);
/* Closes. SL_EIO if the last metrics could not be synchronised; NULL is allowed. */
sl_status sl__rundir_close(sl__rundir *rundir);
/* Closes the directory, and removes it if this run made it: for a run that fails before its first step. */
void sl__rundir_discard(sl__rundir *rundir);

const char *sl__rundir_path(const sl__rundir *rundir); /* of the directory */
const char *sl__rundir_file_path(const sl__rundir *rundir,
                                 sl__rundir_file file); /* "DIR/model.safetensors"; valid until closed */
const char *sl__rundir_file_name(sl__rundir_file file); /* "model.safetensors" */

sl_status sl__rundir_write_json(sl__rundir *rundir, sl__rundir_file file, const json_t *value);
sl_status sl__rundir_write_text(sl__rundir *rundir, sl__rundir_file file, const char *text);

/* Appends one object to metrics.jsonl as one line by one write(2). On SL_EWRITE or SL_EIO (a full disk) nothing of the
 * line is in the file; it stays in memory until the next call of this function, sl__rundir_sync_metrics or
 * sl__rundir_close. */
sl_status sl__rundir_append_metrics(sl__rundir *rundir, const json_t *object);
/* Brings the lines so far to the disk. Call it before a checkpoint: a run that resumes from the checkpoint needs the
 * earlier lines. SL_EIO. */
sl_status sl__rundir_sync_metrics(sl__rundir *rundir);
/* For a resumed run: drops lines whose "step" is above the given one, and an incomplete last line. */
sl_status sl__rundir_rewind_metrics(sl__rundir *rundir, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
