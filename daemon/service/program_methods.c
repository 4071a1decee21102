/* Program.Describe and Program.Release. Loop thread. */
#include "service/call.h"
#include "service/convert.h"
#include "service/program_describe.h"

typedef struct {
  pjrtd_call call;        /* first */
  pjrtd_program *program; /* held for reading */
} describe_call;

static void describe_ready(pjrtd_operation *operation) {
  describe_call *describe = (describe_call *)operation;
  if (pjrtd_call_park(&describe->call)) return;
  pjrtd_call *call = &describe->call;
  const pjrtd_resource *resource = &describe->program->resource;
  pjrtd_status *status = resource->state == PJRTD_RESOURCE_FAILED
                             ? pjrtd_status_retain(resource->error)
                             : pjrtd_answer_describe(call->peer, &call->header, describe->program->info);
  if (status) pjrtd_call_fail(call, status);
  pjrtd_call_end(call);
}

static void describe_abandon(pjrtd_call *call, pjrtd_status *why) {
  pjrtd_status_destroy(why);
  pjrtd_call_end(call);
}

pjrtd_status *pjrtd_handle_program_describe(pjrtd_request *request) {
  const Pjrtd__V1__ProgramRequest *wanted = request->message;
  pjrtd_program *program = pjrtd_session_find_program(request->peer->session, wanted->program);
  if (!program) return pjrtd_session_not_found(PJRTD_ID_PROGRAM, wanted->program);
  describe_call *describe;
  PJRTD_TRY(pjrtd_call_create(request, sizeof *describe, 1, describe_ready, describe_abandon, &describe));
  describe->program = program;
  pjrtd_operation_hold(&describe->call.operation, &program->resource, PJRTD_HOLD_READ);
  pjrtd_operation_start(&describe->call.operation);
  return PJRTD_OK;
}

pjrtd_status *pjrtd_handle_program_release(pjrtd_request *request) {
  const Pjrtd__V1__ReleaseRequest *wanted = request->message;
  PJRTD_TRY(pjrtd_session_forget(request->peer->session, PJRTD_ID_PROGRAM, wanted->programs, wanted->n_programs));
  return pjrtd_request_done(request);
}
