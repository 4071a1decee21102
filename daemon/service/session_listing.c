/* Session.List: who has what. Loop thread. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/attachment.h"
#include "service/convert.h"
#include "service/idle_sessions.h"

#define MAX_SESSIONS 1000
#define MAX_CONNECTIONS 64
#define MAX_LARGEST 64
/* Slots of the sessions' maps that are looked at for the largest buffers, of one session or of all: a part of a turn.
 */
#define MAX_SCANNED 65536

typedef struct {
  const pjrtd_peer *asking;
  uint64_t now_ns;
  uint32_t num_largest;
  uint64_t scans_left;
} listing;

/* All that belongs to one SessionInfo; one block. */
typedef struct {
  Pjrtd__V1__SessionInfo info;
  Pjrtd__V1__SessionConnection connections[MAX_CONNECTIONS], *connection_list[MAX_CONNECTIONS];
  char commands[MAX_CONNECTIONS][16];
  Pjrtd__V1__SessionBuffer largest[MAX_LARGEST], *largest_list[MAX_LARGEST];
  Pjrtd__V1__TensorType types[MAX_LARGEST];
  Pjrtd__V1__QuotaUse quotas[2 * PJRTD_QUOTA_KINDS], *quota_list[2 * PJRTD_QUOTA_KINDS];
} entry;

static bool may_see(const pjrtd_peer *peer, const pjrtd_session *session) {
  return peer->session == session || pjrtd_identity_oversees(&peer->identity, &session->identity);
}

pjrtd_status *pjrtd_session_find_for(const pjrtd_peer *peer, uint64_t id, const char *name,
                                     pjrtd_session **out_session) {
  *out_session = NULL;
  for (pjrtd_session *at = peer->runtime->sessions; at && !*out_session; at = at->next)
    if (may_see(peer, at) && (id ? at->id == id : *at->name && strcmp(at->name, name) == 0)) *out_session = at;
  if (*out_session) return PJRTD_OK;
  char text[24];
  snprintf(text, sizeof text, "%llu", (unsigned long long)id);
  return pjrtd_status_with_hint(pjrtd_status_make(PJRTD_CODE_NOT_FOUND, "you have no session %s", id ? text : name),
                                "Session.List tells which there are");
}

/* The name of the program, as the kernel has it: its command line would have to be read from its memory, which may take
 * any time. */
static void read_command(pid_t pid, char out[16]) {
  char path[32];
  snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t bytes = file < 0 ? 0 : read(file, out, 15);
  if (file >= 0) close(file);
  out[bytes > 0 ? bytes : 0] = '\0';
  out[strcspn(out, "\n")] = '\0';
  for (char *at = out; *at; at++)
    if (*at < ' ' || *at > '~') *at = '?';
}

static void list_connections(const pjrtd_session *session, entry *to) {
  for (const pjrtd_peer *at = session->peers; at; at = at->next_of_session) {
    to->info.calls_in_flight += at->calls.count;
    size_t count = to->info.n_connections;
    if (pjrtd_attachment_lease_end_ns(session) || count == MAX_CONNECTIONS) continue;
    Pjrtd__V1__SessionConnection *connection = to->connection_list[count] = &to->connections[count];
    pjrtd__v1__session_connection__init(connection);
    if (at->identity.local) {
      connection->pid = (uint32_t)at->identity.pid;
      read_command(at->identity.pid, to->commands[count]);
      connection->command = to->commands[count];
    }
    connection->client_name = (char *)at->client_name;
    connection->transport = (char *)at->transport->name;
    connection->id_prefix = at->ids.prefix;
    to->info.n_connections++;
  }
  to->info.connections = to->connection_list;
}

static void list_largest(listing *list, pjrtd_session *session, entry *to) {
  pjrtd_big_buffer found[MAX_LARGEST];
  uint32_t count = pjrtd_session_find_biggest(session, false, list->num_largest, &list->scans_left, found);
  for (uint32_t i = 0; i < count; i++) {
    Pjrtd__V1__SessionBuffer *buffer = to->largest_list[i] = &to->largest[i];
    const pjrtd_buffer *from = found[i].buffer;
    pjrtd__v1__session_buffer__init(buffer);
    if (found[i].slot)
      buffer->slot = (char *)found[i].slot;
    else
      buffer->buffer = from->id;
    buffer->bytes = from->bytes;
    buffer->device = pjrtd_device_buffer_device(from->device_buffer)->id;
    pjrtd_type_message_fill(&to->types[i], pjrtd_device_buffer_type(from->device_buffer));
    buffer->type = &to->types[i];
  }
  to->info.largest = to->largest_list;
  to->info.n_largest = count;
}

