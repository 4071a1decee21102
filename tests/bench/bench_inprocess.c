/* The plugin called in process, with nothing between: what any client of a daemon is measured against.
 *
 * usage: bench_inprocess PLUGIN [--once] [--calling-thread]
 *
 * --once: compile, execute and fetch once, print `ready {}` and wait for the end of standard input, so that the driver
 * can read the memory that a program needs which does only that. --calling-thread: the create option
 * `asynchronous=false`, as pjrtd sets it. One thread, beside the plugin's own. Uses the PJRT headers only. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_slice.h"
#include "xla/pjrt/c/pjrt_c_api.h"

enum { STEPS = 1000 };

static const PJRT_Api *api;
static PJRT_Client *client;
static PJRT_Device *device;

static void check(PJRT_Error *error, const char *call) {
  if (!error) return;
  PJRT_Error_Message_Args message = {.struct_size = PJRT_Error_Message_Args_STRUCT_SIZE, .error = error};
  api->PJRT_Error_Message(&message);
  bench_fail("%s: %.*s", call, (int)message.message_size, message.message);
}

#define CALL(function, ...)                                                                                        \
  ({                                                                                                               \
    PJRT_##function##_Args args_ = {.struct_size = PJRT_##function##_Args_STRUCT_SIZE __VA_OPT__(, ) __VA_ARGS__}; \
    check(api->PJRT_##function(&args_), #function);                                                                \
    args_;                                                                                                         \
  })

static void await_event(PJRT_Event *event) {
  if (!event) return;
  CALL(Event_Await, .event = event);
  CALL(Event_Destroy, .event = event);
}

static void open_plugin(const char *path, bool calling_thread) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) bench_fail("%s", dlerror());
  const PJRT_Api *(*get_api)(void) = (const PJRT_Api *(*)(void))dlsym(library, "GetPjrtApi");
  if (!get_api) bench_fail("%s: no GetPjrtApi", path);
  api = get_api();
  CALL(Plugin_Initialize);
  PJRT_NamedValue option = {.struct_size = PJRT_NamedValue_STRUCT_SIZE,
                            .name = "asynchronous",
                            .name_size = strlen("asynchronous"),
                            .type = PJRT_NamedValue_kBool,
                            .bool_value = false,
                            .value_size = 1};
  client = CALL(Client_Create, .create_options = &option, .num_options = calling_thread ? 1 : 0).client;
  device = CALL(Client_AddressableDevices, .client = client).addressable_devices[0];
}

static PJRT_LoadedExecutable *compile(const char *code) {
  /* CompileOptionsProto: executable_build_options { num_replicas: 1 num_partitions: 1 } */
  static const char options[] = {0x1a, 4, 0x20, 1, 0x28, 1};
  PJRT_Program program = {.struct_size = PJRT_Program_STRUCT_SIZE,
                          .code = (char *)code,
                          .code_size = strlen(code),
                          .format = "mlir",
                          .format_size = strlen("mlir")};
  return CALL(Client_Compile, .client = client, .program = &program, .compile_options = options,
              .compile_options_size = sizeof options)
      .executable;
}

static PJRT_Buffer *upload(const float *data, const int64_t *dims, size_t num_dims) {
  PJRT_Client_BufferFromHostBuffer_Args made =
      CALL(Client_BufferFromHostBuffer, .client = client, .data = data, .type = PJRT_Buffer_Type_F32, .dims = dims,
           .num_dims = num_dims, .host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes,
           .device = device);
  await_event(made.done_with_host_buffer);
  return made.buffer;
}

typedef struct {
  PJRT_LoadedExecutable *executable;
  PJRT_Buffer *argument;
  size_t result_bytes;
  float result[64];
  float expected_last;
} small_call;

static PJRT_Buffer *execute(small_call *call) {
  PJRT_ExecuteOptions options = {.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE};
  PJRT_Buffer *const *argument_lists[1] = {&call->argument};
  PJRT_Buffer *output = NULL;
  PJRT_Buffer **output_lists[1] = {&output};
  PJRT_Event *complete[1] = {NULL};
  CALL(LoadedExecutable_Execute, .executable = call->executable, .options = &options, .argument_lists = argument_lists,
       .num_devices = 1, .num_args = 1, .output_lists = output_lists, .device_complete_events = complete);
  await_event(complete[0]);
  return output;
}

static void run_execute(void *user) {
  CALL(Buffer_Destroy, .buffer = execute(user));
}

/* A training loop's shape: each output is the next argument, and nothing else is kept. */
static void run_steps(void *user) {
  small_call *call = user;
  small_call state = *call;
  for (int i = 0; i < STEPS; i++) {
    PJRT_Buffer *next = execute(&state);
    if (i > 0) CALL(Buffer_Destroy, .buffer = state.argument);
    state.argument = next;
  }
  CALL(Buffer_Destroy, .buffer = state.argument);
}

