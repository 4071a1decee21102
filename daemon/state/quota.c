/* See quota.h. */
#include "state/quota.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/byte_count.h"

typedef struct {
  const char *what; /* "buffers" */
  bool is_bytes;
  /* Names and places of the settings; NULL: there is none. */
  const char *session_setting, *identity_setting;
  size_t session_at, identity_at;
} quota;

#define AT(field) offsetof(pjrtd_settings, field)
#define SESSION(field) .session_setting = #field, .session_at = AT(field)
#define IDENTITY(field) .identity_setting = #field, .identity_at = AT(field)

static const quota quotas[PJRTD_QUOTA_KINDS] = {
    [PJRTD_QUOTA_DEVICE_BYTES] = {"device memory", true, SESSION(max_session_device_bytes),
                                  IDENTITY(max_identity_device_bytes)},
    [PJRTD_QUOTA_BUFFERS] = {"buffers", false, SESSION(max_session_buffers), IDENTITY(max_identity_buffers)},
    [PJRTD_QUOTA_PROGRAMS] = {"programs", false, SESSION(max_session_programs), IDENTITY(max_identity_programs)},
    [PJRTD_QUOTA_CALLS] = {"calls under way", false, IDENTITY(max_identity_calls_in_flight)},
    [PJRTD_QUOTA_QUEUED_BYTES] = {"memory for calls under way", true, IDENTITY(max_identity_queued_bytes)},
    [PJRTD_QUOTA_SESSIONS] = {"sessions that hold something or are kept", false, IDENTITY(max_identity_sessions)},
};

/* ---- accounts ---- */

static bool is_of(const pjrtd_account *account, const pjrtd_identity *identity) {
  return pjrtd_identity_same(&account->identity, identity) || (!account->identity.local && !identity->local);
}

static pjrtd_account *make(pjrtd_runtime *runtime) {
  pjrtd_account *account = pjrtd_calloc(1, sizeof *account);
  if (!account) return NULL;
  account->references = 1;
  account->runtime = runtime;
  return account;
}

static pjrtd_account *find_or_make_owner(pjrtd_runtime *runtime, const pjrtd_identity *identity) {
  for (pjrtd_account *at = runtime->accounts; at; at = at->next)
    if (is_of(at, identity)) return pjrtd_account_retain(at);
  pjrtd_account *owner = make(runtime);
  if (!owner) return NULL;
  owner->identity = *identity;
  owner->next = runtime->accounts;
  owner->link = &runtime->accounts;
  if (owner->next) owner->next->link = &owner->next;
  runtime->accounts = owner;
  return owner;
}

pjrtd_status *pjrtd_account_create(pjrtd_runtime *runtime, const pjrtd_identity *identity,
                                   pjrtd_account **out_account) {
  *out_account = NULL;
  pjrtd_account *account = make(runtime);
  if (!account) return pjrtd_status_oom();
  account->shared = !identity->local;
  account->owner = find_or_make_owner(runtime, identity);
  if (!account->owner) {
    pjrtd_free(account);
    return pjrtd_status_oom();
  }
  *out_account = account;
  return PJRTD_OK;
}

pjrtd_account *pjrtd_account_retain(pjrtd_account *account) {
  account->references++;
  return account;
}

void pjrtd_account_release(pjrtd_account *account) {
  if (!account || --account->references) return;
  if (account->link) {
    *account->link = account->next;
    if (account->next) account->next->link = account->link;
  }
  pjrtd_account_release(account->owner);
  pjrtd_free(account);
}

void pjrtd_account_charge(pjrtd_account *account, pjrtd_quota_kind kind, uint64_t amount) {
  for (; account; account = account->owner) account->used[kind] += amount;
}

void pjrtd_account_give_back(pjrtd_account *account, pjrtd_quota_kind kind, uint64_t amount) {
  for (; account; account = account->owner) account->used[kind] -= amount;
}

/* ---- checks ---- */

uint64_t pjrtd_account_allowed(const pjrtd_account *account, pjrtd_quota_kind kind, const char **out_setting) {
  const quota *of = &quotas[kind];
  const char *setting = account->owner ? of->session_setting : of->identity_setting;
  size_t at = account->owner ? of->session_at : of->identity_at;
  if (out_setting) *out_setting = setting;
  return setting ? *(const uint64_t *)((const char *)account->runtime->settings + at) : 0;
}

uint64_t pjrtd_account_used(const pjrtd_account *account, pjrtd_quota_kind kind) {
  return account->used[kind] + (kind == PJRTD_QUOTA_DEVICE_BYTES ? account->reserved_bytes : 0);
}

