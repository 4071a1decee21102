/* Names of codes. Any thread. */
#include "pjrtc/pjrtc.h"

static const char *const names[] = {
    "OK",        "CANCELLED",       "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS",  "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",    "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED",
};

const char *pjrtc_code_name(pjrtc_code code) {
  if (code == PJRTC_PENDING) return "PENDING";
  return (unsigned)code < sizeof names / sizeof *names ? names[code] : "UNKNOWN";
}
