/* Ends sessions that are attached to and forgotten (session_idle_seconds). Loop thread only. */
#pragma once

#include "state/session.h"

/* At the daemon's start, and after the settings were read anew. */
void pjrtd_idle_sessions_watch(pjrtd_runtime *runtime);
/* How long the session has until it ends, unless it is used; 0: its connections were not warned. */
uint64_t pjrtd_idle_left_ns(const pjrtd_session *session, uint64_t now_ns);
