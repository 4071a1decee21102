/* Program.Compile: StableHLO becomes a loaded executable. Loop thread, but for the job, which runs on the compile lane
 * (a large stack: XLA's passes recurse with the depth of the program). */
#include <inttypes.h>
#include <zstd.h>

#include "base/clock.h"
#include "service/call.h"
#include "service/convert.h"
#include "service/program_describe.h"
#include "service/staging.h"
#include "state/home.h"
#include "state/memory_report.h"

#define MAX_OVERRIDES 1024

typedef struct {
  pjrtd_call call;               /* first */
  pjrtd_program *program;        /* retained */
  pjrtd_compile_options options; /* its arrays are owned */
  pjrtd_value *overrides;        /* owned, with their texts */
  size_t num_overrides;
  /* As it came, with a 0 behind it (fresh staging pages are 0): MLIR's lexer reads on until it finds one. */
  char *code;             /* owned; NULL where it is staged */
  pjrtd_staging *staging; /* owned */
  uint64_t code_bytes;
  char *source; /* owned: what the program depends on, in one piece; NULL where there is no memory for it */
  size_t source_bytes;
  uint64_t source_key; /* once all of it is there */
  bool compressed;
  uint64_t plain_bytes;
  pjrtd_job job;
  pjrtd_executable *made; /* by the job */
  pjrtd_status *error;    /* by the job */
  uint64_t compile_ns;
  bool submitted, abandoned;
} compile_call;

static void compile_free(compile_call *compile) {
  pjrtd_staging_destroy(compile->staging);
  pjrtd_free(compile->code);
  pjrtd_free(compile->source);
  for (size_t i = 0; i < compile->num_overrides; i++) pjrtd_value_deinit(&compile->overrides[i]);
  pjrtd_free(compile->overrides);
  pjrtd_free((void *)compile->options.mesh_shape);
  pjrtd_free((void *)compile->options.mesh_ids);
  pjrtd_free((void *)compile->options.device_assignment);
  pjrtd_free((void *)compile->options.propagate_to_parameters);
  pjrtd_free((void *)compile->options.propagate_to_output);
  pjrtd_resource_release(&compile->program->resource);
  pjrtd_call_end(&compile->call);
}

static void compile_abandon(pjrtd_call *call, pjrtd_status *why) {
  compile_call *compile = (compile_call *)call;
  pjrtd_resource_set_failed(&compile->program->resource, why);
  pjrtd_operation_give_back_failed(&call->operation);
  compile->abandoned = true;
  if (compile->submitted && !pjrtd_lane_withdraw(call->runtime->compile_lane, &compile->job)) return;
  if (compile->submitted) pjrtd_runtime_job_ended(call->runtime);
  compile_free(compile);
}

static pjrtd_status *decompress(const compile_call *compile, char **out_code) {
  *out_code = pjrtd_malloc(compile->plain_bytes + 1);
  if (!*out_code) return pjrtd_status_oom();
  (*out_code)[compile->plain_bytes] = 0;
  const void *code = compile->code ? compile->code : compile->staging->data;
  size_t size = ZSTD_decompress(*out_code, compile->plain_bytes, code, compile->code_bytes);
  pjrtd_status *status = PJRTD_OK;
  if (ZSTD_isError(size))
    status = PJRTD_INVALID("the program's zstd data is bad: %s", ZSTD_getErrorName(size));
  else if (size != compile->plain_bytes)
    status = PJRTD_INVALID("the program has %zu bytes, uncompressed_bytes is %" PRIu64, size, compile->plain_bytes);
  if (status) {
    pjrtd_free(*out_code);
    *out_code = NULL;
  }
  return status;
}

static void compile_run(pjrtd_job *job) {
  compile_call *compile = (compile_call *)((char *)job - offsetof(compile_call, job));
  uint64_t started_ns = pjrtd_clock_now_ns();
  const char *code = compile->code ? compile->code : compile->staging->data;
  size_t code_bytes = compile->code_bytes;
  PJRTD_AUTO_FREE char *plain = NULL;
  if (compile->compressed) {
    compile->error = decompress(compile, &plain);
    code = plain;
    code_bytes = compile->plain_bytes;
  }
  if (!compile->error)
    compile->error =
        pjrtd_executable_compile(compile->call.runtime->client, code, code_bytes, &compile->options, &compile->made);
  compile->compile_ns = pjrtd_clock_now_ns() - started_ns;
}

static void compile_fail(compile_call *compile, pjrtd_status *status) {
  status = pjrtd_memory_report(compile->call.account, pjrtd_home_first(compile->call.runtime), status);
  status = pjrtd_status_with_origin(status, compile->call.header.call);
  pjrtd_resource_set_failed(&compile->program->resource, pjrtd_status_retain(status));
  pjrtd_call_fail(&compile->call, status);
  compile_free(compile);
}

