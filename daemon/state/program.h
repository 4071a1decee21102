/* A program as sessions know it. Loop thread only. */
#pragma once

#include "state/runtime.h"

typedef struct pjrtd_program {
  pjrtd_resource resource; /* first */
  pjrtd_runtime *runtime;
  pjrtd_session *session; /* NULL once it has no name */
  uint64_t id;
  pjrtd_executable *executable;   /* NULL until it is compiled */
  pjrtd_source *source;           /* joined; owns the executable. NULL: this program does */
  const pjrtd_program_info *info; /* the executable's */
  uint64_t output_bytes;          /* of all outputs on all devices */
  uint64_t measured_ns;           /* the last execution; 0: none yet */
  bool ran_in_call;               /* it had ended when the plugin's call returned */
  pjrtd_job reap;
} pjrtd_program;

/* PENDING, without a name. One reference, the caller's. */
PJRTD_MUST_USE pjrtd_status *pjrtd_program_create(pjrtd_runtime *runtime, pjrtd_program **out_program);
/* Takes `executable`, and makes the resource READY. */
void pjrtd_program_set(pjrtd_program *program, pjrtd_executable *executable);
/* The same with an executable that other programs have: takes a `source` that was joined. */
void pjrtd_program_share(pjrtd_program *program, pjrtd_source *source);
/* Whether the loop may run it: one device, time independent of data, measured quick, and run in the call. */
bool pjrtd_program_is_quick(const pjrtd_program *program);
static inline pjrtd_program *pjrtd_program_of(pjrtd_resource *resource) {
  return (pjrtd_program *)resource;
}
