/* pjrtd: starts, serves, drains, ends. The loop thread is the main thread. */
#include <fcntl.h>
#ifdef PJRTD_MIMALLOC
#include <mimalloc.h>
#endif
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/settings.h"
#include "service/idle_sessions.h"
#include "service/peer.h"
#include "state/runtime.h"
#include "transport/grpc_front.h"
#include "transport/local_server.h"

#define DRAIN_TICK_MS 10
/* For how long memory that was freed keeps its pages. A program takes its temporary memory anew with each call: where
 * the pages went between two calls, which mimalloc's own 25 ms have them do, each call has them faulted in again. */
#define KEEP_PAGES_MS 1000
/* What a job whose call was answered may still take: nobody waits for it. */
#define UNHEARD_JOB_NS UINT64_C(500000000)

typedef struct {
  uv_loop_t loop;
  pjrtd_settings settings;
  pjrtd_runtime *runtime;
  local_server *server;
  grpc_front *grpc;           /* NULL: nothing listens there */
  pjrtd_status *start_status; /* owned; between the thread that starts and the one that waits for it */
  uv_signal_t signals[3];
  uv_timer_t drain;
  uint64_t drain_until_ns;
  uint64_t unheard_since_ns; /* all calls are answered, but jobs run; 0: not so */
  bool stopping;
  int exit_code;
} app;

/* libuv gives a signal its default action back with the last handle: one more SIGTERM would then kill a daemon that is
 * ending as it was asked to. */
static void close_signals(app *self) {
  sigset_t ours;
  sigemptyset(&ours);
  for (size_t i = 0; i < sizeof self->signals / sizeof *self->signals; i++) sigaddset(&ours, self->signals[i].signum);
  pthread_sigmask(SIG_BLOCK, &ours, NULL);
  for (size_t i = 0; i < sizeof self->signals / sizeof *self->signals; i++) {
    int number = self->signals[i].signum;
    uv_close((uv_handle_t *)&self->signals[i], NULL);
    signal(number, SIG_IGN);
  }
}

/* Everything that can end has ended, or time is up. */
static void stop(app *self, bool in_time) {
  uv_close((uv_handle_t *)&self->drain, NULL);
  close_signals(self);
  local_server_close(self->server);
  pjrtd_log(PJRTD_LOG_INFO, "stopped", PJRTD_LOG_BOOL("drained", in_time));
  if (self->runtime->jobs_running) {
    /* A thread is in the plugin and may never come back: nothing can be taken down under it. */
    fflush(NULL);
    _exit(self->exit_code);
  }
  if (self->grpc) grpc_front_close(self->grpc);
  pjrtd_sessions_end(self->runtime);
  if (pjrtd_runtime_close(self->runtime)) return;
  fflush(NULL);
  _exit(self->exit_code);
}

static void on_drain_tick(uv_timer_t *timer) {
  app *self = timer->data;
  pjrtd_runtime_enter(self->runtime);
  uint64_t now_ns = pjrtd_clock_now_ns();
  bool answered = !self->runtime->stats.calls_in_flight;
  for (const local_connection *at = self->server->connections; at && answered; at = at->next)
    answered = !local_connection_is_writing(at);
  if (self->grpc && grpc_front_is_writing(self->grpc)) answered = false;
  if (!answered)
    self->unheard_since_ns = 0;
  else if (!self->unheard_since_ns)
    self->unheard_since_ns = now_ns;
  bool done = answered && (!self->runtime->jobs_running || now_ns - self->unheard_since_ns > UNHEARD_JOB_NS);
  if (done || now_ns >= self->drain_until_ns) stop(self, done);
}

static void begin_drain(app *self) {
  self->stopping = true;
  self->runtime->draining = true;
  local_server_stop_listening(self->server);
  if (self->grpc) grpc_front_stop_listening(self->grpc);
  self->drain_until_ns = pjrtd_clock_now_ns() + self->settings.drain_seconds * UINT64_C(1000000000);
  uv_timer_start(&self->drain, on_drain_tick, 0, DRAIN_TICK_MS);
}

static void stop_for_signal(app *self, int signal) {
  pjrtd_log(PJRTD_LOG_INFO, self->stopping ? "stopping at once" : "stopping",
            PJRTD_LOG_TEXT("signal", strsignal(signal)),
            PJRTD_LOG_UINT("calls_in_flight", self->runtime->stats.calls_in_flight));
  if (self->stopping)
    self->drain_until_ns = 0; /* the second signal, or one that comes in the middle: no more waiting */
  else
    begin_drain(self);
}

/* A device is stuck for good: whoever supervises this process is to start another. */
static void give_up(void *user) {
  app *self = user;
  if (self->stopping) return;
  self->exit_code = EXIT_FAILURE;
  begin_drain(self);
}

