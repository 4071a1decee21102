/* plugin/division_trap.c: on x86, every form of division that a compiler may have used; elsewhere, that nothing
 * happens. */
#include <pthread.h>

#include "plugin/division_trap.h"
#include "plugin_fixture.h"

#ifdef __x86_64__

/* One instruction with the divisor 0, by its operand; gives RAX and RDX. */
#define DIVIDE(instruction, low, high, out_low, out_high)                               \
  do {                                                                                  \
    static const uint64_t zeros[600];                                                   \
    uint64_t low_ = (low), high_ = (high), rcx_ = 0;                                    \
    register uint64_t r8_ __asm__("r8") = 0;                                            \
    register const uint64_t *r12_ __asm__("r12") = zeros, *r13_ __asm__("r13") = zeros; \
    __asm__ volatile(instruction                                                        \
                     : "+a"(low_), "+d"(high_)                                          \
                     : "c"(rcx_), "r"(r8_), "S"(zeros), "r"(r12_), "r"(r13_)            \
                     : "cc", "memory");                                                 \
    *(out_low) = low_;                                                                  \
    *(out_high) = high_;                                                                \
  } while (0)

#define ALL UINT64_MAX

/* What x / 0 and x % 0 have to be, for each form: all ones, and x. */
#define EXPECT(instruction, low, high, right_low, right_high)                                \
  do {                                                                                       \
    uint64_t got_low, got_high;                                                              \
    size_t before = trap.divisions;                                                          \
    DIVIDE(instruction, low, high, &got_low, &got_high);                                     \
    cr_assert_eq(trap.divisions, before + 1, "%s", instruction);                             \
    cr_assert_eq(got_low, (uint64_t)(right_low), "%s: %#lx", instruction, (long)got_low);    \
    cr_assert_eq(got_high, (uint64_t)(right_high), "%s: %#lx", instruction, (long)got_high); \
  } while (0)

Test(division_trap, gives_a_value_in_every_form_of_the_instruction) {
  pjrtd_division_trap trap;
  pjrtd_division_trap_begin(&trap);
  EXPECT("divl %%ecx", 7, 0, UINT32_MAX, 7);
  EXPECT("idivl %%ecx", 0xFFFFFFF9u, 0xFFFFFFFFu, UINT32_MAX, 0xFFFFFFF9u);
  EXPECT("divq %%rcx", 7, 0, ALL, 7);
  EXPECT("idivq %%rcx", (uint64_t)-7, ALL, ALL, (uint64_t)-7);
  EXPECT("divq %%r8", 9, 0, ALL, 9);
  EXPECT("divl %%r8d", 9, 0, UINT32_MAX, 9);
  EXPECT("divw %%cx", 0x12340007, 0x56780000, 0x1234FFFF, 0x56780007);
  EXPECT("idivw %%r8w", 7, 0, 0xFFFF, 7);
  EXPECT("divb %%cl", 0xAB000007, 5, 0xAB0007FF, 5);
  EXPECT("idivb %%r8b", 7, 5, 0x07FF, 5);
  EXPECT("divq (%%rsi)", 7, 0, ALL, 7);
  EXPECT("divl 8(%%rsi)", 7, 0, UINT32_MAX, 7);
  EXPECT("divl 1024(%%rsi)", 7, 0, UINT32_MAX, 7);
  EXPECT("divl (%%rsi,%%rcx,8)", 7, 0, UINT32_MAX, 7);
  EXPECT("divl 16(%%rsi,%%rcx,8)", 7, 0, UINT32_MAX, 7);
  EXPECT("divl 2048(%%rsi,%%rcx,8)", 7, 0, UINT32_MAX, 7);
  EXPECT("divq (%%r12)", 7, 0, ALL, 7);  /* a SIB byte, though there is no index */
  EXPECT("divq 0(%%r13)", 7, 0, ALL, 7); /* a displacement, though it is 0 */
  EXPECT("divw 32(%%r12,%%rcx,2)", 7, 0, 0xFFFF, 7);
  EXPECT("divl zero_in_memory(%%rip)", 7, 0, UINT32_MAX, 7);
  pjrtd_division_trap_end(&trap);
}
__asm__(".section .rodata\n.balign 8\nzero_in_memory: .quad 0\n.text");

/* In assembly, as the rest: a compiler that instruments divisions would look at it first. */
static void divide(int32_t dividend, int32_t divisor) {
  __asm__ volatile("cltd\n\tidivl %1" : "+a"(dividend) : "r"(divisor) : "edx", "cc");
}

Test(division_trap, counts_what_overflows_too) {
  pjrtd_division_trap trap;
  pjrtd_division_trap_begin(&trap);
  divide(INT32_MIN, -1);
  pjrtd_division_trap_end(&trap);
  cr_assert_eq(trap.divisions, 1);
}

Test(division_trap, leaves_divisions_outside_alone, .signal = SIGFPE) {
  signal(SIGFPE, SIG_DFL); /* a sanitizer has its own */
  pjrtd_division_trap trap;
  pjrtd_division_trap_begin(&trap);
  divide(7, 0);
  pjrtd_division_trap_end(&trap);
  cr_assert_eq(trap.divisions, 1);
  divide(7, 0);
}

Test(division_trap, leaves_signals_that_are_sent_alone, .signal = SIGFPE) {
  signal(SIGFPE, SIG_DFL); /* a sanitizer has its own */
  pjrtd_division_trap trap;
  pjrtd_division_trap_begin(&trap);
  raise(SIGFPE);
}

static void *on_a_thread(void *unused) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  pjrtd_division_trap trap;
  pjrtd_division_trap_begin(&trap);
  divide(7, 0);
  pjrtd_division_trap_end(&trap);
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  return (void *)(trap.divisions == 1 && sigismember(&after, SIGFPE) ? (uintptr_t)1 : 0);
}

Test(division_trap, works_on_a_thread_that_takes_no_signals) {
  pthread_t thread;
  void *worked;
  pthread_create(&thread, NULL, on_a_thread, NULL);
  pthread_join(thread, &worked);
  cr_assert_not_null(worked);
}

#endif

Test(division_trap, counts_nothing_where_nothing_happens) {
  pjrtd_division_trap trap;
  pjrtd_division_trap_begin(&trap);
  volatile int one = 1, quotient = 7 / one;
  (void)quotient;
  pjrtd_division_trap_end(&trap);
  cr_assert_eq(trap.divisions, 0);
}