static void compile_answer(compile_call *compile) {
  pjrtd_call *call = &compile->call;
  pjrtd_status *status =
      call->peer ? pjrtd_answer_compile(call->peer, &call->header, compile->program->info, compile->compile_ns)
                 : PJRTD_OK;
  if (status) pjrtd_call_fail(call, status);
  compile_free(compile);
}

static void compile_done(pjrtd_job *job) {
  compile_call *compile = (compile_call *)((char *)job - offsetof(compile_call, job));
  pjrtd_call *call = &compile->call;
  pjrtd_runtime *runtime = call->runtime;
  pjrtd_runtime_job_ended(runtime);
  if (job->refusal) compile->error = PJRTD_TAKE(job->refusal);
  runtime->stats.compiles++;
  runtime->stats.compile_ns += compile->compile_ns;
  if (compile->abandoned) {
    /* Nobody has it: a program without a name frees itself the way others do. */
    pjrtd_program *orphan;
    pjrtd_status_destroy(compile->error);
    pjrtd_status *status = compile->made ? pjrtd_program_create(runtime, &orphan) : PJRTD_OK;
    if (status) {
      pjrtd_status_destroy(status);
      pjrtd_executable_destroy(compile->made);
    } else if (compile->made) {
      pjrtd_program_set(orphan, compile->made);
      pjrtd_resource_release(&orphan->resource);
    }
    compile_free(compile);
    return;
  }
  if (compile->error) {
    compile_fail(compile, PJRTD_TAKE(compile->error));
    return;
  }
  if (compile->source)
    compile->program->source = pjrtd_sources_add(&runtime->sources, compile->source_key, compile->source,
                                                 compile->source_bytes, compile->made);
  pjrtd_program_set(compile->program, compile->made);
  compile_answer(compile);
}

/* Puts the program, as it came, behind its options. */
static void complete_source(compile_call *compile) {
  if (!compile->source) return;
  const char *code = compile->code ? compile->code : compile->staging->data;
  memcpy(compile->source + compile->source_bytes - compile->code_bytes, code, compile->code_bytes);
  compile->source_key = pjrtd_source_key(compile->source, compile->source_bytes);
}

/* All of the program is here. Where somebody has the same already, there is nothing to compile. */
static void compile_submit(compile_call *compile) {
  complete_source(compile);
  pjrtd_sources *sources = &compile->call.runtime->sources;
  pjrtd_source *known =
      compile->source ? pjrtd_sources_join(sources, compile->source_key, compile->source, compile->source_bytes) : NULL;
  if (known) {
    pjrtd_program_share(compile->program, known);
    compile_answer(compile);
    return;
  }
  compile->job = (pjrtd_job){.run = compile_run, .done = compile_done};
  pjrtd_status *status =
      pjrtd_runtime_submit(compile->call.runtime, compile->call.runtime->compile_lane, &compile->job);
  if (status)
    compile_fail(compile, status);
  else
    compile->submitted = true;
}

static void compile_received(pjrtd_call *call) {
  compile_submit((compile_call *)call);
}

