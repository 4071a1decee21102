/* How a polling loop shares its core. Loop thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "state/runtime.h"

typedef struct {
  /* No polling until then, since others need this core; and how long that was the last time. */
  uint64_t crowded_until_ns, crowded_ns;
} pjrtd_crowding;

/* Whether polling is worth a core now: it is allowed, nobody was kept waiting by it a moment ago, and no program runs
 * that needs the core more. */
bool pjrtd_may_poll(const pjrtd_crowding *crowding, const pjrtd_runtime *runtime, uint64_t now_ns);
/* Lets others have this core, such as clients that were put here and that could not ask or answer while this spins.
 * Where one keeps it for long, there is no polling for a while: who sleeps is woken at once, while who gives way comes
 * after all others. False then. */
bool pjrtd_give_way(pjrtd_crowding *crowding);
