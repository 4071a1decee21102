/* state/resource.c. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state/resource.h"

enum { MOST = 64 };

typedef struct {
  pjrtd_operation operation; /* first */
  pjrtd_hold holds[8];
  int number;
} work;

static pjrtd_ready_list list;
static int ready[MOST], num_ready, destroyed;

static void on_ready(pjrtd_operation *operation) {
  ready[num_ready++] = ((work *)operation)->number;
}
static void on_destroyed(pjrtd_resource *resource) {
  destroyed++;
}

static void begin(work *work, int number) {
  work->number = number;
  pjrtd_operation_init(&work->operation, &list, work->holds, 8, on_ready);
}

static void hold(work *work, pjrtd_resource *resource, pjrtd_hold_mode mode) {
  pjrtd_operation_hold(&work->operation, resource, mode);
}

/* One operation with one hold, started. */
static void start_one(work *work, int number, pjrtd_resource *resource, pjrtd_hold_mode mode) {
  begin(work, number);
  hold(work, resource, mode);
  pjrtd_operation_start(&work->operation);
}

static void end(work *work) {
  pjrtd_operation_end(&work->operation);
}

static void run_list(void) {
  while (pjrtd_ready_list_run_one(&list)) continue;
}

/* What has become ready since the last look, as a text of numbers: "0 3 ". */
static const char *now_ready(void) {
  static char text[256];
  run_list();
  text[0] = 0;
  for (int i = 0; i < num_ready; i++) sprintf(text + strlen(text), "%d ", ready[i]);
  num_ready = 0;
  return text;
}

static pjrtd_resource a, b;
static work works[16];

static void make(void) {
  pjrtd_resource_init(&a, on_destroyed);
  pjrtd_resource_init(&b, on_destroyed);
}

/* Nothing holds them any more. */
static void check_free(void) {
  pjrtd_resource *both[] = {&a, &b};
  for (int i = 0; i < 2; i++) {
    cr_assert_eq(both[i]->references, 1);
    cr_assert_eq(both[i]->readers, 0);
    cr_assert_not(both[i]->written);
    cr_assert_null(both[i]->first);
    cr_assert_null(both[i]->last);
    cr_assert_null(both[i]->recent);
  }
  cr_assert_null(list.first);
  cr_assert_null(list.last);
}

TestSuite(resource, .init = make);

Test(resource, is_ready_only_when_the_list_is_run) {
  start_one(&works[0], 0, &a, PJRTD_HOLD_READ);
  cr_assert_eq(num_ready, 0);
  cr_assert_str_eq(now_ready(), "0 ");
  cr_assert_str_eq(now_ready(), "");
  end(&works[0]);
  check_free();
}

Test(resource, runs_one_ready_operation_at_a_time_in_the_order_of_granting) {
  for (int i = 0; i < 3; i++) start_one(&works[i], i, &a, PJRTD_HOLD_READ);
  for (int i = 0; i < 3; i++) {
    cr_assert(pjrtd_ready_list_run_one(&list));
    cr_assert_eq(num_ready, i + 1);
    cr_assert_eq(ready[i], i);
  }
  cr_assert_not(pjrtd_ready_list_run_one(&list));
  for (int i = 0; i < 3; i++) end(&works[i]);
  check_free();
}

Test(resource, lets_any_number_read_at_once) {
  for (int i = 0; i < 10; i++) start_one(&works[i], i, &a, PJRTD_HOLD_READ);
  cr_assert_str_eq(now_ready(), "0 1 2 3 4 5 6 7 8 9 ");
  for (int i = 0; i < 10; i++) end(&works[i]);
  check_free();
}

Test(resource, lets_a_writer_wait_for_earlier_readers_and_later_readers_for_it) {
  start_one(&works[0], 0, &a, PJRTD_HOLD_READ);
  start_one(&works[1], 1, &a, PJRTD_HOLD_READ);
  start_one(&works[2], 2, &a, PJRTD_HOLD_WRITE);
  start_one(&works[3], 3, &a, PJRTD_HOLD_READ);
  start_one(&works[4], 4, &a, PJRTD_HOLD_READ);
  cr_assert_str_eq(now_ready(), "0 1 ");
  end(&works[1]);
  cr_assert_str_eq(now_ready(), "");
  end(&works[0]);
  cr_assert_str_eq(now_ready(), "2 ");
  end(&works[2]);
  cr_assert_str_eq(now_ready(), "3 4 ");
  end(&works[3]);
  end(&works[4]);
  check_free();
}