static void reload(app *self) {
  pjrtd_settings_changes changes;
  pjrtd_status *status = pjrtd_settings_reload(&self->settings, &changes);
  if (status) {
    pjrtd_log_status(PJRTD_LOG_ERROR, "the configuration was not reloaded", status);
    pjrtd_status_destroy(status);
    return;
  }
  pjrtd_log_set_level(self->settings.log_level);
  pjrtd_idle_sessions_watch(self->runtime);
  for (size_t i = 0; i < changes.applied.count; i++)
    pjrtd_log(PJRTD_LOG_INFO, "setting reloaded", PJRTD_LOG_TEXT("name", changes.applied.items[i]));
  for (size_t i = 0; i < changes.need_restart.count; i++)
    pjrtd_log(PJRTD_LOG_WARNING, "setting needs a restart", PJRTD_LOG_TEXT("name", changes.need_restart.items[i]));
  pjrtd_log(PJRTD_LOG_INFO, "configuration reloaded");
  pjrtd_settings_changes_deinit(&changes);
}

static void on_signal(uv_signal_t *handle, int signal) {
  app *self = handle->data;
  if (signal == SIGHUP)
    reload(self);
  else
    stop_for_signal(self, signal);
}

/* The one line that a supervisor or a script waits for, with the addresses really bound. Nothing else may write to
 * standard output: what the plugin prints goes to standard error. */
static pjrtd_status *say_ready(const app *self, FILE *out) {
  fputs("pjrtd ready", out);
  for (size_t i = 0; i < self->settings.listen.count; i++) fprintf(out, " %s", self->settings.listen.items[i]);
  fputc('\n', out);
  if (fflush(out) != 0) return PJRTD_INTERNAL("standard output cannot be written to");
  return PJRTD_OK;
}

static pjrtd_status *listen_on_grpc(app *self, char **target) {
  if (!self->grpc) PJRTD_TRY(grpc_front_create(self->runtime, &self->grpc));
  char *bound;
  PJRTD_TRY(grpc_front_listen(self->grpc, *target + strlen("grpc://"), &bound));
  pjrtd_free(*target);
  *target = bound; /* with the port that was really bound */
  return PJRTD_OK;
}

static pjrtd_status *listen_all(app *self) {
  for (size_t i = 0; i < self->settings.listen.count; i++) {
    const char *target = self->settings.listen.items[i];
    if (strncmp(target, "unix:", 5) == 0) {
      PJRTD_TRY(local_server_listen(self->server, target + 5));
    } else if (strncmp(target, "grpc://", 7) == 0) {
      PJRTD_TRY(listen_on_grpc(self, &self->settings.listen.items[i]));
    } else if (strncmp(target, "grpcs://", 8) == 0) {
      return pjrtd_status_make(PJRTD_CODE_UNIMPLEMENTED, "listen '%s': pjrtd " PJRTD_VERSION " has no TLS yet", target);
    } else {
      return PJRTD_INVALID("listen '%s': an address is unix:PATH or grpc://HOST:PORT", target);
    }
  }
  return PJRTD_OK;
}

static pjrtd_status *load_plugin(const app *self, pjrtd_plugin **out_plugin) {
  pjrtd_plugin_location location;
  PJRTD_TRY(pjrtd_plugin_find(*self->settings.plugin ? self->settings.plugin : NULL, &location));
  /* Before the plugin has a chance to end the process without a word. */
  pjrtd_log(PJRTD_LOG_INFO, "opening the plugin", PJRTD_LOG_TEXT("path", location.path),
            PJRTD_LOG_TEXT("found_by", location.source));
  pjrtd_start_watch_begin(location.path);
  pjrtd_status *status = pjrtd_plugin_load(location.path, out_plugin);
  if (!status) {
    const pjrtd_plugin_info *info = pjrtd_plugin_get_info(*out_plugin);
    pjrtd_log(PJRTD_LOG_INFO, "plugin loaded", PJRTD_LOG_TEXT("path", location.path),
              PJRTD_LOG_INT("pjrt_major", info->api_major), PJRTD_LOG_INT("pjrt_minor", info->api_minor));
  }
  pjrtd_plugin_location_deinit(&location);
  return status;
}

static pjrtd_status *explain_start(pjrtd_status *status, const char *path) {
  status = pjrtd_status_context(status, "starting the plugin %s", path);
  if (*pjrtd_status_hint(status)) return status;
  return pjrtd_status_with_hint(status, "see whether its device and driver work, or name another plugin with --plugin");
}

static pjrtd_status *start(app *self) {
  pjrtd_plugin *plugin;
  PJRTD_TRY(load_plugin(self, &plugin));
  PJRTD_AUTO_FREE char *path = pjrtd_strdup(pjrtd_plugin_get_info(plugin)->path);
  pjrtd_status *status = pjrtd_runtime_create(&self->loop, &self->settings, plugin, &self->runtime);
  if (status) return explain_start(status, path ? path : "");
  pjrtd_start_watch_end();
  PJRTD_TRY(pjrtd_service_init());
  pjrtd_idle_sessions_watch(self->runtime);
  PJRTD_TRY(local_server_create(self->runtime, &self->server));
  return listen_all(self);
}

