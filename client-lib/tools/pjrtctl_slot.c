/* pjrtctl slot: what the slots of a session hold; setting and removing them. The session is taken part in for that
 * long, beside whoever uses it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl_program.h"
#include "ctl_result.h"
#include "ctl_slot.h"
#include "ctl_table.h"

enum { MAX_WORDS = 1024 };

static char *set_device(void *user, const char *value) {
  ctl_slot_options *options = user;
  options->has_device = true;
  return ctl_read_device(value, &options->device);
}

static char *set_ttl(void *user, const char *value) {
  return ctl_read_seconds(value, &((ctl_slot_options *)user)->ttl_ns);
}

static char *set_save(void *user, const char *value) {
  ((ctl_slot_options *)user)->save = value;
  return NULL;
}

static char *set_full(void *user, const char *value) {
  ((ctl_slot_options *)user)->full = true;
  return NULL;
}

static char *set_everybody(void *user, const char *value) {
  ((ctl_slot_options *)user)->everybody = true;
  return NULL;
}

static char *set_uid(void *user, const char *value) {
  ctl_slot_options *options = user;
  long uid;
  char *complaint = ctl_read_count(value, 0, UINT32_MAX, &uid);
  if (complaint) return complaint;
  if (options->num_uids == CTL_MAX_UIDS) return ctl_text("at most %d users can be named", CTL_MAX_UIDS);
  options->uids[options->num_uids++] = (uint32_t)uid;
  return NULL;
}

/* ---- ls ---- */

static const char *state_name(pjrtc_slot_state state) {
  static const char *const names[] = {"unknown", "ready", "pending", "failed", "donated"};
  return names[(size_t)state < sizeof names / sizeof *names ? state : 0];
}

static json_t *slot_json(const pjrtc_slot *slot) {
  char text[1600];
  bool ready = slot->state == PJRTC_SLOT_READY;
  json_t *object = json_object();
  json_object_set_new(object, "slot", ctl_json_text(slot->slot));
  json_object_set_new(object, "state", json_string(state_name(slot->state)));
  json_object_set_new(object, "type",
                      ready ? json_string(pjrtc_type_format(&slot->type, text, sizeof text)) : json_null());
  json_object_set_new(object, "device", ready ? json_integer(slot->device) : json_null());
  json_object_set_new(object, "bytes", ready ? ctl_json_unsigned(slot->bytes) : json_null());
  json_object_set_new(object, "published", json_boolean(slot->published));
  json_object_set_new(
      object, "error",
      slot->code ? json_pack("{s:s, s:o}", "code", pjrtc_code_name(slot->code), "message", ctl_json_text(slot->message))
                 : json_null());
  return object;
}

static void print_slot(ctl_table *table, const pjrtc_slot *slot) {
  char text[256];
  bool ready = slot->state == PJRTC_SLOT_READY;
  ctl_table_add(table, "%s", slot->slot);
  ctl_table_add(table, "%s%s", state_name(slot->state), slot->published ? ", read-only" : "");
  ctl_table_add(table, "%s", ready ? ctl_bytes(slot->bytes, text) : "-");
  if (ready)
    ctl_table_add(table, "%" PRId32, slot->device);
  else
    ctl_table_add(table, "-");
  if (slot->code)
    ctl_table_add(table, "%s: %s", pjrtc_code_name(slot->code), slot->message);
  else
    ctl_table_add(table, "%s", ready ? pjrtc_type_format(&slot->type, text, sizeof text) : "-");
}

static int by_name(const void *left, const void *right) {
  return strcmp((*(const pjrtc_slot *const *)left)->slot, (*(const pjrtc_slot *const *)right)->slot);
}

static int list(ctl_slot_command *c) {
  static const char *const columns[] = {"SLOT", "STATE", "BYTES#", "DEVICE#", "TYPE", NULL};
  pjrtc_slots *slots;
  if (pjrtc_get_slots(c->client, NULL, 0, &slots, &c->error)) return ctl_fail(c->common, &c->error);
  size_t count = slots->num_slots;
  const pjrtc_slot **sorted = ctl_alloc(count * sizeof *sorted);
  if (count) memcpy(sorted, slots->slots, count * sizeof *sorted);
  qsort(sorted, count, sizeof *sorted, by_name);
  if (c->common->json) {
    json_t *all = json_array();
    for (size_t i = 0; i < count; i++) json_array_append_new(all, slot_json(sorted[i]));
    ctl_json_print(json_pack("{s:o}", "slots", all));
  } else {
    ctl_table *table = ctl_table_create(columns, true);
    for (size_t i = 0; i < count; i++) print_slot(table, sorted[i]);
    ctl_table_print(table);
  }
  free(sorted);
  pjrtc_slots_destroy(slots);
  return CTL_OK;
}

/* ---- get ---- */

static void print_values(const ctl_slot_command *c, const char *const *names, const pjrtc_value *values, size_t count) {
  if (c->common->json) {
    json_t *all = json_array();
    for (size_t i = 0; i < count; i++) {
      json_t *object = ctl_result_json(&values[i]);
      json_object_set_new(object, "slot", ctl_json_text(names[i]));
      json_array_append_new(all, object);
    }
    ctl_json_print(json_pack("{s:o}", "slots", all));
    return;
  }
  for (size_t i = 0; i < count; i++) ctl_result_print(&values[i], ctl_result_whole(c->options->full));
}

static int save_values(const ctl_slot_command *c, const char *const *names, const pjrtc_value *values, size_t count) {
  ctl_results_file *file;
  int status = ctl_results_file_create(c->common, c->options->save, &file);
  if (status) return status;
  for (size_t i = 0; i < count; i++) ctl_results_file_add(file, names[i], &values[i]);
  return ctl_results_file_finish(file);
}

