/* A mutator that knows frames: libFuzzer's own changes bytes, after which the lengths no longer fit and the daemon
 * reads no further. This one changes the payload or the bulk of one frame and mends its lengths, or repeats, drops or
 * swaps whole frames and numbers the calls anew; one time in four it leaves the input to libFuzzer. Only in fuzzing
 * builds. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frame.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size_bytes, size_t max_bytes);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size_bytes, size_t max_bytes, unsigned seed);

enum { MAX_FRAMES = 64 };

typedef struct {
  size_t at, payload_bytes, bulk_bytes;
} span;

static size_t whole_bytes(const span *frame) {
  return PJRTD_FRAME_HEADER_BYTES + frame->payload_bytes + frame->bulk_bytes;
}

static size_t find_frames(const uint8_t *data, size_t size_bytes, span frames[MAX_FRAMES]) {
  size_t count = 0, at = 1; /* the first byte is the style */
  while (count < MAX_FRAMES && size_bytes >= at + PJRTD_FRAME_HEADER_BYTES) {
    pjrtd_frame_header header;
    if (pjrtd_frame_decode(data + at, &header)) break;
    frames[count] = (span){at, header.payload_bytes, header.bulk_bytes};
    if (size_bytes - at < whole_bytes(&frames[count])) break;
    at += whole_bytes(&frames[count++]);
  }
  return count;
}

/* Replaces `old_bytes` at `at` with `new_bytes` of `with`; the new size. */
static size_t splice(uint8_t *data, size_t size_bytes, size_t at, size_t old_bytes, const uint8_t *with,
                     size_t new_bytes) {
  memmove(data + at + new_bytes, data + at + old_bytes, size_bytes - at - old_bytes);
  if (new_bytes) memcpy(data + at, with, new_bytes);
  return size_bytes - old_bytes + new_bytes;
}

static size_t mutate_part(uint8_t *data, size_t size_bytes, size_t max_bytes, const span *frame, bool bulk) {
  static uint8_t part[64 << 10];
  size_t old_bytes = bulk ? frame->bulk_bytes : frame->payload_bytes;
  if (old_bytes > sizeof part) return size_bytes;
  size_t at = frame->at + PJRTD_FRAME_HEADER_BYTES + (bulk ? frame->payload_bytes : 0);
  size_t most = max_bytes - (size_bytes - old_bytes);
  if (!most) return size_bytes; /* libFuzzer would write one byte all the same */
  if (most > sizeof part) most = sizeof part;
  memcpy(part, data + at, old_bytes);
  uint32_t new_bytes = (uint32_t)LLVMFuzzerMutate(part, old_bytes, most);
  size_bytes = splice(data, size_bytes, at, old_bytes, part, new_bytes);
  memcpy(data + frame->at + (bulk ? 8 : 4), &new_bytes, sizeof new_bytes);
  return size_bytes;
}

/* Requests get the numbers 1, 2, 3, ...; other frames one that was used. */
static void number_calls(uint8_t *data, size_t size_bytes, unsigned seed) {
  span frames[MAX_FRAMES];
  size_t count = find_frames(data, size_bytes, frames);
  uint64_t call = 0;
  for (size_t i = 0; i < count; i++) {
    uint8_t *head = data + frames[i].at;
    uint64_t chosen = head[14] == PJRTD_FRAME_REQUEST ? ++call : call - (call > 1 ? seed % 2 : 0);
    if (chosen) memcpy(head + 16, &chosen, sizeof chosen);
  }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size_bytes, size_t max_bytes, unsigned seed) {
  span frames[MAX_FRAMES];
  size_t count = size_bytes ? find_frames(data, size_bytes, frames) : 0;
  if (!count || seed % 4 == 0) return LLVMFuzzerMutate(data, size_bytes, max_bytes);
  srand(seed);
  const span *chosen = &frames[(size_t)rand() % count];
  size_t whole = whole_bytes(chosen);
  switch (rand() % 8) {
    case 0: /* again, somewhere else */
      if (size_bytes + whole <= max_bytes) {
        uint8_t *copy = malloc(whole);
        if (!copy) return size_bytes;
        memcpy(copy, data + chosen->at, whole);
        size_bytes = splice(data, size_bytes, frames[(size_t)rand() % count].at, 0, copy, whole);
        free(copy);
      }
      break;
    case 1: /* gone */
      if (count > 1) size_bytes = splice(data, size_bytes, chosen->at, whole, NULL, 0);
      break;
    case 2: { /* another method, kind, flags or deadline */
      static const uint8_t places[] = {12, 13, 14, 15, 24, 26, 29};
      data[chosen->at + places[(size_t)rand() % sizeof places]] ^= (uint8_t)(1 << rand() % 8);
      break;
    }
    case 3: size_bytes = mutate_part(data, size_bytes, max_bytes, chosen, true); break;
    case 4: data[0] = (uint8_t)rand(); break;
    default: size_bytes = mutate_part(data, size_bytes, max_bytes, chosen, false); break;
  }
  if (rand() % 8) number_calls(data, size_bytes, seed);
  return size_bytes;
}
