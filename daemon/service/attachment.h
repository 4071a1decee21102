/* Which connections take part in which session, and what becomes of a session when they go. The service's inside. Loop
 * thread only.
 *
 * A session that is kept (a lease, session.h) outlives its last connection: what that one had under way, its ids and
 * the numbers of its calls stay with an absent peer, which hears answers for nobody, until a connection goes on from
 * there, takes the session over, or the lease ends. */
#pragma once

#include "service/call.h"

/* A session of the connection's own. */
PJRTD_MUST_USE pjrtd_status *pjrtd_attachment_open(pjrtd_peer *peer);
/* The connection's part in its session ends, because it goes: it, and what it has under way, is dropped, or kept. */
void pjrtd_attachment_lose(pjrtd_peer *peer);
/* The session ends for all. The counts may be NULL. */
void pjrtd_attachment_close(pjrtd_session *session, uint64_t *out_buffers, uint64_t *out_programs);
/* The session ends for all, whose connections are told `why` (taken) and closed. */
void pjrtd_attachment_end(pjrtd_session *session, pjrtd_status *why);
/* Whether nobody is there, and until when (0 where somebody is). */
uint64_t pjrtd_attachment_lease_end_ns(const pjrtd_session *session);

/* The connection leaves its own session, which is new, for another: instead of its connections (beside them:
 * pjrtd_peer_join). */
PJRTD_MUST_USE pjrtd_status *pjrtd_attachment_take_over(pjrtd_peer *peer, pjrtd_session *session);
/* The same, and goes on where the connection of that prefix and conversation (0: any) was lost, or is. `call` is the id
 * of the call that asks; `*out_last_call` the highest that came from that one. */
PJRTD_MUST_USE pjrtd_status *pjrtd_attachment_resume(pjrtd_peer *peer, pjrtd_session *session, uint32_t prefix,
                                                     uint64_t conversation, uint64_t call, uint64_t *out_last_call);

/* session_listing.c: the session of that id, or else of that name, among those that the connection may see. */
PJRTD_MUST_USE pjrtd_status *pjrtd_session_find_for(const pjrtd_peer *peer, uint64_t id, const char *name,
                                                    pjrtd_session **out_session);
