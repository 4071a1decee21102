/* Whether a waiting thread polls the socket before it sleeps. Polling answers sooner where the server answers within
 * the polling time. Where it does not, or where polling takes the processor that the server needs, it only costs: then
 * it stops, and is tried again now and then. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A core that was given away for this long is one that others need. Clients that poll together take tens of
 * microseconds in all; one that computes, milliseconds. */
#define PJRTC_CROWDED_NS 500000

typedef struct {
  bool sleeping;
  bool crowded;         /* set by who polls: the core was gone for PJRTC_CROWDED_NS */
  uint8_t score;        /* while polling: at 0 it stops */
  uint8_t trials, hits; /* of the trial under way */
  uint32_t interval;    /* waits from one trial to the next */
  uint32_t waits_left;  /* until the next */
} pjrtc_spinner;

void pjrtc_spinner_init(pjrtc_spinner *spinner);
/* At the beginning of a wait: true where it is to poll. */
bool pjrtc_spinner_begin(pjrtc_spinner *spinner);
/* How polling went: the answer came, or it did not. */
void pjrtc_spinner_end(pjrtc_spinner *spinner, bool hit);
