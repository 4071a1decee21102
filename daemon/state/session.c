/* See session.h. */
#include "state/session.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "state/home.h"
#include "state/publication.h"

static const char *const kind_names[PJRTD_ID_KINDS] = {"buffer", "program"};
static const pjrtd_quota_kind quota_of[PJRTD_ID_KINDS] = {PJRTD_QUOTA_BUFFERS, PJRTD_QUOTA_PROGRAMS};

static pjrtd_status *make_token(char token[PJRTD_TOKEN_CHARS + 1]) {
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  uint8_t random[PJRTD_TOKEN_CHARS];
  if (getrandom(random, sizeof random, 0) != sizeof random)
    return pjrtd_status_from_errno(errno, "making a session token");
  for (size_t i = 0; i < sizeof random; i++) token[i] = letters[random[i] & 63];
  token[PJRTD_TOKEN_CHARS] = 0;
  return PJRTD_OK;
}

pjrtd_status *pjrtd_session_create(pjrtd_runtime *runtime, const pjrtd_identity *identity,
                                   pjrtd_session **out_session) {
  *out_session = NULL;
  if (runtime->stats.sessions >= runtime->settings->max_sessions)
    return pjrtd_status_with_retry(
        pjrtd_status_with_hint(
            pjrtd_status_make(PJRTD_CODE_RESOURCE_EXHAUSTED, "pjrtd has %" PRIu64 " sessions, the most it may have",
                              runtime->stats.sessions),
            "close some that are kept without a connection (pjrtctl session), or raise max_sessions"),
        UINT64_C(1000000000));
  pjrtd_session *session = pjrtd_calloc(1, sizeof *session);
  if (!session) return pjrtd_status_oom();
  pjrtd_status *status = make_token(session->token);
  if (!status) status = pjrtd_share_create(runtime->num_devices, &session->share);
  if (!status) status = pjrtd_account_create(runtime, identity, &session->account);
  if (status) {
    pjrtd_share_release(session->share);
    pjrtd_free(session);
    return status;
  }
  session->account->session = session;
  session->runtime = runtime;
  session->home = pjrtd_home_choose(runtime);
  pjrtd_home_move(runtime, NULL, session->home);
  session->created_ns = session->last_used_ns = pjrtd_clock_now_ns();
  session->id = ++runtime->next_session;
  session->identity = *identity;
  session->next = runtime->sessions;
  session->link = &runtime->sessions;
  if (session->next) session->next->link = &session->next;
  runtime->sessions = session;
  runtime->stats.sessions++;
  *out_session = session;
  return PJRTD_OK;
}

pjrtd_status *pjrtd_session_check_counted(const pjrtd_session *session) {
  return session->counted ? PJRTD_OK : pjrtd_account_check(session->account, PJRTD_QUOTA_SESSIONS, 1, "the session");
}

void pjrtd_session_count(pjrtd_session *session) {
  if (!session->counted) pjrtd_account_charge(session->account, PJRTD_QUOTA_SESSIONS, 1);
  session->counted = true;
}

/* ---- names, tokens, conversations ---- */

