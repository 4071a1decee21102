/* Command lines: "--name VALUE" or "--name=VALUE", anywhere among the words. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

/* True where `argument` is this option; `*out_value` is what follows a '=', else NULL. */
static bool is_option(const char *argument, const char *name, const char **out_value) {
  size_t length = strlen(name);
  *out_value = NULL;
  if (strncmp(argument, name, length) != 0) return false;
  if (argument[length] == '=') *out_value = argument + length + 1;
  return argument[length] == '\0' || argument[length] == '=';
}

static int take(int argc, char **argv, int *at, const ctl_option *option, void *user, ctl_common *common,
                const char *inner) {
  const char *value = inner;
  if (option->value_name && !value) {
    if (*at + 1 == argc) return ctl_complain(common, CTL_USAGE, NULL, "%s needs %s", option->name, option->value_name);
    value = argv[++*at];
  }
  if (!option->value_name && value) return ctl_complain(common, CTL_USAGE, NULL, "%s takes no value", option->name);
  char *complaint = option->set(user, value);
  if (!complaint) return CTL_OK;
  ctl_complain(common, CTL_USAGE, NULL, "%s: %s", option->name, complaint);
  free(complaint);
  return CTL_USAGE;
}

static char *set_target(void *common, const char *value) {
  ((ctl_common *)common)->target = value;
  return NULL;
}

static char *set_json(void *common, const char *value) {
  ((ctl_common *)common)->json = true;
  return NULL;
}

static const ctl_option shared[] = {{"--target", "TARGET", set_target}, {"--json", NULL, set_json}};

int ctl_parse(int argc, char **argv, const ctl_option *options, size_t num_options, void *user, ctl_common *common,
              const char **words, size_t max_words, size_t *out_num_words) {
  bool options_ended = false;
  *out_num_words = 0;
  for (int at = 0; at < argc; at++) {
    const char *argument = argv[at], *value = NULL;
    bool is_word = options_ended || argument[0] != '-' || !argument[1];
    if (is_word) {
      if (*out_num_words == max_words)
        return ctl_complain(common, CTL_USAGE, NULL, "unexpected argument \"%s\"", argument);
      words[(*out_num_words)++] = argument;
      continue;
    }
    if (strcmp(argument, "--") == 0) {
      options_ended = true;
      continue;
    }
    if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) return -1;
    const ctl_option *found = NULL;
    void *owner = common;
    for (size_t i = 0; !found && i < sizeof shared / sizeof *shared; i++)
      if (is_option(argument, shared[i].name, &value)) found = &shared[i];
    for (size_t i = 0; !found && i < num_options; i++)
      if (is_option(argument, options[i].name, &value)) found = &options[i], owner = user;
    if (!found) return ctl_complain(common, CTL_USAGE, "--help lists what there is", "unknown option %s", argument);
    int status = take(argc, argv, &at, found, owner, common, value);
    if (status) return status;
  }
  return CTL_OK;
}

char *ctl_read_count(const char *value, long least, long most, long *out) {
  char *end;
  errno = 0;
  *out = strtol(value, &end, 10);
  if (errno || end == value || *end || *out < least || *out > most)
    return ctl_text("\"%s\" is not a number from %ld to %ld", value, least, most);
  return NULL;
}

char *ctl_read_position(const char *value, uint32_t *out_position) {
  long position;
  char *complaint = ctl_read_count(value, 0, INT_MAX, &position);
  *out_position = (uint32_t)position;
  return complaint;
}

char *ctl_read_device(const char *value, int32_t *out_device) {
  long device;
  char *complaint = ctl_read_count(value, INT32_MIN, INT32_MAX, &device);
  *out_device = (int32_t)device;
  return complaint;
}

char *ctl_read_seconds(const char *value, uint64_t *out_ns) {
  char *end;
  double seconds = strtod(value, &end);
  if (end == value || *end || !(seconds > 0) || seconds > 1e9)
    return ctl_text("\"%s\" is not a number of seconds", value);
  *out_ns = (uint64_t)ceil(seconds * 1e9);
  return NULL;
}
