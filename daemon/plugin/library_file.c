/* Why a file cannot be opened as a plugin, in words that say what to do: the dynamic linker's own are short, and wrong
 * for a library of another processor. Start-up only. */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "plugin/pjrt_call.h"

static const struct {
  int machine;
  const char *name;
} machines[] = {{EM_X86_64, "x86-64"}, {EM_AARCH64, "aarch64"}, {EM_386, "32-bit x86"}, {EM_ARM, "32-bit ARM"},
                {EM_RISCV, "RISC-V"},  {EM_PPC64, "PowerPC"},   {EM_S390, "S/390"}};

static const char *machine_name(int machine, char text[32]) {
  for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
    if (machines[i].machine == machine) return machines[i].name;
  snprintf(text, 32, "ELF machine %d", machine);
  return text;
}

/* Of this program itself; 0 where it cannot be read. */
static size_t read_head(const char *path, Elf64_Ehdr *out) {
  memset(out, 0, sizeof *out);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  ssize_t got = read(file, out, sizeof *out);
  close(file);
  return got < 0 ? 0 : (size_t)got;
}

pjrtd_status *pjrtd_library_explain(const char *path, const char *reason) {
  Elf64_Ehdr head, own;
  size_t bytes = read_head(path, &head);
  if (bytes < SELFMAG || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
    return pjrtd_status_with_hint(
        PJRTD_INVALID("cannot open the plugin %s: it is not a shared library (it has no ELF header)", path),
        "name the plugin's shared library, a file that ends in .so, with --plugin FILE");
  char text[32], own_text[32];
  if (bytes == sizeof head && read_head("/proc/self/exe", &own) == sizeof own &&
      (head.e_machine != own.e_machine || head.e_ident[EI_CLASS] != own.e_ident[EI_CLASS]))
    return pjrtd_status_with_hint(
        PJRTD_INVALID("cannot open the plugin %s: it is a library for %s, this machine needs one for %s", path,
                      machine_name(head.e_machine, text), machine_name(own.e_machine, own_text)),
        "install the build of the plugin that is for this machine");
  size_t length = strlen(path); /* most reasons begin with the path already */
  if (strncmp(reason, path, length) == 0 && strncmp(reason + length, ": ", 2) == 0) reason += length + 2;
  return pjrtd_status_with_hint(
      PJRTD_INVALID("cannot open the plugin %s: %s", path, reason),
      strstr(reason, "undefined symbol") ? "it needs other versions of its libraries than those found here"
      : strstr(reason, "cannot open shared object file") ? "install that library, or add its folder to LD_LIBRARY_PATH"
                                                         : "the file is damaged: install the plugin anew");
}
