/* pjrtctl slot publish, borrow, withdraw and published: weights that sessions share. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl_json.h"
#include "ctl_slot.h"
#include "ctl_table.h"

int ctl_slot_publish(ctl_slot_command *c) {
  pjrtc_publish_options options = {.struct_size = sizeof options,
                                   .name = c->words[0],
                                   .slots = &c->words[1],
                                   .num_slots = c->num_words - 1,
                                   .everybody = c->options->everybody,
                                   .uids = c->options->uids,
                                   .num_uids = c->options->num_uids};
  return pjrtc_publish(c->client, &options, &c->error) ? ctl_fail(c->common, &c->error) : CTL_OK;
}

int ctl_slot_withdraw(ctl_slot_command *c) {
  return pjrtc_withdraw(c->client, c->words[0], &c->error) ? ctl_fail(c->common, &c->error) : CTL_OK;
}

/* ---- borrow ---- */

/* "W", or "W=MINE" for another name of its own. */
int ctl_slot_read_borrowed(ctl_slot_command *c) {
  size_t count = c->num_words - 1;
  c->borrowed = ctl_alloc(count * sizeof *c->borrowed);
  for (size_t i = 0; i < count; i++) {
    const char *word = c->words[i + 1], *equals = strchr(word, '=');
    if (!*word || equals == word || (equals && !equals[1]))
      return ctl_complain(c->common, CTL_USAGE, NULL, "\"%s\" is not SLOT or SLOT=AS, as in w or w=mine", word);
    c->borrowed[i].slot = ctl_text("%.*s", (int)(equals ? equals - word : (ptrdiff_t)strlen(word)), word);
    c->borrowed[i].as = equals ? equals + 1 : NULL;
  }
  return CTL_OK;
}

void ctl_slot_free_borrowed(ctl_slot_command *c) {
  for (size_t i = 0; c->borrowed && i + 1 < c->num_words; i++) free((char *)c->borrowed[i].slot);
  free(c->borrowed);
}

int ctl_slot_borrow(ctl_slot_command *c) {
  if (pjrtc_borrow(c->client, c->words[0], c->borrowed, c->num_words - 1, &c->error))
    return ctl_fail(c->common, &c->error);
  return CTL_OK;
}

/* ---- published ---- */

static json_t *publication_json(const pjrtc_publication *publication) {
  json_t *object = json_object();
  json_object_set_new(object, "name", ctl_json_text(publication->name));
  json_object_set_new(object, "session", ctl_json_unsigned(publication->session));
  json_object_set_new(object, "session_name", ctl_json_text(publication->session_name));
  json_object_set_new(object, "uid", publication->local ? json_integer(publication->uid) : json_null());
  json_object_set_new(object, "own", json_boolean(publication->own));
  json_object_set_new(object, "everybody", json_boolean(publication->everybody));
  json_object_set_new(object, "slots", ctl_json_unsigned(publication->slots));
  json_object_set_new(object, "bytes", ctl_json_unsigned(publication->bytes));
  json_object_set_new(object, "borrowed", ctl_json_unsigned(publication->borrowed));
  return object;
}

static void print_publication(ctl_table *table, const pjrtc_publication *publication) {
  char text[32], *owner = ctl_owner_text(publication->local, publication->uid);
  ctl_table_add(table, "%s", publication->name);
  ctl_table_add(table, "%s", owner);
  if (*publication->session_name)
    ctl_table_add(table, "%s", publication->session_name);
  else
    ctl_table_add(table, "%" PRIu64, publication->session);
  ctl_table_add(table, "%" PRIu64, publication->slots);
  ctl_table_add(table, "%s", ctl_bytes(publication->bytes, text));
  ctl_table_add(table, "%" PRIu64, publication->borrowed);
  ctl_table_add(table, "%s", publication->everybody ? "everybody" : "chosen users");
  free(owner);
}

static int by_name(const void *left, const void *right) {
  return strcmp((*(const pjrtc_publication *const *)left)->name, (*(const pjrtc_publication *const *)right)->name);
}

int ctl_slot_published(ctl_slot_command *c) {
  static const char *const columns[] = {"NAME", "OWNER", "SESSION", "SLOTS#", "BYTES#", "BORROWED#", "FOR", NULL};
  pjrtc_published *published;
  if (pjrtc_get_published(c->client, &published, &c->error)) return ctl_fail(c->common, &c->error);
  size_t count = published->num_publications;
  const pjrtc_publication **sorted = ctl_alloc(count * sizeof *sorted);
  if (count) memcpy(sorted, published->publications, count * sizeof *sorted);
  qsort(sorted, count, sizeof *sorted, by_name);
  if (c->common->json) {
    json_t *all = json_array();
    for (size_t i = 0; i < count; i++) json_array_append_new(all, publication_json(sorted[i]));
    ctl_json_print(json_pack("{s:o}", "publications", all));
  } else {
    ctl_table *table = ctl_table_create(columns, true);
    for (size_t i = 0; i < count; i++) print_publication(table, sorted[i]);
    ctl_table_print(table);
  }
  free(sorted);
  pjrtc_published_destroy(published);
  return CTL_OK;
}
