/* What is known where something ran short: a quota, or a device's memory. A status carries a copy. Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PJRTD_MAX_BIGGEST 5
#define PJRTD_MAX_ALLOCATOR_STATS 12

/* A buffer of the caller's that takes room. */
typedef struct {
  uint64_t session; /* where its id is known */
  uint64_t buffer;  /* 0: it has no id, */
  char slot[64];    /* but is held by this slot, whose name may be cut */
  uint64_t bytes;
  int device;
  char type[48]; /* "f32[1024,1024]" */
} pjrtd_buffer_detail;

typedef struct {
  /* The quota that was reached: the setting's name (static); NULL where it was none. */
  const char *setting;
  uint64_t used, allowed, needed;
  /* The allocator's statistics of the device; none where the plugin has none. */
  struct {
    char name[32];
    int64_t value;
  } allocator[PJRTD_MAX_ALLOCATOR_STATS];
  size_t num_allocator;
  /* From the biggest on. */
  pjrtd_buffer_detail biggest[PJRTD_MAX_BIGGEST];
  size_t num_biggest;
} pjrtd_shortage;
