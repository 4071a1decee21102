/* A lock-free stack of messages, emptied whole and in the order of posting: one compare-and-swap to post, from any
 * thread, and one exchange to take all. What the mailbox and the lanes' inboxes are made of.
 *
 * The operations are sequentially consistent: a reader that says that it sleeps and then finds nothing, and a poster
 * that posts and then looks whether it sleeps, must not miss each other. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct pjrtd_message pjrtd_message;
struct pjrtd_message {
  pjrtd_message *next; /* the stack's own */
  /* Loop thread. The message is out of the queue by then and may be freed or posted again. */
  void (*deliver)(pjrtd_message *message);
};

/* A zeroed one is empty. */
typedef struct {
  _Atomic(pjrtd_message *) newest;
} pjrtd_message_stack;

/* Any thread. True where it was empty. */
static inline bool pjrtd_message_push(pjrtd_message_stack *stack, pjrtd_message *message) {
  pjrtd_message *newest = atomic_load_explicit(&stack->newest, memory_order_relaxed);
  do message->next = newest;
  while (!atomic_compare_exchange_weak(&stack->newest, &newest, message));
  return !newest;
}

static inline bool pjrtd_message_stack_is_empty(const pjrtd_message_stack *stack) {
  return !atomic_load(&stack->newest);
}

/* The oldest, and behind it by `next` those that came later; NULL: there are none. */
static inline pjrtd_message *pjrtd_message_take_all(pjrtd_message_stack *stack) {
  pjrtd_message *newest = atomic_exchange(&stack->newest, NULL), *oldest = NULL;
  while (newest) {
    pjrtd_message *next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  return oldest;
}
