/* Who waits at gRPC's completion queue (grpc_front.h): the pump thread, or the loop while it polls.
 *
 * The pump only sleeps there for the loop. What wakes it becomes a message to the loop; and where the loop polls, the
 * pump hands over its place with that message and stays away until it gets it back, so that an exchange of many small
 * messages wakes no thread. gRPC lets any thread wait, but has one of them watch the sockets: two would get in each
 * other's way. */
#include "base/clock.h"
#include "transport/grpc_front.h"

/* Attempts before the rest of the loop gets a look. */
#define SPIN_ROUNDS 4

static void complete(grpc_event event, grpc_tag **out_tag) {
  grpc_tag *tag = event.tag;
  atomic_load_explicit(&tag->started, memory_order_acquire);
  tag->ok = event.success != 0;
  *out_tag = tag;
}

/* ---- the pump ---- */

static void pump(void *user) {
  grpc_pump *own = user;
  for (;;) {
    grpc_event event = grpc_completion_queue_next(own->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    if (event.type == GRPC_QUEUE_SHUTDOWN) break;
    grpc_tag *tag;
    complete(event, &tag);
    bool hand_over = atomic_load(&own->loop_polls);
    if (hand_over) pjrtd_mailbox_post(own->runtime->mailbox, &own->handed_over);
    pjrtd_mailbox_post(own->runtime->mailbox, &tag->message);
    if (hand_over) uv_sem_wait(&own->handed_back);
  }
  atomic_store(&own->ended, true);
}

/* ---- the loop ---- */

static void hand_back(grpc_pump *own) {
  uv_idle_stop(&own->spin);
  if (!own->loop_has_place) return;
  own->loop_has_place = false;
  uv_sem_post(&own->handed_back);
}

/* Handles what has completed. */
static bool collect(grpc_pump *own) {
  bool any = false;
  pjrtd_runtime_enter(own->runtime);
  do {
    grpc_event event = grpc_completion_queue_next(own->queue, gpr_inf_past(GPR_CLOCK_REALTIME), NULL);
    if (event.type != GRPC_OP_COMPLETE) break;
    any = true;
    grpc_tag *tag;
    complete(event, &tag);
    tag->done(tag, tag->ok);
  } while (!pjrtd_runtime_time_is_up(own->runtime));
  return any;
}

static void on_spin(uv_idle_t *spin) {
  grpc_pump *own = spin->data;
  for (int round = 0; round < SPIN_ROUNDS; round++) {
    bool any = collect(own);
    uint64_t now_ns = pjrtd_clock_now_ns();
    if (any) own->hot_until_ns = now_ns + own->runtime->settings->busy_poll_us * UINT64_C(1000);
    bool may_poll = pjrtd_may_poll(&own->crowding, own->runtime, now_ns);
    if (!may_poll || (!any && (now_ns > own->hot_until_ns || !pjrtd_give_way(&own->crowding)))) {
      atomic_store(&own->loop_polls, may_poll);
      hand_back(own);
      return;
    }
    if (any) return; /* answers go out at the end of the turn */
  }
}

static void on_handed_over(pjrtd_message *message) {
  grpc_pump *own = (grpc_pump *)((char *)message - offsetof(grpc_pump, handed_over));
  own->loop_has_place = true;
  own->hot_until_ns = pjrtd_clock_now_ns() + own->runtime->settings->busy_poll_us * UINT64_C(1000);
  uv_idle_start(&own->spin, on_spin);
}

void grpc_pump_end_turn(grpc_pump *own) {
  if (!own->loop_has_place && !own->closing)
    atomic_store(&own->loop_polls, pjrtd_may_poll(&own->crowding, own->runtime, pjrtd_clock_now_ns()));
}

/* ---- life ---- */

pjrtd_status *grpc_pump_start(grpc_pump *own, pjrtd_runtime *runtime, grpc_completion_queue *queue) {
  own->runtime = runtime;
  own->queue = queue;
  own->handed_over.deliver = on_handed_over;
  uv_idle_init(runtime->loop, &own->spin);
  own->spin.data = own;
  int error = uv_sem_init(&own->handed_back, 0);
  if (error) return pjrtd_status_from_errno(-error, "making a semaphore");
  error = uv_thread_create(&own->thread, pump, own);
  if (error) {
    uv_sem_destroy(&own->handed_back);
    return pjrtd_status_from_errno(-error, "starting gRPC's pump thread");
  }
  own->running = true;
  return PJRTD_OK;
}

void grpc_pump_close(grpc_pump *own) {
  own->closing = true;
  atomic_store(&own->loop_polls, false);
  hand_back(own);
}

void grpc_pump_join(grpc_pump *own) {
  uv_close((uv_handle_t *)&own->spin, NULL);
  if (!own->running) return;
  /* What gRPC has under way comes back now, cancelled, and its memory is freed where that is handled. */
  while (!atomic_load(&own->ended)) {
    pjrtd_mailbox_drain(own->runtime->mailbox);
    hand_back(own); /* it had not heard that the loop is closing */
    uv_sleep(1);
  }
  uv_thread_join(&own->thread);
  pjrtd_mailbox_drain(own->runtime->mailbox);
  uv_sem_destroy(&own->handed_back);
  own->running = false;
}
