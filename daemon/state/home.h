/* A session's home: the device of what it places nowhere in particular. Loop thread only. */
#pragma once

#include "state/runtime.h"

/* The first device that this process can use; NULL without a client. */
const pjrtd_device *pjrtd_home_first(const pjrtd_runtime *runtime);
/* The device of that id. INVALID_ARGUMENT where this process can use none of it. */
PJRTD_MUST_USE pjrtd_status *pjrtd_home_find(const pjrtd_runtime *runtime, int id, const pjrtd_device **out_device);
/* For a new session, as the setting says: the first, or that with the fewest bytes of buffers, among those that of the
 * fewest sessions. NULL without a client. */
const pjrtd_device *pjrtd_home_choose(const pjrtd_runtime *runtime);
/* A session moves from one to another; NULL: from or to nowhere. */
void pjrtd_home_move(pjrtd_runtime *runtime, const pjrtd_device *from, const pjrtd_device *to);
