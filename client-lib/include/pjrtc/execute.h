/* pjrtc: running programs. Part of pjrtc.h. */
#ifndef PJRTC_EXECUTE_H_
#define PJRTC_EXECUTE_H_

#include "client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An argument: a buffer's id, or, where `buffer` is 0, a value that travels in the request. */
typedef struct pjrtc_argument {
  uint64_t buffer;
  pjrtc_type type;
  const void *data; /* dense row-major */
} pjrtc_argument;

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
} pjrtc_execute_options;

/* Runs a program. A request that is refused leaves its arguments alive; a program that donates an argument takes it. */
PJRTC_API pjrtc_code pjrtc_execute(pjrtc_client *client, const pjrtc_execute_options *options, pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_execute_start(pjrtc_client *client, const pjrtc_execute_options *options,
                                         pjrtc_future **out_future, pjrtc_error *error);

#ifdef __cplusplus
}
#endif

#endif /* PJRTC_EXECUTE_H_ */
