/* See page_pool.h. */
#include "base/page_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, bytes) ((void)(data), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(data, bytes) ((void)(data), (void)(bytes))
#endif

#define LEAST_ORDER 12 /* a page */
#define MOST_ORDER 46  /* half of what a process has */
#define PIECE_BYTES (UINT64_C(1) << 36)
/* AddressSanitizer is told of what is not taken, but of no more a block: its own account takes an eighth of that. */
#define POISONED_BYTES(order) ((order) < 26 ? UINT64_C(1) << (order) : UINT64_C(1) << 26)

typedef struct piece piece;
struct piece {
  piece *next;
  char *data;
  uint64_t bytes, used;
};

struct pjrtd_page_pool {
  piece *pieces;                      /* a list; the first one has room left */
  uint64_t piece_bytes;               /* 0: none are reserved ahead */
  pjrtd_pages *given[MOST_ORDER + 1]; /* lists, by order */
};

static pjrtd_status *reserve(pjrtd_page_pool *pool, uint64_t bytes, const char *what) {
  piece *fresh = pjrtd_calloc(1, sizeof *fresh);
  if (!fresh) return pjrtd_status_oom();
  void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    int error = errno;
    pjrtd_free(fresh);
    return pjrtd_status_from_errno(error, "mapping memory for %s", what);
  }
  madvise(data, bytes, MADV_NOHUGEPAGE);
  *fresh = (piece){.next = pool->pieces, .data = data, .bytes = bytes};
  pool->pieces = fresh;
  return PJRTD_OK;
}

/* Room for so much in the first piece. Where the address space is limited, that is a piece of its own. */
static pjrtd_status *make_room(pjrtd_page_pool *pool, uint64_t bytes, const char *what) {
  if (pool->pieces && pool->pieces->bytes - pool->pieces->used >= bytes) return PJRTD_OK;
  if (bytes < pool->piece_bytes) {
    pjrtd_status *status = reserve(pool, pool->piece_bytes, what);
    if (!status) return PJRTD_OK;
    pjrtd_status_destroy(status);
    pool->piece_bytes = 0;
  }
  return reserve(pool, bytes, what);
}

/* Whether the system takes all that is mapped for promised, and keeps it for us. */
static bool promises_are_kept(void) {
  char mode = 0;
  int file = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  bool strict = read(file, &mode, 1) == 1 && mode == '2';
  close(file);
  return strict;
}

pjrtd_status *pjrtd_page_pool_create(pjrtd_page_pool **out_pool) {
  pjrtd_page_pool *pool = *out_pool = pjrtd_calloc(1, sizeof *pool);
  if (!pool) return pjrtd_status_oom();
  if (promises_are_kept()) return PJRTD_OK;
  pool->piece_bytes = PIECE_BYTES;
  pjrtd_status_destroy(reserve(pool, PIECE_BYTES, "transfers"));
  return PJRTD_OK;
}

void pjrtd_page_pool_destroy(pjrtd_page_pool *pool) {
  if (!pool) return;
  for (int i = 0; i <= MOST_ORDER; i++)
    while (pool->given[i]) {
      pjrtd_pages *pages = pool->given[i];
      pool->given[i] = pages->next;
      ASAN_UNPOISON_MEMORY_REGION(pages->data, POISONED_BYTES(pages->order));
      pjrtd_free(pages);
    }
  while (pool->pieces) {
    piece *first = pool->pieces;
    pool->pieces = first->next;
    munmap(first->data, first->bytes);
    pjrtd_free(first);
  }
  pjrtd_free(pool);
}

pjrtd_status *pjrtd_page_pool_take(pjrtd_page_pool *pool, uint64_t bytes, const char *what, pjrtd_pages **out_pages) {
  *out_pages = NULL;
  unsigned order = LEAST_ORDER;
  while (order < MOST_ORDER && UINT64_C(1) << order < bytes) order++;
  uint64_t size = UINT64_C(1) << order;
  if (size < bytes) return pjrtd_status_from_errno(ENOMEM, "mapping memory for %s", what);
  pjrtd_pages *pages = pool->given[order];
  if (pages) {
    pool->given[order] = pages->next;
    ASAN_UNPOISON_MEMORY_REGION(pages->data, POISONED_BYTES(order));
  } else {
    PJRTD_TRY(make_room(pool, size, what));
    piece *from = pool->pieces;
    pages = pjrtd_calloc(1, sizeof *pages);
    if (!pages) return pjrtd_status_oom();
    *pages = (pjrtd_pages){.data = from->data + from->used, .order = order};
    from->used += size;
  }
  pages->next = NULL;
  *out_pages = pages;
  return PJRTD_OK;
}

void pjrtd_page_pool_give(pjrtd_page_pool *pool, pjrtd_pages *pages) {
  ASAN_POISON_MEMORY_REGION(pages->data, POISONED_BYTES(pages->order));
  pages->next = pool->given[pages->order];
  pool->given[pages->order] = pages;
}
