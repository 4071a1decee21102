/* What an execute and a step of a run have in common. Any thread; those with a client have its lock. */
#pragma once

#include "calls.h"

/* What is to be set is set. NULL is success. */
pjrtc_failure *pjrtc_step_check(const pjrtc_execute_options *options);
/* Numbers the outputs that are kept, and begins and writes the call: an execute, or, where `run` is not NULL, a run of
 * such steps. pjrtc_call_commit sends it. On failure no number is used. */
pjrtc_failure *pjrtc_step_begin(pjrtc_client *client, const pjrtc_execute_options *step, const pjrtc_run_options *run,
                                pjrtc_request *request, pjrtc_future **out_call);
void pjrtc_step_clear_outputs(const pjrtc_execute_options *options);
/* Deletes the ids that a failed call was to make; they are in no order afterwards. */
void pjrtc_step_forget_outputs(pjrtc_client *client, const pjrtc_execute_options *options);
