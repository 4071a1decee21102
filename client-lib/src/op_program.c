/* Compiling, describing and releasing programs. Any thread. */
#include <stdlib.h>
#include <string.h>

#include "bulk_source.h"
#include "heap.h"
#include "method_ids.h"
#include "operation.h"
#include "pjrtd/v1/program.pb-c.h"
#include "reply_object.h"

/* Keeps the server's answer to a wrong number of overrides out of the client's memory. */
enum { MAX_OVERRIDES = 4096 };

static pjrtc_failure *decode_compile(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes,
                                     const uint8_t *bulk, size_t bulk_bytes) {
  if (!call->to.object) return NULL;
  return pjrtc_reply_object_read(pjrtc_read_compile, payload, payload_bytes, "Compile", call->to.object);
}

static pjrtc_failure *decode_describe(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes,
                                      const uint8_t *bulk, size_t bulk_bytes) {
  if (!call->to.object) return NULL;
  return pjrtc_reply_object_read(pjrtc_read_description, payload, payload_bytes, "Describe", call->to.object);
}

/* ---- Compile ---- */

/* The message's attributes, made from the options' for as long as the request is written. */
typedef struct {
  Pjrtd__V1__Attribute message;
  Pjrtd__V1__IntegerList integers;
} override;

static void set_override(override *out, const pjrtc_attribute *from) {
  pjrtd__v1__attribute__init(&out->message);
  pjrtd__v1__integer_list__init(&out->integers);
  out->message.name = (char *)(from->name ? from->name : "");
  switch (from->kind) {
    case PJRTC_ATTRIBUTE_TEXT:
      out->message.value_case = PJRTD__V1__ATTRIBUTE__VALUE_TEXT;
      out->message.text = (char *)(from->text ? from->text : "");
      break;
    case PJRTC_ATTRIBUTE_INTEGER:
      out->message.value_case = PJRTD__V1__ATTRIBUTE__VALUE_INTEGER;
      out->message.integer = from->integer;
      break;
    case PJRTC_ATTRIBUTE_REAL:
      out->message.value_case = PJRTD__V1__ATTRIBUTE__VALUE_REAL;
      out->message.real = from->real;
      break;
    case PJRTC_ATTRIBUTE_BOOLEAN:
      out->message.value_case = PJRTD__V1__ATTRIBUTE__VALUE_BOOLEAN;
      out->message.boolean = from->boolean;
      break;
    case PJRTC_ATTRIBUTE_INTEGERS:
      out->message.value_case = PJRTD__V1__ATTRIBUTE__VALUE_INTEGERS;
      out->message.integers = &out->integers;
      out->integers.n_values = from->num_integers;
      out->integers.values = (int64_t *)from->integers;
      break;
    default: break;
  }
}

static protobuf_c_boolean *copy_booleans(const bool *from, size_t count) {
  protobuf_c_boolean *booleans = pjrtc_heap_alloc(count * sizeof *booleans);
  for (size_t i = 0; booleans && i < count; i++) booleans[i] = from[i];
  return booleans;
}

typedef struct {
  Pjrtd__V1__CompileRequest request;
  Pjrtd__V1__CompileOptions options;
  /* owned */
  override *overrides;
  Pjrtd__V1__Attribute **override_list;
  protobuf_c_boolean *to_parameters, *to_output;
} compile_message;

static void compile_message_deinit(compile_message *message) {
  free(message->overrides);
  free(message->override_list);
  free(message->to_parameters);
  free(message->to_output);
}