/* Of the owner's own those that take part by token alone hear nothing. */
static void list_quotas(const pjrtd_peer *asking, const pjrtd_session *session, entry *to) {
  bool all = !session->identity.local || pjrtd_identity_oversees(&asking->identity, &session->identity);
  size_t count = 0;
  for (const pjrtd_account *account = session->account; account; account = all ? account->owner : NULL)
    for (int kind = 0; kind < PJRTD_QUOTA_KINDS; kind++) {
      const char *setting;
      uint64_t allowed = pjrtd_account_allowed(account, (pjrtd_quota_kind)kind, &setting);
      if (!setting) continue;
      Pjrtd__V1__QuotaUse *quota = to->quota_list[count] = &to->quotas[count];
      pjrtd__v1__quota_use__init(quota);
      quota->setting = (char *)setting;
      quota->used = pjrtd_account_used(account, (pjrtd_quota_kind)kind);
      quota->allowed = allowed;
      count++;
    }
  to->info.quotas = to->quota_list;
  to->info.n_quotas = count;
  to->info.reserved_bytes = session->account->reserved_bytes;
}

static void fill(listing *list, pjrtd_session *session, entry *to) {
  pjrtd__v1__session_info__init(&to->info);
  to->info.session = session->id;
  to->info.name = (char *)session->name;
  to->info.own = session == list->asking->session;
  to->info.local = session->identity.local;
  to->info.uid = session->identity.local ? session->identity.uid : 0;
  to->info.buffers = session->resources[PJRTD_ID_BUFFER].count;
  to->info.slots = session->slots.count;
  to->info.programs = session->resources[PJRTD_ID_PROGRAM].count;
  to->info.buffer_bytes = session->account->used[PJRTD_QUOTA_DEVICE_BYTES];
  to->info.age_ns = list->now_ns - session->created_ns;
  to->info.idle_ns = list->now_ns > session->last_used_ns ? list->now_ns - session->last_used_ns : 0;
  to->info.idle_left_ns = pjrtd_idle_left_ns(session, list->now_ns);
  to->info.ttl_ns = session->ttl_ns;
  uint64_t lease_end_ns = pjrtd_attachment_lease_end_ns(session);
  to->info.lease_left_ns = lease_end_ns > list->now_ns ? lease_end_ns - list->now_ns : 0;
  to->info.priority =
      (Pjrtd__V1__SessionPriority)(PJRTD__V1__SESSION_PRIORITY__SESSION_PRIORITY_LOW + (int)session->share->priority);
  to->info.home_device = pjrtd_session_home_id(session);
  to->info.device_ns = pjrtd_share_device_ns(session->share);
  list_connections(session, to);
  list_largest(list, session, to);
  list_quotas(list->asking, session, to);
}

pjrtd_status *pjrtd_handle_session_list(pjrtd_request *request) {
  const Pjrtd__V1__SessionListRequest *wanted = request->message;
  pjrtd_peer *peer = request->peer;
  listing list = {.asking = peer,
                  .now_ns = pjrtd_clock_now_ns(),
                  .num_largest = wanted->buffers < MAX_LARGEST ? wanted->buffers : MAX_LARGEST,
                  .scans_left = MAX_SCANNED};
  pjrtd_session *only = NULL;
  if (wanted->session || *wanted->name) PJRTD_TRY(pjrtd_session_find_for(peer, wanted->session, wanted->name, &only));
  size_t most = 0;
  for (pjrtd_session *at = peer->runtime->sessions; at && most < MAX_SESSIONS; at = at->next)
    most += only ? at == only : may_see(peer, at);
  PJRTD_AUTO_FREE entry *entries = pjrtd_calloc(most + 1, sizeof *entries);
  PJRTD_AUTO_FREE Pjrtd__V1__SessionInfo **infos = pjrtd_calloc(most + 1, sizeof *infos);
  if (!entries || !infos) return pjrtd_status_oom();
  Pjrtd__V1__SessionListReply reply = PJRTD__V1__SESSION_LIST_REPLY__INIT;
  reply.sessions = infos;
  for (pjrtd_session *at = peer->runtime->sessions; at && reply.n_sessions < most; at = at->next) {
    if (only ? at != only : !may_see(peer, at)) continue;
    fill(&list, at, &entries[reply.n_sessions]);
    infos[reply.n_sessions] = &entries[reply.n_sessions].info;
    reply.n_sessions++;
  }
  pjrtd_request_answer(request, &reply.base, NULL, 0);
  return PJRTD_OK;
}