/* Copies what the message's options say; they outlive the message. */
static pjrtd_status *copy_options(compile_call *compile, const Pjrtd__V1__CompileOptions *from) {
  pjrtd_compile_options *to = &compile->options;
  to->num_replicas = to->num_partitions = 1;
  if (!from) return PJRTD_OK;
  if (from->num_replicas) to->num_replicas = from->num_replicas;
  if (from->num_partitions) to->num_partitions = from->num_partitions;
  to->use_spmd_partitioning = from->use_spmd_partitioning;
  to->use_shardy_partitioner = from->use_shardy_partitioner;
  to->use_auto_spmd_partitioning = from->use_auto_spmd_partitioning;
  to->alias_passthrough_params = from->alias_passthrough_params;
  to->parameter_is_tupled_arguments = from->parameter_is_tupled_arguments;
  to->compile_portable_executable = from->compile_portable_executable;
  to->deduplicate_hlo = from->deduplicate_hlo;
  to->exec_time_optimization_effort = from->exec_time_optimization_effort;
  to->memory_fitting_effort = from->memory_fitting_effort;

  to->mesh_shape = pjrtd_memdup(from->auto_spmd_partitioning_mesh_shape,
                                from->n_auto_spmd_partitioning_mesh_shape * sizeof(int64_t));
  to->num_mesh_shape = from->n_auto_spmd_partitioning_mesh_shape;
  to->mesh_ids =
      pjrtd_memdup(from->auto_spmd_partitioning_mesh_ids, from->n_auto_spmd_partitioning_mesh_ids * sizeof(int64_t));
  to->num_mesh_ids = from->n_auto_spmd_partitioning_mesh_ids;
  if (from->n_device_assignment)
    to->device_assignment = pjrtd_memdup(from->device_assignment, from->n_device_assignment * sizeof(int32_t));
  to->num_device_assignment = from->n_device_assignment;
  bool *parameters = pjrtd_calloc(from->n_allow_spmd_sharding_propagation_to_parameters, sizeof *parameters);
  bool *output = pjrtd_calloc(from->n_allow_spmd_sharding_propagation_to_output, sizeof *output);
  to->propagate_to_parameters = parameters;
  to->propagate_to_output = output;
  if (!to->mesh_shape || !to->mesh_ids || (to->num_device_assignment && !to->device_assignment) || !parameters ||
      !output)
    return pjrtd_status_oom();
  for (size_t i = 0; i < from->n_allow_spmd_sharding_propagation_to_parameters; i++)
    parameters[i] = from->allow_spmd_sharding_propagation_to_parameters[i];
  for (size_t i = 0; i < from->n_allow_spmd_sharding_propagation_to_output; i++)
    output[i] = from->allow_spmd_sharding_propagation_to_output[i];
  to->num_propagate_to_parameters = from->n_allow_spmd_sharding_propagation_to_parameters;
  to->num_propagate_to_output = from->n_allow_spmd_sharding_propagation_to_output;

  if (from->n_overrides > MAX_OVERRIDES)
    return PJRTD_INVALID("%zu overrides, at most %d are allowed", from->n_overrides, MAX_OVERRIDES);
  PJRTD_AUTO_FREE pjrtd_value *borrowed = pjrtd_values_of_attributes(from->overrides, from->n_overrides);
  compile->overrides = pjrtd_calloc(from->n_overrides, sizeof *compile->overrides);
  if (!borrowed || !compile->overrides) return pjrtd_status_oom();
  for (size_t i = 0; i < from->n_overrides; i++) {
    pjrtd_value *value = &compile->overrides[i];
    compile->num_overrides = i + 1;
    *value = (pjrtd_value){.kind = borrowed[i].kind, .integer = borrowed[i].integer, .real = borrowed[i].real};
    value->name = pjrtd_strdup(borrowed[i].name);
    if (borrowed[i].text) value->text = pjrtd_strdup(borrowed[i].text);
    if (borrowed[i].num_integers) {
      value->integers = pjrtd_memdup(borrowed[i].integers, borrowed[i].num_integers * sizeof *value->integers);
      value->num_integers = borrowed[i].num_integers;
    }
    if (!value->name || (borrowed[i].text && !value->text) || (borrowed[i].num_integers && !value->integers))
      return pjrtd_status_oom();
  }
  to->overrides = compile->overrides;
  to->num_overrides = compile->num_overrides;
  return PJRTD_OK;
}

static pjrtd_status *check_sizes(const pjrtd_request *request, const Pjrtd__V1__CompileRequest *wanted) {
  uint64_t most = request->peer->runtime->settings->max_program_bytes;
  uint64_t plain = wanted->compression ? wanted->uncompressed_bytes : wanted->code_bytes;
  if (!wanted->code_bytes) return PJRTD_INVALID("the program is empty: code_bytes is 0");
  if (wanted->code_bytes > most || plain > most)
    return pjrtd_status_with_hint(
        pjrtd_status_make(PJRTD_CODE_RESOURCE_EXHAUSTED,
                          "the program has %" PRIu64 " bytes, at most %" PRIu64 " are allowed",
                          wanted->code_bytes > plain ? wanted->code_bytes : plain, most),
        "raise max_program_bytes");
  if (wanted->compression != PJRTD__V1__COMPRESSION__COMPRESSION_NONE &&
      wanted->compression != PJRTD__V1__COMPRESSION__COMPRESSION_ZSTD)
    return PJRTD_INVALID("compression %d does not exist", (int)wanted->compression);
  if (wanted->compression && !wanted->uncompressed_bytes)
    return PJRTD_INVALID("a compressed program needs uncompressed_bytes");
  uint32_t came = request->header->bulk_bytes;
  if (came && came != wanted->code_bytes)
    return PJRTD_INVALID("code_bytes is %" PRIu64 ", but %u bytes came with the request: all or none",
                         wanted->code_bytes, came);
  return PJRTD_OK;
}

