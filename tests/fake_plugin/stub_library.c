/* Two stand-ins for vendor libraries: one has a function, the other needs it and does not say where it is. */
#ifdef STUB_GIVES
int pjrtd_stub_given(void);
int pjrtd_stub_given(void) {
  return 7;
}
#else
int pjrtd_stub_given(void);
int pjrtd_stub_needing(void);
int pjrtd_stub_needing(void) {
  return pjrtd_stub_given();
}
#endif