static int get(ctl_slot_command *c) {
  const char *const *names = c->words;
  size_t count = c->num_words;
  uint64_t *buffers = ctl_alloc(count * sizeof *buffers);
  pjrtc_value *values = ctl_alloc(count * sizeof *values);
  int status = CTL_OK;
  if (pjrtc_lookup(c->client, names, count, buffers, &c->error)) status = ctl_fail(c->common, &c->error);
  if (!status) status = ctl_results_download(c->common, c->client, buffers, count, 0, values);
  if (!status) print_values(c, names, values, count);
  if (!status && c->options->save) status = save_values(c, names, values, count);
  ctl_session_tidy(c->client, buffers, count);
  free(buffers);
  ctl_results_free(values, count);
  return status;
}

/* ---- put and rm ---- */

static int read_value(ctl_slot_command *c) {
  bool is_file = false;
  char *complaint = ctl_argument_read(c->words[1], &c->value, &is_file);
  if (!complaint && c->value.slot) complaint = ctl_text("a slot is put from a value, not from another slot");
  if (!complaint) return CTL_OK;
  int status = ctl_complain(c->common, is_file ? CTL_FILE : CTL_USAGE, NULL, "%s", complaint);
  free(complaint);
  return status;
}

static int put(ctl_slot_command *c) {
  pjrtc_upload_options options = ctl_argument_upload(&c->value);
  if (c->options->has_device) {
    options.placement = PJRTC_PLACE_DEVICE;
    options.place = c->options->device;
  }
  uint64_t buffer;
  int status = CTL_OK;
  if (pjrtc_upload(c->client, &options, &buffer, &c->error)) return ctl_fail(c->common, &c->error);
  if (pjrtc_bind(c->client, &(pjrtc_slot_binding){c->words[0], buffer}, 1, &c->error))
    status = ctl_fail(c->common, &c->error);
  ctl_session_tidy(c->client, &buffer, 1);
  return status;
}

static int take_away(ctl_slot_command *c) {
  return pjrtc_unbind(c->client, c->words, c->num_words, &c->error) ? ctl_fail(c->common, &c->error) : CTL_OK;
}

/* ---- the command ---- */

typedef enum { NO_SESSION, JOINS, CREATES } session_use;

static const struct verb {
  const char *name;
  ctl_slot_verb *prepare; /* or NULL */
  ctl_slot_verb *run;
  session_use session;
  size_t least, most; /* words behind verb and session */
} verbs[] = {
    {"ls", NULL, list, JOINS, 0, 0},
    {"get", NULL, get, JOINS, 1, MAX_WORDS},
    {"put", read_value, put, CREATES, 2, 2},
    {"rm", NULL, take_away, JOINS, 1, MAX_WORDS},
    {"publish", NULL, ctl_slot_publish, JOINS, 1, MAX_WORDS},
    {"borrow", ctl_slot_read_borrowed, ctl_slot_borrow, CREATES, 1, MAX_WORDS},
    {"withdraw", NULL, ctl_slot_withdraw, NO_SESSION, 1, 1},
    {"published", NULL, ctl_slot_published, NO_SESSION, 0, 0},
};

static const struct verb *find_verb(const char *name) {
  for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
    if (strcmp(name, verbs[i].name) == 0) return &verbs[i];
  return NULL;
}

int ctl_slot(int argc, char **argv, ctl_common *common) {
  static const ctl_option known[] = {{"--device", "N", set_device}, {"--ttl", "SECONDS", set_ttl},
                                     {"--save", "FILE", set_save},  {"--full", NULL, set_full},
                                     {"--uid", "N", set_uid},       {"--everybody", NULL, set_everybody}};
  static const char hint[] =
      "pjrtctl slot ls SESSION | get SESSION SLOT... | put SESSION SLOT ARGUMENT | rm SESSION SLOT... | publish "
      "SESSION "
      "NAME [SLOT...] | borrow SESSION NAME [SLOT[=AS]...] | withdraw NAME | published";
  ctl_slot_options options = {0};
  const char *words[MAX_WORDS];
  size_t num_words;
  int status =
      ctl_parse(argc, argv, known, sizeof known / sizeof *known, &options, common, words, MAX_WORDS, &num_words);
  if (status) return status;
  const char *name = num_words ? words[0] : "";
  const struct verb *verb = find_verb(name);
  if (!verb) return ctl_complain(common, CTL_USAGE, hint, *name ? "slot knows no \"%s\"" : "slot what?", name);
  size_t leading = verb->session == NO_SESSION ? 1 : 2;
  if (num_words < leading + verb->least || num_words > leading + verb->most)
    return ctl_complain(common, CTL_USAGE, hint, "slot %s takes other arguments", name);
  if ((options.everybody || options.num_uids) && verb->run != ctl_slot_publish)
    return ctl_complain(common, CTL_USAGE, hint, "--everybody and --uid are for slot publish");
  ctl_slot_command c = {
      .common = common, .options = &options, .words = words + leading, .num_words = num_words - leading};
  ctl_error_init(&c.error);
  if (verb->prepare) status = verb->prepare(&c);
  if (!status) c.client = ctl_connect(common, &status);
  if (!status && verb->session != NO_SESSION)
    status = ctl_session_join(common, c.client, words[1], verb->session == CREATES, options.ttl_ns);
  if (!status) status = verb->run(&c);
  free(c.error.detail);
  ctl_argument_deinit(&c.value);
  ctl_slot_free_borrowed(&c);
  pjrtc_close(c.client);
  return status;
}
