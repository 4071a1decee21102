/* The rules that hold for every object and every call. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_plugin.h"

static const char *const kind_names[FAKE_KINDS] = {"client", "error",      "event",
                                                   "buffer", "executable", "loaded executable"};

static _Atomic(fake_object *) all; /* what ever was made, so that a leak checker finds it */
static atomic_int alive[FAKE_KINDS], callbacks_outstanding;
static _Thread_local int in_callback;
atomic_bool fake_client_is_gone;

_Noreturn void fake_broken(const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "fake plugin: rule broken: %s\n", text);
  abort();
}

void fake_object_init(fake_object *object, fake_kind kind) {
  object->kind = kind;
  atomic_store(&object->state, 1);
  object->next = atomic_load(&all);
  while (!atomic_compare_exchange_weak(&all, &object->next, object)) {
  }
  atomic_fetch_add(&alive[kind], 1);
}

void fake_object_check(const fake_object *object, fake_kind kind, const char *function) {
  FAKE_RULE(object, "%s was given no %s", function, kind_names[kind]);
  FAKE_RULE(object->kind == kind, "%s was given something that is no %s", function, kind_names[kind]);
  FAKE_RULE(atomic_load(&object->state) == 1, "%s was given a %s that is destroyed", function, kind_names[kind]);
}

void fake_object_destroy(fake_object *object, fake_kind kind, const char *function) {
  fake_object_check(object, kind, function);
  FAKE_RULE(atomic_exchange(&object->state, 2) == 1, "%s destroyed a %s twice", function, kind_names[kind]);
  atomic_fetch_sub(&alive[kind], 1);
}

void fake_check_all_destroyed(void) {
  for (int kind = FAKE_ERROR; kind < FAKE_KINDS; kind++)
    FAKE_RULE(!atomic_load(&alive[kind]), "the client is destroyed, but %d %ss are not", atomic_load(&alive[kind]),
              kind_names[kind]);
  FAKE_RULE(!atomic_load(&callbacks_outstanding), "the client is destroyed, but %d callbacks are outstanding",
            atomic_load(&callbacks_outstanding));
}

void fake_callback_begin(void) {
  in_callback++;
}
void fake_callback_end(void) {
  in_callback--;
}
void fake_callback_outstanding(int more) {
  atomic_fetch_add(&callbacks_outstanding, more);
}

void fake_check_call(const char *function, size_t struct_size, size_t right_size, const void *extension_start) {
  FAKE_RULE(struct_size == right_size, "%s has struct_size %zu, not %zu", function, struct_size, right_size);
  FAKE_RULE(!extension_start, "%s has an extension that does not exist", function);
  bool in_callbacks_too = strncmp(function, "Error_", 6) == 0 || strcmp(function, "Event_Destroy") == 0;
  FAKE_RULE(!in_callback || in_callbacks_too, "%s was called from a callback", function);
  bool without_client_too =
      in_callbacks_too || strncmp(function, "Plugin_", 7) == 0 || strcmp(function, "Client_Create") == 0;
  FAKE_RULE(!atomic_load(&fake_client_is_gone) || without_client_too, "%s was called after the client was destroyed",
            function);
}
