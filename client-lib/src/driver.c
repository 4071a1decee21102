/* See driver.h. */
#include "driver.h"

#include <time.h>

#include "calls.h"
#include "socket_link.h"

/* Reads of one pjrtc_progress: a long download must not hold up the caller's event loop. */
enum { PROGRESS_READS = 64 };

uint64_t pjrtc_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- Waking ---- */

void pjrtc_driver_kick(pjrtc_client *client) {
  if (!client->polling_out) pjrtc_driver_interrupt(client);
}

void pjrtc_driver_interrupt(pjrtc_client *client) {
  if (!client->polling || client->wake_sent) return;
  client->wake_sent = true;
  client->link->ops->wake(client->link);
}

void pjrtc_driver_wake(pjrtc_client *client, pjrtc_future *call) {
  uint32_t left = call ? call->num_waiters : client->num_room_waiters;
  for (pjrtc_waiter *waiter = client->first_waiter; waiter && left; waiter = waiter->next) {
    if (waiter->call != call) continue;
    pthread_cond_signal(&waiter->wake);
    left--;
  }
}

static void enter(pjrtc_client *client, pjrtc_waiter *waiter, pjrtc_future *call) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&waiter->wake, &attributes);
  pthread_condattr_destroy(&attributes);
  waiter->call = call;
  waiter->next = NULL;
  waiter->previous = client->last_waiter;
  if (client->last_waiter)
    client->last_waiter->next = waiter;
  else
    client->first_waiter = waiter;
  client->last_waiter = waiter;
  if (call)
    call->num_waiters++;
  else
    client->num_room_waiters++;
}

static void leave(pjrtc_client *client, pjrtc_waiter *waiter) {
  if (waiter->previous)
    waiter->previous->next = waiter->next;
  else
    client->first_waiter = waiter->next;
  if (waiter->next)
    waiter->next->previous = waiter->previous;
  else
    client->last_waiter = waiter->previous;
  if (waiter->call)
    waiter->call->num_waiters--;
  else
    client->num_room_waiters--;
  pthread_cond_destroy(&waiter->wake);
}

/* Sleeps until somebody wakes this thread, or until the deadline. */
static void sleep_as_waiter(pjrtc_client *client, pjrtc_future *call, uint64_t deadline_ns) {
  pjrtc_waiter waiter;
  enter(client, &waiter, call);
  if (deadline_ns == PJRTC_NO_DEADLINE) {
    pthread_cond_wait(&waiter.wake, &client->lock);
  } else {
    struct timespec until = {(time_t)(deadline_ns / 1000000000u), (long)(deadline_ns % 1000000000u)};
    pthread_cond_timedwait(&waiter.wake, &client->lock, &until);
  }
  leave(client, &waiter);
}

/* The role is free: one of those that wait is to take it. */
static void hand_over(pjrtc_client *client) {
  if (!client->driving && client->first_waiter) pthread_cond_signal(&client->first_waiter->wake);
}

/* ---- Driving ---- */

static int poll_timeout_ms(uint64_t deadline_ns) {
  if (deadline_ns == PJRTC_NO_DEADLINE) return -1;
  uint64_t now_ns = pjrtc_now_ns();
  if (now_ns >= deadline_ns) return 0;
  uint64_t left_ms = (deadline_ns - now_ns + 999999) / 1000000;
  return left_ms > 3600000 ? 3600000 : (int)left_ms;
}

/* Sleeps until the link is ready. True where there is something to read. */
static bool sleep_on_link(pjrtc_client *client, uint64_t deadline_ns) {
  bool out = pjrtc_outbox_wants_write(&client->outbox) && !client->outbox.writing;
  client->polling = true;
  client->polling_out = out;
  pthread_mutex_unlock(&client->lock);
  bool readable = client->link->ops->wait(client->link, out, poll_timeout_ms(deadline_ns));
  pthread_mutex_lock(&client->lock);
  client->polling = client->polling_out = client->wake_sent = false;
  return readable;
}

