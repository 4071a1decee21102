/* Server reflection, v1 and v1alpha, which differ in their name only: what grpcurl asks for when it has no .proto at
 * hand. The descriptions were made when pjrtd was built (proto/CMakeLists.txt). Loop thread. */
#include <stdio.h>
#include <string.h>

#include "grpc/reflection/v1/reflection.pb-c.h"
#include "proto/grpc_wire.h"
#include "transport/grpc_front.h"

#define V1_PATH "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
#define V1ALPHA_PATH "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
#define MAX_FILES 32
#define MAX_SERVICES 32

/* Fields of google.protobuf.FileDescriptorProto and of its parts, whose names are all called `name` = 1. */
enum { FILE_NAME = 1, FILE_PACKAGE = 2, FILE_DEPENDENCY = 3, FILE_MESSAGE = 4, FILE_ENUM = 5, FILE_SERVICE = 6 };
enum { PART_NAME = 1, SERVICE_METHOD = 2, MESSAGE_NESTED = 3, MESSAGE_ENUM = 4 };

extern const uint8_t pjrtd_descriptors[], pjrtd_descriptors_end[];

typedef Grpc__Reflection__V1__ServerReflectionRequest request_message;
typedef Grpc__Reflection__V1__ServerReflectionResponse response_message;

static bool is_text(grpc_bytes bytes, const char *text, size_t length) {
  return (size_t)(bytes.end - bytes.at) == length && memcmp(bytes.at, text, length) == 0;
}

/* The first field of that number; empty where there is none. */
static grpc_bytes find(grpc_bytes message, uint32_t number) {
  uint32_t field;
  grpc_bytes value;
  while (grpc_wire_next_bytes(&message, &field, &value))
    if (field == number) return value;
  return (grpc_bytes){message.end, message.end};
}

/* Whether `symbol` (of the rest's length, without the package) names something in `part` or is it. */
static bool part_has(grpc_bytes part, bool service, const char *symbol) {
  grpc_bytes name = find(part, PART_NAME);
  size_t length = (size_t)(name.end - name.at);
  if (strncmp(symbol, (const char *)name.at, length) != 0) return false;
  if (!symbol[length]) return true;
  if (symbol[length] != '.') return false;
  const char *inner = symbol + length + 1;
  uint32_t field;
  grpc_bytes value;
  while (grpc_wire_next_bytes(&part, &field, &value)) {
    if (service ? field == SERVICE_METHOD : field == MESSAGE_NESTED || field == MESSAGE_ENUM)
      if (part_has(value, false, inner)) return true;
  }
  return false;
}

static bool file_has(grpc_bytes file, const char *symbol) {
  grpc_bytes package = find(file, FILE_PACKAGE);
  size_t length = (size_t)(package.end - package.at);
  if (strncmp(symbol, (const char *)package.at, length) != 0 || symbol[length] != '.') return false;
  uint32_t field;
  grpc_bytes value;
  while (grpc_wire_next_bytes(&file, &field, &value))
    if (field >= FILE_MESSAGE && field <= FILE_SERVICE && part_has(value, field == FILE_SERVICE, symbol + length + 1))
      return true;
  return false;
}

/* The descriptors are a FileDescriptorSet: field 1, a file each. */
static bool next_file(grpc_bytes *set, grpc_bytes *out_file) {
  uint32_t field;
  return grpc_wire_next_bytes(set, &field, out_file);
}

static grpc_bytes all_files(void) {
  return (grpc_bytes){pjrtd_descriptors, pjrtd_descriptors_end};
}

static bool find_file(const char *name, size_t length, grpc_bytes *out_file) {
  grpc_bytes set = all_files();
  while (next_file(&set, out_file))
    if (is_text(find(*out_file, FILE_NAME), name, length)) return true;
  return false;
}

typedef struct {
  grpc_bytes files[MAX_FILES];
  size_t count;
} file_list;

/* The file and all that it imports, each once. */
static void add_file(file_list *list, grpc_bytes file) {
  for (size_t i = 0; i < list->count; i++)
    if (list->files[i].at == file.at) return;
  if (list->count == MAX_FILES) return;
  list->files[list->count++] = file;
  uint32_t field;
  grpc_bytes value, imported;
  while (grpc_wire_next_bytes(&file, &field, &value))
    if (field == FILE_DEPENDENCY && find_file((const char *)value.at, (size_t)(value.end - value.at), &imported))
      add_file(list, imported);
}

static grpc_byte_buffer *pack(const response_message *response) {
  size_t bytes = grpc__reflection__v1__server_reflection_response__get_packed_size(response);
  uint8_t *packed = pjrtd_malloc(bytes + 1);
  return packed ? grpc_message_of(packed, grpc__reflection__v1__server_reflection_response__pack(response, packed))
                : NULL;
}

