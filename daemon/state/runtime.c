/* See runtime.h. */
#include "state/runtime.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "state/home.h"

#define LANE_STACK_BYTES (8u << 20)
/* With no more cores than this, polling would take the core that a running program needs. */
#define FEW_CORES 2
#define CALLBACK_PATIENCE_MS 50
/* A buffer's end takes well under a microsecond. */
#define FREES_A_TURN 256

static const char probe_text[] =
    "module @pjrtd_probe { func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n"
    "  %0 = stablehlo.add %a, %a : tensor<2xf32>\n  return %0 : tensor<2xf32> } }\n";

/* Ready means that a program compiles, runs and gives the right answer on this plugin. */
static pjrtd_status *probe(pjrtd_runtime *runtime) {
  const pjrtd_device *device = pjrtd_home_first(runtime);
  if (!device) return PJRTD_INTERNAL("the plugin has no device that this process can use");

  pjrtd_compile_options options = {.num_replicas = 1, .num_partitions = 1};
  PJRTD_AUTO(pjrtd_executable) executable = NULL;
  PJRTD_TRY(pjrtd_executable_compile(runtime->client, probe_text, sizeof probe_text - 1, &options, &executable),
            "compiling the probe program");
  const float in[2] = {1.5f, -2};
  float out[2] = {0};
  const pjrtd_tensor_type type = {.dtype = PJRTD_DTYPE_F32, .rank = 1, .dims = (const int64_t[]){2}};
  PJRTD_AUTO(pjrtd_device_buffer) argument = NULL;
  PJRTD_AUTO(pjrtd_device_buffer) result = NULL;
  const pjrtd_program_info *program = pjrtd_executable_get_info(executable);
  if (program->num_devices) device = program->devices[0];
  PJRTD_TRY(pjrtd_device_buffer_from_host(runtime->client, in, &type, device, NULL, &argument),
            "uploading for the probe program");
  pjrtd_execute_call call = {.args = &argument, .num_args = 1};
  bool pending;
  PJRTD_TRY(pjrtd_executable_execute(executable, &call, &result, &pending), "running the probe program");
  PJRTD_TRY(pjrtd_device_buffer_await(result), "waiting for the probe program");
  PJRTD_TRY(pjrtd_device_buffer_read(result, out, sizeof out), "downloading from the probe program");
  if (out[0] != 3 || out[1] != -4)
    return PJRTD_INTERNAL("the probe program gave %g, %g, not 3, -4", (double)out[0], (double)out[1]);
  return PJRTD_OK;
}

static void after_drain(void *user) {
  pjrtd_runtime *runtime = user;
  pjrtd_runtime_settle(runtime);
  if (runtime->flush) runtime->flush(runtime->flush_user);
}

static void free_some(pjrtd_runtime *runtime, size_t most) {
  while (runtime->doomed && most-- && (most > FREES_A_TURN || !pjrtd_runtime_time_is_up(runtime))) {
    pjrtd_job *job = runtime->doomed;
    runtime->doomed = job->next;
    job->run(job);
    job->done(job);
  }
}

static void on_more(uv_idle_t *idle) {
  pjrtd_runtime *runtime = idle->data;
  pjrtd_runtime_enter(runtime);
  free_some(runtime, FREES_A_TURN);
  pjrtd_runtime_settle(runtime);
  if (!runtime->doomed && !runtime->ready.first) uv_idle_stop(idle);
}

void pjrtd_runtime_do_more(pjrtd_runtime *runtime) {
  if (!uv_is_active((uv_handle_t *)&runtime->more)) uv_idle_start(&runtime->more, on_more);
}

void pjrtd_runtime_free_later(pjrtd_runtime *runtime, pjrtd_job *job) {
  job->next = NULL;
  if (runtime->doomed)
    runtime->last_doomed->next = job;
  else
    runtime->doomed = job;
  runtime->last_doomed = job;
  pjrtd_runtime_do_more(runtime);
}

