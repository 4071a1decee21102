/* See memory_report.h. */
#include "state/memory_report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/byte_count.h"
#include "state/session.h"

/* Sessions that are looked at, and those that are told of. */
#define MAX_LOOKED_AT 4096
#define MAX_TOLD 5

typedef struct {
  char text[2048];
  size_t used;
} paragraph;

/* What does not fit is left out. */
static void PJRTD_PRINTF(2, 3) say(paragraph *to, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int wanted = vsnprintf(to->text + to->used, sizeof to->text - to->used, format, args);
  va_end(args);
  if (wanted > 0 && (size_t)wanted < sizeof to->text - to->used)
    to->used += (size_t)wanted;
  else
    to->text[to->used] = 0;
}

static const char *bytes(uint64_t count) {
  static char texts[4][PJRTD_BYTE_COUNT_TEXT];
  static unsigned next;
  return pjrtd_byte_count_format(count, texts[next++ % 4]);
}

static uint64_t held(const pjrtd_account *account) {
  return account->used[PJRTD_QUOTA_DEVICE_BYTES];
}

/* ---- who holds it ---- */

static bool may_name(const pjrtd_account *caller, const pjrtd_session *session) {
  return session->account == caller ||
         (!caller->shared && pjrtd_identity_oversees(&caller->owner->identity, &session->identity));
}

/* The sessions that hold most, of those that the caller may know of. */
static void tell_sessions(const pjrtd_account *caller, paragraph *to) {
  const pjrtd_session *most[MAX_TOLD];
  size_t count = 0, looked_at = 0;
  for (const pjrtd_session *at = caller->runtime->sessions; at && looked_at < MAX_LOOKED_AT; at = at->next) {
    looked_at++;
    uint64_t its = held(at->account);
    if (!its || !may_name(caller, at) || (count == MAX_TOLD && its <= held(most[count - 1]->account))) continue;
    size_t place = count < MAX_TOLD ? count++ : count - 1;
    for (; place && held(most[place - 1]->account) < its; place--) most[place] = most[place - 1];
    most[place] = at;
  }
  for (size_t i = 0; i < count; i++) {
    say(to, "%s%s %" PRIu64, i ? ", " : " (", most[i]->account == caller ? "this session" : "session", most[i]->id);
    if (*most[i]->name) say(to, " '%s'", most[i]->name);
    say(to, " %s", bytes(held(most[i]->account)));
  }
  if (count) say(to, ")");
}

static void tell_holders(const pjrtd_account *caller, uint64_t *out_others, paragraph *to) {
  const pjrtd_stats *stats = &caller->runtime->stats;
  *out_others = 0;
  for (const pjrtd_account *at = caller->runtime->accounts; at; at = at->next)
    if (at != caller->owner) *out_others += held(at);
  say(to, "\nbuffers: %s in %" PRIu64 ", of %" PRIu64 " sessions", bytes(stats->buffer_bytes), stats->buffers,
      stats->sessions);
  tell_sessions(caller, to);
  if (*out_others) say(to, "; other users have %s", bytes(*out_others));
}

/* ---- the client and its device ---- */

static const pjrtd_value *find_option(const pjrtd_client_info *info, const char *name) {
  for (size_t i = 0; i < info->num_create_options; i++)
    if (strcmp(info->create_options[i].name, name) == 0) return &info->create_options[i];
  return NULL;
}

static void say_value(paragraph *to, const pjrtd_value *value) {
  switch (value->kind) {
    case PJRTD_VALUE_TEXT: say(to, "%s=%s", value->name, value->text); return;
    case PJRTD_VALUE_INTEGER: say(to, "%s=%" PRId64, value->name, value->integer); return;
    case PJRTD_VALUE_REAL: say(to, "%s=%g", value->name, value->real); return;
    case PJRTD_VALUE_BOOLEAN: say(to, "%s=%s", value->name, value->integer ? "true" : "false"); return;
    case PJRTD_VALUE_INTEGERS: say(to, "%s=[%zu integers]", value->name, value->num_integers); return;
  }
}

