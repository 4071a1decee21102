/* Slots that sessions share: published by one, borrowed by others. Any thread. */
#include <stdlib.h>

#include "heap.h"
#include "method_ids.h"
#include "op_slots.h"
#include "pjrtd/v1/session.pb-c.h"
#include "reply_object.h"

static pjrtc_failure *check_publication(const char *name) {
  return name ? NULL : pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, NULL, "the publication has no name");
}

/* ---- Publish ---- */

static pjrtc_failure *check_publish(pjrtc_publish_options *out_own, const pjrtc_publish_options *options) {
  pjrtc_failure *failure = pjrtc_op_options(out_own, sizeof *out_own, options, "pjrtc_publish_options");
  if (!failure) failure = check_publication(out_own->name);
  if (!failure) failure = pjrtc_slots_check_names(out_own->slots, out_own->num_slots);
  if (!failure && out_own->num_uids && !out_own->uids)
    failure = pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, NULL, "uids is NULL");
  return failure;
}

static Pjrtd__V1__PublishRequest publish_of(const pjrtc_publish_options *options) {
  Pjrtd__V1__PublishRequest message = PJRTD__V1__PUBLISH_REQUEST__INIT;
  message.name = (char *)options->name;
  message.n_slots = options->num_slots;
  message.slots = (char **)options->slots;
  message.everybody = options->everybody;
  message.n_uids = options->num_uids;
  message.uids = (uint32_t *)options->uids;
  return message;
}

pjrtc_code pjrtc_publish_start(pjrtc_client *client, const pjrtc_publish_options *options, pjrtc_future **out_future,
                               pjrtc_error *error) {
  pjrtc_publish_options own;
  pjrtc_failure *failure = check_publish(&own, options);
  Pjrtd__V1__PublishRequest message = publish_of(&own);
  return pjrtc_op_start(client, failure, PJRTC_METHOD_session_publish, &message.base, out_future, error);
}

pjrtc_code pjrtc_publish(pjrtc_client *client, const pjrtc_publish_options *options, pjrtc_error *error) {
  pjrtc_publish_options own;
  pjrtc_failure *failure = check_publish(&own, options);
  Pjrtd__V1__PublishRequest message = publish_of(&own);
  return pjrtc_op_call(client, failure, PJRTC_METHOD_session_publish, &message.base, error);
}

/* ---- Withdraw ---- */

static Pjrtd__V1__WithdrawRequest withdraw_of(const char *name) {
  Pjrtd__V1__WithdrawRequest message = PJRTD__V1__WITHDRAW_REQUEST__INIT;
  message.name = (char *)name;
  return message;
}

pjrtc_code pjrtc_withdraw_start(pjrtc_client *client, const char *name, pjrtc_future **out_future, pjrtc_error *error) {
  Pjrtd__V1__WithdrawRequest message = withdraw_of(name);
  return pjrtc_op_start(client, check_publication(name), PJRTC_METHOD_session_withdraw, &message.base, out_future,
                        error);
}

pjrtc_code pjrtc_withdraw(pjrtc_client *client, const char *name, pjrtc_error *error) {
  Pjrtd__V1__WithdrawRequest message = withdraw_of(name);
  return pjrtc_op_call(client, check_publication(name), PJRTC_METHOD_session_withdraw, &message.base, error);
}

/* ---- Borrow ---- */

static pjrtc_failure *check_borrow(const char *name, const pjrtc_borrowed_slot *slots, size_t num_slots) {
  pjrtc_failure *failure = check_publication(name);
  if (!failure) failure = pjrtc_slots_check_count(num_slots, slots, "slots");
  for (size_t i = 0; !failure && i < num_slots; i++) failure = pjrtc_slots_check_name(slots[i].slot, i);
  return failure;
}