static pjrtd_status *create_lanes(pjrtd_runtime *runtime) {
  runtime->num_devices = pjrtd_client_get_info(runtime->client)->num_addressable_devices;
  runtime->device_lanes = pjrtd_calloc(runtime->num_devices, sizeof *runtime->device_lanes);
  runtime->open_lanes = pjrtd_calloc(runtime->num_devices, sizeof *runtime->open_lanes);
  runtime->transfer_lanes = pjrtd_calloc(runtime->num_devices, sizeof *runtime->transfer_lanes);
  runtime->device_executions = pjrtd_calloc(runtime->num_devices, sizeof *runtime->device_executions);
  runtime->device_loads = pjrtd_calloc(runtime->num_devices, sizeof *runtime->device_loads);
  if (!runtime->device_lanes || !runtime->open_lanes || !runtime->transfer_lanes || !runtime->device_executions ||
      !runtime->device_loads)
    return pjrtd_status_oom();
  uint32_t most = (uint32_t)runtime->settings->max_device_executions;
  for (size_t i = 0; i < runtime->num_devices; i++) {
    char name[40];
    snprintf(name, sizeof name, "device-%zu", i);
    PJRTD_TRY(pjrtd_lane_create(name, runtime->mailbox, LANE_STACK_BYTES, &runtime->device_lanes[i]));
    snprintf(name, sizeof name, "open-%zu", i);
    PJRTD_TRY(pjrtd_lane_create(name, runtime->mailbox, LANE_STACK_BYTES, &runtime->open_lanes[i]));
    pjrtd_lane_limit_executions(runtime->device_lanes[i], &runtime->device_executions[i], most);
    pjrtd_lane_limit_executions(runtime->open_lanes[i], &runtime->device_executions[i], most);
    snprintf(name, sizeof name, "transfer-%zu", i);
    PJRTD_TRY(pjrtd_lane_create(name, runtime->mailbox, LANE_STACK_BYTES, &runtime->transfer_lanes[i]));
  }
  PJRTD_TRY(pjrtd_lane_create("reaper", runtime->mailbox, LANE_STACK_BYTES, &runtime->reaper));
  return pjrtd_lane_create("compile", runtime->mailbox, (size_t)runtime->settings->compile_stack_mib << 20,
                           &runtime->compile_lane);
}

static pjrtd_status *create_client(pjrtd_runtime *runtime) {
  const pjrtd_text_list *texts = &runtime->settings->option;
  pjrtd_value *options = pjrtd_calloc(texts->count, sizeof *options);
  if (!options) return pjrtd_status_oom();
  pjrtd_status *status = PJRTD_OK;
  size_t count = 0;
  while (count < texts->count && !status) {
    status = pjrtd_value_parse(texts->items[count], &options[count]);
    if (status)
      status = pjrtd_status_context(status, "create option '%s'", texts->items[count]);
    else
      count++;
  }
  if (!status) status = pjrtd_client_create(runtime->plugin, options, count, &runtime->client);
  while (count) pjrtd_value_deinit(&options[--count]);
  pjrtd_free(options);
  return status;
}

pjrtd_status *pjrtd_runtime_create(uv_loop_t *loop, const pjrtd_settings *settings, pjrtd_plugin *plugin,
                                   pjrtd_runtime **out_runtime) {
  *out_runtime = NULL;
  pjrtd_runtime *runtime = pjrtd_calloc(1, sizeof *runtime);
  if (!runtime) {
    pjrtd_plugin_destroy(plugin);
    return pjrtd_status_oom();
  }
  runtime->loop = loop;
  runtime->settings = settings;
  runtime->plugin = plugin;
  runtime->started_ns = pjrtd_clock_now_ns();
  runtime->turn.schedstat = PJRTD_SCHEDSTAT_UNOPENED;
  runtime->memory_limit_bytes = settings->max_buffer_bytes;
  runtime->few_cores = sysconf(_SC_NPROCESSORS_ONLN) <= FEW_CORES;
  if (getrandom(&runtime->epoch, sizeof runtime->epoch, 0) != sizeof runtime->epoch || !runtime->epoch)
    runtime->epoch = runtime->started_ns;
  uv_idle_init(loop, &runtime->more);
  runtime->more.data = runtime;
  uv_timer_init(loop, &runtime->stall_timer);
  runtime->stall_timer.data = runtime;
  uv_timer_init(loop, &runtime->idle_timer);
  runtime->idle_timer.data = runtime;
  pjrtd_status *status = pjrtd_deadlines_init(&runtime->deadlines, loop);
  if (!status) status = pjrtd_page_pool_create(&runtime->pages);
  if (!status) status = pjrtd_mailbox_create(loop, after_drain, runtime, &runtime->mailbox);
  if (!status) status = create_client(runtime);
  if (!status) status = create_lanes(runtime);
  pjrtd_start_watch_step("the probe program ran");
  if (!status) status = probe(runtime);
  if (status) {
    if (!pjrtd_runtime_close(runtime)) return status; /* the plugin has it for good */
    uv_run(loop, UV_RUN_DEFAULT);
    pjrtd_runtime_destroy(runtime);
    return status;
  }
  *out_runtime = runtime;
  return PJRTD_OK;
}

/* What has ended a moment ago may call back right now. */
static bool wait_for_callbacks(pjrtd_runtime *runtime) {
  for (int i = 0; runtime->client && pjrtd_client_callbacks_owed(runtime->client); i++) {
    if (i == CALLBACK_PATIENCE_MS) return false;
    usleep(1000);
  }
  if (runtime->mailbox) pjrtd_mailbox_drain(runtime->mailbox);
  free_some(runtime, SIZE_MAX);
  return true;
}