static void run_execute_fetch(void *user) {
  small_call *call = user;
  PJRT_Buffer *output = execute(call);
  await_event(CALL(Buffer_ToHostBuffer, .src = output, .dst = call->result, .dst_size = call->result_bytes).event);
  CALL(Buffer_Destroy, .buffer = output);
}

static void check_result(void *user) {
  small_call *call = user;
  run_execute_fetch(call);
  float last = call->result[call->result_bytes / sizeof(float) - 1];
  if (last != call->expected_last) bench_fail("a wrong result: %g, not %g", (double)last, (double)call->expected_last);
}

static small_call prepare(const char *code, const int64_t *dims, size_t num_dims, float expected_last) {
  float data[64];
  size_t count = 1;
  for (size_t i = 0; i < num_dims; i++) count *= (size_t)dims[i];
  for (size_t i = 0; i < count; i++) data[i] = (float)(i % 8);
  small_call call = {.executable = compile(code),
                     .argument = upload(data, dims, num_dims),
                     .result_bytes = count * sizeof(float),
                     .expected_last = expected_last};
  check_result(&call);
  return call;
}

typedef struct {
  size_t size_bytes;
  float *host;
  PJRT_Buffer *buffer;
} transfer;

static void run_upload(void *user) {
  transfer *t = user;
  int64_t dims[1] = {(int64_t)(t->size_bytes / sizeof(float))};
  PJRT_Buffer *buffer = upload(t->host, dims, 1);
  await_event(CALL(Buffer_ReadyEvent, .buffer = buffer).event);
  CALL(Buffer_Destroy, .buffer = buffer);
}

static void begin_transfer(void *user) {
  transfer *t = user;
  t->host = aligned_alloc(4096, t->size_bytes);
  if (!t->host) bench_fail("out of memory");
  memset(t->host, 0, t->size_bytes);
}

static void begin_download(void *user) {
  transfer *t = user;
  begin_transfer(t);
  int64_t dims[1] = {(int64_t)(t->size_bytes / sizeof(float))};
  t->buffer = upload(t->host, dims, 1);
  await_event(CALL(Buffer_ReadyEvent, .buffer = t->buffer).event);
}

static void run_download(void *user) {
  transfer *t = user;
  await_event(CALL(Buffer_ToHostBuffer, .src = t->buffer, .dst = t->host, .dst_size = t->size_bytes).event);
}

static void end_transfer(void *user) {
  transfer *t = user;
  if (t->buffer) CALL(Buffer_Destroy, .buffer = t->buffer);
  free(t->host);
  t->buffer = NULL;
  t->host = NULL;
}

int main(int argc, char **argv) {
  bool once = false, calling_thread = false;
  if (argc < 2) bench_fail("usage: bench_inprocess PLUGIN [--once] [--calling-thread]");
  for (int i = 2; i < argc; i++) {
    once |= strcmp(argv[i], "--once") == 0;
    calling_thread |= strcmp(argv[i], "--calling-thread") == 0;
  }
  open_plugin(argv[1], calling_thread);
  small_call add = prepare(bench_add_program, (const int64_t[]){8}, 1, 14);
  if (once) {
    printf("ready {}\n");
    fflush(stdout);
    while (getchar() != EOF) continue;
    return 0;
  }
  /* Rows of 0..7: each result is 28 times its column. */
  small_call dot = prepare(bench_dot_program, (const int64_t[]){8, 8}, 2, 196);
  transfer sizes[] = {{.size_bytes = 1u << 20}, {.size_bytes = 16u << 20}, {.size_bytes = 256u << 20}};
  const bench_mode modes[] = {
      {.name = "execute", .op = run_execute, .user = &add},
      {.name = "steps", .op = run_steps, .user = &add, .inner = STEPS},
      {.name = "steps-dot", .op = run_steps, .user = &dot, .inner = STEPS},
      {.name = "execute-fetch", .op = run_execute_fetch, .user = &add},
      {.name = "dot-fetch", .op = run_execute_fetch, .user = &dot},
      {.name = "upload-1", .op = run_upload, .begin = begin_transfer, .end = end_transfer, .user = &sizes[0]},
      {.name = "upload-16", .op = run_upload, .begin = begin_transfer, .end = end_transfer, .user = &sizes[1]},
      {.name = "upload-256", .op = run_upload, .begin = begin_transfer, .end = end_transfer, .user = &sizes[2]},
      {.name = "download-1", .op = run_download, .begin = begin_download, .end = end_transfer, .user = &sizes[0]},
      {.name = "download-16", .op = run_download, .begin = begin_download, .end = end_transfer, .user = &sizes[1]},
      {.name = "download-256", .op = run_download, .begin = begin_download, .end = end_transfer, .user = &sizes[2]},
  };
  bench_serve(modes, sizeof modes / sizeof *modes, "{}");
  return 0;
}
