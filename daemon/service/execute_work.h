/* One execution, from checked to run: what the immediate and the waiting kind of Execute share. The service layer's
 * inside. */
#pragma once

#include "service/call.h"
#include "service/convert.h"
#include "state/memory_report.h"

/* Most argument or output ids of one request. */
#define PJRTD_MAX_EXECUTE_IDS 8192

typedef struct {
  pjrtd_program *program;
  pjrtd_account *account; /* the session's; borrowed: the call retains it */
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
  /* By position; their buffers are among `args`, retained. */
  struct pjrtd_slot_argument {
    uint32_t position;
    const char *slot;
  } * slot_args;
  size_t num_slot_args;
  /* Arguments of one device, increasing, that must not be consumed. */
  int64_t *non_donatable;
  size_t num_non_donatable;
  /* Positions, increasing, of arguments that have a value for each step of a run. */
  const int64_t *stacked;
  size_t num_stacked;
  uint64_t sets_of_outputs;      /* that there are at one time: a run's next step has its own beside the last one's */
  pjrtd_reservation reservation; /* of what it will make, while it runs */
  /* Filled by prepare. */
  pjrtd_device_buffer **device_args;    /* room for num_args; the inline ones are owned */
  pjrtd_device_buffer **device_outputs; /* all of the program's */
  size_t num_device_outputs;
  uint8_t *inline_data; /* owned: a copy of the request's bulk, where the work outlives it */
} pjrtd_execute_work;

/* Where the arrays of a work lie: here, for the usual small call, or in the block, which the caller frees. */
#define PJRTD_EXECUTE_SMALL 16
typedef struct {
  pjrtd_buffer *args[PJRTD_EXECUTE_SMALL], *outputs[PJRTD_EXECUTE_SMALL];
  pjrtd_device_buffer *device_args[PJRTD_EXECUTE_SMALL], *device_outputs[PJRTD_EXECUTE_SMALL];
  struct pjrtd_inline_argument inline_args[PJRTD_EXECUTE_SMALL];
  struct pjrtd_slot_argument slot_args[PJRTD_EXECUTE_SMALL];
  int64_t non_donatable[PJRTD_EXECUTE_SMALL];
  void *block;
} pjrtd_execute_arrays;

/* Looks up what the request names, names its outputs, and gives slots what is fed back to them. The outputs are the
 * caller's to release; where it fails, they are poisoned and released. `repeated`: for a run of many steps, whose
 * outputs may be fed back to arguments. */
PJRTD_MUST_USE pjrtd_status *pjrtd_execute_resolve(pjrtd_request *request, const Pjrtd__V1__ExecuteRequest *wanted,
                                                   bool repeated, pjrtd_execute_arrays *arrays,
                                                   pjrtd_execute_work *out_work);
/* Copies a resolved work to `place`, of so many bytes, to outlive its request; the references move. */
size_t pjrtd_execute_kept_bytes(const pjrtd_execute_work *work);
PJRTD_MUST_USE pjrtd_status *pjrtd_execute_keep(const pjrtd_request *request, const pjrtd_execute_work *now,
                                                void *place, pjrtd_execute_work *out_work);
/* Holds the program, the arguments (for writing what it may consume) and the outputs. */
uint32_t pjrtd_execute_num_holds(const pjrtd_execute_work *work);
void pjrtd_execute_hold(const pjrtd_execute_work *work, pjrtd_operation *operation);
/* Fails all outputs. */
void pjrtd_execute_poison(pjrtd_execute_work *work, pjrtd_status *error);
/* A resolved request that comes to nothing: fails all outputs with `status` (taken and returned), and releases. */
PJRTD_MUST_USE pjrtd_status *pjrtd_execute_refuse(const pjrtd_request *request, pjrtd_execute_work *work,
                                                  pjrtd_status *status);
/* A call that nobody wants any more: fails the outputs that are not made, but for those where `but` (NULL: none) says
 * so; nobody has to wait for the plugin to find out. */
void pjrtd_execute_give_up(pjrtd_execute_work *work, pjrtd_operation *operation, const bool *but, pjrtd_status *why);
/* What the plugin is asked to run, of a prepared work. */
pjrtd_execute_call pjrtd_execute_call_of(const pjrtd_execute_work *work);
/* Gives up the references to outputs and slots' buffers, what was kept, and what is reserved. */
void pjrtd_execute_release(pjrtd_execute_work *work);

bool pjrtd_execute_is_stacked(const pjrtd_execute_work *work, size_t position);
/* Whether this execution may consume the argument at `position`. The program is READY. */
bool pjrtd_execute_is_donated(const pjrtd_execute_work *work, size_t position);
/* Checks everything against the program (which is READY, or FAILED, for its error) and the buffers (which are held):
 * count, element type, dimensions, device, liveness, donation, memory, which is reserved. Nothing has happened on
 * failure. Loop thread. */
PJRTD_MUST_USE pjrtd_status *pjrtd_execute_check(pjrtd_execute_work *work);
/* Where a failure is of memory: tells all about that (memory_report.h). */
PJRTD_MUST_USE pjrtd_status *pjrtd_execute_explain(const pjrtd_execute_work *work, pjrtd_status *error);
/* Fills device_args, uploading inline ones. Checked work. Loop thread, or a lane where there are many. */
PJRTD_MUST_USE pjrtd_status *pjrtd_execute_prepare(pjrtd_execute_work *work);
/* Frees what prepare made of inline arguments. */
void pjrtd_execute_unprepare(pjrtd_execute_work *work);
/* After a run, or a check: ends the reservation, gives kept outputs to their buffers, or fails them with `error` (NULL:
 * success); marks donated arguments. Returns `error`, which says how many of those a failed run consumed. Outputs that
 * nobody keeps stay in device_outputs until pjrtd_execute_discard. Loop thread. */
PJRTD_MUST_USE pjrtd_status *pjrtd_execute_settle(pjrtd_execute_work *work, pjrtd_status *error);
void pjrtd_execute_discard(pjrtd_execute_work *work);
/* The descriptions of the fetched outputs, for a reply; returns the bytes of their data together. */
typedef struct {
  Pjrtd__V1__FetchedTensor message;
  Pjrtd__V1__TensorType type;
} pjrtd_fetched_part;
uint32_t pjrtd_execute_describe_fetched(const pjrtd_execute_work *work, pjrtd_fetched_part *parts,
                                        Pjrtd__V1__FetchedTensor **list);
/* The reply of a settled success; the fetched outputs' data comes from their views, or, where those are NULL, from
 * `copies` (one after the other, in the order of `fetch`). */
void pjrtd_execute_answer(pjrtd_peer *peer, const pjrtd_frame_header *header, const pjrtd_execute_work *work,
                          const uint8_t *copies, uint64_t execute_ns);
/* The device buffer of an output position, after settling. */
pjrtd_device_buffer *pjrtd_execute_output(const pjrtd_execute_work *work, uint32_t position);