bool pjrtd_runtime_close(pjrtd_runtime *runtime) {
  for (size_t i = 0; i < runtime->num_devices; i++) {
    if (runtime->device_lanes) pjrtd_lane_destroy(runtime->device_lanes[i]);
    if (runtime->open_lanes) pjrtd_lane_destroy(runtime->open_lanes[i]);
    if (runtime->transfer_lanes) pjrtd_lane_destroy(runtime->transfer_lanes[i]);
  }
  pjrtd_lane_destroy(runtime->compile_lane);
  runtime->lanes_gone = true;
  /* What the lanes ended may free more; the reaper goes last. Until the client is gone, its threads may post. */
  if (runtime->mailbox) pjrtd_mailbox_drain(runtime->mailbox);
  free_some(runtime, SIZE_MAX);
  pjrtd_lane *reaper = PJRTD_TAKE(runtime->reaper);
  pjrtd_lane_destroy(reaper);
  if (runtime->mailbox) pjrtd_mailbox_drain(runtime->mailbox);
  free_some(runtime, SIZE_MAX);
  if (!wait_for_callbacks(runtime)) return false;
  pjrtd_sources_deinit(&runtime->sources);
  pjrtd_client_destroy(PJRTD_TAKE(runtime->client));
  pjrtd_mailbox_close(runtime->mailbox);
  pjrtd_deadlines_close(&runtime->deadlines);
  uv_close((uv_handle_t *)&runtime->stall_timer, NULL);
  uv_close((uv_handle_t *)&runtime->idle_timer, NULL);
  uv_close((uv_handle_t *)&runtime->more, NULL);
  return true;
}

void pjrtd_runtime_destroy(pjrtd_runtime *runtime) {
  if (runtime->turn.schedstat >= 0) close(runtime->turn.schedstat);
  pjrtd_free(runtime->device_lanes);
  pjrtd_free(runtime->open_lanes);
  pjrtd_free(runtime->transfer_lanes);
  pjrtd_free(runtime->device_executions);
  pjrtd_free(runtime->device_loads);
  pjrtd_plugin_destroy(runtime->plugin);
  pjrtd_page_pool_destroy(runtime->pages);
  pjrtd_free(runtime);
}

void pjrtd_runtime_each_lane(const pjrtd_runtime *runtime, void (*visit)(pjrtd_lane *lane, void *user), void *user) {
  for (size_t i = 0; i < runtime->num_devices; i++) {
    visit(runtime->device_lanes[i], user);
    visit(runtime->open_lanes[i], user);
    visit(runtime->transfer_lanes[i], user);
  }
  visit(runtime->compile_lane, user);
  if (runtime->reaper) visit(runtime->reaper, user);
}

static void check_stall(pjrtd_lane *lane, void *user) {
  const pjrtd_runtime *runtime = user;
  /* A compile ends some day, and the reaper's jobs must not be lost: those wait. */
  bool refuse = lane != runtime->compile_lane && lane != runtime->reaper;
  if (!pjrtd_lane_check_stall(lane, pjrtd_clock_now_ns(), runtime->settings->lane_stall_ms,
                              runtime->settings->max_stuck, refuse))
    return;
  pjrtd_log(PJRTD_LOG_WARNING, "a plugin call runs long; a fresh thread takes its lane over",
            PJRTD_LOG_TEXT("lane", pjrtd_lane_name(lane)), PJRTD_LOG_UINT("limit_ms", runtime->settings->lane_stall_ms),
            PJRTD_LOG_UINT("stuck", pjrtd_lane_get_stuck(lane)));
}

static bool is_full(const pjrtd_runtime *runtime, pjrtd_lane *lane) {
  if (lane == runtime->compile_lane || lane == runtime->reaper) return false;
  pjrtd_lane_stats stats = pjrtd_lane_get_stats(lane);
  return stats.device_stuck || stats.stuck >= runtime->settings->max_stuck;
}

static void find_full(pjrtd_lane *lane, void *user) {
  pjrtd_runtime *runtime = user;
  if (runtime->full_lane || !is_full(runtime, lane)) return;
  runtime->full_lane = lane;
  runtime->full_since_ns = pjrtd_clock_now_ns();
  if (pjrtd_lane_get_stats(lane).device_stuck)
    pjrtd_log(PJRTD_LOG_WARNING, "a device does not come back; what waits for it is refused",
              PJRTD_LOG_TEXT("lane", pjrtd_lane_name(lane)));
}

