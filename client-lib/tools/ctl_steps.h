/* pjrtctl run --steps: many steps in one call, what they tell, and a bar. One thread. */
#pragma once

#include "ctl_result.h"

typedef struct {
  uint64_t steps; /* 0: as many as the stacked arguments have */
  uint64_t every;
  bool has_until;
  uint32_t until;
  uint32_t *stacked; /* owned, increasing */
  size_t num_stacked;
} ctl_steps_options;

/* The entries for ctl_parse; their user is a ctl_steps_options. */
char *ctl_set_steps(ctl_steps_options *options, const char *value);
char *ctl_set_every(ctl_steps_options *options, const char *value);
char *ctl_set_until(ctl_steps_options *options, const char *value);
char *ctl_set_stack(ctl_steps_options *options, const char *value);
/* There is to be a run, not a single execution. */
bool ctl_steps_asked(const ctl_steps_options *options);

typedef struct {
  const ctl_common *common;
  pjrtc_client *client;
  const ctl_steps_options *options;
  const pjrtc_program_info *info;
  uint64_t expected; /* steps, for the bar; 0: not known */
  uint64_t timeout_ns;
  bool whole; /* shows results whole */
} ctl_steps;

/* Runs `step`, whose `fetch` is chosen here, and shows its results after every `every`-th. With --json they go to
 * `*out_history`, an array to be given away. CTL_OK, or another status after a message. */
int ctl_steps_run(const ctl_steps *run, const pjrtc_execute_options *step, json_t **out_history,
                  pjrtc_run_result *out_result);
