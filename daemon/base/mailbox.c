/* See mailbox.h. A lock-free stack of messages (one compare-and-swap to post), turned round by the reader. */
#include "base/mailbox.h"

#include <stdatomic.h>

struct pjrtd_mailbox {
  _Atomic(pjrtd_message *) newest;
  uv_async_t wakeup;
  void (*after_drain)(void *user);
  void *user;
};

void pjrtd_mailbox_drain(pjrtd_mailbox *mailbox) {
  pjrtd_message *stack = atomic_exchange_explicit(&mailbox->newest, NULL, memory_order_acquire);
  if (!stack) return;
  pjrtd_message *oldest = NULL;
  while (stack) {
    pjrtd_message *next = stack->next;
    stack->next = oldest;
    oldest = stack;
    stack = next;
  }
  while (oldest) {
    pjrtd_message *message = oldest;
    oldest = message->next;
    message->next = NULL;
    message->deliver(message);
  }
  if (mailbox->after_drain) mailbox->after_drain(mailbox->user);
}

static void on_wakeup(uv_async_t *wakeup) {
  pjrtd_mailbox_drain(wakeup->data);
}

pjrtd_status *pjrtd_mailbox_create(uv_loop_t *loop, void (*after_drain)(void *user), void *user,
                                   pjrtd_mailbox **out_mailbox) {
  *out_mailbox = NULL;
  pjrtd_mailbox *mailbox = pjrtd_calloc(1, sizeof *mailbox);
  if (!mailbox) return pjrtd_status_oom();
  mailbox->after_drain = after_drain;
  mailbox->user = user;
  mailbox->wakeup.data = mailbox;
  int error = uv_async_init(loop, &mailbox->wakeup, on_wakeup);
  if (error) {
    pjrtd_free(mailbox);
    return pjrtd_status_from_errno(-error, "making the loop's wakeup");
  }
  *out_mailbox = mailbox;
  return PJRTD_OK;
}

void pjrtd_mailbox_post(pjrtd_mailbox *mailbox, pjrtd_message *message) {
  pjrtd_message *newest = atomic_load_explicit(&mailbox->newest, memory_order_relaxed);
  do message->next = newest;
  while (!atomic_compare_exchange_weak_explicit(&mailbox->newest, &newest, message, memory_order_release,
                                                memory_order_relaxed));
  /* Only the first message of a batch needs to wake the loop: the reader takes all that is there. */
  if (!newest) uv_async_send(&mailbox->wakeup);
}

static void on_closed(uv_handle_t *wakeup) {
  pjrtd_free(wakeup->data);
}

void pjrtd_mailbox_close(pjrtd_mailbox *mailbox) {
  if (!mailbox) return;
  pjrtd_mailbox_drain(mailbox);
  uv_close((uv_handle_t *)&mailbox->wakeup, on_closed);
}