Test(resource, lets_writers_go_one_after_the_other_in_order) {
  for (int i = 0; i < 5; i++) start_one(&works[i], i, &a, PJRTD_HOLD_WRITE);
  for (int i = 0; i < 5; i++) {
    char expected[8];
    sprintf(expected, "%d ", i);
    cr_assert_str_eq(now_ready(), expected);
    end(&works[i]);
  }
  check_free();
}

Test(resource, waits_for_nothing_that_it_does_not_name) {
  start_one(&works[0], 0, &a, PJRTD_HOLD_WRITE);
  start_one(&works[1], 1, &a, PJRTD_HOLD_READ);
  start_one(&works[2], 2, &b, PJRTD_HOLD_WRITE);
  begin(&works[3], 3);
  pjrtd_operation_start(&works[3].operation);
  cr_assert_str_eq(now_ready(), "0 2 3 ");
  for (int i = 0; i < 4; i++) end(&works[i]);
  check_free();
}

Test(resource, is_ready_when_the_last_of_its_holds_is_granted) {
  start_one(&works[0], 0, &a, PJRTD_HOLD_WRITE);
  start_one(&works[1], 1, &b, PJRTD_HOLD_WRITE);
  begin(&works[2], 2);
  hold(&works[2], &a, PJRTD_HOLD_READ);
  hold(&works[2], &b, PJRTD_HOLD_READ);
  pjrtd_operation_start(&works[2].operation);
  cr_assert_str_eq(now_ready(), "0 1 ");
  end(&works[1]);
  cr_assert_str_eq(now_ready(), "");
  end(&works[0]);
  cr_assert_str_eq(now_ready(), "2 ");
  end(&works[2]);
  check_free();
}

Test(resource, does_not_deadlock_when_two_want_the_same_two_in_other_orders) {
  begin(&works[0], 0);
  hold(&works[0], &a, PJRTD_HOLD_WRITE);
  hold(&works[0], &b, PJRTD_HOLD_WRITE);
  begin(&works[1], 1);
  hold(&works[1], &b, PJRTD_HOLD_WRITE);
  hold(&works[1], &a, PJRTD_HOLD_WRITE);
  pjrtd_operation_start(&works[0].operation);
  pjrtd_operation_start(&works[1].operation);
  cr_assert_str_eq(now_ready(), "0 ");
  end(&works[0]);
  cr_assert_str_eq(now_ready(), "1 ");
  end(&works[1]);
  check_free();
}

Test(resource, holds_what_is_named_twice_once_in_the_stronger_mode) {
  static const pjrtd_hold_mode orders[][3] = {
      {PJRTD_HOLD_READ, PJRTD_HOLD_WRITE, PJRTD_HOLD_READ},
      {PJRTD_HOLD_WRITE, PJRTD_HOLD_READ, PJRTD_HOLD_READ},
      {PJRTD_HOLD_READ, PJRTD_HOLD_READ, PJRTD_HOLD_WRITE},
  };
  for (int i = 0; i < 3; i++) {
    begin(&works[0], 0);
    for (int j = 0; j < 3; j++) {
      hold(&works[0], &a, orders[i][j]);
      hold(&works[0], &b, PJRTD_HOLD_READ);
    }
    cr_assert_eq(works[0].operation.num_holds, 2);
    pjrtd_operation_start(&works[0].operation);
    start_one(&works[1], 1, &a, PJRTD_HOLD_READ);
    start_one(&works[2], 2, &b, PJRTD_HOLD_READ);
    cr_assert_str_eq(now_ready(), "0 2 ", "order %d", i);
    end(&works[0]);
    cr_assert_str_eq(now_ready(), "1 ");
    end(&works[1]);
    end(&works[2]);
    check_free();
  }
}

Test(resource, is_not_confused_by_another_operation_that_is_being_built) {
  begin(&works[0], 0);
  begin(&works[1], 1);
  hold(&works[0], &a, PJRTD_HOLD_READ);
  hold(&works[1], &a, PJRTD_HOLD_READ);
  cr_assert_eq(works[0].operation.num_holds, 1);
  cr_assert_eq(works[1].operation.num_holds, 1);
  pjrtd_operation_start(&works[1].operation);
  pjrtd_operation_start(&works[0].operation);
  cr_assert_str_eq(now_ready(), "1 0 ");
  end(&works[0]);
  end(&works[1]);
  check_free();
}

/* ---- ending in each state ---- */

Test(resource, gives_back_what_was_not_started) {
  begin(&works[0], 0);
  hold(&works[0], &a, PJRTD_HOLD_WRITE);
  end(&works[0]);
  start_one(&works[1], 1, &a, PJRTD_HOLD_WRITE);
  cr_assert_str_eq(now_ready(), "1 ");
  end(&works[1]);
  check_free();
}

