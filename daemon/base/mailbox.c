/* See mailbox.h. */
#include "base/mailbox.h"

struct pjrtd_mailbox {
  pjrtd_message_stack posted;
  uv_async_t wakeup;
  void (*after_drain)(void *user);
  void *user;
};

void pjrtd_mailbox_drain(pjrtd_mailbox *mailbox) {
  pjrtd_message *oldest = pjrtd_message_take_all(&mailbox->posted);
  if (!oldest) return;
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
  /* Only the first message of a batch needs to wake the loop: the reader takes all that is there. */
  if (pjrtd_message_push(&mailbox->posted, message)) uv_async_send(&mailbox->wakeup);
}

static void on_closed(uv_handle_t *wakeup) {
  pjrtd_free(wakeup->data);
}

void pjrtd_mailbox_close(pjrtd_mailbox *mailbox) {
  if (!mailbox) return;
  pjrtd_mailbox_drain(mailbox);
  uv_close((uv_handle_t *)&mailbox->wakeup, on_closed);
}
