/* What lanes run: embedded in what it is about. */
#pragma once

#include "base/mailbox.h"
#include "base/status.h"

typedef struct pjrtd_job pjrtd_job;
typedef struct pjrtd_lane pjrtd_lane;
typedef struct pjrtd_flow pjrtd_flow;

/* `run` is called on the lane's thread, then `done` on the loop. */
struct pjrtd_job {
  void (*run)(pjrtd_job *job);
  void (*done)(pjrtd_job *job);
  pjrtd_status *refusal; /* set before `done` where `run` never was: the lane has too many stuck threads, or there was
                            no memory to put it among those of more than eight flows. `done` takes it */
  /* For executions, which the lane's scheduler shares out; before it is submitted. */
  pjrtd_flow *flow; /* borrowed until `done`, and until pjrtd_lane_execution_ended; NULL: in order with the others */
  uint64_t estimate_ns; /* 0: not known */
  uint64_t loop_ns;     /* what its session had on the loop, and is to be counted in the flow */
  /* By `run`. */
  bool outstanding; /* the device goes on: pjrtd_lane_execution_ended will be called */
  bool again;       /* it was a slice: `run` is to be called again, behind what its session has queued, before `done` */
  /* Device time, of all slices; valid in `done`, and for outstanding ones after pjrtd_lane_execution_ended. */
  uint64_t measured_ns;
  /* The lane's own. */
  pjrtd_message message;
  pjrtd_job *next, *previous;
  bool queued; /* under the lane's mutex */
  pjrtd_lane *lane;
  uint64_t queued_ns, started_ns, charged_ns;
};
