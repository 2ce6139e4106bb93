/* --precision auto: measures some steps in fp32 and in bf16, and chooses the faster. */
#ifndef SL_RUN_PRECISION_H
#define SL_RUN_PRECISION_H

#include "tools/run/job.h"

/* Sets the job's precision if the options say auto, and does nothing otherwise. Collective; call it when the data are
 * open, before sl__job_build. The measured steps leave no trace in the job. said: one line with the two times and the
 * choice; "" if the options name a precision. */
sl_status sl__precision_choose(sl__job *job, char *said, size_t n);

#endif
