/* What the verbs of `pjrtctl slot` share. One thread. */
#pragma once

#include "ctl.h"
#include "ctl_argument.h"

enum { CTL_MAX_UIDS = 64 }; /* that a request may name */

typedef struct {
  bool has_device;
  int32_t device;
  uint64_t ttl_ns;
  const char *save;
  bool full;
  bool everybody;
  uint32_t uids[CTL_MAX_UIDS];
  size_t num_uids;
} ctl_slot_options;

typedef struct {
  const ctl_common *common;
  const ctl_slot_options *options;
  const char *const *words; /* behind the verb and its session */
  size_t num_words;
  ctl_argument value;            /* of put; owned */
  pjrtc_borrowed_slot *borrowed; /* of borrow, one a word behind the first; owned, with each `slot` */
  pjrtc_client *client;          /* in the session, where the verb names one */
  pjrtc_error error;
} ctl_slot_command;

/* A verb, or what it does before anything is asked of the server. Returns the exit status. */
typedef int ctl_slot_verb(ctl_slot_command *c);

/* ---- Those of published slots (pjrtctl_publish.c) ---- */

ctl_slot_verb ctl_slot_publish, ctl_slot_withdraw, ctl_slot_borrow, ctl_slot_published;
ctl_slot_verb ctl_slot_read_borrowed;
void ctl_slot_free_borrowed(ctl_slot_command *c);
