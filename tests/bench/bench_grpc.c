/* gRPC C core without libpjrtc: the bare echo, and pjrtd's methods as ordinary RPCs.
 *
 * usage: bench_grpc echo REQUEST_BYTES REPLY_BYTES
 *        bench_grpc pjrtd grpc://127.0.0.1:PORT
 *
 * echo: a child process answers; modes `unary` (a call each) and `stream` (a message each on one stream), over TCP.
 * pjrtd: mode `unary`, Execute of 8 floats with the result in the answer; its facts say how large both messages are. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "bench_grpc_call.h"
#include "bench_grpc_echo.h"
#include "bench_slice.h"
#include "pjrtd/v1/buffer.pb-c.h"
#include "pjrtd/v1/execute.pb-c.h"
#include "pjrtd/v1/program.pb-c.h"
#include "pjrtd/v1/session.pb-c.h"

enum { MAX_MESSAGE_BYTES = 64 << 10 };

static bench_grpc_client client;
static grpc_slice request;

typedef struct {
  void *method;
  grpc_call *stream;
} target;

static void *registered(const char *path) {
  return grpc_channel_register_call(client.channel, path, NULL, NULL);
}

static void run_unary(void *user) {
  grpc_slice_unref(bench_grpc_unary(&client, ((target *)user)->method, request));
}

/* ---- echo ---- */

static void run_stream(void *user) {
  bench_grpc_exchange(&client, ((target *)user)->stream, request);
}

static size_t parse_size(const char *text) {
  size_t size = strtoul(text, NULL, 10);
  if (size == 0 || size > MAX_MESSAGE_BYTES) bench_fail("a message of \"%s\" bytes", text);
  return size;
}

/* In a child, made before gRPC has threads. */
static pid_t start_server(size_t reply_bytes, char *out_address, size_t capacity) {
  int ends[2];
  if (pipe(ends) != 0) bench_fail("pipe: %s", strerror(errno));
  pid_t parent = getpid(), child = fork();
  if (child < 0) bench_fail("fork: %s", strerror(errno));
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    close(ends[0]);
    bench_grpc_echo_serve(reply_bytes, ends[1]);
  }
  close(ends[1]);
  FILE *from = fdopen(ends[0], "r");
  int port;
  if (!from || fscanf(from, "%d", &port) != 1) bench_fail("the echo server did not start");
  fclose(from);
  snprintf(out_address, capacity, "127.0.0.1:%d", port);
  return child;
}

static void measure_echo(size_t request_bytes, size_t reply_bytes) {
  char address[32], facts[64];
  pid_t server = start_server(reply_bytes, address, sizeof address);
  bench_grpc_connect(&client, address);
  request = grpc_slice_malloc(request_bytes);
  memset(GRPC_SLICE_START_PTR(request), 0, request_bytes);
  target unary = {.method = registered("/bench.Echo/Echo")};
  target stream = {.stream = bench_grpc_open_stream(&client, registered("/bench.Echo/EchoStream"))};
  const bench_mode modes[] = {{.name = "unary", .op = run_unary, .user = &unary},
                              {.name = "stream", .op = run_stream, .user = &stream}};
  snprintf(facts, sizeof facts, "{\"server_pid\": %d}", (int)server);
  bench_serve(modes, 2, facts);
  kill(server, SIGKILL);
}

/* ---- pjrtd ---- */

static grpc_slice pack(const ProtobufCMessage *message) {
  grpc_slice slice = grpc_slice_malloc(protobuf_c_message_get_packed_size(message));
  protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
  return slice;
}

static grpc_slice call(const char *path, const ProtobufCMessage *message) {
  grpc_slice packed = pack(message);
  grpc_slice answer = bench_grpc_unary(&client, registered(path), packed);
  grpc_slice_unref(packed);
  return answer;
}

