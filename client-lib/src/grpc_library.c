/* See grpc_library.h. */
#include "grpc_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_OF(name) #name
#define NAME_OF(name) TEXT_OF(name)

/* Beside the file that this code is in, else wherever the loader looks: where a program wraps dlopen, as sanitizers do,
 * the loader does not know for whom it is called, and so not that library's own search path. It stays loaded, like
 * gRPC, whose threads live as long as the process; a second dlopen only counts. */
static void *open_library(void) {
  enum { FLAGS = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE };
  Dl_info own;
  char path[PATH_MAX];
  const char *end = dladdr((void *)(uintptr_t)open_library, &own) && own.dli_fname ? strrchr(own.dli_fname, '/') : NULL;
  void *library = NULL;
  if (end && (size_t)snprintf(path, sizeof path, "%.*s/" PJRTC_GRPC_LIBRARY, (int)(end - own.dli_fname),
                              own.dli_fname) < sizeof path)
    library = dlopen(path, FLAGS);
  return library ? library : dlopen(PJRTC_GRPC_LIBRARY, FLAGS);
}

static pjrtc_failure *load(pjrtc_grpc_open **out_open) {
  void *library = open_library();
  if (!library)
    return pjrtc_failure_make(PJRTC_UNIMPLEMENTED,
                              "install libpjrtc-grpc.so beside libpjrtc.so, and gRPC C core; or use a unix:PATH target "
                              "on the host that runs pjrtd",
                              "gRPC targets need " PJRTC_GRPC_LIBRARY ", which cannot be loaded: %s", dlerror());
  *out_open = (pjrtc_grpc_open *)dlsym(library, NAME_OF(PJRTC_GRPC_OPEN));
  if (*out_open) return NULL;
  return pjrtc_failure_make(PJRTC_UNIMPLEMENTED, "install both libraries from the same version of pjrtd",
                            PJRTC_GRPC_LIBRARY " is of another version than libpjrtc %s", pjrtc_version());
}

pjrtc_failure *pjrtc_grpc_library_open(const char *target, const char *ca_file, uint64_t timeout_ns,
                                       pjrtc_link **out_link) {
  pjrtc_grpc_open *open_link = NULL;
  pjrtc_failure *failure = load(&open_link);
  if (failure) return failure;
  if (!ca_file || !*ca_file) ca_file = getenv("PJRTD_CA_FILE");
  const pjrtc_grpc_options options = {
      .target = target, .ca_file = ca_file && *ca_file ? ca_file : NULL, .timeout_ns = timeout_ns};
  pjrtc_grpc_error error = {{0}, {0}};
  pjrtc_code code = open_link(&options, out_link, &error);
  return code == PJRTC_OK ? NULL : pjrtc_failure_make(code, error.hint, "%s", error.message);
}