/* A program for one device runs where the session's uploads go. */
static pjrtd_status *assign_home(const pjrtd_session *session, pjrtd_compile_options *options) {
  if (options->num_device_assignment || options->num_replicas != 1 || options->num_partitions != 1 ||
      options->compile_portable_executable || session->home == pjrtd_home_first(session->runtime))
    return PJRTD_OK;
  options->device_assignment = pjrtd_memdup(&session->home->id, sizeof session->home->id);
  if (!options->device_assignment) return pjrtd_status_oom();
  options->num_device_assignment = 1;
  return PJRTD_OK;
}

/* Makes room for a source, and fills in what the message alone knows, and the session: where the program runs. Where it
 * cannot, the program does not share. */
static void begin_source(compile_call *compile, const Pjrtd__V1__CompileRequest *wanted) {
  static const Pjrtd__V1__CompileOptions none = PJRTD__V1__COMPILE_OPTIONS__INIT;
  const Pjrtd__V1__CompileOptions *options = wanted->options ? wanted->options : &none;
  bool placed = compile->options.num_device_assignment > 0;
  uint64_t head[] = {(uint64_t)wanted->compression, wanted->uncompressed_bytes,
                     pjrtd__v1__compile_options__get_packed_size(options), placed,
                     placed ? (uint64_t)compile->options.device_assignment[0] : 0};
  if (head[2] > PJRTD_MAX_SOURCE_BYTES || wanted->code_bytes > PJRTD_MAX_SOURCE_BYTES) return;
  compile->source_bytes = sizeof head + head[2] + wanted->code_bytes;
  compile->source = pjrtd_malloc(compile->source_bytes);
  if (!compile->source) return;
  memcpy(compile->source, head, sizeof head);
  pjrtd__v1__compile_options__pack(options, (uint8_t *)compile->source + sizeof head);
}

static pjrtd_status *begin(pjrtd_request *request, const Pjrtd__V1__CompileRequest *wanted, compile_call *compile) {
  PJRTD_TRY(copy_options(compile, wanted->options));
  PJRTD_TRY(assign_home(request->peer->session, &compile->options));
  PJRTD_TRY(pjrtd_compile_options_check(compile->call.runtime->client, &compile->options));
  const char *file_access = pjrtd_compile_options_find_file_access(&compile->options);
  if (file_access) {
    pjrtd_status *status = pjrtd_identity_check(&request->peer->identity, PJRTD_RIGHT_TRUSTED);
    if (status)
      return pjrtd_status_context(status, "override %s lets the compiler use files of the daemon's host", file_access);
  }
  compile->code_bytes = wanted->code_bytes;
  compile->compressed = wanted->compression;
  compile->plain_bytes = wanted->uncompressed_bytes;
  begin_source(compile, wanted);
  if (!request->header->bulk_bytes)
    return pjrtd_staging_create(compile->call.runtime, wanted->code_bytes + 1, "the program's text", &compile->staging);
  compile->code = pjrtd_strndup((const char *)request->bulk, wanted->code_bytes);
  return compile->code ? PJRTD_OK : pjrtd_status_oom();
}

pjrtd_status *pjrtd_handle_program_compile(pjrtd_request *request) {
  const Pjrtd__V1__CompileRequest *wanted = request->message;
  pjrtd_peer *peer = request->peer;
  PJRTD_TRY(pjrtd_session_check_new(peer->session, &peer->ids, PJRTD_ID_PROGRAM, wanted->program));
  pjrtd_program *program;
  PJRTD_TRY(pjrtd_program_create(peer->runtime, &program));
  pjrtd_status *status = pjrtd_session_name_program(peer->session, &peer->ids, wanted->program, program);
  if (status) {
    pjrtd_resource_release(&program->resource);
    return status;
  }
  /* From here on a failure poisons the id. */
  compile_call *compile = NULL;
  status = check_sizes(request, wanted);
  if (!status) status = pjrtd_call_create(request, sizeof *compile, 1, NULL, compile_abandon, &compile);
  if (status) {
    status = pjrtd_status_with_origin(status, request->header->call);
    pjrtd_resource_set_failed(&program->resource, pjrtd_status_retain(status));
    pjrtd_resource_release(&program->resource);
    return status;
  }
  compile->program = program; /* with this function's reference */
  pjrtd_operation_hold(&compile->call.operation, &program->resource, PJRTD_HOLD_WRITE);
  pjrtd_operation_grant_new(&compile->call.operation);
  status = begin(request, wanted, compile);
  if (status)
    compile_fail(compile, status);
  else if (compile->code)
    compile_submit(compile);
  else
    pjrtd_call_receive(&compile->call, compile->staging, wanted->code_bytes, compile_received);
  return PJRTD_OK;
}
