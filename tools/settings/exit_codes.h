/* The command's exit codes. docs/reference/formats.md lists them. */
#ifndef SL_TOOLS_EXIT_CODES_H
#define SL_TOOLS_EXIT_CODES_H

/* name, code, meaning */
#define SL__EXIT_LIST(X)                                                                                        \
  X(SL__EXIT_DONE, 0, "Done.")                                                                                  \
  X(SL__EXIT_FAILURE, 1, "Failure; the message names the error and the remedy.")                                \
  X(SL__EXIT_USAGE, 2, "An option, key or argument is wrong.")                                                  \
  X(SL__EXIT_UNCALIBRATED, 3, "Refused: performance models lack samples; see calibrate.")                       \
  X(SL__EXIT_SPIKE, 65, "The loss leapt; see --on-spike.") /* EX_DATAERR of sysexits.h */                       \
  X(SL__EXIT_MEMORY, 71, "The memory of a rank differs from the others'; see --verify-every.") /* OSERR */      \
  X(SL__EXIT_UNWRITTEN, 74, "A file could not be stored: full disk, quota or failing disk.")   /* EX_IOERR */   \
  X(SL__EXIT_CHECKPOINTED, 75, "Stopped by a signal after writing a checkpoint; continue with --resume.")       \
  X(SL__EXIT_LOST, 76,                                                                                          \
    "A rank was lost: it was killed, or stood still for --stall-timeout (its disk for --disk-timeout); "        \
    "continue with --resume, or see --restarts.")                                                               \
  X(SL__EXIT_INTERRUPTED, 130,                                                                                  \
    "SIGINT ended the process at once: it came before training began, or a second time; compare, stopped by a " \
    "signal, has printed the measurements until then.")                                                         \
  X(SL__EXIT_TERMINATED, 143, "SIGTERM ended the process at once: it came before training began, or a second time.")
enum {
#define SL__EXIT_ENUM(name, code, meaning) name = code,
  SL__EXIT_LIST(SL__EXIT_ENUM)
#undef SL__EXIT_ENUM
};

#endif
