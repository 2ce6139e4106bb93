/* Checkpoints: folders with named tensors and a header, written whole or not at all (by checkpoint_writer.h). A
 * checkpoint does not depend on ranks: it has whole tensors by name, however many files they are divided into.
 *
 * CHECKPOINTS/step-00001200/ holds checkpoint.json, the manifest, and part-00000.safetensors and so on. The manifest
 * lists each part's size, checksum and rows of tensors, so opening a checkpoint detects a file that is cut short,
 * changed or from another checkpoint. docs/reference/formats.md describes the fields. */
#ifndef SL_CHECKPOINT_H
#define SL_CHECKPOINT_H

#include <jansson.h>

#include "runtime/files/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SL_CHECKPOINT_MANIFEST "checkpoint.json"
#define SL_CHECKPOINT_FORMAT "starling-checkpoint-1"

/* The steps of the checkpoints in folder, newest first; the caller must free(*steps). A folder that does not exist has
 * none. SL_EIO, SL_ENOMEM. */
sl_status sl_checkpoint_newest(const char *folder, int64_t **steps, int *n);
/* "FOLDER/step-00001200"; the caller must free() it. NULL: out of memory. */
char *sl_checkpoint_path(const char *folder, int64_t step);
/* Whether path is a folder with a manifest. */
int sl_checkpoint_is(const char *path);

typedef struct sl_checkpoint sl_checkpoint;
/* Reads the manifest and every byte of the parts. SL_EFORMAT names the file that is missing, cut short or changed;
 * SL_EIO, SL_ENOMEM. */
sl_status sl_checkpoint_open(const char *path, sl_checkpoint **checkpoint);
/* The same, but verifies only the parts share, share + shares, and so on: `shares` ranks verify a checkpoint together.
 * Any other part is verified before it is first read, since a rank's copy of the folder may differ from those of other
 * ranks. */
sl_status sl_checkpoint_open_share(const char *path, int share, int shares, sl_checkpoint **checkpoint);
/* The checksum that a checkpoint's manifest states. Two folders with the same one hold the same checkpoint if both are
 * whole. SL_EFORMAT, SL_EIO, SL_ENOMEM. */
sl_status sl_checkpoint_checksum(const char *path, char text[17]);
void sl_checkpoint_close(sl_checkpoint *checkpoint); /* NULL is allowed */

/* The results of the functions below are valid until the checkpoint is closed. */
const char *sl_checkpoint_folder(const sl_checkpoint *checkpoint);
int64_t sl_checkpoint_step(const sl_checkpoint *checkpoint);
/* The header that the writer was given. */
const json_t *sl_checkpoint_header(const sl_checkpoint *checkpoint);
/* A member of the header: strings unchanged, other values as JSON text; NULL: no such member. */
const char *sl_checkpoint_metadata(const sl_checkpoint *checkpoint, const char *key);
int sl_checkpoint_count(const sl_checkpoint *checkpoint);
const sl_named_array *sl_checkpoint_get(const sl_checkpoint *checkpoint, int i); /* of whole shape */
int sl_checkpoint_find(const sl_checkpoint *checkpoint, const char *name);       /* -1 when there is none */
/* The file that holds tensor i, or its first rows. */
const char *sl_checkpoint_file(const sl_checkpoint *checkpoint, int i);
/* Reads all of tensor i into data, which has room for it. SL_EIO, SL_EFORMAT (changed). */
sl_status sl_checkpoint_read(const sl_checkpoint *checkpoint, int i, void *data);

/* Reads a whole file: returns its size, and its checksum in the form of manifests. fresh: reads from the disk instead
 * of the system's cache, as far as the system drops the cached pages. SL_EFORMAT (no such file), SL_EIO, SL_ENOMEM. */
sl_status sl_checkpoint_hash(const char *path, int fresh, uint64_t *bytes, char text[17]);

/* ---- for writing and tidying up --------------------------------------------------------------------------------- */

/* Adds the checksum of all other members to a manifest. */
sl_status sl_checkpoint_seal(json_t *manifest);
/* "FOLDER/.step-00001200.partial": a checkpoint that is being written or removed. */
char *sl_checkpoint_partial(const char *folder, int64_t step);
/* Removes the checkpoint of a step. Renames it to a partial one first, so that nobody reads half of a checkpoint. */
sl_status sl_checkpoint_remove(const char *folder, int64_t step);
/* Renames the checkpoint of a step to refused-..., where nothing reads it. */
sl_status sl_checkpoint_put_aside(const char *folder, int64_t step);
/* Removes partial checkpoints and other leftovers of a killed run; with all != 0 also all checkpoints and the folder.
 * Files of others stay, and then *others is 1 (NULL is allowed). A folder that does not exist is no error. */
sl_status sl_checkpoint_tidy(const char *folder, int all, int *others);

#ifdef __cplusplus
}
#endif
#endif
