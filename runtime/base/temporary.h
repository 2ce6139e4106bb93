/* A temporary folder or file that goes when the process ends, by its end or by a signal. One at a time. */
#ifndef SL_TEMPORARY_H
#define SL_TEMPORARY_H

#ifdef __cplusplus
extern "C" {
#endif

/* From now on SIGINT, SIGTERM and SIGHUP remove it before they end the process. path is copied; at most 4,095 bytes. */
void sl_temporary_guard(const char *path);
/* Removes a file, or a folder with all that is in it; signals remove nothing any more. */
void sl_temporary_remove(const char *path);

#ifdef __cplusplus
}
#endif

#endif
