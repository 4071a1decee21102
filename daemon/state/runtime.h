/* The plugin's client, its lanes, and everything that sessions share. Loop thread only. */
#pragma once

#include <uv.h>

#include "base/log.h"
#include "base/mailbox.h"
#include "base/page_pool.h"
#include "base/settings.h"
#include "plugin/plugin.h"
#include "state/deadlines.h"
#include "state/lane.h"
#include "state/resource.h"
#include "state/share.h"
#include "state/sources.h"
#include "state/stats.h"

typedef struct pjrtd_session pjrtd_session;
typedef struct pjrtd_account pjrtd_account;

/* The kernel's account of a thread, since it began. */
typedef struct {
  uint64_t cpu_ns;   /* running */
  uint64_t delay_ns; /* ready to run, without a core */
  uint64_t waits;    /* times that it waited for something */
} pjrtd_thread_account;

#define PJRTD_SCHEDSTAT_UNOPENED -2

/* A turn of the loop (turn.c). */
typedef struct {
  uint64_t began_ns; /* 0 between turns */
  uint64_t ended_ns; /* the last one */
  pjrtd_thread_account account;
  uint64_t asked_ns; /* when the account was taken */
  uint64_t sleeps;   /* since then, between turns */
  int schedstat;     /* descriptor; -1: there is none */
} pjrtd_turn;

/* What there is on a device. */
typedef struct {
  uint64_t buffer_bytes;
  uint64_t sessions; /* whose home it is */
} pjrtd_device_load;

typedef struct pjrtd_runtime {
  uv_loop_t *loop;                /* borrowed */
  const pjrtd_settings *settings; /* borrowed */
  pjrtd_plugin *plugin;           /* owned */
  pjrtd_client *client;           /* owned */
  pjrtd_mailbox *mailbox;         /* owned */
  pjrtd_page_pool *pages;         /* owned; for bulk data under way */
  pjrtd_lane **device_lanes;      /* owned; straight-line programs, by device index: they end */
  pjrtd_lane **open_lanes;     /* owned; programs that could loop or wait, so that the others need not wait for them */
  pjrtd_lane **transfer_lanes; /* owned; bulk copies, by device index, so that they do not wait for programs */
  size_t num_devices;          /* addressable */
  atomic_uint *device_executions;  /* owned; outstanding, by device index */
  pjrtd_device_load *device_loads; /* owned; by device index */
  bool lanes_gone;
  pjrtd_lane *compile_lane; /* owned; a large stack */
  pjrtd_lane *reaper;       /* owned; frees what takes long to free */
  pjrtd_ready_list ready;
  pjrtd_deadlines deadlines;
  pjrtd_session *sessions;                /* a list */
  pjrtd_account *accounts;                /* a list: of identities that have sessions (quota.h) */
  struct pjrtd_publication *publications; /* a list */
  pjrtd_sources sources;                  /* of the programs of all sessions */
  uint64_t next_session;
  uint64_t last_conversation;
  uint64_t epoch; /* another value after each start */
  uint64_t started_ns;
  uint64_t memory_limit_bytes; /* of buffers and staging together */
  uint64_t reserved_bytes;     /* of buffers that executions under way will make */
  uint64_t jobs_running;       /* submitted to lanes and not back */
  pjrtd_job *doomed, *last_doomed;
  uv_idle_t more; /* active while a turn left something to do: doomed jobs, ready operations */
  bool draining;
  bool few_cores;
  pjrtd_turn turn;
  uv_timer_t stall_timer;
  uv_timer_t idle_timer; /* the service's, to look for idle sessions */
  pjrtd_lane *full_lane; /* borrowed; it has max_stuck stuck calls; NULL: none has */
  uint64_t full_since_ns;
  pjrtd_stats stats;
  /* Called after mailbox deliveries and deadlines, when answers may wait to be written. */
  void (*flush)(void *user);
  void *flush_user;
  /* Called once, where a device stays stuck and the setting on_stuck is exit; NULL: nobody wants to know. */
  void (*give_up)(void *user);
  void *give_up_user;
} pjrtd_runtime;

