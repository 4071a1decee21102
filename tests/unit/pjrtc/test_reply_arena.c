/* The memory of replies is bounded. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtd/v1/runtime.pb-c.h"
#include "reply_arena.h"

Test(reply_arena, gives_aligned_memory_up_to_its_bound) {
  pjrtc_reply_arena *arena = pjrtc_reply_arena_create();
  size_t total = 0;
  for (size_t size = 1;; size = size * 3 % 100003) {
    uint8_t *block = pjrtc_reply_arena_alloc(arena, size);
    if (!block) break;
    cr_assert_eq((uintptr_t)block % 16, 0);
    memset(block, 1, size);
    total += size;
    cr_assert_leq(total, PJRTC_REPLY_MAX_BYTES);
  }
  cr_assert_gt(total, PJRTC_REPLY_MAX_BYTES - 200000);
  cr_assert_null(pjrtc_reply_arena_alloc(arena, SIZE_MAX));
  cr_assert_null(pjrtc_reply_arena_alloc(arena, SIZE_MAX - 15));
  pjrtc_reply_arena_destroy(arena);
}

Test(reply_arena, stops_a_message_that_unpacks_to_too_much) {
  /* 1 MiB of empty devices: two bytes each on the wire, well over a hundred in memory. */
  size_t size = 1 << 20;
  uint8_t *payload = malloc(size);
  for (size_t i = 0; i < size; i += 2) payload[i] = 0x0a, payload[i + 1] = 0;
  pjrtc_reply_arena *arena = pjrtc_reply_arena_create();
  cr_assert_null(pjrtd__v1__devices_reply__unpack(pjrtc_reply_arena_allocator(arena), size, payload));
  pjrtc_reply_arena_destroy(arena);
  free(payload);
}
