/* PJRT events: waiting, looking, and being told. Callbacks run on the plugin's threads: they free what belongs to the
 * event, call `done`, and ask nothing of the plugin. */
#include <stdatomic.h>

#include "plugin/pjrt_call.h"

void pjrtd_event_drop(const pjrtd_plugin *plugin, PJRT_Event *event) {
  if (!event) return;
  PJRTD_ARGS(Event_Destroy, destroy, .event = event);
  pjrtd_status_ignore(PJRTD_CALL(plugin, Event_Destroy, destroy));
}

pjrtd_status *pjrtd_event_await(const pjrtd_plugin *plugin, PJRT_Event *event) {
  if (!event) return PJRTD_OK;
  PJRTD_ARGS(Event_Await, await, .event = event);
  pjrtd_status *status = PJRTD_CALL(plugin, Event_Await, await);
  pjrtd_event_drop(plugin, event);
  return status;
}

bool pjrtd_event_poll(const pjrtd_plugin *plugin, PJRT_Event *event, pjrtd_status **out_status) {
  *out_status = PJRTD_OK;
  if (!event) return true;
  PJRTD_ARGS(Event_IsReady, look, .event = event);
  pjrtd_status *failed = PJRTD_CALL(plugin, Event_IsReady, look);
  if (failed) {
    pjrtd_status_ignore(failed);
    return false;
  }
  if (!look.is_ready) return false;
  *out_status = pjrtd_event_await(plugin, event); /* of a ready event: only its error */
  return true;
}

typedef struct {
  pjrtd_event_group *group;
  PJRT_Event *event; /* owned until the callback */
} watch;

struct pjrtd_event_group {
  pjrtd_plugin *plugin;
  pjrtd_event_fn done;
  void *user;
  atomic_size_t remaining;
  _Atomic(pjrtd_status *) first_error;
  watch watches[];
};

pjrtd_event_group *pjrtd_event_group_create(pjrtd_plugin *plugin, size_t count, pjrtd_event_fn done, void *user) {
  pjrtd_event_group *group = pjrtd_malloc(sizeof *group + count * sizeof *group->watches);
  if (!group) return NULL;
  group->plugin = plugin;
  group->done = done;
  group->user = user;
  atomic_init(&group->first_error, NULL);
  return group;
}

void pjrtd_event_group_destroy(pjrtd_event_group *group) {
  pjrtd_free(group);
}

/* Takes `status`. */
static void group_end_one(pjrtd_event_group *group, pjrtd_status *status) {
  pjrtd_status *none = NULL;
  if (status && !atomic_compare_exchange_strong(&group->first_error, &none, status)) pjrtd_status_destroy(status);
  if (atomic_fetch_sub(&group->remaining, 1) != 1) return;
  pjrtd_plugin *plugin = group->plugin;
  group->done(group->user, atomic_load(&group->first_error));
  pjrtd_free(group);
  atomic_fetch_sub(&plugin->callbacks_owed, 1); /* after `done`: who sees 0 finds what it posted */
}

static void on_ready(PJRT_Error *error, void *user) {
  watch *watch = user;
  pjrtd_event_group *group = watch->group;
  pjrtd_status *status = pjrtd_plugin_take_error(group->plugin, error);
  /* As frameworks do it, so every plugin can bear it: the event goes in its own callback. */
  pjrtd_event_drop(group->plugin, watch->event);
  group_end_one(group, status);
}

pjrtd_status *pjrtd_event_group_start_one(pjrtd_event_group *group, PJRT_Event *event) {
  atomic_init(&group->remaining, 1 + (event != NULL)); /* so that the group outlives the call */
  atomic_fetch_add(&group->plugin->callbacks_owed, 1);
  if (event) {
    group->watches[0] = (watch){group, event};
    PJRTD_ARGS(Event_OnReady, args, .event = event, .callback = on_ready, .user_arg = &group->watches[0]);
    pjrtd_status *failed = PJRTD_CALL(group->plugin, Event_OnReady, args);
    if (failed) {
      atomic_fetch_sub(&group->plugin->callbacks_owed, 1);
      return failed;
    }
  }
  group_end_one(group, PJRTD_OK);
  return PJRTD_OK;
}

void pjrtd_event_group_start(pjrtd_event_group *group, PJRT_Event *const *events, size_t count) {
  /* One more than the events, so that `done` cannot come while they are still being registered. */
  atomic_init(&group->remaining, count + 1);
  atomic_fetch_add(&group->plugin->callbacks_owed, 1);
  for (size_t i = 0; i < count; i++) {
    if (!events[i]) {
      group_end_one(group, PJRTD_OK);
      continue;
    }
    group->watches[i] = (watch){group, events[i]};
    PJRTD_ARGS(Event_OnReady, args, .event = events[i], .callback = on_ready, .user_arg = &group->watches[i]);
    pjrtd_status *failed = PJRTD_CALL(group->plugin, Event_OnReady, args);
    if (failed) { /* then nobody will call back */
      pjrtd_status_ignore(failed);
      group_end_one(group, pjrtd_event_await(group->plugin, events[i]));
    }
  }
  group_end_one(group, PJRTD_OK);
}
