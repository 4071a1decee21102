/* A PJRT function table made in the test, for events and errors that no real plugin can be made to give. */
#pragma once

#include <criterion/criterion.h>
#include <string.h>

#include "plugin/pjrt_call.h"

/* PJRT leaves PJRT_Event to the plugin; this is ours. */
struct PJRT_Event {
  bool ready;
  PJRT_Error *error; /* given away with the first look */
  PJRT_Event_OnReadyCallback callback;
  void *user;
  int destroyed;
};

typedef struct {
  PJRT_Error base;
  PJRT_Error_Code code;
  const char *message;
  int destroyed;
} fake_error;

static void fake_error_destroy(PJRT_Error_Destroy_Args *args) {
  ((fake_error *)args->error)->destroyed++;
}
static void fake_error_message(PJRT_Error_Message_Args *args) {
  const fake_error *error = (const fake_error *)args->error;
  args->message = error->message;
  args->message_size = error->message ? strlen(error->message) : 0;
}
static PJRT_Error *fake_error_code(PJRT_Error_GetCode_Args *args) {
  args->code = ((const fake_error *)args->error)->code;
  return NULL;
}

static PJRT_Error *fake_event_destroy(PJRT_Event_Destroy_Args *args) {
  args->event->destroyed++;
  return NULL;
}
static PJRT_Error *fake_event_is_ready(PJRT_Event_IsReady_Args *args) {
  args->is_ready = args->event->ready;
  return NULL;
}
static PJRT_Error *fake_event_await(PJRT_Event_Await_Args *args) {
  return args->event->error;
}
static PJRT_Error *fake_event_on_ready(PJRT_Event_OnReady_Args *args) {
  if (args->event->ready) {
    args->callback(args->event->error, args->user_arg);
    return NULL;
  }
  args->event->callback = args->callback;
  args->event->user = args->user_arg;
  return NULL;
}

__attribute__((unused)) static void end_event(PJRT_Event *event) {
  event->callback(event->error, event->user);
}

__attribute__((unused)) static pjrtd_plugin fake_plugin(void) {
  pjrtd_plugin fake = {.info = {.api_major = 0, .api_minor = 99}};
  fake.api.PJRT_Error_Destroy = fake_error_destroy;
  fake.api.PJRT_Error_Message = fake_error_message;
  fake.api.PJRT_Error_GetCode = fake_error_code;
  fake.api.PJRT_Event_Destroy = fake_event_destroy;
  fake.api.PJRT_Event_IsReady = fake_event_is_ready;
  fake.api.PJRT_Event_Await = fake_event_await;
  fake.api.PJRT_Event_OnReady = fake_event_on_ready;
  return fake;
}
