/* See reply_arena.h. */
#include "reply_arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "heap.h"

enum { ALIGNMENT = 16, FIRST_CHUNK_BYTES = 4096 };

typedef struct chunk {
  struct chunk *next;
  size_t padding;
} chunk;
_Static_assert(sizeof(chunk) % ALIGNMENT == 0, "blocks behind a chunk's head are aligned");

struct pjrtc_reply_arena {
  chunk *chunks;
  uint8_t *cursor, *end;
  size_t total_bytes;
  size_t next_chunk_bytes;
  bool failed;
  ProtobufCAllocator allocator;
};

static void *allocator_alloc(void *data, size_t size_bytes) {
  return pjrtc_reply_arena_alloc(data, size_bytes);
}
static void allocator_free(void *data, void *block) {}

pjrtc_reply_arena *pjrtc_reply_arena_create(void) {
  pjrtc_reply_arena *arena = pjrtc_heap_zalloc(sizeof *arena);
  if (!arena) return NULL;
  arena->next_chunk_bytes = FIRST_CHUNK_BYTES;
  arena->allocator = (ProtobufCAllocator){allocator_alloc, allocator_free, arena};
  return arena;
}

void pjrtc_reply_arena_destroy(pjrtc_reply_arena *arena) {
  if (!arena) return;
  for (chunk *c = arena->chunks; c;) {
    chunk *next = c->next;
    free(c);
    c = next;
  }
  free(arena);
}

void *pjrtc_reply_arena_alloc(pjrtc_reply_arena *arena, size_t size_bytes) {
  if (size_bytes > PJRTC_REPLY_MAX_BYTES - ALIGNMENT) return NULL;
  size_t rounded = size_bytes ? (size_bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1) : ALIGNMENT;
  if (rounded > PJRTC_REPLY_MAX_BYTES - arena->total_bytes) return NULL;
  if ((size_t)(arena->end - arena->cursor) < rounded) {
    size_t want = rounded > arena->next_chunk_bytes ? rounded : arena->next_chunk_bytes;
    chunk *c = pjrtc_heap_alloc(sizeof *c + want);
    if (!c) {
      arena->failed = true;
      return NULL;
    }
    if (arena->next_chunk_bytes < (1u << 20)) arena->next_chunk_bytes *= 2;
    c->next = arena->chunks;
    arena->chunks = c;
    arena->cursor = (uint8_t *)(c + 1);
    arena->end = arena->cursor + want;
  }
  void *block = arena->cursor;
  arena->cursor += rounded;
  arena->total_bytes += rounded;
  return block;
}

void *pjrtc_reply_arena_zalloc(pjrtc_reply_arena *arena, size_t size_bytes) {
  void *block = pjrtc_reply_arena_alloc(arena, size_bytes);
  return block ? memset(block, 0, size_bytes) : NULL;
}

bool pjrtc_reply_arena_failed(const pjrtc_reply_arena *arena) {
  return arena->failed;
}

ProtobufCAllocator *pjrtc_reply_arena_allocator(pjrtc_reply_arena *arena) {
  return &arena->allocator;
}

void *pjrtc_reply_object_create(pjrtc_reply_arena *arena, size_t size_bytes) {
  uint8_t *block = pjrtc_reply_arena_zalloc(arena, ALIGNMENT + size_bytes);
  if (!block) return NULL;
  memcpy(block, &arena, sizeof arena);
  return block + ALIGNMENT;
}

void pjrtc_reply_object_destroy(void *object) {
  if (!object) return;
  pjrtc_reply_arena *arena;
  memcpy(&arena, (uint8_t *)object - ALIGNMENT, sizeof arena);
  pjrtc_reply_arena_destroy(arena);
}
