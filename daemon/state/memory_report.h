/* Why there was no memory, for whoever ran into it. Loop thread only. */
#pragma once

#include "state/quota.h"

/* Adds to a status that is of memory (status.h), and has nothing of this yet, what the daemon knows: who holds how
 * much, the caller's biggest buffers, the client's create options, the device's allocator statistics, and what to do.
 * Takes and returns `status`; any other, and NULL, as it is. `account`: the session's that asked; it is told of other
 * identities' no more than a sum, unless it has the right `admin`, and of its owner's other sessions only where nobody
 * else could hear. `device`: that ran out; NULL: unknown. */
PJRTD_MUST_USE pjrtd_status *pjrtd_memory_report(const pjrtd_account *account, const pjrtd_device *device,
                                                 pjrtd_status *status);