static bool compile_message_init(compile_message *message, const pjrtc_compile_options *from) {
  memset(message, 0, sizeof *message);
  pjrtd__v1__compile_request__init(&message->request);
  pjrtd__v1__compile_options__init(&message->options);
  Pjrtd__V1__CompileOptions *to = &message->options;
  message->request.options = to;
  message->request.code_bytes = from->code_bytes;
  to->num_replicas = from->num_replicas;
  to->num_partitions = from->num_partitions;
  to->use_spmd_partitioning = from->use_spmd_partitioning;
  to->use_shardy_partitioner = from->use_shardy_partitioner;
  to->use_auto_spmd_partitioning = from->use_auto_spmd_partitioning;
  to->alias_passthrough_params = from->alias_passthrough_params;
  to->parameter_is_tupled_arguments = from->parameter_is_tupled_arguments;
  to->compile_portable_executable = from->compile_portable_executable;
  to->deduplicate_hlo = from->deduplicate_hlo;
  to->exec_time_optimization_effort = from->exec_time_optimization_effort;
  to->memory_fitting_effort = from->memory_fitting_effort;
  to->n_auto_spmd_partitioning_mesh_shape = from->num_auto_spmd_partitioning_mesh_shape;
  to->auto_spmd_partitioning_mesh_shape = (int64_t *)from->auto_spmd_partitioning_mesh_shape;
  to->n_auto_spmd_partitioning_mesh_ids = from->num_auto_spmd_partitioning_mesh_ids;
  to->auto_spmd_partitioning_mesh_ids = (int64_t *)from->auto_spmd_partitioning_mesh_ids;
  to->n_device_assignment = from->num_device_assignment;
  to->device_assignment = (int32_t *)from->device_assignment;
  to->n_allow_spmd_sharding_propagation_to_parameters = from->num_allow_spmd_sharding_propagation_to_parameters;
  to->n_allow_spmd_sharding_propagation_to_output = from->num_allow_spmd_sharding_propagation_to_output;
  to->n_overrides = from->num_overrides;

  message->to_parameters = copy_booleans(from->allow_spmd_sharding_propagation_to_parameters,
                                         from->num_allow_spmd_sharding_propagation_to_parameters);
  message->to_output = copy_booleans(from->allow_spmd_sharding_propagation_to_output,
                                     from->num_allow_spmd_sharding_propagation_to_output);
  message->overrides = pjrtc_heap_alloc(from->num_overrides * sizeof *message->overrides);
  message->override_list = pjrtc_heap_alloc(from->num_overrides * sizeof *message->override_list);
  if (!message->to_parameters || !message->to_output || !message->overrides || !message->override_list) return false;
  for (size_t i = 0; i < from->num_overrides; i++) {
    set_override(&message->overrides[i], &from->overrides[i]);
    message->override_list[i] = &message->overrides[i].message;
  }
  to->allow_spmd_sharding_propagation_to_parameters = message->to_parameters;
  to->allow_spmd_sharding_propagation_to_output = message->to_output;
  to->overrides = message->override_list;
  return true;
}

static pjrtc_failure *check(const pjrtc_compile_options *options) {
  if (options->code_bytes && !options->code)
    return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, NULL, "pjrtc_compile_options.code is not set");
  if (options->num_overrides > MAX_OVERRIDES)
    return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, NULL, "%zu overrides, at most %d are possible",
                              options->num_overrides, MAX_OVERRIDES);
  return NULL;
}

/* With the lock. */
static pjrtc_failure *start_compile(pjrtc_client *client, const pjrtc_compile_options *options, bool quiet,
                                    uint64_t *out_program, pjrtc_program_info **out_info, pjrtc_future **out_call) {
  *out_call = NULL;
  pjrtc_request request = {.method = PJRTC_METHOD_program_compile, .timeout_ns = options->timeout_ns, .quiet = quiet};
  pjrtc_bulk_plan(client, options->code_bytes, &request);
  pjrtc_failure *failure = pjrtc_bulk_check_quiet(client, &request);
  if (failure) return failure;
  compile_message message;
  pjrtc_future *call;
  uint8_t *bulk;
  if (compile_message_init(&message, options)) {
    message.request.program = client->next_program;
    failure = pjrtc_op_begin_with_bulk(client, &request, &message.request.base, &call, &bulk);
  } else {
    failure = pjrtc_failure_oom();
  }
  compile_message_deinit(&message);
  if (failure) return failure;
  *out_program = client->next_program++;
  if (request.bulk_bytes) memcpy(bulk, options->code, options->code_bytes);
  if (request.item_bytes) {
    call->source.left_bytes = options->code_bytes;
    call->source.data = options->code;
  }
  if (call) {
    call->decode = decode_compile;
    call->to.object = (void **)out_info;
  }
  pjrtc_call_commit(client, &request, call);
  if (quiet && call) return pjrtc_bulk_send_quiet(client, call);
  *out_call = call;
  return NULL;
}

