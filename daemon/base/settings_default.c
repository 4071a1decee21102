/* Defaults that the machine and the user decide: addresses, folders, the memory limit. Folders follow the XDG base
 * directories for users, the file system hierarchy for root, and the ones that systemd gives a service for both. */
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory_limit.h"
#include "base/settings_table.h"

/* An absolute path from the environment, or NULL. systemd's variables may hold several, separated by colons. */
static const char *folder_from_environment(const char *name, size_t *out_length) {
  const char *value = getenv(name);
  if (!value || value[0] != '/') return NULL;
  *out_length = strcspn(value, ":");
  return value;
}

static const char *home_folder(void) {
  const char *home = getenv("HOME");
  if (home && home[0] == '/') return home;
  const struct passwd *user = getpwuid(geteuid());
  return user && user->pw_dir && user->pw_dir[0] == '/' ? user->pw_dir : NULL;
}

static pjrtd_status *format_path(char **out_path, const char *prefix, const char *folder, size_t folder_length,
                                 const char *rest) {
  size_t size = strlen(prefix) + folder_length + strlen(rest) + 1;
  *out_path = pjrtd_malloc(size);
  if (!*out_path) return pjrtd_status_oom();
  snprintf(*out_path, size, "%s%.*s%s", prefix, (int)folder_length, folder, rest);
  return PJRTD_OK;
}

/* `*out_path` stays NULL where nothing says where a user's files belong. */
static pjrtd_status *default_folder(const char *systemd_name, const char *root_path, const char *xdg_name,
                                    const char *below_home, char **out_path) {
  size_t length;
  const char *folder = folder_from_environment(systemd_name, &length);
  if (folder) return format_path(out_path, "", folder, length, "");
  if (geteuid() == 0) return format_path(out_path, "", root_path, strlen(root_path), "");
  folder = folder_from_environment(xdg_name, &length);
  if (folder) return format_path(out_path, "", folder, strlen(folder), "/pjrtd");
  folder = home_folder();
  if (folder) return format_path(out_path, "", folder, strlen(folder), below_home);
  return PJRTD_OK;
}

static pjrtd_status *fill_folder(char **field, const char *systemd_name, const char *root_path, const char *xdg_name,
                                 const char *below_home) {
  if (*field) return PJRTD_OK;
  PJRTD_TRY(default_folder(systemd_name, root_path, xdg_name, below_home, field));
  if (!*field) *field = pjrtd_strdup("");
  return *field ? PJRTD_OK : pjrtd_status_oom();
}

static pjrtd_status *fill_listen(pjrtd_settings *settings) {
  if (settings->listen.count) return PJRTD_OK;
  char *address = NULL;
  size_t length;
  const char *folder = folder_from_environment("RUNTIME_DIRECTORY", &length);
  if (folder) {
    PJRTD_TRY(format_path(&address, "unix:", folder, length, "/pjrtd.sock"));
  } else if (geteuid() == 0) {
    PJRTD_TRY(format_path(&address, "unix:", "", 0, "/run/pjrtd/pjrtd.sock"));
  } else if ((folder = folder_from_environment("XDG_RUNTIME_DIR", &length))) {
    PJRTD_TRY(format_path(&address, "unix:", folder, strlen(folder), "/pjrtd.sock"));
  } else {
    return pjrtd_status_with_hint(
        PJRTD_INVALID("listen: no address is set, and XDG_RUNTIME_DIR does not say where a user's sockets belong"),
        "name one: --listen unix:PATH");
  }
  const pjrtd_setting *setting = pjrtd_setting_find("listen", strlen("listen"));
  pjrtd_status *status = pjrtd_setting_parse(setting, address, "the default", settings);
  pjrtd_free(address);
  return status;
}

pjrtd_status *pjrtd_settings_fill_defaults(pjrtd_settings *settings) {
  if (!settings->plugin) settings->plugin = pjrtd_strdup("");
  if (!settings->plugin) return pjrtd_status_oom();
  PJRTD_TRY(fill_listen(settings));
  PJRTD_TRY(
      fill_folder(&settings->cache_dir, "CACHE_DIRECTORY", "/var/cache/pjrtd", "XDG_CACHE_HOME", "/.cache/pjrtd"));
  PJRTD_TRY(
      fill_folder(&settings->state_dir, "STATE_DIRECTORY", "/var/lib/pjrtd", "XDG_STATE_HOME", "/.local/state/pjrtd"));
  if (!settings->max_buffer_bytes) settings->max_buffer_bytes = pjrtd_memory_limit_bytes("") / 5 * 4;
  return PJRTD_OK;
}
