/* Executables of the fake plugin. */
#pragma once

#include "fake_plugin.h"

struct PJRT_LoadedExecutable {
  fake_object object;
  fake_module module;
  fake_script *own;
  PJRT_Client *client;
  atomic_int users; /* executions */
};
struct PJRT_Executable {
  fake_object object;
  PJRT_LoadedExecutable *loaded;
};

PJRT_LoadedExecutable *fake_loaded_check(PJRT_LoadedExecutable *loaded, const char *function);
