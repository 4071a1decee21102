/* Which buffers take most: see quota.h. A session may have a million, so not all are looked at. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/byte_count.h"
#include "base/utf8.h"
#include "state/quota.h"
#include "state/session.h"

/* Places of the sessions' maps that are looked at for an error: less of them where the turn has taken its time, as when
 * a client sends many requests that are all refused. */
#define PLACES 16384
#define PLACES_IN_A_HURRY 64
/* Sessions of an identity that are looked at. */
#define MAX_SESSIONS 256

typedef struct {
  pjrtd_big_buffer *found;
  uint32_t count, most;
  uint64_t mark;                /* of buffers that have been met */
  const pjrtd_account *account; /* NULL: of any */
} search;

static void consider(search *of, pjrtd_buffer *buffer, const char *slot) {
  if (buffer->seen == of->mark) return;
  buffer->seen = of->mark;
  if (of->account && buffer->account != of->account) return;
  if (!buffer->device_buffer || (of->count == of->most && buffer->bytes <= of->found[of->count - 1].buffer->bytes))
    return;
  uint32_t at = of->count < of->most ? of->count++ : of->count - 1;
  for (; at && of->found[at - 1].buffer->bytes < buffer->bytes; at--) of->found[at] = of->found[at - 1];
  of->found[at] = (pjrtd_big_buffer){buffer, slot};
}

uint32_t pjrtd_session_find_biggest(pjrtd_session *session, bool charged, uint32_t most, uint64_t *places_left,
                                    pjrtd_big_buffer *out_found) {
  search of = {
      .found = out_found, .most = most, .mark = pjrtd_buffer_new_mark(), .account = charged ? session->account : NULL};
  const pjrtd_id_map *map = &session->resources[PJRTD_ID_BUFFER];
  uint64_t places = pjrtd_id_map_slots(map);
  for (uint64_t i = 0; most && i < places && *places_left; i++, --*places_left) {
    pjrtd_buffer *buffer = pjrtd_id_map_slot(map, i);
    if (buffer) consider(&of, buffer, NULL);
  }
  for (size_t i = 0; most && i < session->slots.capacity && *places_left; i++, --*places_left) {
    const pjrtd_slot *slot = pjrtd_slots_at(&session->slots, i);
    if (slot) consider(&of, slot->value, slot->name);
  }
  return of.count;
}

static void add(const pjrtd_session *session, const pjrtd_big_buffer *big, pjrtd_shortage *shortage) {
  const pjrtd_buffer *buffer = big->buffer;
  size_t at = shortage->num_biggest;
  while (at && shortage->biggest[at - 1].bytes < buffer->bytes) at--;
  if (at == PJRTD_MAX_BIGGEST) return;
  size_t last = shortage->num_biggest < PJRTD_MAX_BIGGEST ? shortage->num_biggest++ : PJRTD_MAX_BIGGEST - 1;
  for (; last > at; last--) shortage->biggest[last] = shortage->biggest[last - 1];
  pjrtd_buffer_detail *detail = &shortage->biggest[at];
  *detail = (pjrtd_buffer_detail){.session = session->id,
                                  .buffer = big->slot ? 0 : buffer->id,
                                  .bytes = buffer->bytes,
                                  .device = pjrtd_device_buffer_device(buffer->device_buffer)->id};
  if (big->slot) { /* cut within a character, it has a '?' there */
    PJRTD_AUTO_FREE char *name = pjrtd_utf8_mend(big->slot, strnlen(big->slot, sizeof detail->slot - 1));
    snprintf(detail->slot, sizeof detail->slot, "%s", name ? name : "");
  }
  char text[PJRTD_TENSOR_TYPE_TEXT];
  snprintf(detail->type, sizeof detail->type, "%s",
           pjrtd_tensor_type_format(pjrtd_device_buffer_type(buffer->device_buffer), text));
}

void pjrtd_account_find_biggest(const pjrtd_account *account, pjrtd_shortage *shortage) {
  pjrtd_runtime *runtime = account->runtime;
  uint64_t places_left = pjrtd_runtime_time_is_up(runtime) ? PLACES_IN_A_HURRY : PLACES;
  size_t sessions = 0;
  for (pjrtd_session *at = runtime->sessions; at && places_left && sessions < MAX_SESSIONS; at = at->next) {
    if (at->account != account && (account->owner || at->account->owner != account)) continue;
    pjrtd_big_buffer found[PJRTD_MAX_BIGGEST];
    uint32_t count = pjrtd_session_find_biggest(at, true, PJRTD_MAX_BIGGEST, &places_left, found);
    for (uint32_t i = 0; i < count; i++) add(at, &found[i], shortage);
    sessions++;
  }
}

const char *pjrtd_biggest_format(const pjrtd_account *account, const pjrtd_shortage *shortage,
                                 char text[PJRTD_BIGGEST_TEXT]) {
  size_t used = 0;
  text[0] = 0;
  for (size_t i = 0; i < shortage->num_biggest; i++) {
    const pjrtd_buffer_detail *detail = &shortage->biggest[i];
    char bytes[PJRTD_BYTE_COUNT_TEXT], session[48] = "", name[sizeof detail->slot + 16];
    if (!account->owner) snprintf(session, sizeof session, "session %" PRIu64 "'s ", detail->session);
    if (detail->buffer)
      snprintf(name, sizeof name, "buffer %" PRIu64, detail->buffer);
    else
      snprintf(name, sizeof name, "slot '%s'", detail->slot);
    int wanted = snprintf(text + used, PJRTD_BIGGEST_TEXT - used, "%s%s%s %s of %s on device %d",
                          i ? ", " : "; the biggest: ", session, name, detail->type,
                          pjrtd_byte_count_format(detail->bytes, bytes), detail->device);
    if (wanted < 0 || (size_t)wanted >= PJRTD_BIGGEST_TEXT - used) {
      text[used] = 0; /* only whole ones */
      break;
    }
    used += (size_t)wanted;
  }
  return text;
}
