/* Names of functions: for libraries from the dynamic linker; for this program, static functions included, from the
 * symbol table of its file. A stripped program has no table; then offsets are given. */
#include "tools/watch/symbols.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct table {
  int read;
  const ElfW(Sym) * symbol;
  size_t n;
  const char *names;
  size_t names_n;
  int moved; /* a position-independent program: addresses count from where it was loaded */
} own;

static int inside(const struct stat *info, uint64_t offset, uint64_t bytes) {
  return offset <= (uint64_t)info->st_size && bytes <= (uint64_t)info->st_size - offset;
}

static void take(const char *file, const struct stat *info) {
  const ElfW(Ehdr) *head = (const void *)file;
  if (info->st_size < (off_t)sizeof *head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
      head->e_shentsize != sizeof(ElfW(Shdr)) ||
      !inside(info, head->e_shoff, (uint64_t)head->e_shnum * sizeof(ElfW(Shdr))))
    return;
  const ElfW(Shdr) *section = (const void *)(file + head->e_shoff);
  own.moved = head->e_type == ET_DYN;
  for (int i = 0; i < head->e_shnum; i++) {
    if (section[i].sh_type != SHT_SYMTAB || section[i].sh_link >= head->e_shnum) continue;
    const ElfW(Shdr) *text = &section[section[i].sh_link];
    if (!inside(info, section[i].sh_offset, section[i].sh_size) || !inside(info, text->sh_offset, text->sh_size))
      return;
    own.symbol = (const void *)(file + section[i].sh_offset), own.n = section[i].sh_size / sizeof *own.symbol;
    own.names = file + text->sh_offset, own.names_n = text->sh_size;
  }
}

static void read_own(void) {
  struct stat info;
  own.read = 1;
  const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (fstat(fd, &info) == 0 && info.st_size > 0) {
    void *file = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0); /* stays */
    if (file != MAP_FAILED) take(file, &info);
  }
  close(fd);
}

static const char *own_name(uintptr_t at, uintptr_t *begin) {
  for (size_t i = 0; i < own.n; i++) {
    const ElfW(Sym) *s = &own.symbol[i];
    if (ELF64_ST_TYPE(s->st_info) != STT_FUNC || at < s->st_value || at - s->st_value >= s->st_size) continue;
    if (s->st_name >= own.names_n) return NULL;
    *begin = s->st_value;
    return own.names + s->st_name;
  }
  return NULL;
}

char *sl__symbol_of(const void *address, char *text, size_t n) {
  Dl_info object = {0}, here = {0};
  const uintptr_t at = (uintptr_t)address;
  if (!own.read) read_own();
  if (dladdr(address, &object) == 0 || !object.dli_fname) {
    snprintf(text, n, "%p", address);
    return text;
  }
  const char *file = strrchr(object.dli_fname, '/') ? strrchr(object.dli_fname, '/') + 1 : object.dli_fname;
  dladdr((const void *)(uintptr_t)read_own, &here);
  const int ours = object.dli_fbase == here.dli_fbase;
  const uintptr_t base = ours && !own.moved ? 0 : (uintptr_t)object.dli_fbase;
  uintptr_t begin = 0;
  const char *name = ours ? own_name(at - base, &begin) : NULL;
  if (name)
    snprintf(text, n, "%s+0x%lx", name, (unsigned long)(at - base - begin));
  else if (object.dli_sname)
    snprintf(text, n, "%s+0x%lx (%s)", object.dli_sname, (unsigned long)(at - (uintptr_t)object.dli_saddr), file);
  else
    snprintf(text, n, "%s+0x%lx", file, (unsigned long)(at - base));
  return text;
}
