/* base/mailbox.c. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/mailbox.h"

#define ASSERT_OK(expression)                                     \
  do {                                                            \
    pjrtd_status *status_ = (expression);                         \
    cr_assert_null(status_, "%s", pjrtd_status_message(status_)); \
  } while (0)

enum { MOST = 20000 };
typedef struct {
  pjrtd_message message; /* first */
  int number;
} letter;

static uv_loop_t loop;
static pjrtd_mailbox *mailbox;
static int delivered[MOST], num_delivered, batches;

static void on_letter(pjrtd_message *message) {
  delivered[num_delivered++] = ((letter *)message)->number;
}

static void on_batch(void *user) {
  cr_assert_eq(user, &batches);
  batches++;
}

static void open_mailbox(void) {
  cr_assert_eq(uv_loop_init(&loop), 0);
  ASSERT_OK(pjrtd_mailbox_create(&loop, on_batch, &batches, &mailbox));
}

static void close_mailbox(void) {
  pjrtd_mailbox_close(mailbox);
  cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  cr_assert_eq(uv_loop_close(&loop), 0);
}

static void post(letter *letter, int number) {
  letter->message.deliver = on_letter;
  letter->number = number;
  pjrtd_mailbox_post(mailbox, &letter->message);
}

Test(mailbox, delivers_all_after_coalesced_wakeups) {
  open_mailbox();
  static letter letters[1000];
  for (int i = 0; i < 1000; i++) post(&letters[i], i);
  cr_assert_eq(num_delivered, 0, "nothing is delivered by posting");
  uv_run(&loop, UV_RUN_ONCE);
  cr_assert_eq(num_delivered, 1000);
  for (int i = 0; i < 1000; i++) cr_assert_eq(delivered[i], i);
  cr_assert_eq(batches, 1);
  close_mailbox();
}

Test(mailbox, wakes_the_loop_again_for_what_is_posted_after_a_batch) {
  open_mailbox();
  letter letters[3];
  for (int i = 0; i < 3; i++) {
    post(&letters[i], i);
    uv_run(&loop, UV_RUN_ONCE);
    cr_assert_eq(num_delivered, i + 1);
  }
  cr_assert_eq(batches, 3);
  close_mailbox();
}

Test(mailbox, drains_without_waiting_for_the_wakeup_and_an_empty_one_is_no_batch) {
  open_mailbox();
  pjrtd_mailbox_drain(mailbox);
  cr_assert_eq(batches, 0);
  letter one;
  post(&one, 5);
  pjrtd_mailbox_drain(mailbox);
  cr_assert_eq(num_delivered, 1);
  cr_assert_eq(batches, 1);
  uv_run(&loop, UV_RUN_NOWAIT); /* the wakeup finds nothing */
  cr_assert_eq(num_delivered, 1);
  cr_assert_eq(batches, 1);
  close_mailbox();
}

typedef struct {
  pjrtd_message message; /* first */
  int times_left;
} again;

static void on_again(pjrtd_message *message) {
  again *self = (again *)message;
  num_delivered++;
  if (--self->times_left) pjrtd_mailbox_post(mailbox, message);
}

Test(mailbox, lets_a_message_be_posted_again_from_its_delivery) {
  open_mailbox();
  again one = {.message.deliver = on_again, .times_left = 5};
  pjrtd_mailbox_post(mailbox, &one.message);
  for (int turn = 1; turn <= 5; turn++) {
    uv_run(&loop, UV_RUN_ONCE);
    cr_assert_eq(num_delivered, turn, "a turn delivers what was there when it began");
  }
  close_mailbox();
}

static void on_freed(pjrtd_message *message) {
  num_delivered++;
  free(message);
}

Test(mailbox, lets_a_message_be_freed_by_its_delivery) {
  open_mailbox();
  for (int i = 0; i < 10; i++) {
    pjrtd_message *message = malloc(sizeof *message);
    message->deliver = on_freed;
    pjrtd_mailbox_post(mailbox, message);
  }
  uv_run(&loop, UV_RUN_ONCE);
  cr_assert_eq(num_delivered, 10);
  close_mailbox();
}

enum { THREADS = 4, PER_THREAD = 5000 };
static letter letters[THREADS][PER_THREAD];
static atomic_int threads_done;

static void *post_all(void *argument) {
  letter *mine = argument;
  int thread = (int)((letter(*)[PER_THREAD])argument - letters);
  for (int i = 0; i < PER_THREAD; i++) post(&mine[i], thread * PER_THREAD + i);
  atomic_fetch_add(&threads_done, 1);
  return NULL;
}

Test(mailbox, keeps_the_order_of_each_thread_when_many_post, .timeout = 60) {
  open_mailbox();
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) cr_assert_eq(pthread_create(&threads[i], NULL, post_all, letters[i]), 0);
  while (num_delivered < THREADS * PER_THREAD) uv_run(&loop, UV_RUN_ONCE);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  int next[THREADS] = {0};
  for (int i = 0; i < THREADS * PER_THREAD; i++) {
    int thread = delivered[i] / PER_THREAD;
    cr_assert_eq(delivered[i] % PER_THREAD, next[thread]++);
  }
  close_mailbox();
}

Test(mailbox, delivers_the_rest_when_it_is_closed) {
  open_mailbox();
  letter two[2];
  post(&two[0], 1);
  post(&two[1], 2);
  pjrtd_mailbox_close(mailbox);
  cr_assert_eq(num_delivered, 2);
  cr_assert_eq(delivered[0], 1);
  cr_assert_eq(delivered[1], 2);
  cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  cr_assert_eq(uv_loop_close(&loop), 0);
  cr_assert_eq(num_delivered, 2);
}

Test(mailbox, needs_nobody_to_tell_of_a_batch_and_may_be_absent_when_closed) {
  cr_assert_eq(uv_loop_init(&loop), 0);
  ASSERT_OK(pjrtd_mailbox_create(&loop, NULL, NULL, &mailbox));
  letter one;
  post(&one, 1);
  uv_run(&loop, UV_RUN_ONCE);
  cr_assert_eq(num_delivered, 1);
  pjrtd_mailbox_close(NULL);
  close_mailbox();
}

Test(mailbox, is_not_made_without_memory) {
  cr_assert_eq(uv_loop_init(&loop), 0);
  pjrtd_alloc_fail_after(0);
  mailbox = (pjrtd_mailbox *)&loop;
  PJRTD_AUTO(pjrtd_status) status = pjrtd_mailbox_create(&loop, NULL, NULL, &mailbox);
  pjrtd_alloc_fail_after(-1);
  cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_RESOURCE_EXHAUSTED);
  cr_assert_null(mailbox);
  cr_assert_eq(uv_loop_close(&loop), 0);
}
