/* Makes the manual page from the tables of commands and options, so that it agrees with the program. `starling
 * --manual` prints it; a test compares the output with man/starling.1. */
#include <config.h>
#include <stdio.h>

#include "tools/command/command.h"
#include "tools/settings/model.h"

void sl__print_manual(FILE *file) {
  fputs(
      ".\\\" Made by `starling --manual`; edit tools/settings/rows.h and tools/command/starling.c instead.\n.TH "
      "STARLING 1 \"\" "
      "\"" PACKAGE_STRING
      "\"\n"
      ".SH NAME\nstarling \\- train neural networks as a graph of StarPU tasks\n.SH SYNOPSIS\n",
      file);
  for (int i = 0; sl__commands[i]; i++)
    fprintf(file, "%s.B starling %s\n.RI \"%s\" [ OPTION ]...\n", i ? ".br\n" : "", sl__commands[i]->name,
            sl__commands[i]->arguments);
  fputs(".SH COMMANDS\n", file);
  for (int i = 0; sl__commands[i]; i++)
    fprintf(file, ".TP\n.B %s %s\n%s.\n%s\n", sl__commands[i]->name, sl__commands[i]->arguments,
            sl__commands[i]->summary, sl__commands[i]->description);
  fputs(
      ".SH OPTIONS\nIn brackets: the commands that take the option, unless all do. The option names, with "
      "\\(aq\\-\\(aq or \\(aq_\\(aq, are the keys of the "
      "YAML file that\n.B \\-\\-config\nnames, such as\n.IR \"batch: 256\" ;\noptions on the command line override the "
      "file, the "
      "file overrides a resumed run\\(aqs configuration, "
      "and that overrides defaults.\n",
      file);
  sl__options_manual(sl__commands, file);
  fputs(
      ".SH MODELS AND SIZES\nEach family with its models, their sizes, and the sizes that\n.B \\-\\-size\nmay "
      "change:\n",
      file);
  sl__models_manual(file);
  fputs(
      ".SH EXIT STATUS\n.TP\n.B 0\nDone.\n.TP\n.B 1\nFailure; the message names the error and the remedy.\n.TP\n.B "
      "2\nAn option, key or "
      "argument is wrong.\n.TP\n.B 3\n"
      "Refused: performance models lack samples; see calibrate.\n.TP\n.B 75\nStopped by a signal after writing a "
      "checkpoint; continue with \\-\\-resume.\n"
      ".TP\n.B 76\nA rank was lost: it was killed, or stood still for \\-\\-stall\\-timeout; continue with "
      "\\-\\-resume, or see \\-\\-restarts.\n"
      ".TP\n.B 130\nStopped by a signal; compare has printed the measurements until then.\n"
      ".SH FILES\nThe files of a run directory, their fields and units are described in docs/reference/formats.md.\n"
      ".SH ENVIRONMENT\nStarPU\\(aqs variables\n.RB ( STARPU_SCHED ,\n.BR STARPU_HOME ,\nand others) take effect, "
      "except "
      "those that bind workers: Starling "
      "pins them itself.\n"
      ".SH EXAMPLES\n.nf\nstarling train lenet \\-\\-until accuracy=0.905 \\-\\-out runs/first\nstarling train "
      "\\-\\-resume \\-\\-out runs/first\n"
      "starling eval runs/first\nstarling predict runs/first shirt.png\nstarling bench mlp \\-\\-sched dmdas\nstarling "
      "graph lenet \\-\\-dot | dot \\-Tsvg >lenet.svg\n"
      "mpiexec.mpich \\-n 2 starling info\n.fi\n",
      file);
}