/* The first sleep of a wait is in `receive`: on a socket that is one system call in place of two, and a thread that
 * sleeps there was seen to wake up in a third less time than one in poll(2). Nobody can wake it but the server, so it
 * is short, and not for who has something to write. */
static bool may_sleep_in_receive(const pjrtc_client *client, uint64_t deadline_ns) {
  if (client->long_wait || client->inbox.item_left_bytes || pjrtc_outbox_wants_write(&client->outbox)) return false;
  return deadline_ns == PJRTC_NO_DEADLINE || deadline_ns > pjrtc_now_ns() + PJRTC_RECEIVE_MS * UINT64_C(1000000);
}

/* One turn of the driver: writes, then reads once, polling for a moment and sleeping after that. */
static void drive(pjrtc_client *client, uint64_t deadline_ns) {
  pjrtc_outbox_pump(client);
  if (client->lost) return;
  if (client->busy_poll_ns && !pjrtc_outbox_wants_write(&client->outbox) && pjrtc_spinner_begin(&client->spinner)) {
    uint64_t until_ns = pjrtc_now_ns() + client->busy_poll_ns;
    bool hit = pjrtc_inbox_receive(client, until_ns < deadline_ns ? until_ns : deadline_ns);
    pjrtc_spinner_end(&client->spinner, hit);
    if (hit || client->lost) return;
  } else if (client->inbox.item_left_bytes && pjrtc_inbox_receive(client, 0)) {
    return; /* in the middle of a piece of data there is mostly more */
  }
  if (may_sleep_in_receive(client, deadline_ns)) {
    client->long_wait = !pjrtc_inbox_receive_asleep(client);
    return; /* others may have changed what is waited for */
  }
  bool readable = sleep_on_link(client, deadline_ns);
  pjrtc_outbox_pump(client);
  if (readable && !client->lost) pjrtc_inbox_receive(client, 0);
}

void pjrtc_driver_run_callbacks(pjrtc_client *client) {
  while (client->first_callback) {
    pjrtc_future *call = client->first_callback;
    client->first_callback = call->next_callback;
    if (!client->first_callback) client->last_callback = NULL;
    call->callback_queued = false;
    pjrtc_callback callback = call->callback;
    void *user = call->callback_user;
    call->callback = NULL;
    pthread_mutex_unlock(&client->lock);
    callback(call, user);
    pthread_mutex_lock(&client->lock);
  }
}

bool pjrtc_driver_wait(pjrtc_client *client, pjrtc_future *call, pjrtc_condition *condition, void *user,
                       uint64_t deadline_ns) {
  bool holds;
  while (!(holds = condition(client, user))) {
    if (deadline_ns != PJRTC_NO_DEADLINE && pjrtc_now_ns() >= deadline_ns) break;
    if (client->driving) {
      sleep_as_waiter(client, call, deadline_ns);
      continue;
    }
    client->driving = true;
    drive(client, deadline_ns);
    client->driving = false;
    if (client->first_callback) {
      hand_over(client);
      pjrtc_driver_run_callbacks(client);
    }
  }
  hand_over(client);
  return holds;
}

static bool is_done(pjrtc_client *client, void *call) {
  return atomic_load_explicit(&((pjrtc_future *)call)->done, memory_order_relaxed);
}

bool pjrtc_driver_wait_done(pjrtc_client *client, pjrtc_future *call, uint64_t deadline_ns) {
  return pjrtc_driver_wait(client, call, is_done, call, deadline_ns);
}

void pjrtc_driver_progress(pjrtc_client *client) {
  if (!client->driving) {
    client->driving = true;
    pjrtc_outbox_pump(client);
    for (int i = 0; i < PROGRESS_READS && !client->lost && pjrtc_inbox_receive(client, 0); i++) {
    }
    pjrtc_outbox_pump(client);
    client->driving = false;
  } else {
    pjrtc_outbox_pump(client);
    if (pjrtc_outbox_wants_write(&client->outbox)) pjrtc_driver_kick(client);
  }
  if (pjrtc_client_is_in_item(client)) return;
  pjrtc_driver_run_callbacks(client);
  hand_over(client);
}
