/* What an execute and a step of a run have in common (op_execute.c). Any thread; those with a client have its lock. */
#pragma once

#include "connection.h"
#include "execute_codec.h"

/* What is to be set is set. NULL is success. */
pjrtc_failure *pjrtc_step_check(const pjrtc_execute_options *options);
/* Borrows from the options. */
pjrtc_execute_request pjrtc_step_request(const pjrtc_execute_options *options);
/* Numbers the outputs that are kept. */
void pjrtc_step_name_outputs(pjrtc_client *client, const pjrtc_execute_options *options);
void pjrtc_step_clear_outputs(const pjrtc_execute_options *options);
/* Deletes the ids that a failed call was to make; they are in no order afterwards. */
void pjrtc_step_forget_outputs(pjrtc_client *client, const pjrtc_execute_options *options);
