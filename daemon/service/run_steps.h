/* The steps of an Execute.Run: what runs on a lane, in slices, between which others have their turn. It knows programs
 * and device buffers, and nothing of calls, sessions or the loop. */
#pragma once

#include <stdatomic.h>

#include "plugin/plugin.h"

/* The values of a step that are to be told, at most so many of them before the loop has to take them away. */
#define PJRTD_RUN_MAX_ITEMS 256
#define PJRTD_RUN_VALUES_BYTES (1u << 20)

typedef struct {
  uint32_t position;
  const uint8_t *data;    /* borrowed: all steps' values, dense row-major */
  pjrtd_tensor_type type; /* of a step; dims borrowed */
  uint64_t bytes;         /* of a step */
} pjrtd_run_stacked;

/* Device-major lists. Filled by the maker but for what is said to be the steps' own. */
typedef struct {
  pjrtd_executable *executable; /* borrowed, as is all that is not said to be owned */
  pjrtd_client *client;
  pjrtd_device_buffer **args; /* of the next step: at first those of the request, then what was fed back */
  size_t num_args;
  const uint32_t *fed_by; /* for each argument: the output that it has in the next step + 1; 0: it stays */
  const int64_t *non_donatable;
  size_t num_non_donatable;
  const pjrtd_run_stacked *stacked;
  size_t num_stacked;
  size_t num_outputs;
  uint64_t limit; /* steps at most */
  uint64_t every;
  bool has_until;
  uint32_t until; /* an output of type pred[] */
  const uint32_t *fetch;
  size_t num_fetch;
  uint64_t fetch_bytes; /* of one step */
  atomic_bool stop;     /* by any thread: no further step, once the first was made */

  /* The steps' own. */
  pjrtd_device_buffer **last, **next; /* places for num_outputs: of the last whole step, owned; of the one after */
  uint64_t steps, execute_ns;
  bool stopped;                        /* `until` was true */
  uint8_t *values;                     /* owned: of the items, one after the other */
  uint64_t items[PJRTD_RUN_MAX_ITEMS]; /* steps whose values are there */
  size_t num_items, max_items;
} pjrtd_run_steps;

/* Whether no further step will be made. */
bool pjrtd_run_has_ended(const pjrtd_run_steps *run);
/* Makes steps for about so long, at least one, until the run has ended or the items must be taken away. After an error
 * `last` has what the last whole step gave, but for what the failed one consumed. Lane. */
PJRTD_MUST_USE pjrtd_status *pjrtd_run_slice(pjrtd_run_steps *run, uint64_t slice_ns);
/* Frees what is left in `last`, and the values. */
void pjrtd_run_deinit(pjrtd_run_steps *run);
