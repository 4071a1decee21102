/* See resource.h. */
#include "state/resource.h"

void pjrtd_resource_init(pjrtd_resource *resource, void (*destroy)(pjrtd_resource *resource)) {
  *resource = (pjrtd_resource){.references = 1, .destroy = destroy};
}

pjrtd_resource *pjrtd_resource_retain(pjrtd_resource *resource) {
  resource->references++;
  return resource;
}

void pjrtd_resource_release(pjrtd_resource *resource) {
  if (--resource->references) return;
  pjrtd_status_destroy(resource->error);
  resource->error = NULL;
  resource->destroy(resource);
}

void pjrtd_resource_set_ready(pjrtd_resource *resource) {
  resource->state = PJRTD_RESOURCE_READY;
}

void pjrtd_resource_set_failed(pjrtd_resource *resource, pjrtd_status *error) {
  pjrtd_status_destroy(resource->error);
  resource->error = error;
  resource->state = PJRTD_RESOURCE_FAILED;
}

static void push_ready(pjrtd_operation *operation) {
  pjrtd_ready_list *list = operation->list;
  operation->queued = true;
  operation->next = NULL;
  operation->previous = list->last;
  if (list->last)
    list->last->next = operation;
  else
    list->first = operation;
  list->last = operation;
}

static void remove_ready(pjrtd_operation *operation) {
  pjrtd_ready_list *list = operation->list;
  if (operation->previous)
    operation->previous->next = operation->next;
  else
    list->first = operation->next;
  if (operation->next)
    operation->next->previous = operation->previous;
  else
    list->last = operation->previous;
  operation->queued = false;
}

bool pjrtd_ready_list_run_one(pjrtd_ready_list *list) {
  pjrtd_operation *operation = list->first;
  if (!operation) return false;
  remove_ready(operation);
  operation->ready(operation);
  return true;
}

void pjrtd_operation_requeue(pjrtd_operation *operation, pjrtd_ready_list *list) {
  operation->list = list;
  push_ready(operation);
}

void pjrtd_ready_list_move(pjrtd_ready_list *from, pjrtd_ready_list *to) {
  while (from->first) {
    pjrtd_operation *operation = from->first;
    remove_ready(operation);
    pjrtd_operation_requeue(operation, to);
  }
}

static void grant(pjrtd_hold *hold) {
  if (hold->mode == PJRTD_HOLD_WRITE)
    hold->resource->written = true;
  else
    hold->resource->readers++;
  hold->granted = true;
  if (--hold->operation->waiting == 0 && hold->operation->started) push_ready(hold->operation);
}

static void unqueue(pjrtd_resource *resource, pjrtd_hold *hold) {
  if (hold->previous)
    hold->previous->next = hold->next;
  else
    resource->first = hold->next;
  if (hold->next)
    hold->next->previous = hold->previous;
  else
    resource->last = hold->previous;
  hold->next = hold->previous = NULL;
}

static bool can_grant(const pjrtd_resource *resource, pjrtd_hold_mode mode) {
  return !resource->written && (mode == PJRTD_HOLD_READ || !resource->readers);
}

static void grant_waiting(pjrtd_resource *resource) {
  while (resource->first && can_grant(resource, resource->first->mode)) {
    pjrtd_hold *hold = resource->first;
    unqueue(resource, hold);
    grant(hold);
  }
}

void pjrtd_operation_init(pjrtd_operation *operation, pjrtd_ready_list *list, pjrtd_hold *holds, uint32_t capacity,
                          void (*ready)(pjrtd_operation *operation)) {
  *operation = (pjrtd_operation){.list = list, .holds = holds, .capacity = capacity, .ready = ready};
}

void pjrtd_operation_hold(pjrtd_operation *operation, pjrtd_resource *resource, pjrtd_hold_mode mode) {
  /* `recent` may be left from an operation that was started since: only a hold among ours counts. */
  pjrtd_hold *recent = resource->recent;
  if (recent && recent >= operation->holds && recent < operation->holds + operation->num_holds) {
    if (mode == PJRTD_HOLD_WRITE) recent->mode = PJRTD_HOLD_WRITE;
    return;
  }
  pjrtd_hold *hold = &operation->holds[operation->num_holds++];
  *hold = (pjrtd_hold){.resource = pjrtd_resource_retain(resource), .operation = operation, .mode = mode};
  resource->recent = hold;
}

void pjrtd_operation_start(pjrtd_operation *operation) {
  operation->waiting = operation->num_holds;
  for (uint32_t i = 0; i < operation->num_holds; i++) {
    pjrtd_hold *hold = &operation->holds[i];
    pjrtd_resource *resource = hold->resource;
    resource->recent = NULL;
    if (!resource->first && can_grant(resource, hold->mode)) {
      grant(hold);
      continue;
    }
    hold->previous = resource->last;
    if (resource->last)
      resource->last->next = hold;
    else
      resource->first = hold;
    resource->last = hold;
  }
  operation->started = true;
  if (!operation->waiting) push_ready(operation);
}

void pjrtd_operation_grant_new(pjrtd_operation *operation) {
  for (uint32_t i = 0; i < operation->num_holds; i++) {
    operation->holds[i].resource->recent = NULL;
    operation->waiting++;
    grant(&operation->holds[i]);
  }
  operation->started = true;
}

static void give_back(pjrtd_operation *operation, pjrtd_hold *hold) {
  pjrtd_resource *resource = hold->resource;
  if (!resource) return;
  hold->resource = NULL;
  if (resource->recent == hold) resource->recent = NULL;
  if (!hold->granted) {
    if (operation->started) unqueue(resource, hold);
  } else if (hold->mode == PJRTD_HOLD_WRITE) {
    resource->written = false;
  } else {
    resource->readers--;
  }
  grant_waiting(resource);
  pjrtd_resource_release(resource);
}

void pjrtd_operation_give_back_failed(pjrtd_operation *operation) {
  for (uint32_t i = 0; i < operation->num_holds; i++) {
    pjrtd_hold *hold = &operation->holds[i];
    if (hold->resource && hold->granted && hold->mode == PJRTD_HOLD_WRITE &&
        hold->resource->state == PJRTD_RESOURCE_FAILED)
      give_back(operation, hold);
  }
}

void pjrtd_operation_end(pjrtd_operation *operation) {
  if (operation->queued) remove_ready(operation);
  uint32_t count = operation->num_holds;
  operation->num_holds = 0;
  for (uint32_t i = 0; i < count; i++) give_back(operation, &operation->holds[i]);
}
