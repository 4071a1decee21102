/* Session.Publish, Withdraw, Borrow and Published: weights that sessions share. Loop thread. */
#include "service/call.h"
#include "service/convert.h"
#include "state/publication.h"

pjrtd_status *pjrtd_handle_session_publish(pjrtd_request *request) {
  const Pjrtd__V1__PublishRequest *wanted = request->message;
  pjrtd_session *session = request->peer->session;
  PJRTD_TRY(pjrtd_slots_check_count(wanted->n_slots ? wanted->n_slots : session->slots.count));
  if (wanted->n_uids > PJRTD_MAX_PUBLICATION_USERS)
    return PJRTD_INVALID("%zu users, at most %d can be named", wanted->n_uids, PJRTD_MAX_PUBLICATION_USERS);
  pjrtd_publication *publication;
  PJRTD_TRY(pjrtd_publication_create(session, wanted->name, wanted->slots, wanted->n_slots, &publication));
  publication->everybody = wanted->everybody;
  publication->num_uids = wanted->n_uids;
  for (size_t i = 0; i < wanted->n_uids; i++) publication->uids[i] = wanted->uids[i];
  return pjrtd_request_done(request);
}

static pjrtd_status *not_published(const char *name) {
  return pjrtd_status_with_hint(pjrtd_status_make(PJRTD_CODE_NOT_FOUND, "nothing is published as '%.64s'", name),
                                "or not to you; Session.Published tells what is");
}

static bool may_end(const pjrtd_peer *peer, const pjrtd_publication *publication) {
  return publication->session == peer->session ||
         pjrtd_identity_oversees(&peer->identity, &publication->session->identity);
}

static bool may_see(const pjrtd_peer *peer, const pjrtd_publication *publication) {
  return may_end(peer, publication) || pjrtd_publication_permits(publication, peer->session);
}

pjrtd_status *pjrtd_handle_session_withdraw(pjrtd_request *request) {
  const Pjrtd__V1__WithdrawRequest *wanted = request->message;
  pjrtd_peer *peer = request->peer;
  pjrtd_publication *publication = pjrtd_publication_find(peer->runtime, wanted->name);
  if (!publication || !may_see(peer, publication)) return not_published(wanted->name);
  if (!may_end(peer, publication))
    return pjrtd_status_make(PJRTD_CODE_PERMISSION_DENIED, "'%s' was published by another user", publication->name);
  pjrtd_publication_destroy(publication);
  return pjrtd_request_done(request);
}

static const char *name_for(const Pjrtd__V1__BorrowedSlot *slot) {
  return *slot->as ? slot->as : slot->slot;
}

static pjrtd_status *borrow(pjrtd_session *session, const Pjrtd__V1__BorrowRequest *wanted,
                            pjrtd_publication *publication) {
  for (size_t i = 0; i < wanted->n_slots; i++) {
    const Pjrtd__V1__BorrowedSlot *slot = wanted->slots[i];
    PJRTD_TRY(pjrtd_publication_borrow(publication, session, slot->slot, name_for(slot)));
  }
  for (size_t i = 0; !wanted->n_slots && i < publication->slots.capacity; i++) {
    const pjrtd_slot *slot = pjrtd_slots_at(&publication->slots, i);
    if (slot) PJRTD_TRY(pjrtd_publication_borrow(publication, session, slot->name, slot->name));
  }
  return PJRTD_OK;
}

/* All is looked at before anything is done: all of them, or none. */
static pjrtd_status *check_slots(const Pjrtd__V1__BorrowRequest *wanted, pjrtd_publication *publication) {
  for (size_t i = 0; i < wanted->n_slots; i++) {
    const Pjrtd__V1__BorrowedSlot *slot = wanted->slots[i];
    pjrtd_buffer *buffer;
    PJRTD_TRY(pjrtd_publication_get(publication, slot->slot, &buffer));
    if (*slot->as) PJRTD_TRY(pjrtd_slots_check_name(slot->as));
  }
  return PJRTD_OK;
}

/* A slot that is named twice counts twice. */
static pjrtd_status *check_room(pjrtd_session *session, const Pjrtd__V1__BorrowRequest *wanted,
                                pjrtd_publication *publication) {
  size_t made = 0;
  for (size_t i = 0; i < wanted->n_slots; i++) made += !pjrtd_slots_find(&session->slots, name_for(wanted->slots[i]));
  for (size_t i = 0; !wanted->n_slots && i < publication->slots.capacity; i++) {
    const pjrtd_slot *slot = pjrtd_slots_at(&publication->slots, i);
    made += slot && !pjrtd_slots_find(&session->slots, slot->name);
  }
  return pjrtd_slots_check_room(&session->slots, made, session->runtime->settings->max_session_slots);
}

pjrtd_status *pjrtd_handle_session_borrow(pjrtd_request *request) {
  const Pjrtd__V1__BorrowRequest *wanted = request->message;
  pjrtd_session *session = request->peer->session;
  PJRTD_TRY(pjrtd_slots_check_count(wanted->n_slots));
  pjrtd_publication *publication = pjrtd_publication_find(session->runtime, wanted->name);
  if (!publication || !pjrtd_publication_permits(publication, session)) return not_published(wanted->name);
  PJRTD_TRY(check_slots(wanted, publication));
  PJRTD_TRY(check_room(session, wanted, publication));
  PJRTD_TRY(borrow(session, wanted, publication));
  publication->borrowed++;
  return pjrtd_request_done(request);
}

/* ---- listing ---- */

static void fill(const pjrtd_peer *peer, const pjrtd_publication *from, Pjrtd__V1__PublicationInfo *to) {
  pjrtd__v1__publication_info__init(to);
  to->name = (char *)from->name;
  to->session = from->session->id;
  to->session_name = from->session->name;
  to->uid = from->session->identity.local ? from->session->identity.uid : 0;
  to->local = from->session->identity.local;
  to->own = may_end(peer, from);
  to->everybody = from->everybody;
  to->borrowed = from->borrowed;
  to->slots = from->slots.count;
  to->bytes = from->bytes;
}

pjrtd_status *pjrtd_handle_session_published(pjrtd_request *request) {
  pjrtd_peer *peer = request->peer;
  size_t most = 0;
  for (pjrtd_publication *at = peer->runtime->publications; at; at = at->next) most += may_see(peer, at);
  PJRTD_AUTO_FREE Pjrtd__V1__PublicationInfo *infos = pjrtd_calloc(most + 1, sizeof *infos);
  PJRTD_AUTO_FREE Pjrtd__V1__PublicationInfo **list = pjrtd_calloc(most + 1, sizeof *list);
  if (!infos || !list) return pjrtd_status_oom();
  Pjrtd__V1__PublishedReply reply = PJRTD__V1__PUBLISHED_REPLY__INIT;
  reply.publications = list;
  for (pjrtd_publication *at = peer->runtime->publications; at; at = at->next) {
    if (!may_see(peer, at)) continue;
    list[reply.n_publications] = &infos[reply.n_publications];
    fill(peer, at, &infos[reply.n_publications++]);
  }
  pjrtd_request_answer(request, &reply.base, NULL, 0);
  return PJRTD_OK;
}