pjrtd_status *pjrtd_session_check_name(const char *name) {
  size_t length = strlen(name);
  bool good = length <= PJRTD_MAX_SESSION_NAME;
  for (size_t i = 0; i < length && good; i++)
    good = (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') ||
           (name[i] >= '0' && name[i] <= '9') || strchr("._-", name[i]);
  if (good) return PJRTD_OK;
  return PJRTD_INVALID("such a name has 1 to %d letters, digits, '.', '_' or '-'", PJRTD_MAX_SESSION_NAME);
}

pjrtd_status *pjrtd_session_keep(pjrtd_session *session, const char *name, uint64_t ttl_ns) {
  if (name && *name) {
    PJRTD_TRY(pjrtd_session_check_name(name));
    const pjrtd_session *other = pjrtd_session_find_name(session->runtime, &session->identity, name);
    if (other && other != session)
      return pjrtd_status_with_hint(
          pjrtd_status_make(PJRTD_CODE_ALREADY_EXISTS, "there is a session '%s' already", name),
          "attach to it, close it, or choose another name");
  }
  PJRTD_TRY(pjrtd_session_check_counted(session));
  pjrtd_session_count(session);
  if (name && *name) strcpy(session->name, name);
  session->ttl_ns = ttl_ns;
  return PJRTD_OK;
}

pjrtd_status *pjrtd_session_set_priority(pjrtd_session *session, const pjrtd_identity *identity,
                                         pjrtd_priority priority) {
  if (priority > PJRTD_PRIORITY_NORMAL)
    PJRTD_TRY(pjrtd_identity_check(identity, PJRTD_RIGHT_TRUSTED), "giving a session a high priority");
  pjrtd_share_set_priority(session->share, priority);
  return PJRTD_OK;
}

pjrtd_status *pjrtd_session_set_home(pjrtd_session *session, int device_id) {
  const pjrtd_device *device;
  PJRTD_TRY(pjrtd_home_find(session->runtime, device_id, &device));
  pjrtd_home_move(session->runtime, session->home, device);
  session->home = device;
  return PJRTD_OK;
}

int pjrtd_session_home_id(const pjrtd_session *session) {
  return session->home ? session->home->id : 0;
}

/* Whatever differs, and wherever, it takes as long. */
static bool same_token(const char *token, const char *given) {
  if (strlen(given) != PJRTD_TOKEN_CHARS) return false;
  uint8_t difference = 0;
  for (size_t i = 0; i < PJRTD_TOKEN_CHARS; i++) difference |= (uint8_t)(token[i] ^ given[i]);
  return !difference;
}

pjrtd_session *pjrtd_session_find_token(const pjrtd_runtime *runtime, const char *token) {
  pjrtd_session *found = NULL;
  for (pjrtd_session *at = runtime->sessions; at; at = at->next)
    if (same_token(at->token, token)) found = at;
  return found;
}

pjrtd_session *pjrtd_session_find_name(const pjrtd_runtime *runtime, const pjrtd_identity *identity, const char *name) {
  for (pjrtd_session *at = runtime->sessions; at; at = at->next)
    if (*at->name && strcmp(at->name, name) == 0 && pjrtd_identity_same(&at->identity, identity)) return at;
  return NULL;
}

pjrtd_status *pjrtd_session_take_space(pjrtd_session *session, pjrtd_id_space *out_space) {
  size_t at = 0;
  while (at < session->num_spaces && session->spaces[at].used) at++;
  if (at == session->num_spaces) {
    if (at == PJRTD_MAX_ID_SPACES)
      return pjrtd_status_make(PJRTD_CODE_RESOURCE_EXHAUSTED,
                               "%d connections take part in the session, the most there may be", PJRTD_MAX_ID_SPACES);
    pjrtd_id_space *grown = pjrtd_realloc(session->spaces, (at + 1) * sizeof *grown);
    if (!grown) return pjrtd_status_oom();
    session->spaces = grown;
    session->spaces[at] = (pjrtd_id_space){.prefix = (uint16_t)at};
    session->num_spaces++;
  }
  session->spaces[at].used = true;
  *out_space = session->spaces[at];
  return PJRTD_OK;
}

void pjrtd_session_leave_space(pjrtd_session *session, const pjrtd_id_space *space) {
  session->spaces[space->prefix] = *space;
  session->spaces[space->prefix].used = false;
}

bool pjrtd_session_is_new(const pjrtd_session *session, const pjrtd_id_space *space) {
  return session->num_spaces == 1 && !space->highest[PJRTD_ID_BUFFER] && !space->highest[PJRTD_ID_PROGRAM];
}

/* ---- the end ---- */

static void drop(pjrtd_session *session, pjrtd_id_kind kind, void *value) {
  pjrtd_account_give_back(session->account, quota_of[kind], 1);
  if (kind == PJRTD_ID_BUFFER) {
    pjrtd_buffer_drop_name(value);
  } else {
    pjrtd_program *program = value;
    program->session = NULL;
    pjrtd_resource_release(&program->resource);
  }
}

/* Ids that one request may delete: a turn's work. */
#define MAX_FORGET 16384
/* Slots of a closing session's maps that are looked at at a time. */
#define CLOSE_SLOTS 16

static pjrtd_session *session_of(pjrtd_job *job) {
  return (pjrtd_session *)((char *)job - offsetof(pjrtd_session, closing));
}

static void close_some(pjrtd_job *job) {
  pjrtd_session *session = session_of(job);
  size_t left = CLOSE_SLOTS;
  for (int kind = 0; kind < PJRTD_ID_KINDS; kind++)
    while (left && session->closing_at[kind] < pjrtd_id_map_slots(&session->resources[kind])) {
      void *value = pjrtd_id_map_slot(&session->resources[kind], session->closing_at[kind]++);
      if (value) drop(session, (pjrtd_id_kind)kind, value);
      left--;
    }
  for (; left && session->closing_slot < session->slots.capacity; left--)
    pjrtd_slots_drop_at(&session->slots, session->closing_slot++);
}

static void close_more(pjrtd_job *job) {
  pjrtd_session *session = session_of(job);
  bool more = session->closing_slot < session->slots.capacity;
  for (int kind = 0; kind < PJRTD_ID_KINDS; kind++)
    more |= session->closing_at[kind] < pjrtd_id_map_slots(&session->resources[kind]);
  if (more) {
    pjrtd_runtime_free_later(session->runtime, job);
    return;
  }
  pjrtd_slots_deinit(&session->slots);
  for (int kind = 0; kind < PJRTD_ID_KINDS; kind++) pjrtd_id_map_deinit(&session->resources[kind]);
  pjrtd_share_release(session->share);
  pjrtd_free(session->spaces);
  pjrtd_account_release(session->account);
  pjrtd_free(session);
}

void pjrtd_session_close(pjrtd_session *session, uint64_t *out_buffers, uint64_t *out_programs) {
  if (out_buffers) *out_buffers = session->resources[PJRTD_ID_BUFFER].count;
  if (out_programs) *out_programs = session->resources[PJRTD_ID_PROGRAM].count;
  for (pjrtd_publication *at = session->runtime->publications, *next; at; at = next) {
    next = at->next;
    if (at->session == session) pjrtd_publication_destroy(at);
  }
  *session->link = session->next;
  if (session->next) session->next->link = session->link;
  session->runtime->stats.sessions--;
  pjrtd_home_move(session->runtime, session->home, NULL);
  session->account->session = NULL;
  if (session->counted) pjrtd_account_give_back(session->account, PJRTD_QUOTA_SESSIONS, 1);
  explicit_bzero(session->token, sizeof session->token);
  session->closing = (pjrtd_job){.run = close_some, .done = close_more};
  pjrtd_runtime_free_later(session->runtime, &session->closing);
}

pjrtd_status *pjrtd_session_check_new(const pjrtd_session *session, const pjrtd_id_space *space, pjrtd_id_kind kind,
                                      uint64_t id) {
  const char *name = kind_names[kind];
  if (id == 0) return PJRTD_INVALID("a %s id must not be 0", name);
  if (id >> 48 != space->prefix)
    return PJRTD_INVALID("%s id %" PRIu64 " has the prefix %u in its top 16 bits, this connection's is %u", name, id,
                         (unsigned)(id >> 48), space->prefix);
  if (id <= space->highest[kind])
    return pjrtd_status_with_hint(
        PJRTD_INVALID("%s id %" PRIu64 " is not above %" PRIu64 ", the highest so far", name, id, space->highest[kind]),
        "number %ss 1, 2, 3, ...; an id is never used again", name);
  PJRTD_TRY(pjrtd_session_check_counted(session));
  return pjrtd_account_check(session->account, quota_of[kind], 1, name);
}

static pjrtd_status *insert(pjrtd_session *session, pjrtd_id_space *space, pjrtd_id_kind kind, uint64_t id,
                            void *value) {
  PJRTD_TRY(pjrtd_id_map_insert(&session->resources[kind], id, value));
  space->highest[kind] = id;
  pjrtd_session_count(session);
  pjrtd_account_charge(session->account, quota_of[kind], 1);
  return PJRTD_OK;
}

pjrtd_status *pjrtd_session_name_buffer(pjrtd_session *session, pjrtd_id_space *space, uint64_t id,
                                        pjrtd_buffer *buffer) {
  PJRTD_TRY(insert(session, space, PJRTD_ID_BUFFER, id, buffer));
  pjrtd_buffer_add_name(buffer, session->account);
  if (!buffer->id) buffer->id = id;
  return PJRTD_OK;
}

pjrtd_status *pjrtd_session_make_buffer(pjrtd_session *session, pjrtd_id_space *space, uint64_t id,
                                        pjrtd_buffer **out_buffer) {
  *out_buffer = NULL;
  PJRTD_TRY(pjrtd_session_check_new(session, space, PJRTD_ID_BUFFER, id));
  pjrtd_buffer *buffer;
  PJRTD_TRY(pjrtd_buffer_create(session->runtime, &buffer));
  pjrtd_status *status = pjrtd_session_name_buffer(session, space, id, buffer);
  if (status)
    pjrtd_resource_release(&buffer->resource);
  else
    *out_buffer = buffer;
  return status;
}

pjrtd_status *pjrtd_session_name_program(pjrtd_session *session, pjrtd_id_space *space, uint64_t id,
                                         pjrtd_program *program) {
  PJRTD_TRY(insert(session, space, PJRTD_ID_PROGRAM, id, program));
  pjrtd_resource_retain(&program->resource);
  program->id = id;
  program->session = session;
  return PJRTD_OK;
}

pjrtd_status *pjrtd_session_not_found(pjrtd_id_kind kind, uint64_t id) {
  return pjrtd_status_with_hint(
      pjrtd_status_make(PJRTD_CODE_NOT_FOUND, "this session has no %s %" PRIu64, kind_names[kind], id),
      "it was deleted, or never made");
}

pjrtd_status *pjrtd_session_no_slot(const char *slot) {
  return pjrtd_status_with_hint(pjrtd_status_make(PJRTD_CODE_NOT_FOUND, "this session has no slot '%.255s'", slot),
                                "bind a buffer to it first, or feed an output back to it");
}

pjrtd_status *pjrtd_session_forget(pjrtd_session *session, pjrtd_id_kind kind, const uint64_t *ids, size_t count) {
  if (count > MAX_FORGET)
    return PJRTD_INVALID("%zu %ss in one request, at most %d are allowed", count, kind_names[kind], MAX_FORGET);
  pjrtd_status *status = PJRTD_OK;
  for (size_t i = 0; i < count; i++) {
    void *value = pjrtd_id_map_remove(&session->resources[kind], ids[i]);
    if (value)
      drop(session, kind, value);
    else if (!status)
      status = pjrtd_session_not_found(kind, ids[i]);
  }
  return status;
}
