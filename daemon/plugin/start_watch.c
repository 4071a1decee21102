/* Says which plugin ended the process, and what it was asked to do then: some call exit(), abort() or crash on what
 * they do not like, without a word that an operator could make sense of. Signals are watched while the plugin starts,
 * exits until the process is to end. Handlers use the log only, which takes no lock and no memory. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "plugin/pjrt_call.h"

static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};

static atomic_bool watching;
static char plugin_path[1024];     /* written before anything is watched */
static _Atomic(const char *) step; /* "while ..."; NULL: it has started */
static bool on_exit_set;

static void say(const char *what) {
  const char *doing = atomic_load(&step);
  char text[PJRTD_LOG_MAX_TEXT];
  snprintf(text, sizeof text, "the plugin %s ended the process with %s while %s", plugin_path, what,
           doing ? doing : "it served");
  pjrtd_log(PJRTD_LOG_ERROR, doing ? "pjrtd cannot start" : "pjrtd ends", PJRTD_LOG_TEXT("error", text),
            PJRTD_LOG_TEXT("hint",
                           "what it printed itself stands above; XLA_FLAGS and create options that it does not "
                           "know are a common reason, a damaged file another"));
}

static void on_signal(int number, siginfo_t *info, void *unused) {
  char text[64];
  snprintf(text, sizeof text, "signal %d (SIG%s)", number, sigabbrev_np(number));
  if (atomic_load(&watching)) say(text);
  /* The handler was for once: the instruction runs again, or the signal comes again, and ends the process. */
  if (info->si_code <= 0) raise(number);
}

static void on_process_exit(int status, void *unused) {
  if (!atomic_load(&watching)) return;
  char text[32];
  snprintf(text, sizeof text, "exit(%d)", status);
  say(text);
  _exit(status ? status : EXIT_FAILURE); /* so that a supervisor sees that this was not meant */
}

void pjrtd_start_watch_begin(const char *path) {
  snprintf(plugin_path, sizeof plugin_path, "%s", path);
  atomic_store(&watching, true);
  pjrtd_start_watch_step("it was opened");
  if (!on_exit_set) on_exit_set = on_exit(on_process_exit, NULL) == 0;
  struct sigaction ours = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESETHAND | SA_NODEFER}, before;
  sigemptyset(&ours.sa_mask);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) /* a sanitizer's handler stays */
    if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL) sigaction(signals[i], &ours, NULL);
}

void pjrtd_start_watch_step(const char *what) {
  if (atomic_load(&watching)) atomic_store(&step, what);
}

void pjrtd_start_watch_end(void) {
  atomic_store(&step, NULL);
  struct sigaction before;
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
    if (sigaction(signals[i], NULL, &before) == 0 && before.sa_sigaction == on_signal) signal(signals[i], SIG_DFL);
  /* Once more, so that it runs before what the plugin has registered, and the plugin is not taken down first. */
  if (on_exit_set && atomic_load(&watching)) on_exit(on_process_exit, NULL);
}

void pjrtd_start_watch_forget(void) {
  atomic_store(&watching, false);
}
