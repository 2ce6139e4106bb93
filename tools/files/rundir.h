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
#define SL_RUNDIR_FILES(X)                     \
  X(SL_RUNDIR_MARKER, ".starling-run")         \
  X(SL_RUNDIR_CONFIG, SL__CONFIG_NAME)         \
  X(SL_RUNDIR_ENVIRONMENT, "environment.json") \
  X(SL_RUNDIR_PLAN, "plan.json")               \
  X(SL_RUNDIR_METRICS, "metrics.jsonl")        \
  X(SL_RUNDIR_MODEL, "model.safetensors")      \
  X(SL_RUNDIR_CHECKPOINTS, "checkpoints")      \
  X(SL_RUNDIR_STATE, "state.safetensors")      \
  X(SL_RUNDIR_TOKENIZER, "tokenizer.json")     \
  X(SL_RUNDIR_SUMMARY, "summary.json")         \
  X(SL_RUNDIR_HEARTBEAT, "heartbeat.json")     \
  X(SL_RUNDIR_REPORT, "report.html")

typedef enum sl_rundir_file {
#define SL_RUNDIR_ENUM(name, file) name,
  SL_RUNDIR_FILES(SL_RUNDIR_ENUM)
#undef SL_RUNDIR_ENUM
      SL_RUNDIR_FILE_COUNT
} sl_rundir_file;

typedef enum sl_rundir_mode {
  SL_RUNDIR_NEW,    /* refuses a directory that exists, unless its run ended before it began: no configuration */
  SL_RUNDIR_RESUME, /* opens an earlier run's directory */
  SL_RUNDIR_FORCE   /* removes an earlier run's files only; refuses folders that are not run directories */
} sl_rundir_mode;

typedef struct sl_rundir sl_rundir;

/* Opens or makes the directory. path NULL: runs/NAME-YYYYMMDD-HHMMSS, with a number appended if that exists. Makes
 * missing parents. SL_EEXIST names the options to use; SL_ENOTFOUND (nothing to resume); SL_EIO (cannot be written). A
 * failure leaves nothing behind. */
sl_status sl_rundir_open(const char *path, const char *name, sl_rundir_mode mode, sl_rundir **rundir);
/* Closes. SL_EIO if the last metrics could not be synchronised; NULL is allowed. */
sl_status sl_rundir_close(sl_rundir *rundir);
/* Closes the directory, and removes it if this run made it: for a run that fails before its first step. */
void sl_rundir_discard(sl_rundir *rundir);

const char *sl_rundir_path(const sl_rundir *rundir); /* of the directory */
const char *sl_rundir_file_path(const sl_rundir *rundir,
                                sl_rundir_file file); /* "DIR/model.safetensors"; valid until closed */
const char *sl_rundir_file_name(sl_rundir_file file); /* "model.safetensors" */

sl_status sl_rundir_write_json(sl_rundir *rundir, sl_rundir_file file, const json_t *value);
sl_status sl_rundir_write_text(sl_rundir *rundir, sl_rundir_file file, const char *text);

/* Appends one object to metrics.jsonl as one line by one write(2). On SL_EWRITE or SL_EIO (a full disk) nothing of the
 * line is in the file; it stays in memory until the next call of this function, sl_rundir_sync_metrics or
 * sl_rundir_close. */
sl_status sl_rundir_append_metrics(sl_rundir *rundir, const json_t *object);
/* Brings the lines so far to the disk. Call it before a checkpoint: a run that resumes from the checkpoint needs the
 * earlier lines. SL_EIO. */
sl_status sl_rundir_sync_metrics(sl_rundir *rundir);
/* For a resumed run: drops lines whose "step" is above the given one, and an incomplete last line. */
sl_status sl_rundir_rewind_metrics(sl_rundir *rundir, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
