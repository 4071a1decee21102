/* Errors and events. One mutex for all events; callbacks are made without it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fake_plugin.h"

/* ---- errors ---- */

typedef struct {
  PJRT_Error base;
  fake_object object;
  int code;
  char *text; /* exactly as long as it says, without a 0 behind; NULL: it has none */
  size_t bytes;
} fake_error;

PJRT_Error *fake_error_make(int code, const char *text, size_t bytes) {
  fake_error *error = calloc(1, sizeof *error);
  fake_object_init(&error->object, FAKE_ERROR);
  error->code = code;
  if (text) {
    error->text = malloc(bytes ? bytes : 1);
    memcpy(error->text, text, bytes);
    error->bytes = bytes;
  }
  return &error->base;
}

PJRT_Error *fake_error_text(int code, const char *text) {
  return fake_error_make(code, text, strlen(text));
}

void fake_Error_Destroy(PJRT_Error_Destroy_Args *args) {
  fake_check_call("Error_Destroy", args->struct_size, PJRT_Error_Destroy_Args_STRUCT_SIZE, args->extension_start);
  fake_error *error = (fake_error *)args->error;
  fake_object_destroy(&error->object, FAKE_ERROR, "Error_Destroy");
  free(error->text);
}

void fake_Error_Message(PJRT_Error_Message_Args *args) {
  fake_check_call("Error_Message", args->struct_size, PJRT_Error_Message_Args_STRUCT_SIZE, args->extension_start);
  const fake_error *error = (const fake_error *)args->error;
  fake_object_check(&error->object, FAKE_ERROR, "Error_Message");
  args->message = error->text;
  args->message_size = error->bytes;
}

PJRT_Error *fake_Error_GetCode(PJRT_Error_GetCode_Args *args) {
  FAKE_ENTER(Error_GetCode, NULL);
  const fake_error *error = (const fake_error *)args->error;
  fake_object_check(&error->object, FAKE_ERROR, "Error_GetCode");
  args->code = (PJRT_Error_Code)error->code;
  return NULL;
}

/* ---- events ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;

PJRT_Event *fake_event_make(void) {
  PJRT_Event *event = calloc(1, sizeof *event);
  fake_object_init(&event->object, FAKE_EVENT);
  return event;
}

static PJRT_Error *event_error(const PJRT_Event *event) {
  return event->text ? fake_error_make(event->code, event->text, event->text_bytes) : NULL;
}

static void call_back(PJRT_Event *event, PJRT_Event_OnReadyCallback callback, void *user) {
  PJRT_Error *error = event_error(event);
  fake_callback_begin();
  callback(error, user);
  fake_callback_end();
  fake_callback_outstanding(-1);
}

/* It may have been destroyed in the meantime: that only drops the user's hold on it. */
void fake_event_end(PJRT_Event *event, int code, const char *text, size_t text_bytes) {
  pthread_mutex_lock(&mutex);
  event->ready = true;
  event->code = code;
  event->text = text;
  event->text_bytes = text_bytes;
  PJRT_Event_OnReadyCallback callback = event->callback;
  void *user = event->user;
  pthread_cond_broadcast(&ended);
  pthread_mutex_unlock(&mutex);
  if (callback) call_back(event, callback, user);
}

PJRT_Error *fake_Event_Destroy(PJRT_Event_Destroy_Args *args) {
  FAKE_ENTER_DESTROY(Event_Destroy, NULL);
  fake_object_destroy(&args->event->object, FAKE_EVENT, "Event_Destroy");
  return plan.error;
}

PJRT_Error *fake_Event_IsReady(PJRT_Event_IsReady_Args *args) {
  FAKE_ENTER(Event_IsReady, NULL);
  fake_object_check(&args->event->object, FAKE_EVENT, "Event_IsReady");
  pthread_mutex_lock(&mutex);
  args->is_ready = args->event->ready;
  pthread_mutex_unlock(&mutex);
  return NULL;
}

PJRT_Error *fake_Event_Await(PJRT_Event_Await_Args *args) {
  FAKE_ENTER(Event_Await, NULL);
  fake_object_check(&args->event->object, FAKE_EVENT, "Event_Await");
  pthread_mutex_lock(&mutex);
  while (!args->event->ready) pthread_cond_wait(&ended, &mutex);
  pthread_mutex_unlock(&mutex);
  return event_error(args->event);
}

PJRT_Error *fake_Event_OnReady(PJRT_Event_OnReady_Args *args) {
  FAKE_ENTER(Event_OnReady, NULL);
  fake_object_check(&args->event->object, FAKE_EVENT, "Event_OnReady");
  FAKE_RULE(args->callback, "Event_OnReady was given no callback");
  fake_callback_outstanding(1);
  pthread_mutex_lock(&mutex);
  bool now = args->event->ready;
  FAKE_RULE(!args->event->callback, "an event was given two callbacks");
  args->event->callback = args->callback;
  args->event->user = args->user_arg;
  pthread_mutex_unlock(&mutex);
  if (now) call_back(args->event, args->callback, args->user_arg); /* inside the call */
  return NULL;
}

/* ---- what several events wait for ---- */

struct fake_pending {
  fake_pending *next; /* of all that ever were, for a leak checker */
  bool ended;         /* under the mutex, as what follows */
  PJRT_Event *waiting;
  fake_plan how;
};

static fake_pending *all; /* under the mutex */

fake_pending *fake_pending_make(void) {
  fake_pending *pending = calloc(1, sizeof *pending);
  pthread_mutex_lock(&mutex);
  pending->next = all;
  all = pending;
  pthread_mutex_unlock(&mutex);
  return pending;
}

void fake_pending_tell(fake_pending *pending, PJRT_Event *event) {
  pthread_mutex_lock(&mutex);
  bool ended_already = pending->ended;
  if (!ended_already) {
    event->next = pending->waiting;
    pending->waiting = event;
  }
  pthread_mutex_unlock(&mutex);
  if (ended_already)
    fake_event_end(event, pending->how.event_code, pending->how.event_text, pending->how.event_text_bytes);
}

void fake_pending_end(fake_pending *pending, const fake_plan *plan) {
  pthread_mutex_lock(&mutex);
  pending->ended = true;
  pending->how = *plan;
  PJRT_Event *waiting = pending->waiting;
  pthread_mutex_unlock(&mutex);
  for (PJRT_Event *next; waiting; waiting = next) {
    next = waiting->next;
    fake_event_end(waiting, plan->event_code, plan->event_text, plan->event_text_bytes);
  }
}

/* ---- later ---- */

typedef struct {
  fake_plan plan;
  void (*work)(void *user, const fake_plan *plan);
  void *user;
} later;

static void *later_main(void *argument) {
  later *self = argument;
  if (self->plan.event_after_ms > 0) fake_sleep_ms(self->plan.event_after_ms);
  if (self->plan.event_hold) fake_wait_for_release();
  self->work(self->user, &self->plan);
  free(self);
  return NULL;
}

void fake_when_planned(const fake_plan *plan, void (*work)(void *user, const fake_plan *plan), void *user) {
  if (plan->event_after_ms < 0 && !plan->event_hold) {
    work(user, plan);
    return;
  }
  later *self = malloc(sizeof *self);
  *self = (later){*plan, work, user};
  pthread_t thread;
  FAKE_RULE(pthread_create(&thread, NULL, later_main, self) == 0, "there is no thread to be had");
  pthread_detach(thread);
}
