/* Zeroed, page-aligned memory of any size, taken and given back without the kernel.
 *
 * To map and to unmap, the kernel takes the lock of the address space, and whoever asks for that waits for every page
 * fault, populate and mapping of other threads under way; on a busy machine, for those that lost their core meanwhile.
 * The pool reserves address space in large pieces, once, and hands out parts of it: powers of two, which come back to a
 * list each. Pages that were never written take no memory. One thread at a time. */
#pragma once

#include "base/status.h"

typedef struct pjrtd_page_pool pjrtd_page_pool;

typedef struct pjrtd_pages pjrtd_pages;
struct pjrtd_pages {
  void *data;
  /* The pool's own. */
  unsigned order;
  pjrtd_pages *next;
};

/* Reserves a first piece. Where the system does not allow that, or would keep the memory for it, each of what is taken
 * is mapped when it is taken first. */
PJRTD_MUST_USE pjrtd_status *pjrtd_page_pool_create(pjrtd_page_pool **out_pool);
/* Unmaps all, what is taken too. NULL is fine. */
void pjrtd_page_pool_destroy(pjrtd_page_pool *pool);

/* Without huge pages: to clear one at its first touch takes milliseconds on a virtual machine. RESOURCE_EXHAUSTED where
 * the system does not give so much, `what` says for what. */
PJRTD_MUST_USE pjrtd_status *pjrtd_page_pool_take(pjrtd_page_pool *pool, uint64_t bytes, const char *what,
                                                  pjrtd_pages **out_pages);
/* What was written must have been dropped by then (MADV_DONTNEED): who takes it next expects zeros. */
void pjrtd_page_pool_give(pjrtd_page_pool *pool, pjrtd_pages *pages);