static grpc_byte_buffer *answer_files(response_message *response, const file_list *list) {
  ProtobufCBinaryData parts[MAX_FILES];
  for (size_t i = 0; i < list->count; i++)
    parts[i] = (ProtobufCBinaryData){.len = (size_t)(list->files[i].end - list->files[i].at),
                                     .data = (uint8_t *)list->files[i].at};
  Grpc__Reflection__V1__FileDescriptorResponse files = GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
  files.n_file_descriptor_proto = list->count;
  files.file_descriptor_proto = parts;
  response->message_response_case =
      GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
  response->file_descriptor_response = &files;
  return pack(response);
}

static grpc_byte_buffer *answer_services(response_message *response) {
  static char names[MAX_SERVICES][96];
  Grpc__Reflection__V1__ServiceResponse services[MAX_SERVICES], *list[MAX_SERVICES];
  Grpc__Reflection__V1__ListServiceResponse all = GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
  all.service = list;
  grpc_bytes set = all_files(), file;
  while (next_file(&set, &file)) {
    grpc_bytes package = find(file, FILE_PACKAGE), value;
    uint32_t field;
    while (grpc_wire_next_bytes(&file, &field, &value)) {
      if (field != FILE_SERVICE || all.n_service == MAX_SERVICES) continue;
      grpc_bytes name = find(value, PART_NAME);
      size_t at = all.n_service++;
      snprintf(names[at], sizeof names[at], "%.*s.%.*s", (int)(package.end - package.at), (const char *)package.at,
               (int)(name.end - name.at), (const char *)name.at);
      grpc__reflection__v1__service_response__init(&services[at]);
      services[at].name = names[at];
      list[at] = &services[at];
    }
  }
  response->message_response_case =
      GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
  response->list_services_response = &all;
  return pack(response);
}

static grpc_byte_buffer *answer_error(response_message *response, int32_t code, const char *text) {
  Grpc__Reflection__V1__ErrorResponse error = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;
  error.error_code = code;
  error.error_message = (char *)text;
  response->message_response_case = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
  response->error_response = &error;
  return pack(response);
}

static grpc_byte_buffer *answer(request_message *request) {
  response_message response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
  response.valid_host = request->host;
  response.original_request = request;
  file_list list = {.count = 0};
  grpc_bytes set = all_files(), file;
  switch (request->message_request_case) {
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
      return answer_services(&response);
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
      if (find_file(request->file_by_filename, strlen(request->file_by_filename), &file)) add_file(&list, file);
      break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
      while (!list.count && next_file(&set, &file))
        if (file_has(file, request->file_containing_symbol)) add_file(&list, file);
      break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION:
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE:
      return answer_error(&response, PJRTD_CODE_NOT_FOUND, "proto3 has no extensions");
    default: return answer_error(&response, PJRTD_CODE_INVALID_ARGUMENT, "the request asks for nothing that is known");
  }
  if (!list.count) return answer_error(&response, PJRTD_CODE_NOT_FOUND, "pjrtd has no such file or symbol");
  return answer_files(&response, &list);
}

static void on_message(grpc_rpc *rpc, grpc_byte_buffer *message) {
  if (!message) {
    if (!rpc->sending) grpc_rpc_finish(rpc, NULL);
    return;
  }
  grpc_slice bytes = grpc_message_bytes(message);
  request_message *request = grpc__reflection__v1__server_reflection_request__unpack(NULL, GRPC_SLICE_LENGTH(bytes),
                                                                                     GRPC_SLICE_START_PTR(bytes));
  grpc_slice_unref(bytes);
  grpc_byte_buffer *said = request ? answer(request) : NULL;
  if (request) grpc__reflection__v1__server_reflection_request__free_unpacked(request, NULL);
  if (said)
    grpc_rpc_send(rpc, said);
  else
    grpc_rpc_fail_status(rpc, PJRTD_INVALID("the message is not a ServerReflectionRequest"));
}

/* One question at a time. */
static void on_sent(grpc_rpc *rpc, bool ok) {
  if (ok) grpc_rpc_receive(rpc);
}

static void on_ended(grpc_rpc *rpc, bool cancelled) {}

static void free_reflection(grpc_rpc *rpc) {
  pjrtd_free(rpc);
}

static const grpc_rpc_events events = {
    .on_message = on_message, .on_sent = on_sent, .on_ended = on_ended, .free = free_reflection};

bool grpc_reflection_begin(grpc_front *front, grpc_call *call, const char *path) {
  if (strcmp(path, V1_PATH) != 0 && strcmp(path, V1ALPHA_PATH) != 0) return false;
  grpc_rpc *rpc = pjrtd_calloc(1, sizeof *rpc);
  if (!rpc) {
    grpc_call_refuse(call, GRPC_NO_MEMORY);
    return true;
  }
  grpc_rpc_init(rpc, &events, front, call);
  grpc_rpc_receive(rpc);
  return true;
}
