/* See arena.h. */
#include "base/arena.h"

#include <stdbool.h>

#include "base/alloc.h"

#define BLOCK_BYTES (16u << 10)

struct pjrtd_arena_block {
  pjrtd_arena_block *older;
  size_t size_bytes;
  _Alignas(16) uint8_t data[];
};

void pjrtd_arena_init(pjrtd_arena *arena, size_t cap_bytes) {
  *arena = (pjrtd_arena){.cap_bytes = cap_bytes};
}

static void free_blocks(pjrtd_arena *arena, bool keep_oldest) {
  while (arena->blocks && (!keep_oldest || arena->blocks->older)) {
    pjrtd_arena_block *older = arena->blocks->older;
    pjrtd_free(arena->blocks);
    arena->blocks = older;
  }
}

void pjrtd_arena_deinit(pjrtd_arena *arena) {
  free_blocks(arena, false);
  *arena = (pjrtd_arena){0};
}

void pjrtd_arena_reset(pjrtd_arena *arena) {
  free_blocks(arena, true);
  if (!arena->blocks) return;
  arena->cursor = arena->blocks->data;
  arena->end = arena->cursor + arena->blocks->size_bytes;
  arena->used_bytes = 0;
}

void *pjrtd_arena_alloc(pjrtd_arena *arena, size_t size_bytes) {
  if (size_bytes > arena->cap_bytes) return NULL;
  size_t rounded = (size_bytes + 15) & ~(size_t)15;
  if (rounded > (size_t)(arena->end - arena->cursor) || !arena->blocks) {
    size_t room = rounded > BLOCK_BYTES ? rounded : BLOCK_BYTES;
    if (arena->blocks && arena->used_bytes + room > arena->cap_bytes) return NULL;
    pjrtd_arena_block *block = pjrtd_malloc(sizeof *block + room);
    if (!block) return NULL;
    if (arena->blocks) arena->used_bytes += room;
    block->older = arena->blocks;
    block->size_bytes = room;
    arena->blocks = block;
    arena->cursor = block->data;
    arena->end = block->data + room;
  }
  void *memory = arena->cursor;
  arena->cursor += rounded;
  return memory;
}
