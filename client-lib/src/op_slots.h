/* What all requests that name slots have in common (op_slots.c). Any thread. */
#pragma once

#include "operation.h"

/* Of a list of slots: that it is there, and not so long that its memory cannot be counted. NULL is success. */
pjrtc_failure *pjrtc_slots_check_count(size_t count, const void *list, const char *name);
/* "slot 3 has no name" */
pjrtc_failure *pjrtc_slots_check_name(const char *slot, size_t i);
/* Both, of a plain list. */
pjrtc_failure *pjrtc_slots_check_names(const char *const *slots, size_t num_slots);