Test(resource, lets_the_others_on_when_one_that_waits_is_ended) {
  for (int at = 1; at <= 3; at++) {
    start_one(&works[0], 0, &a, PJRTD_HOLD_READ);
    for (int i = 1; i <= 3; i++) start_one(&works[i], i, &a, i == 2 ? PJRTD_HOLD_WRITE : PJRTD_HOLD_READ);
    cr_assert_str_eq(now_ready(), "0 1 ");
    end(&works[at]);
    cr_assert_str_eq(now_ready(), at == 2 ? "3 " : "");
    end(&works[0]);
    cr_assert_str_eq(now_ready(), at == 1 ? "2 " : "");
    for (int i = 1; i <= 3; i++) end(&works[i]);
    now_ready();
    check_free();
  }
}

Test(resource, ends_the_first_the_middle_and_the_last_of_a_queue) {
  for (int gone = 1; gone <= 4; gone++) {
    for (int i = 0; i < 5; i++) start_one(&works[i], i, &a, PJRTD_HOLD_WRITE);
    cr_assert_str_eq(now_ready(), "0 ");
    end(&works[gone]);
    start_one(&works[5], 5, &a, PJRTD_HOLD_WRITE);
    for (int i = 0; i <= 5; i++) {
      if (i == gone) continue;
      end(&works[i]);
      int next = i + 1 == gone ? i + 2 : i + 1;
      char expected[8] = "";
      if (next <= 5) sprintf(expected, "%d ", next);
      cr_assert_str_eq(now_ready(), expected, "without %d, after %d", gone, i);
    }
    check_free();
  }
}

Test(resource, is_not_called_ready_when_it_was_ended_before_the_list_ran) {
  for (int i = 0; i < 4; i++) start_one(&works[i], i, &a, PJRTD_HOLD_READ);
  end(&works[3]);
  end(&works[0]);
  cr_assert_str_eq(now_ready(), "1 2 ");
  end(&works[1]);
  end(&works[2]);
  for (int i = 0; i < 2; i++) start_one(&works[i], i, &a, PJRTD_HOLD_READ);
  end(&works[1]);
  end(&works[0]);
  cr_assert_str_eq(now_ready(), "");
  check_free();
}

Test(resource, can_be_ended_twice) {
  start_one(&works[0], 0, &a, PJRTD_HOLD_WRITE);
  start_one(&works[1], 1, &a, PJRTD_HOLD_WRITE);
  end(&works[0]);
  end(&works[0]);
  start_one(&works[2], 2, &a, PJRTD_HOLD_READ);
  cr_assert_str_eq(now_ready(), "1 ");
  end(&works[1]);
  end(&works[2]);
  end(&works[2]);
  check_free();
}

static work *victim;
static void on_ready_end_victim(pjrtd_operation *operation) {
  on_ready(operation);
  if (victim) pjrtd_operation_end(&victim->operation);
  victim = NULL;
}

Test(resource, can_be_ended_by_another_that_became_ready_with_it) {
  for (int i = 0; i < 3; i++) {
    begin(&works[i], i);
    works[i].operation.ready = on_ready_end_victim;
    hold(&works[i], &a, PJRTD_HOLD_READ);
    pjrtd_operation_start(&works[i].operation);
  }
  victim = &works[1];
  cr_assert_str_eq(now_ready(), "0 2 ");
  end(&works[0]);
  end(&works[2]);
  check_free();
}

/* ---- waiting once more ---- */

static pjrtd_ready_list later;
static bool postpone;
static void on_ready_or_later(pjrtd_operation *operation) {
  if (postpone)
    pjrtd_operation_requeue(operation, &later);
  else
    on_ready(operation);
}

Test(resource, can_be_put_off_and_comes_in_order_when_it_is_moved_back) {
  postpone = true;
  for (int i = 0; i < 4; i++) {
    begin(&works[i], i);
    works[i].operation.ready = on_ready_or_later;
    hold(&works[i], &a, PJRTD_HOLD_READ);
    pjrtd_operation_start(&works[i].operation);
  }
  cr_assert_str_eq(now_ready(), "");
  end(&works[1]); /* it is not found in the wrong list */
  start_one(&works[4], 4, &a, PJRTD_HOLD_READ);
  postpone = false;
  pjrtd_ready_list_move(&later, &list);
  cr_assert_null(later.first);
  cr_assert_null(later.last);
  cr_assert_str_eq(now_ready(), "4 0 2 3 ");
  pjrtd_ready_list_move(&later, &list);
  cr_assert_str_eq(now_ready(), "");
  for (int i = 0; i < 5; i++) end(&works[i]);
  check_free();
}

