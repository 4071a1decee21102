/* Finds a plugin the way the ecosystem names one. Start-up only: reads the environment and lists folders.
 *
 * Order: the explicit path; PJRTD_PLUGIN; PYPJRT_PLUGIN; PJRT_NAMES_AND_LIBRARY_PATHS (name:path,...; the first);
 * TPU_LIBRARY_PATH; then, in the site-packages folders of the active environment, of each python3 on PATH and of the
 * user, JAX plugin wheels and libtpu before CPU wheels. A variable that names a missing file is an error: what an
 * operator asked for is not replaced silently. Python itself is never run. */
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/plugin.h"

#define MAX_SITES 64
#define MAX_PATH_BYTES 4096

typedef struct {
  char *sites[MAX_SITES]; /* owned; site-packages folders, in order */
  size_t num_sites;
  char *looked_at; /* owned; lines for the error */
} search;

static void search_deinit(search *search) {
  for (size_t i = 0; i < search->num_sites; i++) pjrtd_free(search->sites[i]);
  pjrtd_free(search->looked_at);
}

static void note(search *search, const char *format, ...) PJRTD_PRINTF(2, 3);
static void note(search *search, const char *format, ...) {
  char line[MAX_PATH_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  size_t used = search->looked_at ? strlen(search->looked_at) : 0;
  char *longer = pjrtd_realloc(search->looked_at, used + strlen(line) + 4);
  if (!longer) return; /* the list in an error is shorter then */
  sprintf(longer + used, "\n  %s", line);
  search->looked_at = longer;
}

static bool is_file(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static pjrtd_status *found(const char *path, size_t length, const char *source, pjrtd_plugin_location *out) {
  out->path = pjrtd_strndup(path, length);
  out->source = source;
  return out->path ? PJRTD_OK : pjrtd_status_oom();
}

/* What somebody named must exist. */
static pjrtd_status *named(const char *path, size_t length, const char *source, pjrtd_plugin_location *out) {
  PJRTD_TRY(found(path, length, source, out));
  struct stat info;
  int error = stat(out->path, &info) != 0 ? errno : S_ISDIR(info.st_mode) ? EISDIR : 0;
  if (!error) return PJRTD_OK;
  pjrtd_status *status =
      pjrtd_status_with_hint(pjrtd_status_from_errno(error, "%s names the plugin %s", source, out->path),
                             "name the plugin's shared library, a file that ends in .so");
  pjrtd_plugin_location_deinit(out);
  return status;
}

/* ---- the environment ---- */

static pjrtd_status *find_in_variable(search *search, const char *variable, pjrtd_plugin_location *out) {
  const char *value = getenv(variable);
  if (!value || !*value) {
    note(search, "%s (not set)", variable);
    return PJRTD_OK;
  }
  return named(value, strlen(value), variable, out);
}

/* "name:path,name:path": JAX's variable. */
static pjrtd_status *find_in_names_and_paths(search *search, pjrtd_plugin_location *out) {
  static const char variable[] = "PJRT_NAMES_AND_LIBRARY_PATHS";
  const char *value = getenv(variable);
  if (!value || !*value) {
    note(search, "%s (not set)", variable);
    return PJRTD_OK;
  }
  const char *colon = strchr(value, ':');
  size_t length = colon ? strcspn(colon + 1, ",") : 0;
  if (!length || (size_t)(colon - value) > strcspn(value, ","))
    return PJRTD_INVALID("%s must be NAME:PATH, or several with commas between, not \"%s\"", variable, value);
  return named(colon + 1, length, variable, out);
}

/* ---- site-packages ---- */

static pjrtd_status *add_site(search *search, const char *path) {
  struct stat info;
  if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return PJRTD_OK;
  for (size_t i = 0; i < search->num_sites; i++)
    if (strcmp(search->sites[i], path) == 0) return PJRTD_OK;
  if (search->num_sites == MAX_SITES) return PJRTD_OK;
  char *copy = pjrtd_strdup(path);
  if (!copy) return pjrtd_status_oom();
  search->sites[search->num_sites++] = copy;
  return PJRTD_OK;
}

typedef pjrtd_status *(*match_fn)(search *search, const char *path, void *user);

/* Calls `each` for the paths that match, sorted, until it fails. */
static pjrtd_status *for_each_match(search *search, match_fn each, void *user, const char *format, ...)
    PJRTD_PRINTF(4, 5);
static pjrtd_status *for_each_match(search *search, match_fn each, void *user, const char *format, ...) {
  char pattern[MAX_PATH_BYTES];
  va_list args;
  va_start(args, format);
  int length = vsnprintf(pattern, sizeof pattern, format, args);
  va_end(args);
  if (length < 0 || (size_t)length >= sizeof pattern) return PJRTD_OK;
  glob_t matches = {0};
  pjrtd_status *status = PJRTD_OK;
  if (glob(pattern, 0, NULL, &matches) == 0)
    for (size_t i = 0; i < matches.gl_pathc && !status; i++) status = each(search, matches.gl_pathv[i], user);
  globfree(&matches);
  return status;
}

static pjrtd_status *add_site_match(search *search, const char *path, void *unused) {
  return add_site(search, path);
}

static pjrtd_status *add_prefix(search *search, const char *prefix) {
  static const char *const places[] = {"lib/python3*/site-packages", "lib64/python3*/site-packages",
                                       "lib/python3*/dist-packages", "local/lib/python3*/dist-packages"};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    PJRTD_TRY(for_each_match(search, add_site_match, NULL, "%s/%s", prefix, places[i]));
  return PJRTD_OK;
}

/* "PREFIX/bin/python3" leads to PREFIX, and so does what it links to. */
static pjrtd_status *add_interpreter(search *search, const char *folder) {
  char path[MAX_PATH_BYTES];
  int length = snprintf(path, sizeof path, "%s/python3", folder);
  if (length < 0 || (size_t)length >= sizeof path || access(path, X_OK) != 0) return PJRTD_OK;
  char resolved[PATH_MAX];
  const char *ends[] = {path, realpath(path, resolved)};
  for (size_t i = 0; i < 2 && ends[i]; i++) {
    char prefix[MAX_PATH_BYTES];
    snprintf(prefix, sizeof prefix, "%s", ends[i]);
    for (int up = 0; up < 2; up++) {
      char *slash = strrchr(prefix, '/');
      if (!slash) return PJRTD_OK;
      *slash = 0;
    }
    PJRTD_TRY(add_prefix(search, prefix));
  }
  return PJRTD_OK;
}

static pjrtd_status *collect_sites(search *search) {
  static const char *const environments[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
  for (size_t i = 0; i < 2; i++) {
    const char *prefix = getenv(environments[i]);
    if (prefix && *prefix) PJRTD_TRY(add_prefix(search, prefix));
  }
  const char *path = getenv("PATH");
  PJRTD_AUTO_FREE char *folders = pjrtd_strdup(path ? path : "");
  if (!folders) return pjrtd_status_oom();
  char *rest = folders;
  for (char *folder; (folder = strsep(&rest, ":")) != NULL;)
    if (*folder == '/') PJRTD_TRY(add_interpreter(search, folder));
  const char *home = getenv("HOME");
  if (home && *home)
    PJRTD_TRY(for_each_match(search, add_site_match, NULL, "%s/.local/lib/python3*/site-packages", home));
  return PJRTD_OK;
}

static pjrtd_status *take_first(search *search, const char *path, void *user) {
  pjrtd_plugin_location *out = user;
  return out->path || !is_file(path) ? PJRTD_OK : found(path, strlen(path), "python wheel", out);
}

static pjrtd_status *find_in_wheels(search *search, pjrtd_plugin_location *out) {
  /* Accelerators first. JAX's plugins lie in the namespace package jax_plugins, under names of the vendor's choice. */
  static const char *const files[] = {
      "jax_plugins/*/xla_*_plugin.so",
      "jax_plugins/*/*.so",
      "libtpu/libtpu*.so",
      "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
      "fastatomstruct_xla_cpu/libpjrt_cpu.so",
      "xla_plugins/*/*.so",
  };
  PJRTD_TRY(collect_sites(search));
  for (size_t f = 0; f < sizeof files / sizeof *files; f++)
    for (size_t s = 0; s < search->num_sites && !out->path; s++)
      PJRTD_TRY(for_each_match(search, take_first, out, "%s/%s", search->sites[s], files[f]));
  if (out->path) return PJRTD_OK;
  for (size_t s = 0; s < search->num_sites; s++) note(search, "%s (no plugin wheel)", search->sites[s]);
  return PJRTD_OK;
}

/* ---- all of it ---- */

static pjrtd_status *find(search *search, pjrtd_plugin_location *out) {
  static const char *const ours[] = {"PJRTD_PLUGIN", "PYPJRT_PLUGIN"};
  for (size_t i = 0; i < 2 && !out->path; i++) PJRTD_TRY(find_in_variable(search, ours[i], out));
  if (!out->path) PJRTD_TRY(find_in_names_and_paths(search, out));
  if (!out->path) PJRTD_TRY(find_in_variable(search, "TPU_LIBRARY_PATH", out));
  if (!out->path) PJRTD_TRY(find_in_wheels(search, out));
  if (out->path) return PJRTD_OK;
  return pjrtd_status_with_hint(
      pjrtd_status_make(PJRTD_CODE_NOT_FOUND, "no PJRT plugin found; looked at%s",
                        search->looked_at ? search->looked_at : " nothing"),
      "name one with --plugin FILE, or install one, for example: pip install lammps-jax-pjrt-cpu");
}

pjrtd_status *pjrtd_plugin_find(const char *explicit_path, pjrtd_plugin_location *out_location) {
  *out_location = (pjrtd_plugin_location){0};
  if (explicit_path && *explicit_path) return named(explicit_path, strlen(explicit_path), "--plugin", out_location);
  __attribute__((cleanup(search_deinit))) search search = {0};
  pjrtd_status *status = find(&search, out_location);
  if (status) pjrtd_plugin_location_deinit(out_location);
  return status;
}

void pjrtd_plugin_location_deinit(pjrtd_plugin_location *location) {
  pjrtd_free(location->path);
  *location = (pjrtd_plugin_location){0};
}
