/* See status.h. */
#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct pjrtd_status {
  atomic_int references;
  pjrtd_code code;
  bool has_argument;
  bool is_static;
  bool of_memory;
  uint32_t argument_index;
  uint64_t origin_call;
  uint64_t retry_after_ns;
  char *message;            /* owned; NULL reads as "" */
  char *hint;               /* owned */
  char *expected;           /* owned */
  char *actual;             /* owned */
  pjrtd_shortage *shortage; /* owned; NULL: none */
};

static pjrtd_status oom_status = {
    .references = 1, .code = PJRTD_CODE_RESOURCE_EXHAUSTED, .is_static = true, .message = "out of memory"};

const char *pjrtd_code_name(pjrtd_code code) {
  static const char *const names[] = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  return (unsigned)code < sizeof names / sizeof *names ? names[code] : "UNKNOWN";
}

static char *format_text(const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, again);
  va_end(again);
  if (length < 0) return NULL;
  char *text = pjrtd_malloc((size_t)length + 1);
  if (text) vsnprintf(text, (size_t)length + 1, format, args);
  return text;
}

/* Takes `message`, which may be NULL when it could not be allocated. */
static pjrtd_status *make(pjrtd_code code, char *message) {
  pjrtd_status *status = message ? pjrtd_calloc(1, sizeof *status) : NULL;
  if (!status) {
    pjrtd_free(message);
    return &oom_status;
  }
  atomic_init(&status->references, 1);
  status->code = code;
  status->message = message;
  return status;
}

pjrtd_status *pjrtd_status_make(pjrtd_code code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *message = format_text(format, args);
  va_end(args);
  return make(code, message);
}

pjrtd_status *pjrtd_status_make_n(pjrtd_code code, const char *message, uint64_t length) {
  return make(code, pjrtd_strndup(message, length));
}

pjrtd_status *pjrtd_status_oom(void) {
  return &oom_status;
}

static pjrtd_code code_of_errno(int error) {
  switch (error) {
    case ENOENT: return PJRTD_CODE_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS: return PJRTD_CODE_PERMISSION_DENIED;
    case ENOMEM:
    case ENOSPC:
    case EMFILE:
    case ENFILE:
    case EDQUOT: return PJRTD_CODE_RESOURCE_EXHAUSTED;
    case EEXIST:
    case EADDRINUSE: return PJRTD_CODE_ALREADY_EXISTS;
    case EINVAL:
    case ENAMETOOLONG:
    case ENOTDIR:
    case EISDIR: return PJRTD_CODE_INVALID_ARGUMENT;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE: return PJRTD_CODE_UNAVAILABLE;
    default: return PJRTD_CODE_INTERNAL;
  }
}

pjrtd_status *pjrtd_status_from_errno(int error, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *what = format_text(format, args);
  va_end(args);
  if (!what) return &oom_status;
  char reason[128];
  const char *text = strerror_r(error, reason, sizeof reason);
  pjrtd_status *status = pjrtd_status_make(code_of_errno(error), "%s: %s", what, text);
  pjrtd_free(what);
  return status;
}

pjrtd_status *pjrtd_status_retain(pjrtd_status *status) {
  if (status && !status->is_static) atomic_fetch_add_explicit(&status->references, 1, memory_order_relaxed);
  return status;
}

void pjrtd_status_destroy(pjrtd_status *status) {
  if (!status || status->is_static) return;
  if (atomic_fetch_sub_explicit(&status->references, 1, memory_order_acq_rel) != 1) return;
  pjrtd_free(status->message);
  pjrtd_free(status->hint);
  pjrtd_free(status->expected);
  pjrtd_free(status->actual);
  pjrtd_free(status->shortage);
  pjrtd_free(status);
}

static bool copy_shortage(pjrtd_shortage **slot, const pjrtd_shortage *shortage) {
  if (!shortage) return true;
  *slot = pjrtd_memdup(shortage, sizeof *shortage);
  return *slot != NULL;
}

static bool copy_text(char **slot, const char *text) {
  if (!text) return true;
  *slot = pjrtd_strdup(text);
  return *slot != NULL;
}

/* Takes `status`; returns one that only the caller holds, or `status` itself when there is no memory for it
 * (`*out_own` says which). */
static pjrtd_status *own(pjrtd_status *status, bool *out_own) {
  *out_own = true;
  if (!status->is_static && atomic_load_explicit(&status->references, memory_order_acquire) == 1) return status;
  pjrtd_status *copy = pjrtd_calloc(1, sizeof *copy);
  if (copy) {
    atomic_init(&copy->references, 1);
    copy->code = status->code;
    copy->of_memory = status->of_memory;
    copy->has_argument = status->has_argument;
    copy->argument_index = status->argument_index;
    copy->origin_call = status->origin_call;
    copy->retry_after_ns = status->retry_after_ns;
    if (copy_text(&copy->message, status->message) && copy_text(&copy->hint, status->hint) &&
        copy_text(&copy->expected, status->expected) && copy_text(&copy->actual, status->actual) &&
        copy_shortage(&copy->shortage, status->shortage)) {
      pjrtd_status_destroy(status);
      return copy;
    }
    pjrtd_status_destroy(copy);
  }
  *out_own = false;
  return status;
}

