/* A session's share of the devices: what it may claim of them and what it had. It outlives the session for as long as
 * work of it is queued or runs. Loop thread only. */
#pragma once

#include "state/lane.h"

typedef struct pjrtd_share pjrtd_share;
struct pjrtd_share {
  uint32_t references;
  pjrtd_priority priority;
  uint64_t loop_ns; /* measured, of what ran at once */
  size_t num_parts;
  struct {
    pjrtd_flow *flow; /* owned; NULL: it has not used that lane */
    uint64_t loop_ns; /* of what ran at once, what is not counted there yet */
  } parts[];          /* by device and kind of lane (pjrtd_share_flow_index) */
};

/* One reference, the caller's. */
PJRTD_MUST_USE pjrtd_status *pjrtd_share_create(size_t num_devices, pjrtd_share **out_share);
pjrtd_share *pjrtd_share_retain(pjrtd_share *share);
void pjrtd_share_release(pjrtd_share *share);
/* For what waits now, too. */
void pjrtd_share_set_priority(pjrtd_share *share, pjrtd_priority priority);

static inline size_t pjrtd_share_flow_index(size_t device_index, bool open) {
  return device_index * 2 + open;
}
/* The flow there, which `lane` is the lane of; borrowed from the share. */
PJRTD_MUST_USE pjrtd_status *pjrtd_share_get_flow(pjrtd_share *share, size_t index, pjrtd_lane *lane,
                                                  pjrtd_flow **out_flow);
/* What it had of all devices: of executions and slices that have ended. */
uint64_t pjrtd_share_device_ns(const pjrtd_share *share);
/* Something of `ns` ran on that device at once, beside its lane: it counts there where others use the lane meanwhile.
 */
static inline void pjrtd_share_charge(pjrtd_share *share, size_t device_index, uint64_t ns) {
  share->loop_ns += ns;
  size_t index = pjrtd_share_flow_index(device_index, false);
  const pjrtd_flow *flow = share->parts[index].flow;
  if (flow && pjrtd_lane_is_busy(flow->lane)) share->parts[index].loop_ns += ns;
}
static inline uint64_t pjrtd_share_take_loop_ns(pjrtd_share *share, size_t index) {
  uint64_t ns = share->parts[index].loop_ns;
  share->parts[index].loop_ns = 0;
  return ns;
}
