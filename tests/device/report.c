/* Describes faults: the kernel, where it was launched and by which functions, the block and thread, the access. */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device.h"

/* ---- names of functions ------------------------------------------------------------------------------------------ */

typedef struct search {
  uintptr_t address, base;
  const char *file;
} search;

static int holds(struct dl_phdr_info *info, size_t size, void *to) {
  search *s = to;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type != PT_LOAD || s->address - (info->dlpi_addr + p->p_vaddr) >= p->p_memsz) continue;
    s->base = info->dlpi_addr;
    s->file = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
    return 1;
  }
  return 0;
}

/* Reads the symbol table of the file that holds the address, like a debugger, because most functions are not
 * exported. */
const char *emulated_symbol(void *address, char *text, size_t n) {
  search s = {.address = (uintptr_t)address};
  struct stat status;
  text[0] = 0;
  if (!dl_iterate_phdr(holds, &s)) return text;
  const int fd = open(s.file, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  const char *file =
      fstat(fd, &status) == 0 ? mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
  close(fd);
  if (file == MAP_FAILED) return text;
  const ElfW(Ehdr) *header = (const void *)file;
  const ElfW(Shdr) *section = (const void *)(file + header->e_shoff);
  uintptr_t nearest = 0;
  for (int i = 0; i < header->e_shnum; i++) {
    if (section[i].sh_type != SHT_SYMTAB) continue;
    const ElfW(Sym) *symbol = (const void *)(file + section[i].sh_offset);
    const char *names = file + section[section[i].sh_link].sh_offset;
    for (size_t k = 0; k < section[i].sh_size / sizeof *symbol; k++)
      if ((symbol[k].st_info & 15) == STT_FUNC && symbol[k].st_value > nearest &&
          s.base + symbol[k].st_value < s.address) {
        nearest = symbol[k].st_value;
        snprintf(text, n, "%s", names + symbol[k].st_name);
      }
  }
  munmap((void *)file, (size_t)status.st_size);
  return text;
}

/* The two innermost callers that have a C name: the function of an operation, and who called it. */
static void name_callers(const emulated_launch *l, char *text, size_t n) {
  char name[2][128];
  int found = 0;
  text[0] = 0;
  for (int i = 0; i < l->callers && found < 2; i++) {
    emulated_symbol(l->caller[i], name[found], sizeof name[found]);
    if (name[found][0] == 0 || name[found][0] == '_' || strncmp(name[found], "emulated_", 9) == 0 ||
        strncmp(name[found], "cublas", 6) == 0)
      continue;
    found++;
  }
  if (found) snprintf(text, n, ", launched by %s%s%s", name[0], found > 1 ? " of " : "", found > 1 ? name[1] : "");
}

/* ---- sentences --------------------------------------------------------------------------------------------------- */

static const char *thread_text(emulated_triple t, char *text, size_t n) {
  snprintf(text, n, "(%u,%u,%u)", t.x, t.y, t.z);
  return text;
}

/* The file without folders that do not matter: from codelets/, runtime/ or tests/ on. */
static const char *short_file(const char *file) {
  static const char *const top[] = {"codelets/", "runtime/", "tests/"};
  for (size_t i = 0; i < sizeof top / sizeof *top; i++) {
    const char *at = strstr(file, top[i]);
    if (at) return at;
  }
  return file;
}

void emulated_report_fault(device *d, const emulated_launch *l, const fault *f) {
  char callers[320], at[160], block[48], thread[48], other[48], what[1024];
  name_callers(l, callers, sizeof callers);
  thread_text(f->block, block, sizeof block);
  thread_text(f->thread, thread, sizeof thread);
  thread_text(f->other, other, sizeof other);
  emulated_describe(d, f->address, at, sizeof at);
  const char *verb = f->write ? "writes" : "reads", *other_verb = f->other_write ? "wrote" : "read";
  void *address = (void *)f->address;
  Dl_info symbol;
  switch (f->kind) {
    case FAULT_OUTSIDE:
      snprintf(what, sizeof what, "%s %d bytes outside its memory: %p, %s", verb, f->bytes, address, at);
      break;
    case FAULT_FRESH:
      snprintf(what, sizeof what, "reads %d bytes that nothing has written: %p, %s", f->bytes, address, at);
      break;
    case FAULT_HOST:
      snprintf(what, sizeof what, "%s %d bytes of host memory: %p", verb, f->bytes, address);
      break;
    case FAULT_PEER:
      snprintf(what, sizeof what, "%s %d bytes of GPU %d's memory: %p", verb, f->bytes,
               emulated_owner(address) ? emulated_owner(address)->number : -1, address);
      break;
    case FAULT_CONSTANT:
      snprintf(what, sizeof what, "writes %d bytes of constants: %p", f->bytes, address);
      break;
    case FAULT_SHARED:
      snprintf(what, sizeof what, "%s %d bytes outside the block's arrays in shared memory, at byte %zu", verb,
               f->bytes, (size_t)f->address);
      break;
    case FAULT_FRESH_SHARED:
      snprintf(what, sizeof what,
               "reads %d bytes of shared memory that nothing has written yet, at byte %zu (is a barrier missing?)",
               f->bytes, (size_t)f->address);
      break;
    case FAULT_RACE:
      snprintf(what, sizeof what,
               "%s %d bytes of shared memory at byte %zu that thread %s %s, with no barrier between them", verb,
               f->bytes, (size_t)f->address, other, other_verb);
      break;
    case FAULT_DIVERGED:
      snprintf(what, sizeof what, "waits at %s:%d, but thread %s at %s:%d: threads diverge at a barrier",
               short_file(f->file), f->line, other, short_file(f->other_file), f->other_line);
      break;
    case FAULT_ENDED:
      snprintf(what, sizeof what,
               "waits at %s:%d for ever, as do %d others: %d threads of the block have ended without it",
               f->file ? short_file(f->file) : "?", f->line, f->waiting - 1, f->ended);
      break;
    case FAULT_LANES:
      snprintf(what, sizeof what, "names lanes %#x at %s:%d: not itself and all other lanes of its warp",
               (unsigned)f->address, short_file(f->file), f->line);
      break;
    case FAULT_LIMIT:
      snprintf(what, sizeof what,
               "needs %zu bytes of shared memory: a block has %d, of which arrays of fixed size take %d",
               (size_t)f->address, SHARED_BYTES, SHARED_DEFAULT);
      break;
    case FAULT_LIBM:
      snprintf(what, sizeof what, "calls a function of the host's libm (%s, or one beside it): a GPU's has other bits",
               dladdr(address, &symbol) && symbol.dli_sname ? symbol.dli_sname : "?");
      break;
    case FAULT_SIGNAL:
      snprintf(what, sizeof what, "ends by signal %d (%s) at %p", f->signal, strsignal(f->signal), address);
      break;
    case FAULT_TIME:
      snprintf(what, sizeof what, "still runs after %g s (EMULATED_PATIENCE)", emulated_settings.patience);
      break;
    case FAULT_DEAD:
      snprintf(what, sizeof what, "finds no process to run in, or its process was killed");
      break;
    case FAULT_WISHED:
      snprintf(what, sizeof what, "fails, as EMULATED_FAIL wishes");
      break;
    default:
      snprintf(what, sizeof what, "fails");
  }
  if (f->has_thread)
    emulated_say(d->number, "kernel %s (%s:%d%s), block %s, thread %s: %s", l->kernel, short_file(l->file), l->line,
                 callers, block, thread, what);
  else
    emulated_say(d->number, "kernel %s (%s:%d%s): %s", l->kernel, short_file(l->file), l->line, callers, what);
}