/* NULL, for want of memory, leaves it as it was. */
static void replace(char **slot, char *text) {
  if (!text) return;
  pjrtd_free(*slot);
  *slot = text;
}

/* The three in one, owned; NULL without memory, or without one of them. */
static char *join(const char *first, const char *between, const char *second) {
  if (!first || !second) return NULL;
  size_t size = strlen(first) + strlen(between) + strlen(second) + 1;
  char *all = pjrtd_malloc(size);
  if (all) snprintf(all, size, "%s%s%s", first, between, second);
  return all;
}

pjrtd_status *pjrtd_status_context(pjrtd_status *status, const char *format, ...) {
  bool mine;
  if (!status) return NULL;
  status = own(status, &mine);
  if (!mine) return status;
  va_list args;
  va_start(args, format);
  PJRTD_AUTO_FREE char *context = format_text(format, args);
  va_end(args);
  replace(&status->message, join(context, ": ", pjrtd_status_message(status)));
  return status;
}

pjrtd_status *pjrtd_status_append(pjrtd_status *status, const char *format, ...) {
  bool mine;
  if (!status) return NULL;
  status = own(status, &mine);
  if (!mine) return status;
  va_list args;
  va_start(args, format);
  PJRTD_AUTO_FREE char *more = format_text(format, args);
  va_end(args);
  replace(&status->message, join(pjrtd_status_message(status), "", more));
  return status;
}

pjrtd_status *pjrtd_status_with_hint(pjrtd_status *status, const char *format, ...) {
  bool mine;
  if (!status) return NULL;
  status = own(status, &mine);
  if (!mine) return status;
  va_list args;
  va_start(args, format);
  char *hint = format_text(format, args);
  va_end(args);
  replace(&status->hint, hint);
  return status;
}

pjrtd_status *pjrtd_status_add_hint(pjrtd_status *status, const char *format, ...) {
  bool mine;
  if (!status) return NULL;
  status = own(status, &mine);
  if (!mine) return status;
  va_list args;
  va_start(args, format);
  PJRTD_AUTO_FREE char *more = format_text(format, args);
  va_end(args);
  const char *before = pjrtd_status_hint(status);
  replace(&status->hint, join(before, *before ? "; " : "", more));
  return status;
}

pjrtd_status *pjrtd_status_with_code(pjrtd_status *status, pjrtd_code code) {
  bool mine;
  if (!status) return NULL;
  status = own(status, &mine);
  if (mine) status->code = code;
  return status;
}

pjrtd_status *pjrtd_status_with_argument(pjrtd_status *status, uint32_t index, const char *expected,
                                         const char *actual) {
  bool mine;
  if (!status) return NULL;
  status = own(status, &mine);
  if (!mine) return status;
  status->has_argument = true;
  status->argument_index = index;
  replace(&status->expected, pjrtd_strdup(expected));
  replace(&status->actual, pjrtd_strdup(actual));
  return status;
}

pjrtd_status *pjrtd_status_with_origin(pjrtd_status *status, uint64_t call) {
  bool mine;
  if (!status || status->origin_call) return status;
  status = own(status, &mine);
  if (mine) status->origin_call = call;
  return status;
}

pjrtd_status *pjrtd_status_with_retry(pjrtd_status *status, uint64_t retry_after_ns) {
  bool mine;
  if (!status) return NULL;
  status = own(status, &mine);
  if (mine) status->retry_after_ns = retry_after_ns;
  return status;
}

pjrtd_status *pjrtd_status_with_shortage(pjrtd_status *status, const pjrtd_shortage *shortage) {
  bool mine;
  if (!status) return NULL;
  status = own(status, &mine);
  pjrtd_shortage *copy = NULL;
  if (!mine || !copy_shortage(&copy, shortage)) return status;
  pjrtd_free(status->shortage);
  status->shortage = copy;
  return status;
}

pjrtd_status *pjrtd_status_of_memory(pjrtd_status *status) {
  bool mine;
  if (!status) return NULL;
  status = own(status, &mine);
  if (mine) status->of_memory = true;
  return status;
}

pjrtd_code pjrtd_status_code(const pjrtd_status *status) {
  return status ? status->code : PJRTD_CODE_OK;
}
const char *pjrtd_status_message(const pjrtd_status *status) {
  return status && status->message ? status->message : "";
}
const char *pjrtd_status_hint(const pjrtd_status *status) {
  return status && status->hint ? status->hint : "";
}
bool pjrtd_status_has_argument(const pjrtd_status *status) {
  return status && status->has_argument;
}
uint32_t pjrtd_status_argument_index(const pjrtd_status *status) {
  return status->argument_index;
}
const char *pjrtd_status_argument_expected(const pjrtd_status *status) {
  return status->expected ? status->expected : "";
}
const char *pjrtd_status_argument_actual(const pjrtd_status *status) {
  return status->actual ? status->actual : "";
}
uint64_t pjrtd_status_origin(const pjrtd_status *status) {
  return status ? status->origin_call : 0;
}
uint64_t pjrtd_status_retry_ns(const pjrtd_status *status) {
  return status ? status->retry_after_ns : 0;
}
const pjrtd_shortage *pjrtd_status_shortage(const pjrtd_status *status) {
  return status ? status->shortage : NULL;
}
bool pjrtd_status_is_of_memory(const pjrtd_status *status) {
  return status && status->of_memory;
}
