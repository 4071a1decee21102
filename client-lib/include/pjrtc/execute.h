/* pjrtc: running programs. Part of pjrtc.h. */
#ifndef PJRTC_EXECUTE_H_
#define PJRTC_EXECUTE_H_

#include "client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An argument: a buffer's id; or a slot (see session.h); or a value that travels in the request. */
typedef struct pjrtc_argument {
  uint64_t buffer;  /* 0: none */
  pjrtc_type type;  /* of the value */
  const void *data; /* the value, dense row-major */
  const char *slot; /* NULL: none */
} pjrtc_argument;

/* An output that a slot holds from now on, which is made where there is none. */
typedef struct pjrtc_feed_back {
  uint32_t output;   /* position among all outputs, each at most once */
  uint32_t argument; /* of a run (see run.h), where `slot` is NULL: the next step has it as this argument */
  const char *slot;
} pjrtc_feed_back;

typedef struct pjrtc_execute_result {
  size_t struct_size;
  uint64_t execute_ns;   /* in the plugin */
  uint32_t *consumed;    /* yours, or NULL: receives the positions of arguments that were donated */
  uint32_t max_consumed; /* room in it */
  uint32_t num_consumed; /* how many there were */
} pjrtc_execute_result;

typedef struct pjrtc_execute_options {
  size_t struct_size;
  uint64_t program;
  /* Lists are device-major: all of the first device's arguments, then the second's. */
  const pjrtc_argument *args;
  size_t num_args;
  /* Receives the ids of the outputs, valid for further calls at once. NULL: none is kept. */
  uint64_t *outputs;
  size_t num_outputs;
  const bool *keep; /* `num_outputs` of them; false: not kept, its id becomes 0. NULL: all are kept */
  /* Outputs to bring back with the answer, in order of position, together at most `max_inline_bytes`. They need not be
   * kept. */
  pjrtc_value *fetch;
  size_t num_fetch;
  pjrtc_execute_result *result; /* may be NULL */
  uint64_t timeout_ns;
  /* Outputs that slots hold from now on: calls that are started later take them from there. They may be kept and
   * fetched as well, and need be neither; `num_outputs` may be 0. */
  const pjrtc_feed_back *feed_back;
  size_t num_feed_back;
  /* Positions of arguments (of one device, increasing) that must stay although the program donates them; each costs a
   * copy. */
  const uint32_t *non_donatable;
  size_t num_non_donatable;
} pjrtc_execute_options;

/* Runs a program. A request that is refused leaves its arguments alive; a program that donates an argument takes it.
 *
 * State that stays on the device, in steps that are sent without waiting for any:
 *
 *     pjrtc_argument args[] = {{.slot = "state"}, {.slot = "rate"}};
 *     pjrtc_feed_back feed_back[] = {{.output = 0, .slot = "state"}};
 *     pjrtc_execute_options step = {.struct_size = sizeof step, .program = program, .args = args, .num_args = 2,
 *                                   .feed_back = feed_back, .num_feed_back = 1};
 *     pjrtc_cork(client);
 *     for (int i = 0; i < 1000; i++)
 *       if (pjrtc_execute_start(client, &step, NULL, &error)) return fail(&error);
 *     if (pjrtc_sync(client, 0, &error)) return fail(&error);  // the first step that failed
 */
PJRTC_API pjrtc_code pjrtc_execute(pjrtc_client *client, const pjrtc_execute_options *options, pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_execute_start(pjrtc_client *client, const pjrtc_execute_options *options,
                                         pjrtc_future **out_future, pjrtc_error *error);

#ifdef __cplusplus
}
#endif

#endif /* PJRTC_EXECUTE_H_ */
