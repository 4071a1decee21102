/* See publication.h. */
#include "state/publication.h"

#include <string.h>

static pjrtd_status *add(pjrtd_publication *publication, const char *slot) {
  pjrtd_session *session = publication->session;
  pjrtd_buffer *buffer = pjrtd_slots_find(&session->slots, slot);
  if (!buffer) return pjrtd_session_no_slot(slot);
  return pjrtd_slots_bind(&publication->slots, slot, buffer, session->account, SIZE_MAX);
}

static pjrtd_status *add_all(pjrtd_publication *publication, char *const *slots, size_t num_slots) {
  for (size_t i = 0; i < num_slots; i++) PJRTD_TRY(add(publication, slots[i]));
  pjrtd_slots *own = &publication->session->slots;
  for (size_t i = 0; !num_slots && i < own->capacity; i++) {
    const pjrtd_slot *slot = pjrtd_slots_at(own, i);
    if (slot) PJRTD_TRY(add(publication, slot->name));
  }
  if (!publication->slots.count) return PJRTD_INVALID("the session has no slot that could be published");
  return PJRTD_OK;
}

static size_t count_all(const pjrtd_runtime *runtime) {
  size_t count = 0;
  for (const pjrtd_publication *at = runtime->publications; at; at = at->next) count++;
  return count;
}

static pjrtd_status *check(const pjrtd_session *session, const char *name) {
  if (!*name) return PJRTD_INVALID("what is published needs a name");
  PJRTD_TRY(pjrtd_session_check_name(name));
  if (pjrtd_publication_find(session->runtime, name))
    return pjrtd_status_with_hint(
        pjrtd_status_make(PJRTD_CODE_ALREADY_EXISTS, "something is published as '%s' already", name),
        "withdraw it first, or choose another name");
  if (count_all(session->runtime) < PJRTD_MAX_PUBLICATIONS) return PJRTD_OK;
  return pjrtd_status_with_hint(
      pjrtd_status_make(PJRTD_CODE_RESOURCE_EXHAUSTED, "%d names are published, the most there may be",
                        PJRTD_MAX_PUBLICATIONS),
      "withdraw some");
}

pjrtd_status *pjrtd_publication_create(pjrtd_session *session, const char *name, char *const *slots, size_t num_slots,
                                       pjrtd_publication **out_publication) {
  *out_publication = NULL;
  PJRTD_TRY(check(session, name));
  pjrtd_publication *publication = pjrtd_calloc(1, sizeof *publication);
  if (!publication) return pjrtd_status_oom();
  publication->session = session;
  strcpy(publication->name, name);
  pjrtd_status *status = add_all(publication, slots, num_slots);
  if (status) {
    pjrtd_slots_deinit(&publication->slots);
    pjrtd_free(publication);
    return status;
  }
  for (size_t i = 0; i < publication->slots.capacity; i++) {
    const pjrtd_slot *slot = pjrtd_slots_at(&publication->slots, i);
    if (!slot) continue;
    slot->value->published = true;
    publication->bytes += slot->value->bytes;
  }
  pjrtd_runtime *runtime = session->runtime;
  publication->next = runtime->publications;
  publication->link = &runtime->publications;
  if (publication->next) publication->next->link = &publication->next;
  runtime->publications = publication;
  *out_publication = publication;
  return PJRTD_OK;
}

void pjrtd_publication_destroy(pjrtd_publication *publication) {
  *publication->link = publication->next;
  if (publication->next) publication->next->link = publication->link;
  pjrtd_slots_deinit(&publication->slots);
  pjrtd_free(publication);
}

bool pjrtd_publication_permits(const pjrtd_publication *publication, const pjrtd_session *session) {
  const pjrtd_identity *identity = &session->identity;
  if (publication->everybody || publication->session == session ||
      pjrtd_identity_same(identity, &publication->session->identity))
    return true;
  for (size_t i = 0; identity->local && i < publication->num_uids; i++)
    if (publication->uids[i] == identity->uid) return true;
  return false;
}

pjrtd_publication *pjrtd_publication_find(const pjrtd_runtime *runtime, const char *name) {
  pjrtd_publication *at = runtime->publications;
  while (at && strcmp(at->name, name) != 0) at = at->next;
  return at;
}

pjrtd_status *pjrtd_publication_get(pjrtd_publication *publication, const char *slot, pjrtd_buffer **out_buffer) {
  *out_buffer = pjrtd_slots_find(&publication->slots, slot);
  if (*out_buffer) return PJRTD_OK;
  return pjrtd_status_make(PJRTD_CODE_NOT_FOUND, "nothing called '%.255s' is published in '%s'", slot,
                           publication->name);
}

pjrtd_status *pjrtd_publication_borrow(pjrtd_publication *publication, pjrtd_session *session, const char *from,
                                       const char *to) {
  pjrtd_buffer *buffer;
  PJRTD_TRY(pjrtd_publication_get(publication, from, &buffer));
  return pjrtd_slots_bind(&session->slots, to, buffer, session->account, session->runtime->settings->max_session_slots);
}
