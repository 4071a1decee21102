/* The memory of one decoded reply: allocations that end together, with a bound on their sum, because what a message
 * unpacks to can be much larger than the message. One thread at a time. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

/* A payload is at most 1 MiB; this is what one may become. */
#define PJRTC_REPLY_MAX_BYTES ((size_t)64 << 20)

typedef struct pjrtc_reply_arena pjrtc_reply_arena;

/* NULL where memory is out. */
pjrtc_reply_arena *pjrtc_reply_arena_create(void);
/* NULL is fine. */
void pjrtc_reply_arena_destroy(pjrtc_reply_arena *arena);
/* 16-byte aligned, not cleared; NULL where memory or the bound is reached. */
void *pjrtc_reply_arena_alloc(pjrtc_reply_arena *arena, size_t size_bytes);
/* Cleared. */
void *pjrtc_reply_arena_zalloc(pjrtc_reply_arena *arena, size_t size_bytes);
/* An allocation failed: what could not be decoded may have been right. */
bool pjrtc_reply_arena_failed(const pjrtc_reply_arena *arena);
/* For protobuf-c's unpack; its free does nothing. Borrowed from the arena. */
ProtobufCAllocator *pjrtc_reply_arena_allocator(pjrtc_reply_arena *arena);

/* A public result object lives in its arena, right behind a pointer to it. */
void *pjrtc_reply_object_create(pjrtc_reply_arena *arena, size_t size_bytes);
void pjrtc_reply_object_destroy(void *object);
