/* Messages from any thread to the loop.
 *
 * uv_async_send coalesces: one wakeup may stand for many messages, so the loop always drains the whole queue, in the
 * order of posting. Posting neither allocates nor fails: a message is embedded in what it is about. */
#pragma once

#include <uv.h>

#include "base/message_stack.h"
#include "base/status.h"

typedef struct pjrtd_mailbox pjrtd_mailbox;

/* Loop thread. `loop` is borrowed. `after_drain(user)` (may be NULL) follows each drained batch. */
PJRTD_MUST_USE pjrtd_status *pjrtd_mailbox_create(uv_loop_t *loop, void (*after_drain)(void *user), void *user,
                                                  pjrtd_mailbox **out_mailbox);

/* Any thread, until close. The message is the mailbox's until it is delivered. */
void pjrtd_mailbox_post(pjrtd_mailbox *mailbox, pjrtd_message *message);

/* Loop thread: delivers what is there now, without waiting for the wakeup. */
void pjrtd_mailbox_drain(pjrtd_mailbox *mailbox);

/* Loop thread, once no other thread can post. Delivers what is left; the memory goes when the loop has run the close
 * callback. NULL is fine. */
void pjrtd_mailbox_close(pjrtd_mailbox *mailbox);
