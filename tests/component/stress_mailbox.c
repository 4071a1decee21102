/* Eight threads post to one mailbox while the loop drains it: every message is delivered once, those of one thread in
 * their order, and a message may be posted again as soon as it was delivered. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mailbox.h"
#include "support/require.h"

enum { THREADS = 8, ROUNDS = 400, BURST = 64, PINGPONGS = 5000 };

typedef struct sender sender;
typedef struct {
  pjrtd_message message; /* first */
  sender *from;
  uint64_t number;
  char proof[16]; /* written by the poster, read by the loop: a missing barrier shows here */
} letter;

struct sender {
  pthread_t thread;
  pjrtd_mailbox *mailbox;
  unsigned seed;
  uint64_t next_expected; /* loop thread */
  letter letters[ROUNDS * BURST];
};

static uv_loop_t loop;
static sender *senders;
static uint64_t delivered, batches;
static atomic_int senders_running = THREADS;

static void on_letter(pjrtd_message *message) {
  letter *got = (letter *)message;
  REQUIRE(got->number == got->from->next_expected);
  got->from->next_expected++;
  char expected[16];
  snprintf(expected, sizeof expected, "%llu", (unsigned long long)(got->number * 7));
  REQUIRE(strcmp(got->proof, expected) == 0);
  got->number = UINT64_MAX;
  delivered++;
}

static void on_batch(void *user) {
  REQUIRE(user == &batches);
  batches++;
}

static void *send_all(void *argument) {
  sender *self = argument;
  for (int round = 0; round < ROUNDS; round++) {
    int burst = rand_r(&self->seed) % BURST;
    for (int i = 0; i < burst; i++) {
      static _Thread_local uint64_t number;
      letter *next = &self->letters[number];
      *next = (letter){.message = {.deliver = on_letter}, .from = self, .number = number};
      snprintf(next->proof, sizeof next->proof, "%llu", (unsigned long long)(number * 7));
      number++;
      pjrtd_mailbox_post(self->mailbox, &next->message);
    }
    if (round % 16 == 0) sched_yield();
  }
  atomic_fetch_sub(&senders_running, 1);
  return NULL;
}

/* One message goes back and forth between the loop and a thread, posted again from its own delivery. */
typedef struct {
  pjrtd_message message; /* first */
  pjrtd_mailbox *mailbox;
  pthread_mutex_t mutex;
  pthread_cond_t turn;
  bool thread_has_it;
  int throws; /* by the thread */
  int count;  /* loop thread */
} ball;

static void on_ball(pjrtd_message *message) {
  ball *the = (ball *)message;
  the->count++;
  if (the->count % 3 == 0) {
    pjrtd_mailbox_post(the->mailbox, message); /* again, from the loop itself */
    return;
  }
  pthread_mutex_lock(&the->mutex);
  the->thread_has_it = true;
  pthread_cond_signal(&the->turn);
  pthread_mutex_unlock(&the->mutex);
}

static void *play(void *argument) {
  ball *the = argument;
  for (int i = 0; i < PINGPONGS; i++) {
    pthread_mutex_lock(&the->mutex);
    while (!the->thread_has_it) pthread_cond_wait(&the->turn, &the->mutex);
    the->thread_has_it = false;
    the->throws++;
    pthread_mutex_unlock(&the->mutex);
    pjrtd_mailbox_post(the->mailbox, &the->message);
  }
  return NULL;
}

static bool ball_rests(ball *the) {
  pthread_mutex_lock(&the->mutex);
  bool rests = the->thread_has_it && the->throws == PINGPONGS;
  pthread_mutex_unlock(&the->mutex);
  return rests;
}

int main(void) {
  REQUIRE(uv_loop_init(&loop) == 0);
  pjrtd_mailbox *mailbox;
  REQUIRE(pjrtd_mailbox_create(&loop, on_batch, &batches, &mailbox) == PJRTD_OK);
  senders = calloc(THREADS, sizeof *senders);
  REQUIRE(senders);
  for (int i = 0; i < THREADS; i++) {
    senders[i].mailbox = mailbox;
    senders[i].seed = (unsigned)i + 1;
    REQUIRE(pthread_create(&senders[i].thread, NULL, send_all, &senders[i]) == 0);
  }
  ball one = {.message = {.deliver = on_ball},
              .mailbox = mailbox,
              .mutex = PTHREAD_MUTEX_INITIALIZER,
              .turn = PTHREAD_COND_INITIALIZER,
              .thread_has_it = true};
  pthread_t player;
  REQUIRE(pthread_create(&player, NULL, play, &one) == 0);

  uint64_t posted = 0;
  for (int i = 0; i < THREADS; i++) {
    /* The same sequence as the thread draws. */
    unsigned seed = (unsigned)i + 1;
    for (int round = 0; round < ROUNDS; round++) posted += (uint64_t)(rand_r(&seed) % BURST);
  }
  while (delivered < posted || atomic_load(&senders_running) > 0) uv_run(&loop, UV_RUN_ONCE);
  for (int i = 0; i < THREADS; i++) pthread_join(senders[i].thread, NULL);
  while (!ball_rests(&one)) uv_run(&loop, UV_RUN_ONCE);
  pthread_join(player, NULL);

  REQUIRE(delivered == posted);
  REQUIRE(one.count >= PINGPONGS);
  REQUIRE(batches > 0);
  pjrtd_mailbox_close(mailbox);
  uv_run(&loop, UV_RUN_DEFAULT);
  REQUIRE(uv_loop_close(&loop) == 0);
  printf("%llu messages in %llu batches\n", (unsigned long long)delivered, (unsigned long long)batches);
  free(senders);
  return 0;
}