/* Takes `plugin`; creates the client from the settings' options and runs a probe program on it: only then is the daemon
 * ready. Before the loop runs: it blocks. */
PJRTD_MUST_USE pjrtd_status *pjrtd_runtime_create(uv_loop_t *loop, const pjrtd_settings *settings, pjrtd_plugin *plugin,
                                                  pjrtd_runtime **out_runtime);
/* Ends the lanes (waits for what they run, unless stuck), closes handles. Then run the loop until nothing is left, and
 * call destroy. False where the plugin still owes callbacks, for executions and copies that have not ended: then
 * nothing more can be taken down, and the process has to end as it is. */
bool pjrtd_runtime_close(pjrtd_runtime *runtime);
void pjrtd_runtime_destroy(pjrtd_runtime *runtime);

/* Calls `visit` with each lane in turn. */
void pjrtd_runtime_each_lane(const pjrtd_runtime *runtime, void (*visit)(pjrtd_lane *lane, void *user), void *user);

/* Submits, and watches for a stall. RESOURCE_EXHAUSTED beyond max_stuck. `job->done` must call
 * pjrtd_runtime_job_ended first. */
PJRTD_MUST_USE pjrtd_status *pjrtd_runtime_submit(pjrtd_runtime *runtime, pjrtd_lane *lane, pjrtd_job *job);
void pjrtd_runtime_job_ended(pjrtd_runtime *runtime);
/* The same for an execution, in its session's share: `open` for programs that could loop or wait. `estimate_ns` is what
 * it took the last time, 0: not known. `share` must stay until `done`, until pjrtd_runtime_execution_ended, or until
 * the job was withdrawn.
 */
PJRTD_MUST_USE pjrtd_status *pjrtd_runtime_submit_execution(pjrtd_runtime *runtime, pjrtd_share *share,
                                                            size_t device_index, bool open, uint64_t estimate_ns,
                                                            pjrtd_job *job);
/* For outstanding ones, once `done` was and the device is done: its time is then in `job->measured_ns`. */
void pjrtd_runtime_execution_ended(pjrtd_runtime *runtime, pjrtd_job *job, uint64_t end_ns);
void pjrtd_runtime_begin_turn(pjrtd_runtime *runtime);
/* What runs on the loop begins with this, so that a turn can be timed: libuv has no hook between its poll and the
 * callbacks. */
static inline void pjrtd_runtime_enter(pjrtd_runtime *runtime) {
  if (!runtime->turn.began_ns) pjrtd_runtime_begin_turn(runtime);
}
/* Runs the job, and its `done`, on the loop, but later and a few a turn: freeing a session of a million buffers must
 * not stall everybody, and an answer need not wait for what it made superfluous. */
void pjrtd_runtime_free_later(pjrtd_runtime *runtime, pjrtd_job *job);

/* Ends the turn: counts it, and a stall where it took over 5 ms. */
void pjrtd_runtime_end_turn(pjrtd_runtime *runtime);

/* Has pjrtd_runtime_settle called in the next turn, which comes at once. */
void pjrtd_runtime_do_more(pjrtd_runtime *runtime);
/* Whether the turn has run for so long that others should get theirs. */
bool pjrtd_runtime_time_is_up(const pjrtd_runtime *runtime);

/* Runs the operations that have become ready, as long as the turn has time. To be called at the end of each event that
 * could make one ready. */
void pjrtd_runtime_settle(pjrtd_runtime *runtime);

/* RESOURCE_EXHAUSTED where `more_bytes` of buffers and staging would go over the limit. */
PJRTD_MUST_USE pjrtd_status *pjrtd_runtime_check_memory(const pjrtd_runtime *runtime, uint64_t more_bytes,
                                                        const char *what);