/* ---- outputs ---- */

Test(resource, holds_what_nobody_else_knows_without_becoming_ready) {
  begin(&works[0], 0);
  hold(&works[0], &a, PJRTD_HOLD_WRITE);
  pjrtd_operation_grant_new(&works[0].operation);
  start_one(&works[1], 1, &a, PJRTD_HOLD_READ);
  cr_assert_str_eq(now_ready(), "");
  pjrtd_resource_set_ready(&a);
  end(&works[0]);
  cr_assert_str_eq(now_ready(), "1 ");
  end(&works[1]);
  check_free();
}

Test(resource, gives_back_failed_outputs_early_and_keeps_the_rest) {
  pjrtd_resource_set_ready(&a);
  begin(&works[0], 0);
  hold(&works[0], &a, PJRTD_HOLD_WRITE); /* an argument that it may consume */
  hold(&works[0], &b, PJRTD_HOLD_WRITE); /* its output */
  pjrtd_operation_start(&works[0].operation);
  start_one(&works[1], 1, &a, PJRTD_HOLD_READ);
  start_one(&works[2], 2, &b, PJRTD_HOLD_READ);
  cr_assert_str_eq(now_ready(), "0 ");
  pjrtd_operation_give_back_failed(&works[0].operation);
  cr_assert_str_eq(now_ready(), "", "nothing has failed");
  pjrtd_resource_set_failed(&b, PJRTD_INVALID("no"));
  pjrtd_operation_give_back_failed(&works[0].operation);
  cr_assert_str_eq(now_ready(), "2 ");
  pjrtd_operation_give_back_failed(&works[0].operation);
  end(&works[2]);
  end(&works[0]);
  cr_assert_str_eq(now_ready(), "1 ");
  end(&works[1]);
  check_free();
  pjrtd_resource_release(&b);
}

Test(resource, leaves_a_failed_output_alone_that_it_has_not_been_granted) {
  start_one(&works[0], 0, &a, PJRTD_HOLD_READ);
  start_one(&works[1], 1, &a, PJRTD_HOLD_WRITE);
  cr_assert_str_eq(now_ready(), "0 ");
  pjrtd_resource_set_failed(&a, PJRTD_INVALID("no"));
  pjrtd_operation_give_back_failed(&works[1].operation);
  cr_assert_eq(works[1].operation.waiting, 1);
  end(&works[0]);
  cr_assert_str_eq(now_ready(), "1 ");
  end(&works[1]);
  check_free();
  pjrtd_resource_release(&a);
}

Test(resource, says_what_can_be_read_and_written_now) {
  cr_assert_not(pjrtd_resource_readable_now(&a), "it is pending");
  pjrtd_resource_set_ready(&a);
  cr_assert(pjrtd_resource_readable_now(&a));
  cr_assert(pjrtd_resource_writable_now(&a));
  start_one(&works[0], 0, &a, PJRTD_HOLD_READ);
  cr_assert(pjrtd_resource_readable_now(&a));
  cr_assert_not(pjrtd_resource_writable_now(&a));
  start_one(&works[1], 1, &a, PJRTD_HOLD_WRITE);
  cr_assert_not(pjrtd_resource_readable_now(&a), "a reader now would overtake the writer");
  end(&works[0]);
  cr_assert_not(pjrtd_resource_readable_now(&a));
  end(&works[1]);
  cr_assert(pjrtd_resource_writable_now(&a));
  pjrtd_resource_set_failed(&a, PJRTD_INVALID("no"));
  cr_assert_not(pjrtd_resource_readable_now(&a));
  pjrtd_resource_release(&a);
}

Test(resource, goes_with_its_last_user) {
  start_one(&works[0], 0, &a, PJRTD_HOLD_READ);
  start_one(&works[1], 1, &a, PJRTD_HOLD_WRITE);
  pjrtd_resource_release(&a);
  end(&works[0]);
  cr_assert_eq(destroyed, 0);
  end(&works[1]);
  cr_assert_eq(destroyed, 1);
}

Test(resource, keeps_its_last_error) {
  pjrtd_resource_set_failed(&a, PJRTD_INVALID("first"));
  pjrtd_resource_set_failed(&a, PJRTD_INTERNAL("second"));
  cr_assert_eq(a.state, PJRTD_RESOURCE_FAILED);
  cr_assert_str_eq(pjrtd_status_message(a.error), "second");
  pjrtd_resource_release(&a);
  cr_assert_eq(destroyed, 1);
}