/* Long programs come back, and make room; where none does in so long, none will. */
static void check_device(pjrtd_runtime *runtime) {
  if (runtime->full_lane && !is_full(runtime, runtime->full_lane)) runtime->full_lane = NULL;
  if (!runtime->full_lane) pjrtd_runtime_each_lane(runtime, find_full, runtime);
  if (!runtime->full_lane || runtime->settings->on_stuck != PJRTD_ON_STUCK_EXIT || !runtime->give_up) return;
  uint64_t full_ms = (pjrtd_clock_now_ns() - runtime->full_since_ns) / 1000000u;
  pjrtd_lane_stats stats = pjrtd_lane_get_stats(runtime->full_lane);
  if (!stats.device_stuck && full_ms / PJRTD_LANE_PATIENCE < runtime->settings->lane_stall_ms) return;
  pjrtd_log(PJRTD_LOG_ERROR, "a device is stuck, and on_stuck is exit",
            PJRTD_LOG_TEXT("lane", pjrtd_lane_name(runtime->full_lane)),
            PJRTD_LOG_UINT("stuck", stats.stuck + stats.device_stuck), PJRTD_LOG_UINT("for_ms", full_ms));
  PJRTD_TAKE(runtime->give_up)(runtime->give_up_user);
}

static void on_stall_timer(uv_timer_t *timer) {
  pjrtd_runtime *runtime = timer->data;
  pjrtd_runtime_each_lane(runtime, check_stall, runtime);
  check_device(runtime);
}

pjrtd_status *pjrtd_runtime_submit(pjrtd_runtime *runtime, pjrtd_lane *lane, pjrtd_job *job) {
  if (!lane) return pjrtd_status_make(PJRTD_CODE_UNAVAILABLE, "the daemon is stopping");
  if (lane != runtime->compile_lane && lane != runtime->reaper) {
    uint32_t stuck = pjrtd_lane_get_stuck(lane);
    if (stuck >= runtime->settings->max_stuck) return pjrtd_lane_exhausted(lane, stuck);
  }
  PJRTD_TRY(pjrtd_lane_submit(lane, job));
  runtime->jobs_running++;
  if (!uv_is_active((uv_handle_t *)&runtime->stall_timer)) {
    uint64_t period_ms = runtime->settings->lane_stall_ms / 4;
    uv_timer_start(&runtime->stall_timer, on_stall_timer, period_ms, period_ms ? period_ms : 1);
  }
  return PJRTD_OK;
}

pjrtd_status *pjrtd_runtime_submit_execution(pjrtd_runtime *runtime, pjrtd_share *share, size_t device_index, bool open,
                                             uint64_t estimate_ns, pjrtd_job *job) {
  pjrtd_lane *lane = (open ? runtime->open_lanes : runtime->device_lanes)[device_index];
  size_t index = pjrtd_share_flow_index(device_index, open);
  PJRTD_TRY(pjrtd_share_get_flow(share, index, lane, &job->flow));
  job->estimate_ns = estimate_ns;
  job->loop_ns = pjrtd_share_take_loop_ns(share, index);
  return pjrtd_runtime_submit(runtime, lane, job);
}

void pjrtd_runtime_execution_ended(pjrtd_runtime *runtime, pjrtd_job *job, uint64_t end_ns) {
  if (!runtime->lanes_gone) pjrtd_lane_execution_ended(job->lane, job, end_ns);
}

void pjrtd_runtime_job_ended(pjrtd_runtime *runtime) {
  pjrtd_runtime_enter(runtime);
  if (--runtime->jobs_running == 0) uv_timer_stop(&runtime->stall_timer);
}

void pjrtd_runtime_settle(pjrtd_runtime *runtime) {
  while (pjrtd_ready_list_run_one(&runtime->ready))
    if (runtime->ready.first && pjrtd_runtime_time_is_up(runtime)) {
      pjrtd_runtime_do_more(runtime);
      return;
    }
}

pjrtd_status *pjrtd_runtime_check_memory(const pjrtd_runtime *runtime, uint64_t more_bytes, const char *what) {
  uint64_t used = runtime->stats.buffer_bytes + runtime->stats.staging_bytes + runtime->reserved_bytes;
  if (more_bytes <= runtime->memory_limit_bytes && used <= runtime->memory_limit_bytes - more_bytes) return PJRTD_OK;
  return pjrtd_status_of_memory(pjrtd_status_with_hint(
      pjrtd_status_make(PJRTD_CODE_RESOURCE_EXHAUSTED,
                        "%s needs %" PRIu64 " bytes; buffers and transfers hold %" PRIu64 " of %" PRIu64, what,
                        more_bytes, used, runtime->memory_limit_bytes),
      "delete buffers, or raise max_buffer_bytes"));
}
