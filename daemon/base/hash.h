/* A hash for tables: FNV-1a, 64 bits. Not for what others could choose to collide where that would matter. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

static inline uint64_t pjrtd_hash_bytes(const void *bytes, size_t size_bytes) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < size_bytes; i++) hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
  return hash;
}
