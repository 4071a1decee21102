/* See spinner.h. */
#include "spinner.h"

enum {
  FULL_SCORE = 8,
  MISS_COST = 3, /* in hits */
  TRIALS = 4,
  TRIAL_HITS = 3, /* that a trial needs */
  FIRST_INTERVAL = 32,
  LAST_INTERVAL = 4096,
};

void pjrtc_spinner_init(pjrtc_spinner *spinner) {
  *spinner = (pjrtc_spinner){.score = FULL_SCORE, .interval = FIRST_INTERVAL};
}

bool pjrtc_spinner_begin(pjrtc_spinner *spinner) {
  if (!spinner->sleeping) return true;
  if (spinner->waits_left) {
    spinner->waits_left--;
    return false;
  }
  return true;
}

static void stop(pjrtc_spinner *spinner) {
  spinner->sleeping = true;
  spinner->waits_left = spinner->interval;
  if (spinner->interval < LAST_INTERVAL) spinner->interval *= 2;
  spinner->trials = spinner->hits = 0;
}

void pjrtc_spinner_end(pjrtc_spinner *spinner, bool hit) {
  if (spinner->crowded) {
    spinner->crowded = false;
    stop(spinner);
    return;
  }
  if (!spinner->sleeping) {
    if (hit) {
      if (spinner->score < FULL_SCORE)
        spinner->score++;
      else
        spinner->interval = FIRST_INTERVAL;
    } else if (spinner->score > MISS_COST) {
      spinner->score -= MISS_COST;
    } else {
      stop(spinner);
    }
    return;
  }
  spinner->trials++;
  spinner->hits += hit;
  if (spinner->trials - spinner->hits > TRIALS - TRIAL_HITS) {
    stop(spinner);
  } else if (spinner->hits == TRIAL_HITS) {
    spinner->sleeping = false;
    spinner->score = FULL_SCORE;
    spinner->trials = spinner->hits = 0;
  }
}