pjrtc_code pjrtc_compile_start(pjrtc_client *client, const pjrtc_compile_options *options, uint64_t *out_program,
                               pjrtc_program_info **out_info, pjrtc_future **out_future, pjrtc_error *error) {
  pjrtc_compile_options own;
  *out_program = 0;
  if (out_info) *out_info = NULL;
  if (out_future) *out_future = NULL;
  pjrtc_failure *failure = pjrtc_op_options(&own, sizeof own, options, "pjrtc_compile_options");
  if (!failure) failure = check(&own);
  if (!failure && !out_future && out_info)
    failure = pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, "ask for a future, or use pjrtc_describe",
                                 "a quiet compile has no reply that could bring a description");
  if (!failure) failure = pjrtc_op_enter(client, false);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_future *call;
  failure = start_compile(client, &own, !out_future, out_program, out_info, &call);
  return pjrtc_op_give(client, failure, call, out_future, error);
}

pjrtc_code pjrtc_compile(pjrtc_client *client, const pjrtc_compile_options *options, uint64_t *out_program,
                         pjrtc_program_info **out_info, pjrtc_error *error) {
  pjrtc_compile_options own;
  *out_program = 0;
  if (out_info) *out_info = NULL;
  pjrtc_failure *failure = pjrtc_op_options(&own, sizeof own, options, "pjrtc_compile_options");
  if (!failure) failure = check(&own);
  if (!failure) failure = pjrtc_op_enter(client, true);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_future *call;
  failure = start_compile(client, &own, false, out_program, out_info, &call);
  if (!failure) {
    failure = pjrtc_op_wait(client, call, own.timeout_ns);
    if (failure) pjrtc_op_forget_program(client, *out_program);
  }
  if (failure) *out_program = 0;
  return pjrtc_op_leave(client, failure, error);
}

/* ---- Describe ---- */

static pjrtc_failure *start_describe(pjrtc_client *client, uint64_t program, pjrtc_program_info **out_info,
                                     pjrtc_future **out_call) {
  Pjrtd__V1__ProgramRequest message = PJRTD__V1__PROGRAM_REQUEST__INIT;
  message.program = program;
  pjrtc_request request = {.method = PJRTC_METHOD_program_describe};
  pjrtc_failure *failure = pjrtc_op_begin(client, &request, &message.base, out_call);
  if (failure) return failure;
  (*out_call)->decode = decode_describe;
  (*out_call)->to.object = (void **)out_info;
  pjrtc_call_commit(client, &request, *out_call);
  return NULL;
}

pjrtc_code pjrtc_describe_start(pjrtc_client *client, uint64_t program, pjrtc_program_info **out_info,
                                pjrtc_future **out_future, pjrtc_error *error) {
  *out_info = NULL;
  *out_future = NULL;
  pjrtc_failure *failure = pjrtc_op_enter(client, false);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_future *call;
  failure = start_describe(client, program, out_info, &call);
  return pjrtc_op_give(client, failure, call, out_future, error);
}

pjrtc_code pjrtc_describe(pjrtc_client *client, uint64_t program, pjrtc_program_info **out_info, pjrtc_error *error) {
  *out_info = NULL;
  pjrtc_failure *failure = pjrtc_op_enter(client, true);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_future *call;
  failure = start_describe(client, program, out_info, &call);
  if (!failure) failure = pjrtc_op_wait(client, call, 0);
  return pjrtc_op_leave(client, failure, error);
}

/* ---- Release ---- */

static Pjrtd__V1__ReleaseRequest release_of(const uint64_t *programs, size_t num_programs) {
  Pjrtd__V1__ReleaseRequest message = PJRTD__V1__RELEASE_REQUEST__INIT;
  message.n_programs = num_programs;
  message.programs = (uint64_t *)programs;
  return message;
}

pjrtc_code pjrtc_release_start(pjrtc_client *client, const uint64_t *programs, size_t num_programs,
                               pjrtc_future **out_future, pjrtc_error *error) {
  Pjrtd__V1__ReleaseRequest message = release_of(programs, num_programs);
  return pjrtc_op_start(client, NULL, PJRTC_METHOD_program_release, &message.base, out_future, error);
}

pjrtc_code pjrtc_release(pjrtc_client *client, const uint64_t *programs, size_t num_programs, pjrtc_error *error) {
  Pjrtd__V1__ReleaseRequest message = release_of(programs, num_programs);
  return pjrtc_op_call(client, NULL, PJRTC_METHOD_program_release, &message.base, error);
}
