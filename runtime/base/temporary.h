/* A temporary folder or file that goes when the process ends, by its end or by a signal. One at a time. */
#ifndef SL_TEMPORARY_H
#define SL_TEMPORARY_H

#ifdef __cplusplus
extern "C" {
#endif

/* Make and guard a folder (mkdtemp) or a file (mkstemp). Return 0, or the file's descriptor; -1 and errno if they fail.
 */
int sl_temporary_folder(char *path);
int sl_temporary_file(char *path);
/* From now on SIGINT, SIGTERM and SIGHUP remove it before they end the process. path is copied; at most 4,095 bytes. */
void sl_temporary_guard(const char *path);
/* Before exec: these signals wait until the program that follows guards the folder or removes it. */
void sl_temporary_hand_over(void);
/* Removes a file, or a folder with all that is in it; signals remove nothing any more. */
void sl_temporary_remove(const char *path);

#ifdef __cplusplus
}
#endif

#endif
