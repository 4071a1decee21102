/* See error_reply.h. */
#include "error_reply.h"

#include <inttypes.h>
#include <stdio.h>

#include "pjrtd/v1/common.pb-c.h"
#include "reply_arena.h"

static size_t append(char *out, size_t size, size_t used, const Pjrtd__V1__Attribute *attribute) {
  char value[64] = "";
  const char *text = value;
  switch (attribute->value_case) {
    case PJRTD__V1__ATTRIBUTE__VALUE_TEXT: text = attribute->text; break;
    case PJRTD__V1__ATTRIBUTE__VALUE_INTEGER: snprintf(value, sizeof value, "%" PRId64, attribute->integer); break;
    case PJRTD__V1__ATTRIBUTE__VALUE_REAL: snprintf(value, sizeof value, "%g", attribute->real); break;
    case PJRTD__V1__ATTRIBUTE__VALUE_BOOLEAN: text = attribute->boolean ? "true" : "false"; break;
    default: break;
  }
  int wanted = snprintf(out + used, size - used, "%s%s=%s", used ? " " : "", attribute->name, text);
  if (wanted < 0 || (size_t)wanted >= size - used) {
    out[used] = '\0'; /* only whole ones */
    return used;
  }
  return used + (size_t)wanted;
}

pjrtc_failure *pjrtc_error_reply_convert(const Pjrtd__V1__Error *message, uint64_t call) {
  char allocator[512] = "";
  size_t used = 0;
  for (size_t i = 0; i < message->n_allocator; i++)
    used = append(allocator, sizeof allocator, used, message->allocator[i]);
  return pjrtc_failure_create(&(pjrtc_failure_parts){
      .code = message->code >= 1 && message->code <= 16 ? (pjrtc_code)message->code : PJRTC_UNKNOWN,
      .call = call,
      .origin_call = message->origin_call,
      .retry_after_ns = message->retry_after_ns,
      .has_argument = message->argument != NULL,
      .argument_index = message->argument ? message->argument->index : 0,
      .message = message->message,
      .hint = message->hint,
      .expected = message->argument ? message->argument->expected : NULL,
      .actual = message->argument ? message->argument->actual : NULL,
      .allocator = allocator,
  });
}

pjrtc_failure *pjrtc_error_reply_read(const uint8_t *payload, size_t payload_bytes, uint64_t call) {
  pjrtc_reply_arena *arena = pjrtc_reply_arena_create();
  if (!arena) return pjrtc_failure_oom();
  Pjrtd__V1__Error *message = pjrtd__v1__error__unpack(pjrtc_reply_arena_allocator(arena), payload_bytes, payload);
  pjrtc_failure *failure = message ? pjrtc_error_reply_convert(message, call)
                           : pjrtc_reply_arena_failed(arena)
                               ? pjrtc_failure_oom()
                               : pjrtc_failure_create(&(pjrtc_failure_parts){
                                     .code = PJRTC_INTERNAL,
                                     .call = call,
                                     .message = "the call failed, and the server's error cannot be decoded"});
  pjrtc_reply_arena_destroy(arena);
  return failure;
}