static void *start_without_signals(void *user) {
  app *self = user;
  self->start_status = start(self);
  return NULL;
}

/* Starts on a thread that takes no signals, which the threads that the plugin makes inherit: a signal of ours disturbs
 * none of their system calls, and always reaches the loop's. This thread only waits, and can be killed meanwhile. */
static pjrtd_status *start_plugin_and_server(app *self) {
  sigset_t all, before;
  pthread_t thread;
  sigfillset(&all);
  static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS}; /* those are nobody else's */
  for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) sigdelset(&all, crashes[i]);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&thread, NULL, start_without_signals, self);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error) return pjrtd_status_from_errno(error, "starting a thread");
  pthread_join(thread, NULL);
  return PJRTD_TAKE(self->start_status);
}

static void watch_signals(app *self) {
  static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    uv_signal_init(&self->loop, &self->signals[i]);
    self->signals[i].data = self;
    uv_signal_start(&self->signals[i], on_signal, numbers[i]);
  }
  uv_timer_init(&self->loop, &self->drain);
  self->drain.data = self;
}

/* Standard output is kept for the ready line; descriptor 1 becomes standard error for everything else. */
static FILE *claim_stdout(void) {
  int copy = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) return NULL; /* it was closed */
  dup2(STDERR_FILENO, STDOUT_FILENO);
  return fdopen(copy, "w");
}

/* As many descriptors as are allowed; and the kernel's table of them as big as it will have to be, now: to grow it once
 * there are threads takes it several milliseconds, in which the loop would stand still. */
static void raise_descriptor_limit(uint64_t connections) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  uint64_t most = connections + 256;
  if (most > limit.rlim_cur) most = limit.rlim_cur;
  int highest = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, (int)most - 1);
  if (highest >= 0) close(highest);
}

/* With a standard stream closed, the next descriptor opened would be taken for it: a client would get the log. */
static void open_standard_streams(void) {
  int descriptor;
  do descriptor = open("/dev/null", O_RDWR);
  while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  if (descriptor > STDERR_FILENO) close(descriptor);
}

static void keep_pages(void) {
#ifdef PJRTD_MIMALLOC
#if MI_MALLOC_VERSION >= 210
  mi_option_set_default(mi_option_purge_delay, KEEP_PAGES_MS);
#else
  mi_option_set_default(mi_option_decommit_delay, KEEP_PAGES_MS);
#endif
#endif
}

int main(int argc, char **argv) {
  open_standard_streams();
  keep_pages();
  app self;
  memset(&self, 0, sizeof self);
  pjrtd_settings_action action;
  pjrtd_log_detect_journal();
  pjrtd_status *status = pjrtd_settings_load(argc, argv, &self.settings, &action);
  if (status) {
    fprintf(stderr, "pjrtd: %s\n", pjrtd_status_message(status));
    if (*pjrtd_status_hint(status)) fprintf(stderr, "hint: %s\n", pjrtd_status_hint(status));
    pjrtd_status_destroy(status);
    return EXIT_FAILURE;
  }
  if (action != PJRTD_SETTINGS_RUN) {
    pjrtd_settings_deinit(&self.settings);
    return EXIT_SUCCESS;
  }
  pjrtd_log_set_level(self.settings.log_level);
  pjrtd_log_set_format(self.settings.log_format);
  signal(SIGPIPE, SIG_IGN);
  raise_descriptor_limit(self.settings.max_connections);
  FILE *out = claim_stdout();
  uv_loop_init(&self.loop);
  status = start_plugin_and_server(&self);
  watch_signals(&self);
  if (!status && out) status = say_ready(&self, out);
  if (out) fclose(out);
  if (status) {
    pjrtd_log_status(PJRTD_LOG_ERROR, "pjrtd cannot start", status);
    pjrtd_status_destroy(status);
    if (self.server) local_server_stop_listening(self.server);
    _exit(EXIT_FAILURE); /* the plugin's threads may be anywhere */
  }
  self.runtime->give_up = give_up;
  self.runtime->give_up_user = &self;
  pjrtd_log(PJRTD_LOG_INFO, "ready", PJRTD_LOG_INT("pid", getpid()),
            PJRTD_LOG_TEXT("platform", pjrtd_client_get_info(self.runtime->client)->platform_name),
            PJRTD_LOG_UINT("devices", self.runtime->num_devices));
  uv_run(&self.loop, UV_RUN_DEFAULT);
  grpc_front_destroy(self.grpc);
  local_server_destroy(self.server);
  pjrtd_runtime_destroy(self.runtime);
  pjrtd_service_deinit();
  uv_loop_close(&self.loop);
  pjrtd_settings_deinit(&self.settings);
  pjrtd_start_watch_forget();
  return self.exit_code;
}
