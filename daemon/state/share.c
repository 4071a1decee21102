/* See share.h. */
#include "state/share.h"

#include "base/alloc.h"

pjrtd_status *pjrtd_share_create(size_t num_devices, pjrtd_share **out_share) {
  size_t num_flows = pjrtd_share_flow_index(num_devices, false);
  pjrtd_share *share = *out_share = pjrtd_calloc(1, sizeof *share + num_flows * sizeof *share->flows);
  if (!share) return pjrtd_status_oom();
  share->references = 1;
  share->priority = PJRTD_PRIORITY_NORMAL;
  share->num_flows = num_flows;
  return PJRTD_OK;
}

pjrtd_share *pjrtd_share_retain(pjrtd_share *share) {
  share->references++;
  return share;
}

void pjrtd_share_release(pjrtd_share *share) {
  if (!share || --share->references) return;
  for (size_t i = 0; i < share->num_flows; i++) pjrtd_free(share->flows[i]);
  pjrtd_free(share);
}

void pjrtd_share_set_priority(pjrtd_share *share, pjrtd_priority priority) {
  share->priority = priority;
  for (size_t i = 0; i < share->num_flows; i++)
    if (share->flows[i]) pjrtd_lane_set_priority(share->flows[i]->lane, share->flows[i], priority);
}

pjrtd_status *pjrtd_share_get_flow(pjrtd_share *share, size_t index, pjrtd_lane *lane, pjrtd_flow **out_flow) {
  *out_flow = share->flows[index];
  if (*out_flow) return PJRTD_OK;
  pjrtd_flow *flow = pjrtd_calloc(1, sizeof *flow);
  if (!flow) return pjrtd_status_oom();
  flow->lane = lane;
  flow->priority = share->priority;
  *out_flow = share->flows[index] = flow;
  return PJRTD_OK;
}

uint64_t pjrtd_share_device_ns(const pjrtd_share *share) {
  uint64_t ns = share->loop_ns;
  for (size_t i = 0; i < share->num_flows; i++)
    if (share->flows[i]) ns += pjrtd_lane_get_device_ns(share->flows[i]->lane, share->flows[i]);
  return ns;
}