static void tell_options(const pjrtd_client_info *info, paragraph *to) {
  for (size_t i = 0; i < info->num_create_options; i++) {
    say(to, "%s", i ? ", " : "\nclient create options: ");
    say_value(to, &info->create_options[i]);
  }
}

static void read_allocator(const pjrtd_client *client, const pjrtd_device *device, pjrtd_shortage *shortage) {
  pjrtd_value *values;
  size_t count;
  pjrtd_status *none = pjrtd_device_memory_stats(client, device, &values, &count);
  pjrtd_status_destroy(none); /* most plugins have none */
  if (none) return;
  for (size_t i = 0; i < count; i++) {
    if (i < PJRTD_MAX_ALLOCATOR_STATS) {
      snprintf(shortage->allocator[i].name, sizeof shortage->allocator[i].name, "%s", values[i].name);
      shortage->allocator[i].value = values[i].integer;
      shortage->num_allocator = i + 1;
    }
    pjrtd_value_deinit(&values[i]);
  }
  pjrtd_free(values);
}

static bool find_stat(const pjrtd_shortage *shortage, const char *name, uint64_t *out_value) {
  for (size_t i = 0; i < shortage->num_allocator; i++) {
    if (strcmp(shortage->allocator[i].name, name) != 0 || shortage->allocator[i].value < 0) continue;
    *out_value = (uint64_t)shortage->allocator[i].value;
    return true;
  }
  return false;
}

/* ---- what to do ---- */

static void advise(const pjrtd_account *caller, const pjrtd_client_info *info, const pjrtd_shortage *shortage,
                   uint64_t others, paragraph *to) {
  uint64_t mine = held(caller->owner), limit, in_use, largest;
  if (mine) say(to, "delete buffers that are not needed any more");
  if (others > mine) say(to, "%sothers hold %s: ask them, or wait", to->used ? "; " : "", bytes(others));
  if (find_stat(shortage, "bytes_limit", &limit) && find_stat(shortage, "bytes_in_use", &in_use) &&
      find_stat(shortage, "largest_free_block_bytes", &largest) && limit > in_use && largest < (limit - in_use) / 2)
    say(to, "%sfree memory is in pieces: %s, of which the largest has %s", to->used ? "; " : "", bytes(limit - in_use),
        bytes(largest));
  const pjrtd_value *cap = find_option(info, "memory_fraction");
  if (cap && cap->kind == PJRTD_VALUE_REAL)
    say(to, "%sthe daemon's client is capped at %g of the device: a higher memory_fraction in `option` lifts that",
        to->used ? "; " : "", cap->real);
  if (!to->used) say(to, "no buffers are in the way: it takes more than the device has");
}

pjrtd_status *pjrtd_memory_report(const pjrtd_account *account, const pjrtd_device *device, pjrtd_status *status) {
  if (!pjrtd_status_is_of_memory(status) || pjrtd_status_shortage(status) || !account) return status;
  const pjrtd_client *client = account->runtime->client;
  const pjrtd_client_info *info = pjrtd_client_get_info(client);
  pjrtd_shortage shortage = {0};
  paragraph facts = {.used = 0}, hint = {.used = 0};
  facts.text[0] = hint.text[0] = 0;
  uint64_t others;
  char biggest[PJRTD_BIGGEST_TEXT];
  tell_holders(account, &others, &facts);
  const pjrtd_account *whose = account->shared ? account : account->owner;
  pjrtd_account_find_biggest(whose, &shortage);
  say(&facts, "%s", pjrtd_biggest_format(whose, &shortage, biggest));
  tell_options(info, &facts);
  if (device) read_allocator(client, device, &shortage);
  status = pjrtd_status_append(status, "%s", facts.text);
  status = pjrtd_status_with_shortage(status, &shortage);
  if (*pjrtd_status_hint(status)) return status; /* the daemon's own limit says which setting it is */
  advise(account, info, &shortage, others, &hint);
  return pjrtd_status_with_hint(status, "%s", hint.text);
}