/* "the session", "uid 1000's sessions together". */
static const char *name_of(const pjrtd_account *account, char text[64]) {
  if (account->owner) return "the session";
  if (!account->identity.local) return "all sessions over gRPC together";
  snprintf(text, 64, "uid %u's sessions together", (unsigned)account->identity.uid);
  return text;
}

/* `account` has reached it, `caller` asks: its own account, or one of its sessions'. */
static pjrtd_status *refuse(const pjrtd_account *account, const pjrtd_account *caller, pjrtd_quota_kind kind,
                            uint64_t more, const char *what) {
  const quota *of = &quotas[kind];
  pjrtd_shortage shortage = {.needed = more, .used = pjrtd_account_used(account, kind)};
  shortage.allowed = pjrtd_account_allowed(account, kind, &shortage.setting);
  char who[64], biggest[PJRTD_BIGGEST_TEXT] = "";
  char used[PJRTD_BYTE_COUNT_TEXT], allowed[PJRTD_BYTE_COUNT_TEXT], needed[PJRTD_BYTE_COUNT_TEXT];
  const char *verb = account->owner ? "has" : "have";
  if (kind == PJRTD_QUOTA_DEVICE_BYTES || kind == PJRTD_QUOTA_BUFFERS) {
    pjrtd_account_find_biggest(account->owner || caller->shared ? caller : account, &shortage);
    pjrtd_biggest_format(account, &shortage, biggest);
  }
  pjrtd_status *status;
  if (of->is_bytes)
    status = pjrtd_status_make(
        PJRTD_CODE_RESOURCE_EXHAUSTED, "%s needs %s of %s; %s %s %s%s of the %s that %s may%s", what,
        pjrtd_byte_count_format(more, needed), of->what, name_of(account, who), verb,
        pjrtd_byte_count_format(shortage.used, used),
        kind == PJRTD_QUOTA_DEVICE_BYTES && account->reserved_bytes ? ", with what calls under way will take," : "",
        pjrtd_byte_count_format(shortage.allowed, allowed), account->owner ? "it" : "they", biggest);
  else
    status = pjrtd_status_make(PJRTD_CODE_RESOURCE_EXHAUSTED, "%s %s %" PRIu64 " %s, the most that %s may%s",
                               name_of(account, who), verb, shortage.used, of->what, account->owner ? "it" : "they",
                               biggest);
  status = pjrtd_status_with_shortage(status, &shortage);
  switch (kind) {
    case PJRTD_QUOTA_CALLS:
    case PJRTD_QUOTA_QUEUED_BYTES:
      return pjrtd_status_with_retry(
          pjrtd_status_with_hint(status, "wait for answers before sending more, or raise %s", shortage.setting),
          1000000);
    case PJRTD_QUOTA_SESSIONS:
      return pjrtd_status_with_hint(status, "close some (pjrtctl session), or raise %s", shortage.setting);
    default: return pjrtd_status_with_hint(status, "delete some, or raise %s", shortage.setting);
  }
}

pjrtd_status *pjrtd_account_check(const pjrtd_account *account, pjrtd_quota_kind kind, uint64_t more,
                                  const char *what) {
  if (!more) return PJRTD_OK;
  for (const pjrtd_account *at = account; at; at = at->owner) {
    uint64_t allowed = pjrtd_account_allowed(at, kind, NULL);
    if (!allowed) continue;
    uint64_t used = pjrtd_account_used(at, kind);
    if (more > allowed || used > allowed - more) return refuse(at, account, kind, more, what);
  }
  return PJRTD_OK;
}

pjrtd_status *pjrtd_reservation_make(pjrtd_account *account, uint64_t bytes, uint64_t memory_bytes, const char *what,
                                     pjrtd_reservation *out_reservation) {
  *out_reservation = (pjrtd_reservation){0};
  PJRTD_TRY(pjrtd_account_check(account, PJRTD_QUOTA_DEVICE_BYTES, bytes, what));
  if (memory_bytes) PJRTD_TRY(pjrtd_runtime_check_memory(account->runtime, memory_bytes, what));
  *out_reservation = (pjrtd_reservation){pjrtd_account_retain(account), bytes, memory_bytes};
  account->runtime->reserved_bytes += memory_bytes;
  for (pjrtd_account *at = account; at; at = at->owner) at->reserved_bytes += bytes;
  return PJRTD_OK;
}

void pjrtd_reservation_end(pjrtd_reservation *reservation) {
  if (!reservation->account) return;
  reservation->account->runtime->reserved_bytes -= reservation->memory_bytes;
  for (pjrtd_account *at = reservation->account; at; at = at->owner) at->reserved_bytes -= reservation->bytes;
  pjrtd_account_release(PJRTD_TAKE(reservation->account));
}
