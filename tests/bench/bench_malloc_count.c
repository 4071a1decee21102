/* Counts a process's allocations from outside: LD_PRELOAD=bench_malloc_count.so PJRTD_BENCH_MALLOC_FILE=FILE program.
 *
 * The counters live in FILE, mapped shared, so that the driver reads them before and after a known number of calls
 * without asking the program. An allocation is put down to the main program where the code that asked for it lies in
 * its text (direct calls; what a library allocates on its behalf is the library's), so a plugin's own allocations are
 * told from the daemon's. Any thread. Must not allocate. */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The order is the driver's too. */
typedef struct {
  _Atomic uint64_t program_allocations, program_bytes;
  _Atomic uint64_t other_allocations, other_bytes;
  _Atomic uint64_t frees;
} malloc_counters;

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

#define EXPORT __attribute__((visibility("default")))

static malloc_counters unmapped; /* counts until the file is mapped, or where there is none */
static malloc_counters *_Atomic counters = &unmapped;
static uintptr_t program_start, program_end;

static int find_program(struct dl_phdr_info *info, size_t size, void *user) {
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    if (header->p_type != PT_LOAD || !(header->p_flags & PF_X)) continue;
    program_start = info->dlpi_addr + header->p_vaddr;
    program_end = program_start + header->p_memsz;
  }
  return 1; /* the first is the main program */
}

__attribute__((constructor)) static void map_counters(void) {
  dl_iterate_phdr(find_program, NULL);
  const char *path = getenv("PJRTD_BENCH_MALLOC_FILE");
  if (!path) return;
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  if (ftruncate(fd, sizeof(malloc_counters)) == 0) {
    void *mapped = mmap(NULL, sizeof(malloc_counters), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) counters = mapped;
  }
  close(fd);
}

static void add(_Atomic uint64_t *counter, uint64_t amount) {
  atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

static void count(void *caller, size_t size_bytes) {
  malloc_counters *c = counters;
  uintptr_t address = (uintptr_t)caller;
  if (address >= program_start && address < program_end) {
    add(&c->program_allocations, 1);
    add(&c->program_bytes, size_bytes);
  } else {
    add(&c->other_allocations, 1);
    add(&c->other_bytes, size_bytes);
  }
}

EXPORT void *malloc(size_t size) {
  count(__builtin_return_address(0), size);
  return __libc_malloc(size);
}

EXPORT void *calloc(size_t number, size_t size) {
  count(__builtin_return_address(0), number * size);
  return __libc_calloc(number, size);
}

EXPORT void *realloc(void *block, size_t size) {
  count(__builtin_return_address(0), size);
  return __libc_realloc(block, size);
}

EXPORT void *memalign(size_t alignment, size_t size) {
  count(__builtin_return_address(0), size);
  return __libc_memalign(alignment, size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
  count(__builtin_return_address(0), size);
  return __libc_memalign(alignment, size);
}

EXPORT int posix_memalign(void **out_block, size_t alignment, size_t size) {
  count(__builtin_return_address(0), size);
  void *block = __libc_memalign(alignment, size);
  if (!block) return ENOMEM;
  *out_block = block;
  return 0;
}

EXPORT void free(void *block) {
  if (block) add(&counters->frees, 1);
  __libc_free(block);
}