static void open_session(void) {
  Pjrtd__V1__SessionOpenRequest open = PJRTD__V1__SESSION_OPEN_REQUEST__INIT;
  grpc_slice answer = call("/pjrtd.v1.Session/Open", &open.base);
  Pjrtd__V1__SessionOpenReply *reply =
      pjrtd__v1__session_open_reply__unpack(NULL, GRPC_SLICE_LENGTH(answer), GRPC_SLICE_START_PTR(answer));
  if (!reply) bench_fail("Session.Open answered nonsense");
  client.session = strdup(reply->token);
}

static void compile_and_upload(void) {
  Pjrtd__V1__CompileRequest compile = PJRTD__V1__COMPILE_REQUEST__INIT;
  compile.program = 1;
  compile.code_bytes = compile.bulk.len = strlen(bench_add_program);
  compile.bulk.data = (uint8_t *)bench_add_program;
  grpc_slice_unref(call("/pjrtd.v1.Program/Compile", &compile.base));
  static float data[8];
  for (int i = 0; i < 8; i++) data[i] = (float)i;
  int64_t dims[] = {8};
  Pjrtd__V1__TensorType type = PJRTD__V1__TENSOR_TYPE__INIT;
  type.dtype = PJRTD__V1__DTYPE__DTYPE_F32;
  type.n_dims = 1;
  type.dims = dims;
  Pjrtd__V1__UploadRequest upload = PJRTD__V1__UPLOAD_REQUEST__INIT;
  upload.buffer = 1;
  upload.type = &type;
  upload.data_bytes = upload.bulk.len = sizeof data;
  upload.bulk.data = (uint8_t *)data;
  grpc_slice_unref(call("/pjrtd.v1.Buffer/Upload", &upload.base));
}

static void check_result(grpc_slice answer) {
  Pjrtd__V1__ExecuteReply *reply =
      pjrtd__v1__execute_reply__unpack(NULL, GRPC_SLICE_LENGTH(answer), GRPC_SLICE_START_PTR(answer));
  float last;
  if (!reply || reply->bulk.len != 32) bench_fail("Execute answered nonsense");
  memcpy(&last, reply->bulk.data + 28, sizeof last);
  if (last != 14) bench_fail("a wrong result: %g, not 14", (double)last);
}

static void measure_pjrtd(const char *url) {
  if (strncmp(url, "grpc://", 7) != 0) bench_fail("%s is no grpc:// target", url);
  bench_grpc_connect(&client, url + 7);
  open_session();
  compile_and_upload();
  uint64_t args[] = {1}, outputs[] = {0};
  uint32_t fetch[] = {0};
  Pjrtd__V1__ExecuteRequest execute = PJRTD__V1__EXECUTE_REQUEST__INIT;
  execute.program = 1;
  execute.n_args = execute.n_outputs = execute.n_fetch = 1;
  execute.args = args;
  execute.outputs = outputs;
  execute.fetch = fetch;
  request = pack(&execute.base);
  target unary = {.method = registered("/pjrtd.v1.Execute/Execute")};
  grpc_slice answer = bench_grpc_unary(&client, unary.method, request);
  check_result(answer);
  char facts[96];
  snprintf(facts, sizeof facts, "{\"request_bytes\": %zu, \"reply_bytes\": %zu}", GRPC_SLICE_LENGTH(request),
           GRPC_SLICE_LENGTH(answer));
  const bench_mode mode = {.name = "unary", .op = run_unary, .user = &unary};
  bench_serve(&mode, 1, facts);
}

int main(int argc, char **argv) {
  if (argc == 4 && strcmp(argv[1], "echo") == 0)
    measure_echo(parse_size(argv[2]), parse_size(argv[3]));
  else if (argc == 3 && strcmp(argv[1], "pjrtd") == 0)
    measure_pjrtd(argv[2]);
  else
    bench_fail("usage: bench_grpc echo REQUEST_BYTES REPLY_BYTES | bench_grpc pjrtd grpc://127.0.0.1:PORT");
  return 0;
}
