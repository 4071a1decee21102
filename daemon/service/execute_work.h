/* One execution, from checked to run: what the immediate and the waiting kind of Execute share. The service layer's
 * inside. */
#pragma once

#include "service/call.h"
#include "service/convert.h"

/* Most argument or output ids of one request. */
#define PJRTD_MAX_EXECUTE_IDS 8192

typedef struct {
  pjrtd_program *program;
  /* Device-major. */
  pjrtd_buffer **args; /* NULL where an inline argument stands */
  size_t num_args;
  pjrtd_buffer **outputs; /* NULL where it is not kept; those beyond num_outputs are not kept either */
  size_t num_outputs;
  size_t num_output_ids; /* that the request had; 0: it keeps none by id */
  const uint32_t *fetch; /* positions among the outputs */
  size_t num_fetch;
  /* By position. */
  struct pjrtd_inline_argument {
    uint32_t position;
    pjrtd_tensor_type type;
    const uint8_t *data;
  } * inline_args;
  size_t num_inline_args;
  /* By position; their buffers are among `args`. */
  struct pjrtd_slot_argument {
    uint32_t position;
    const char *slot;
  } * slot_args;
  size_t num_slot_args;
  /* Arguments of one device, increasing, that must not be consumed. */
  int64_t *non_donatable;
  size_t num_non_donatable;
  /* Filled by prepare. */
  pjrtd_device_buffer **device_args;    /* room for num_args; the inline ones are owned */
  pjrtd_device_buffer **device_outputs; /* all of the program's */
  size_t num_device_outputs;
} pjrtd_execute_work;

/* Whether this execution may consume the argument at `position`. The program is READY. */
bool pjrtd_execute_is_donated(const pjrtd_execute_work *work, size_t position);
/* Checks everything against the program (which is READY) and the buffers (which are held): count, element type,
 * dimensions, device, liveness, donation, memory. Nothing has happened on failure. Loop thread. */
PJRTD_MUST_USE pjrtd_status *pjrtd_execute_check(const pjrtd_execute_work *work);
/* Fills device_args, uploading inline ones. Checked work. Loop thread, or a lane where there are many. */
PJRTD_MUST_USE pjrtd_status *pjrtd_execute_prepare(pjrtd_execute_work *work);
/* Frees what prepare made of inline arguments. */
void pjrtd_execute_unprepare(pjrtd_execute_work *work);
/* After a run: gives kept outputs to their buffers, or fails them with `error` (NULL: success); marks donated
 * arguments. Returns `error`, which says how many of those a failed run consumed. Outputs that nobody keeps stay in
 * device_outputs until pjrtd_execute_discard. Loop thread. */
PJRTD_MUST_USE pjrtd_status *pjrtd_execute_settle(pjrtd_execute_work *work, pjrtd_status *error);
void pjrtd_execute_discard(pjrtd_execute_work *work);
/* The reply of a settled success; the fetched outputs' data comes from their views, or, where those are NULL, from
 * `copies` (one after the other, in the order of `fetch`). */
void pjrtd_execute_answer(pjrtd_peer *peer, const pjrtd_frame_header *header, const pjrtd_execute_work *work,
                          const uint8_t *copies, uint64_t execute_ns);
/* The device buffer of an output position, after settling. */
pjrtd_device_buffer *pjrtd_execute_output(const pjrtd_execute_work *work, uint32_t position);
