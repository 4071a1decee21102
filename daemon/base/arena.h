/* Memory for decoding one request: bump allocation under a cap, all freed at once. One thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct pjrtd_arena_block pjrtd_arena_block;

typedef struct {
  uint8_t *cursor, *end;
  pjrtd_arena_block *blocks; /* owned, newest first; the oldest is kept over resets */
  size_t used_bytes;         /* asked of the system since the last reset, the kept block aside */
  size_t cap_bytes;
} pjrtd_arena;

void pjrtd_arena_init(pjrtd_arena *arena, size_t cap_bytes);
void pjrtd_arena_deinit(pjrtd_arena *arena);
/* 16-byte aligned; NULL beyond the cap or without memory. Valid until the reset. */
void *pjrtd_arena_alloc(pjrtd_arena *arena, size_t size_bytes);
void pjrtd_arena_reset(pjrtd_arena *arena);