/* `*out_memory` is owned by the caller, and holds what the message borrows. */
static pjrtc_failure *make_borrow(const char *name, const pjrtc_borrowed_slot *slots, size_t num_slots,
                                  Pjrtd__V1__BorrowRequest *out_message, void **out_memory) {
  *out_memory = NULL;
  pjrtc_failure *failure = check_borrow(name, slots, num_slots);
  if (failure) return failure;
  Pjrtd__V1__BorrowedSlot *messages, **list;
  messages = *out_memory = pjrtc_heap_alloc(num_slots * (sizeof *messages + sizeof *list));
  if (!messages) return pjrtc_failure_oom();
  list = (Pjrtd__V1__BorrowedSlot **)(messages + num_slots);
  for (size_t i = 0; i < num_slots; i++) {
    pjrtd__v1__borrowed_slot__init(&messages[i]);
    messages[i].slot = (char *)slots[i].slot;
    if (slots[i].as) messages[i].as = (char *)slots[i].as;
    list[i] = &messages[i];
  }
  pjrtd__v1__borrow_request__init(out_message);
  out_message->name = (char *)name;
  out_message->n_slots = num_slots;
  out_message->slots = list;
  return NULL;
}

pjrtc_code pjrtc_borrow_start(pjrtc_client *client, const char *name, const pjrtc_borrowed_slot *slots,
                              size_t num_slots, pjrtc_future **out_future, pjrtc_error *error) {
  Pjrtd__V1__BorrowRequest message;
  void *memory;
  pjrtc_failure *failure = make_borrow(name, slots, num_slots, &message, &memory);
  pjrtc_code code = pjrtc_op_start(client, failure, PJRTC_METHOD_session_borrow, &message.base, out_future, error);
  free(memory);
  return code;
}

pjrtc_code pjrtc_borrow(pjrtc_client *client, const char *name, const pjrtc_borrowed_slot *slots, size_t num_slots,
                        pjrtc_error *error) {
  Pjrtd__V1__BorrowRequest message;
  void *memory;
  pjrtc_failure *failure = make_borrow(name, slots, num_slots, &message, &memory);
  pjrtc_code code = pjrtc_op_call(client, failure, PJRTC_METHOD_session_borrow, &message.base, error);
  free(memory);
  return code;
}

/* ---- What is published ---- */

static pjrtc_publication *read_publication(pjrtc_reply_arena *arena, const Pjrtd__V1__PublicationInfo *m) {
  pjrtc_publication *publication = pjrtc_reply_arena_zalloc(arena, sizeof *publication);
  if (!publication) return NULL;
  *publication = (pjrtc_publication){.struct_size = sizeof *publication,
                                     .name = m->name,
                                     .session = m->session,
                                     .session_name = m->session_name,
                                     .local = m->local,
                                     .uid = m->uid,
                                     .own = m->own,
                                     .everybody = m->everybody,
                                     .slots = m->slots,
                                     .bytes = m->bytes,
                                     .borrowed = m->borrowed};
  return publication;
}

void *pjrtc_read_published(pjrtc_reply_arena *arena, const uint8_t *payload, size_t payload_bytes) {
  Pjrtd__V1__PublishedReply *m =
      pjrtd__v1__published_reply__unpack(pjrtc_reply_arena_allocator(arena), payload_bytes, payload);
  pjrtc_published *published = pjrtc_reply_object_create(arena, sizeof *published);
  if (!m || !published) return NULL;
  pjrtc_publication **list = pjrtc_reply_arena_zalloc(arena, m->n_publications * sizeof *list);
  for (size_t i = 0; list && i < m->n_publications; i++)
    if (!(list[i] = read_publication(arena, m->publications[i]))) return NULL;
  *published = (pjrtc_published){sizeof *published, (const pjrtc_publication *const *)list, m->n_publications};
  return list ? published : NULL;
}

static pjrtc_failure *decode_published(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes,
                                       const uint8_t *bulk, size_t bulk_bytes) {
  if (!call->to.object) return NULL;
  return pjrtc_reply_object_read(pjrtc_read_published, payload, payload_bytes, "Session.Published", call->to.object);
}

pjrtc_code pjrtc_get_published(pjrtc_client *client, pjrtc_published **out_published, pjrtc_error *error) {
  void *object = NULL;
  pjrtc_code code = pjrtc_op_get(client, NULL, PJRTC_METHOD_session_published, NULL, decode_published, &object, error);
  *out_published = object;
  return code;
}

void pjrtc_published_destroy(pjrtc_published *published) {
  pjrtc_reply_object_destroy(published);
}
