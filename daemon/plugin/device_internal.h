/* Inside the plugin layer: the client with its devices and memory spaces. */
#pragma once

#include <pthread.h>

#include "plugin/pjrt_call.h"

struct pjrtd_client {
  pjrtd_plugin *plugin; /* borrowed */
  PJRT_Client *handle;
  pjrtd_client_info info;
  char *platform_name, *platform_version; /* owned; as in info */
  pjrtd_device *devices;                  /* owned, as their parts; as in info */
  pjrtd_memory *memories;
  pjrtd_value *create_options;
  pthread_mutex_t several; /* held while a program of several devices is run: see executable_run.c */
};

/* Reads devices and memory spaces into `client`, once. What was read so far is freed by the deinit, on failure too. */
PJRTD_MUST_USE pjrtd_status *pjrtd_client_read_devices(pjrtd_client *client);
void pjrtd_client_deinit_devices(pjrtd_client *client);

/* INTERNAL where the plugin says that it has more of `what` than can be, or has some and gives no list of them. */
PJRTD_MUST_USE pjrtd_status *pjrtd_plugin_check_list(const void *list, size_t count, const char *what);

/* NULL where there is none. */
const pjrtd_device *pjrtd_client_device_of(const pjrtd_client *client, const PJRT_Device *handle);
const pjrtd_memory *pjrtd_client_memory_of(const pjrtd_client *client, const PJRT_Memory *handle);
