/* pjrtc: many steps of a program in one call. Part of pjrtc.h. */
#ifndef PJRTC_RUN_H_
#define PJRTC_RUN_H_

#include "execute.h"

#ifdef __cplusplus
extern "C" {
#endif

/* After a step: `values` are the step's `fetch`, filled in, and are written over by the next; `num_values` is 0 where
 * the call only tells how far it is. Returns whether to go on: false cancels the run, which then is CANCELLED.
 *
 * It runs on the thread that moves the connection, which reads nothing else meanwhile. So it may start calls and cancel
 * futures; but what would wait is FAILED_PRECONDITION, and it must not destroy the run's own future. */
typedef bool (*pjrtc_run_callback)(void *user, uint64_t steps, const pjrtc_value *values, size_t num_values);

typedef struct pjrtc_run_result {
  size_t struct_size;
  uint64_t steps;      /* that were run, as far as the server told: where the run fails it may have got further */
  uint64_t execute_ns; /* in the plugin, all of them */
  bool stopped;        /* by `until` */
} pjrtc_run_result;

typedef struct pjrtc_run_options {
  size_t struct_size;
  /* What each step is. `feed_back` may give outputs to arguments, too, and slots that are fed back are so in each step;
   * `outputs` are those of the last step; `result` and `timeout_ns` must be unset. */
  const pjrtc_execute_options *step;
  uint64_t steps; /* at most; 0: as many as the stacked arguments have */
  /* Arguments with a value for each step: their positions, increasing. Such a buffer has one dimension more than the
   * program wants, in front, and step i takes the i-th slice. */
  const uint32_t *stacked;
  size_t num_stacked;
  bool has_until;
  uint32_t until; /* with has_until: an output of type pred[]; true ends the run after that step */
  /* `step->fetch` is brought back after every so many steps; 0: of the last step only, when the call is done. */
  uint64_t every;
  uint64_t progress_ns;       /* on_step is called at least so often, though not within a step; 0: not */
  pjrtc_run_callback on_step; /* may be NULL: the values are of the last step that brought some */
  void *user;
  pjrtc_run_result *result; /* may be NULL */
  uint64_t timeout_ns;      /* of the whole run */
} pjrtc_run_options;

/* Runs many steps without a word between client and server, a training loop or a decode loop:
 *
 *     pjrtc_argument args[] = {{.slot = "weights"}, {.buffer = batches}};
 *     pjrtc_feed_back feed_back[] = {{.output = 0, .slot = "weights"}};
 *     pjrtc_value loss = {.position = 1};
 *     pjrtc_execute_options step = {.struct_size = sizeof step, .program = program, .args = args, .num_args = 2,
 *                                   .feed_back = feed_back, .num_feed_back = 1, .fetch = &loss, .num_fetch = 1};
 *     uint32_t stacked[] = {1};
 *     pjrtc_run_options run = {.struct_size = sizeof run, .step = &step, .stacked = stacked, .num_stacked = 1,
 *                              .every = 100, .on_step = show_loss};
 *     if (pjrtc_run(client, &run, &error)) return fail(&error);
 *
 * A run ends between steps, when it is cancelled or its time is over; its slots then hold what the last whole step
 * gave. Calls that use them wait for its end. Where `fetch` is to be allocated, that is done once, and the values are
 * the caller's when the run has ended well. */
PJRTC_API pjrtc_code pjrtc_run(pjrtc_client *client, const pjrtc_run_options *options, pjrtc_error *error);
/* `out_future` may be NULL where there is nothing to bring back and no on_step. */
PJRTC_API pjrtc_code pjrtc_run_start(pjrtc_client *client, const pjrtc_run_options *options, pjrtc_future **out_future,
                                     pjrtc_error *error);

#ifdef __cplusplus
}
#endif

#endif /* PJRTC_RUN_H_ */
