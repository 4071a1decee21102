/* What a function that can fail returns: NULL for success, else an owned status that must be used.
 *
 * A status is immutable once shared and counted, so a poisoned buffer and all its later users hold one. Keep the code,
 * add context on the way up, log once at the top. Any thread; one holder changes it at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/shortage.h"

/* PJRT's and gRPC's codes. */
typedef enum {
  PJRTD_CODE_OK = 0,
  PJRTD_CODE_CANCELLED = 1,
  PJRTD_CODE_UNKNOWN = 2,
  PJRTD_CODE_INVALID_ARGUMENT = 3,
  PJRTD_CODE_DEADLINE_EXCEEDED = 4,
  PJRTD_CODE_NOT_FOUND = 5,
  PJRTD_CODE_ALREADY_EXISTS = 6,
  PJRTD_CODE_PERMISSION_DENIED = 7,
  PJRTD_CODE_RESOURCE_EXHAUSTED = 8,
  PJRTD_CODE_FAILED_PRECONDITION = 9,
  PJRTD_CODE_ABORTED = 10,
  PJRTD_CODE_OUT_OF_RANGE = 11,
  PJRTD_CODE_UNIMPLEMENTED = 12,
  PJRTD_CODE_INTERNAL = 13,
  PJRTD_CODE_UNAVAILABLE = 14,
  PJRTD_CODE_DATA_LOSS = 15,
  PJRTD_CODE_UNAUTHENTICATED = 16,
} pjrtd_code;

/* "INVALID_ARGUMENT"; a code out of range is "UNKNOWN". */
const char *pjrtd_code_name(pjrtd_code code);

typedef struct pjrtd_status pjrtd_status;

#define PJRTD_OK ((pjrtd_status *)NULL)
#define PJRTD_MUST_USE __attribute__((warn_unused_result))
#define PJRTD_PRINTF(text, first) __attribute__((format(printf, text, first)))

PJRTD_MUST_USE pjrtd_status *pjrtd_status_make(pjrtd_code code, const char *format, ...) PJRTD_PRINTF(2, 3);
/* Copies `length` bytes of `message`, whatever they are. */
PJRTD_MUST_USE pjrtd_status *pjrtd_status_make_n(pjrtd_code code, const char *message, uint64_t length);
/* RESOURCE_EXHAUSTED "out of memory": static, so it never fails. */
PJRTD_MUST_USE pjrtd_status *pjrtd_status_oom(void);
/* INTERNAL-safe errno: "opening /x: No such file or directory", with the code that fits the errno. */
PJRTD_MUST_USE pjrtd_status *pjrtd_status_from_errno(int error, const char *format, ...) PJRTD_PRINTF(2, 3);

pjrtd_status *pjrtd_status_retain(pjrtd_status *status);
/* NULL is fine. */
void pjrtd_status_destroy(pjrtd_status *status);
PJRTD_DEFINE_CLEANUP(pjrtd_status)

/* These take `status` and return it, or a changed copy where it is shared. Failing to allocate leaves it as it was. */
PJRTD_MUST_USE pjrtd_status *pjrtd_status_context(pjrtd_status *status, const char *format, ...) PJRTD_PRINTF(2, 3);
/* Behind the message, as it is. */
PJRTD_MUST_USE pjrtd_status *pjrtd_status_append(pjrtd_status *status, const char *format, ...) PJRTD_PRINTF(2, 3);
PJRTD_MUST_USE pjrtd_status *pjrtd_status_with_hint(pjrtd_status *status, const char *format, ...) PJRTD_PRINTF(2, 3);
/* Beside the hint that there is. */
PJRTD_MUST_USE pjrtd_status *pjrtd_status_add_hint(pjrtd_status *status, const char *format, ...) PJRTD_PRINTF(2, 3);
PJRTD_MUST_USE pjrtd_status *pjrtd_status_with_code(pjrtd_status *status, pjrtd_code code);
/* Which argument, what was expected and what came. */
PJRTD_MUST_USE pjrtd_status *pjrtd_status_with_argument(pjrtd_status *status, uint32_t index, const char *expected,
                                                        const char *actual);
/* The call that failed first: kept where it is known already. */
PJRTD_MUST_USE pjrtd_status *pjrtd_status_with_origin(pjrtd_status *status, uint64_t call);
PJRTD_MUST_USE pjrtd_status *pjrtd_status_with_retry(pjrtd_status *status, uint64_t retry_after_ns);
/* Copies what `shortage` says. */
PJRTD_MUST_USE pjrtd_status *pjrtd_status_with_shortage(pjrtd_status *status, const pjrtd_shortage *shortage);
/* Memory that buffers are made of ran out: whoever knows whose they are should say more (state/memory_report.h). */
PJRTD_MUST_USE pjrtd_status *pjrtd_status_of_memory(pjrtd_status *status);

pjrtd_code pjrtd_status_code(const pjrtd_status *status);
/* These are borrowed until the status is changed or destroyed; "" where there is none. */
const char *pjrtd_status_message(const pjrtd_status *status);
const char *pjrtd_status_hint(const pjrtd_status *status);
bool pjrtd_status_has_argument(const pjrtd_status *status);
uint32_t pjrtd_status_argument_index(const pjrtd_status *status);
const char *pjrtd_status_argument_expected(const pjrtd_status *status);
const char *pjrtd_status_argument_actual(const pjrtd_status *status);
uint64_t pjrtd_status_origin(const pjrtd_status *status);
uint64_t pjrtd_status_retry_ns(const pjrtd_status *status);
/* NULL: none is known. */
const pjrtd_shortage *pjrtd_status_shortage(const pjrtd_status *status);
bool pjrtd_status_is_of_memory(const pjrtd_status *status);

#define PJRTD_INVALID(...) pjrtd_status_make(PJRTD_CODE_INVALID_ARGUMENT, __VA_ARGS__)
#define PJRTD_INTERNAL(...) pjrtd_status_make(PJRTD_CODE_INTERNAL, __VA_ARGS__)

/* Returns from the function when `expression` fails; PJRTD_TRY(expression, "loading it") puts that text in
 * front of the message. */
#define PJRTD_TRY(...) PJRTD_TRY_SELECT(__VA_ARGS__, PJRTD_TRY_AS, PJRTD_TRY_ONLY, )(__VA_ARGS__)
#define PJRTD_TRY_SELECT(first, second, chosen, ...) chosen
#define PJRTD_TRY_ONLY(expression)                      \
  do {                                                  \
    pjrtd_status *try_ = (expression);                  \
    if (__builtin_expect(try_ != NULL, 0)) return try_; \
  } while (0)
#define PJRTD_TRY_AS(expression, context)                                                      \
  do {                                                                                         \
    pjrtd_status *try_ = (expression);                                                         \
    if (__builtin_expect(try_ != NULL, 0)) return pjrtd_status_context(try_, "%s", (context)); \
  } while (0)
