/* Makes the manual page from the tables of commands and options, so that it agrees with the program. `starling
 * --manual` prints it; a test compares the output with man/starling.1. */
#include <config.h>
#include <stdio.h>

#include "runtime/base/status.h"
#include "tools/command/command.h"
#include "tools/settings/exit_codes.h"
#include "tools/settings/model.h"

/* Text with the hyphens and quotes that roff would change. */
static void print_escaped(FILE *file, const char *text) {
  for (; *text; text++) *text == '-' ? fputs("\\-", file) : *text == '\'' ? fputs("\\(aq", file) : fputc(*text, file);
}

static void print_exit_codes(FILE *file) {
#define ROW(name, code, meaning) {code, meaning},
  static const struct {
    int code;
    const char *meaning;
  } codes[] = {SL__EXIT_LIST(ROW)};
#undef ROW
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    fprintf(file, ".TP\n.B %d\n", codes[i].code);
    print_escaped(file, codes[i].meaning);
    fputc('\n', file);
  }
}

void sl__print_manual(FILE *file) {
  fputs(
      ".\\\" Made by `starling --manual`; edit tools/settings/rows.h and tools/command/list.c instead.\n.TH "
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
  fputs(".SH EXIT STATUS\n", file);
  print_exit_codes(file);
  fputs(
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
