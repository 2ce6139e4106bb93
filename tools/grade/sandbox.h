/* A sandbox for untrusted programs. bubblewrap (bwrap) gives each program PID, mount, network, IPC and user namespaces
 * of its own. A program sees the system's programs and libraries (read-only), Starling's headers and library, the
 * command and starling-sim if it may simulate, its own folder, and a small /tmp that is removed when it ends. It sees
 * no other submission, no solution, no home and no network. Its environment is made here and takes nothing from the
 * caller. */
#ifndef SL_TOOLS_SANDBOX_H
#define SL_TOOLS_SANDBOX_H

#include "tools/grade/trial.h"

enum { SL__SANDBOX_WORDS = 256 };

typedef struct sl__sandbox {
  int on;                        /* 0: nothing but trial.h's limits */
  int with_prlimit;              /* the number of processes is bounded by the kernel, too */
  uid_t uid;                     /* user that programs run as, another one if root grades; 0: the caller's */
  char *word[SL__SANDBOX_WORDS]; /* bwrap's arguments but for the program's folder */
  int n;
  char *environment[16];
  char *simulator, *starling; /* paths of starling-sim and of the command; NULL: starling-sim is not built */
  int simulates;              /* 0: both are hidden from the programs that run next */
} sl__sandbox;

/* Finds out what this machine allows. home: the home and temporary folder of programs if there is no sandbox.
 * hidden: folders, ended by NULL, in whose place programs see an empty one (others than the system's they do not see
 * anyway). unprotected: if bubblewrap is missing or the kernel refuses, 1 goes on without a sandbox, and 0 fails with
 * SL_EUNSUPPORTED and a text that says what would help. The caller calls sl__sandbox_free, also after a failure. */
sl_status sl__sandbox_create(const char *home, const char *const *hidden, int unprotected, sl__sandbox *sandbox);
void sl__sandbox_free(sl__sandbox *sandbox);

/* Gives a folder and the files in it to the user that programs run as. */
sl_status sl__sandbox_give(const sl__sandbox *sandbox, const char *folder);
/* sl__try in the sandbox. The program starts in `folder`, and may write there only if may_write is set. in: its
 * standard input, -1: none. */
sl_status sl__sandbox_try(const sl__sandbox *sandbox, const char *folder, int may_write, int in, char *const argv[],
                          const sl__limits *limits, sl__trial *trial);

#endif
