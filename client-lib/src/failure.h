/* How a call failed: immutable, counted, so that a lost connection can fail many calls with one. Any thread. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "pjrtc/pjrtc.h"

typedef struct pjrtc_failure {
  atomic_uint refs; /* 0: static */
  pjrtc_code code;
  uint64_t call;
  uint64_t origin_call;
  uint64_t retry_after_ns;
  bool has_argument;
  uint32_t argument_index;
  uint64_t message_bytes;
  const char *message; /* these are behind the struct; never NULL */
  const char *hint;
  const char *expected;
  const char *actual;
  const char *allocator;
} pjrtc_failure;

/* What a failure is made from. NULL texts count as "". */
typedef struct {
  pjrtc_code code;
  uint64_t call;
  uint64_t origin_call;
  uint64_t retry_after_ns;
  bool has_argument;
  uint32_t argument_index;
  const char *message;
  const char *hint;
  const char *expected;
  const char *actual;
  const char *allocator;
} pjrtc_failure_parts;

/* Copies the texts. Never NULL: where memory is out, the answer is pjrtc_failure_oom(). */
pjrtc_failure *pjrtc_failure_create(const pjrtc_failure_parts *parts);
/* The same from a format, without further details. `hint` may be NULL. */
pjrtc_failure *pjrtc_failure_make(pjrtc_code code, const char *hint, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* RESOURCE_EXHAUSTED "out of memory": static. */
pjrtc_failure *pjrtc_failure_oom(void);

pjrtc_failure *pjrtc_failure_retain(pjrtc_failure *failure);
/* NULL is fine. */
void pjrtc_failure_release(pjrtc_failure *failure);

/* Fills in the caller's error from a failure, NULL meaning success, and returns the code. `error` may be NULL. */
pjrtc_code pjrtc_failure_report(const pjrtc_failure *failure, pjrtc_error *error);
/* Reports and releases. */
pjrtc_code pjrtc_failure_finish(pjrtc_failure *failure, pjrtc_error *error);
