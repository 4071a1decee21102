typedef int pjrtd_state_empty;
