/* Inside the plugin layer: integer divisions by zero inside the plugin's compiler. Plugins of PJRT 0.81 and 0.106 fold
 * x/0 with the processor's own instruction, which ends the process on x86: any client could end the daemon. Between
 * begin and end such a division gives a value, so that the compiler gets out whole, and is counted; what it compiled
 * is wrong then and has to be thrown away. Any thread, one pair at a time in each. */
#pragma once

#include <signal.h>
#include <stddef.h>

typedef struct {
  size_t divisions; /* that were caught */
  sigset_t signals; /* to be restored */
} pjrtd_division_trap;

/* `trap` is borrowed until the end. */
void pjrtd_division_trap_begin(pjrtd_division_trap *trap);
void pjrtd_division_trap_end(pjrtd_division_trap *trap);
