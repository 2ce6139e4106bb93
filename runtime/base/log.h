/* Logging. The library passes each message to one sink, which the program installs. Without a sink it is silent. */
#ifndef SL_LOG_H
#define SL_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sl_log_level { SL_LOG_DEBUG, SL_LOG_INFO, SL_LOG_WARNING, SL_LOG_ERROR } sl_log_level;
typedef void (*sl_log_sink)(sl_log_level level, const char *message, void *arg);

/* Installs the sink (NULL: none), which receives messages of level `least` and above. Call before threads start. */
void sl_log_set(sl_log_sink sink, void *arg, sl_log_level least);
void sl_log(sl_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif
#endif
