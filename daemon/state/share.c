/* See share.h. */
#include "state/share.h"

#include "base/alloc.h"

pjrtd_status *pjrtd_share_create(size_t num_devices, pjrtd_share **out_share) {
  size_t num_parts = pjrtd_share_flow_index(num_devices, false);
  pjrtd_share *share = *out_share = pjrtd_calloc(1, sizeof *share + num_parts * sizeof *share->parts);
  if (!share) return pjrtd_status_oom();
  share->references = 1;
  share->priority = PJRTD_PRIORITY_NORMAL;
  share->num_parts = num_parts;
  return PJRTD_OK;
}

pjrtd_share *pjrtd_share_retain(pjrtd_share *share) {
  share->references++;
  return share;
}

void pjrtd_share_release(pjrtd_share *share) {
  if (!share || --share->references) return;
  for (size_t i = 0; i < share->num_parts; i++) pjrtd_free(share->parts[i].flow);
  pjrtd_free(share);
}

void pjrtd_share_set_priority(pjrtd_share *share, pjrtd_priority priority) {
  share->priority = priority;
  for (size_t i = 0; i < share->num_parts; i++)
    if (share->parts[i].flow) pjrtd_lane_set_priority(share->parts[i].flow->lane, share->parts[i].flow, priority);
}

pjrtd_status *pjrtd_share_get_flow(pjrtd_share *share, size_t index, pjrtd_lane *lane, pjrtd_flow **out_flow) {
  *out_flow = share->parts[index].flow;
  if (*out_flow) return PJRTD_OK;
  pjrtd_flow *flow = pjrtd_calloc(1, sizeof *flow);
  if (!flow) return pjrtd_status_oom();
  flow->lane = lane;
  flow->priority = share->priority;
  *out_flow = share->parts[index].flow = flow;
  return PJRTD_OK;
}

uint64_t pjrtd_share_device_ns(const pjrtd_share *share) {
  uint64_t ns = share->loop_ns;
  for (size_t i = 0; i < share->num_parts; i++)
    if (share->parts[i].flow) ns += pjrtd_lane_get_device_ns(share->parts[i].flow->lane, share->parts[i].flow);
  return ns;
}
