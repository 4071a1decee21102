/* See division_trap.h. The handler runs on the thread that divided, right at the instruction: it puts a quotient and a
 * remainder where the instruction would have, and goes on behind it. On other processors a division never traps. */
#include "plugin/division_trap.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

static _Thread_local pjrtd_division_trap *armed;

#ifdef __x86_64__

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct sigaction before;

/* Bytes of a ModRM operand at `at`, its SIB byte and displacement included. */
static size_t operand_bytes(const uint8_t *at) {
  unsigned mode = at[0] >> 6, base = at[0] & 7;
  if (mode == 3) return 1;
  size_t sib = base == 4;
  if (mode == 1) return 1 + sib + 1;
  if (mode == 2) return 1 + sib + 4;
  bool absolute = sib ? (at[1] & 7) == 5 : base == 5;
  return 1 + sib + (absolute ? 4 : 0);
}

/* Whether the instruction is a division (F6 or F7, /6 or /7, behind an operand-size prefix and REX); then it is stepped
 * over. All ones as the quotient is what XLA gives for x/0, the dividend's low half what it gives for x%0. */
static bool step_over(mcontext_t *machine) {
  greg_t *registers = machine->gregs;
  const uint8_t *at = (const uint8_t *)registers[REG_RIP];
  bool is_short = false, is_long = false;
  if (*at == 0x66) {
    is_short = true;
    at++;
  }
  if ((*at & 0xF0) == 0x40) is_long = *at++ & 8;
  uint8_t opcode = *at++;
  unsigned operation = *at >> 3 & 7;
  if ((opcode != 0xF6 && opcode != 0xF7) || operation < 6) return false;
  uint64_t low = (uint64_t)registers[REG_RAX], high = (uint64_t)registers[REG_RDX];
  if (opcode == 0xF6) { /* AX by a byte: the quotient is AL, the remainder AH */
    low = (low & ~UINT64_C(0xFFFF)) | (low & 0xFF) << 8 | 0xFF;
  } else if (is_long) {
    high = low;
    low = UINT64_MAX;
  } else if (is_short) {
    high = (high & ~UINT64_C(0xFFFF)) | (low & 0xFFFF);
    low |= 0xFFFF;
  } else {
    high = (uint32_t)low;
    low = UINT32_MAX;
  }
  registers[REG_RAX] = (greg_t)low;
  registers[REG_RDX] = (greg_t)high;
  registers[REG_RIP] = (greg_t)(at + operand_bytes(at));
  return true;
}

static void on_trap(int number, siginfo_t *info, void *context) {
  if (armed && info->si_code == FPE_INTDIV && step_over(&((ucontext_t *)context)->uc_mcontext)) {
    armed->divisions++;
    return;
  }
  /* Not ours: the instruction runs again, and ends the process as it would have. One that was sent is sent again. */
  sigaction(SIGFPE, &before, NULL);
  if (info->si_code <= 0) raise(number);
}

static void install(void) {
  struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigemptyset(&action.sa_mask);
  sigaction(SIGFPE, &action, &before);
}

#endif

void pjrtd_division_trap_begin(pjrtd_division_trap *trap) {
  trap->divisions = 0;
  sigset_t ours;
  sigemptyset(&ours);
#ifdef __x86_64__
  pthread_once(&once, install);
  sigaddset(&ours, SIGFPE); /* a blocked one ends the process without asking the handler */
#endif
  pthread_sigmask(SIG_UNBLOCK, &ours, &trap->signals);
  armed = trap;
}

void pjrtd_division_trap_end(pjrtd_division_trap *trap) {
  armed = NULL;
  pthread_sigmask(SIG_SETMASK, &trap->signals, NULL);
}