/* ---- many ---- */

static void end_at_once(pjrtd_operation *operation) {
  num_ready++;
  pjrtd_operation_end(operation);
}

enum { CHAIN = 100000 };

static void *run_chain(void *unused) {
  pjrtd_resource *resources = calloc(CHAIN + 1, sizeof *resources);
  work *chain = calloc(CHAIN, sizeof *chain);
  for (int i = 0; i <= CHAIN; i++) pjrtd_resource_init(&resources[i], on_destroyed);
  work gate;
  start_one(&gate, 0, &resources[0], PJRTD_HOLD_WRITE);
  for (int i = 0; i < CHAIN; i++) {
    pjrtd_operation_init(&chain[i].operation, &list, chain[i].holds, 8, end_at_once);
    hold(&chain[i], &resources[i], PJRTD_HOLD_READ);
    hold(&chain[i], &resources[i + 1], PJRTD_HOLD_WRITE);
    pjrtd_operation_start(&chain[i].operation);
  }
  run_list();
  num_ready = 0;
  end(&gate);
  run_list();
  free(chain);
  free(resources);
  return NULL;
}

Test(resource, runs_a_chain_of_100000_without_recursion) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  pthread_t thread;
  cr_assert_eq(pthread_create(&thread, &attributes, run_chain, NULL), 0);
  pthread_join(thread, NULL);
  cr_assert_eq(num_ready, CHAIN);
}

/* A model: an operation is ready exactly when no earlier one that is not ended conflicts with it. */
enum { RESOURCES = 6, LIVE = 40 };
typedef struct {
  work work; /* first */
  bool alive, called;
  uint64_t born;
  int mode[RESOURCES]; /* -1: not named */
} modelled;

static modelled population[LIVE];
static void on_modelled_ready(pjrtd_operation *operation) {
  modelled *self = (modelled *)operation;
  cr_assert(self->alive && !self->called);
  self->called = true;
}

static bool conflicts(const modelled *one, const modelled *other) {
  for (int i = 0; i < RESOURCES; i++)
    if (one->mode[i] >= 0 && other->mode[i] >= 0 &&
        (one->mode[i] == PJRTD_HOLD_WRITE || other->mode[i] == PJRTD_HOLD_WRITE))
      return true;
  return false;
}

Test(resource, agrees_with_a_model_over_random_starts_and_ends) {
  pjrtd_resource resources[RESOURCES];
  for (int i = 0; i < RESOURCES; i++) pjrtd_resource_init(&resources[i], on_destroyed);
  unsigned seed = 5;
  uint64_t clock = 0;
  int blocked = 0;
  for (int step = 0; step < 20000; step++) {
    modelled *one = &population[rand_r(&seed) % LIVE];
    if (one->alive) {
      /* Of those that wait, few are ended. */
      if (!one->called && rand_r(&seed) % 4) continue;
      pjrtd_operation_end(&one->work.operation);
      one->alive = false;
    } else {
      *one = (modelled){.alive = true, .born = ++clock};
      pjrtd_operation_init(&one->work.operation, &list, one->work.holds, 8, on_modelled_ready);
      for (int i = 0; i < RESOURCES; i++) one->mode[i] = -1;
      for (unsigned names = (unsigned)rand_r(&seed) % 5; names; names--) {
        int which = rand_r(&seed) % RESOURCES;
        pjrtd_hold_mode mode = rand_r(&seed) % 3 ? PJRTD_HOLD_READ : PJRTD_HOLD_WRITE;
        hold(&one->work, &resources[which], mode);
        if (one->mode[which] != PJRTD_HOLD_WRITE) one->mode[which] = (int)mode;
      }
      pjrtd_operation_start(&one->work.operation);
    }
    run_list();
    for (int i = 0; i < LIVE; i++) {
      if (!population[i].alive) continue;
      bool expected = true;
      for (int j = 0; j < LIVE && expected; j++)
        expected = !(population[j].alive && population[j].born < population[i].born &&
                     conflicts(&population[i], &population[j]));
      cr_assert_eq(population[i].called, expected, "step %d", step);
      blocked += !expected;
    }
  }
  cr_assert_gt(blocked, 1000);
  for (int i = 0; i < LIVE; i++) pjrtd_operation_end(&population[i].work.operation);
  for (int i = 0; i < RESOURCES; i++) {
    cr_assert_eq(resources[i].references, 1);
    cr_assert(!resources[i].written && !resources[i].readers && !resources[i].first);
  }
}
