/* See failure.h. */
#include "failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heap.h"

static pjrtc_failure oom = {
    .code = PJRTC_RESOURCE_EXHAUSTED,
    .message_bytes = sizeof "out of memory in the client" - 1,
    .message = "out of memory in the client",
    .hint = "",
    .expected = "",
    .actual = "",
    .allocator = "",
};

pjrtc_failure *pjrtc_failure_oom(void) {
  return &oom;
}

static const char *place(char **cursor, const char *text, size_t length) {
  char *start = *cursor;
  if (length) memcpy(start, text, length);
  start[length] = '\0';
  *cursor += length + 1;
  return start;
}

pjrtc_failure *pjrtc_failure_create(const pjrtc_failure_parts *parts) {
  const char *texts[] = {parts->message, parts->hint, parts->expected, parts->actual, parts->allocator};
  size_t lengths[5], total = sizeof(pjrtc_failure);
  for (int i = 0; i < 5; i++) {
    lengths[i] = texts[i] ? strlen(texts[i]) : 0;
    total += lengths[i] + 1;
  }
  pjrtc_failure *failure = pjrtc_heap_alloc(total);
  if (!failure) return &oom;
  char *cursor = (char *)(failure + 1);
  *failure = (pjrtc_failure){
      .code = parts->code,
      .call = parts->call,
      .origin_call = parts->origin_call,
      .retry_after_ns = parts->retry_after_ns,
      .has_argument = parts->has_argument,
      .argument_index = parts->argument_index,
      .message_bytes = lengths[0],
  };
  atomic_init(&failure->refs, 1);
  failure->message = place(&cursor, texts[0], lengths[0]);
  failure->hint = place(&cursor, texts[1], lengths[1]);
  failure->expected = place(&cursor, texts[2], lengths[2]);
  failure->actual = place(&cursor, texts[3], lengths[3]);
  failure->allocator = place(&cursor, texts[4], lengths[4]);
  return failure;
}

pjrtc_failure *pjrtc_failure_make(pjrtc_code code, const char *hint, const char *format, ...) {
  char message[PJRTC_MESSAGE_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  return pjrtc_failure_create(&(pjrtc_failure_parts){.code = code, .message = message, .hint = hint});
}

pjrtc_failure *pjrtc_failure_retain(pjrtc_failure *failure) {
  if (failure != &oom) atomic_fetch_add_explicit(&failure->refs, 1, memory_order_relaxed);
  return failure;
}

void pjrtc_failure_release(pjrtc_failure *failure) {
  if (!failure || failure == &oom) return;
  if (atomic_fetch_sub_explicit(&failure->refs, 1, memory_order_acq_rel) == 1) free(failure);
}

/* Cuts between characters, so that what is left is still UTF-8 where the text was. */
static void copy_text(char *out, size_t size, const char *text) {
  size_t length = strlen(text);
  if (length >= size) {
    length = size - 1;
    while (length && ((unsigned char)text[length] & 0xc0) == 0x80) length--;
  }
  memcpy(out, text, length);
  out[length] = '\0';
}

pjrtc_code pjrtc_failure_report(const pjrtc_failure *failure, pjrtc_error *error) {
  pjrtc_code code = failure ? failure->code : PJRTC_OK;
  /* A struct that is smaller than the first version's was not initialised: it is left alone. */
  if (!error || error->struct_size < sizeof *error) return code;
  error->code = code;
  if (!failure) return code;
  error->has_argument = failure->has_argument;
  error->argument_index = failure->argument_index;
  error->message_bytes = failure->message_bytes;
  error->call = failure->call;
  error->origin_call = failure->origin_call;
  error->retry_after_ns = failure->retry_after_ns;
  copy_text(error->argument_expected, sizeof error->argument_expected, failure->expected);
  copy_text(error->argument_actual, sizeof error->argument_actual, failure->actual);
  copy_text(error->allocator, sizeof error->allocator, failure->allocator);
  copy_text(error->hint, sizeof error->hint, failure->hint);
  copy_text(error->message, sizeof error->message, failure->message);
  if (error->detail && error->detail_size) copy_text(error->detail, error->detail_size, failure->message);
  return code;
}

pjrtc_code pjrtc_failure_finish(pjrtc_failure *failure, pjrtc_error *error) {
  pjrtc_code code = pjrtc_failure_report(failure, error);
  pjrtc_failure_release(failure);
  return code;
}
