/* Compiling, and the life of an executable. Compile threads; see plugin.h for each. */
#include <string.h>

#include "plugin/division_trap.h"
#include "plugin/executable_internal.h"

/* XLA's CPU plugin of this version folds x/0 right. */
#define FOLDS_DIVISIONS_MINOR 115

static bool is_bytecode(const char *code, size_t code_bytes) {
  return code_bytes >= 4 && memcmp(code, "ML\xefR", 4) == 0;
}

static pjrtd_status *check_code(const char *code, size_t code_bytes) {
  if (code_bytes == 0)
    return pjrtd_status_with_hint(PJRTD_INVALID("the program is empty"),
                                  "send StableHLO as text, as MLIR bytecode or as a portable artifact");
  /* The parser stops at a NUL, so what follows one would be dropped silently. */
  const char *nul = is_bytecode(code, code_bytes) ? NULL : memchr(code, 0, code_bytes);
  if (nul)
    return pjrtd_status_with_hint(
        PJRTD_INVALID("the program is text, but has a NUL byte at offset %zu", (size_t)(nul - code)),
        "MLIR bytecode and portable artifacts begin with the bytes 4d 4c ef 52");
  return PJRTD_OK;
}

static pjrtd_status *divided_by_zero(const pjrtd_plugin *plugin) {
  return pjrtd_status_with_hint(
      pjrtd_status_make(PJRTD_CODE_UNIMPLEMENTED,
                        "the program divides constants by zero, which the compiler of this plugin cannot do (it speaks "
                        "PJRT %d.%d; those of PJRT 0.%d can)",
                        plugin->info.api_major, plugin->info.api_minor, FOLDS_DIVISIONS_MINOR),
      "pass one of the operands as an argument, or install a newer plugin");
}

static pjrtd_status *compile(pjrtd_client *client, const char *code, size_t code_bytes,
                             const pjrtd_compile_options *options, PJRT_LoadedExecutable **out_handle) {
  PJRTD_AUTO_FREE uint8_t *encoded = NULL;
  size_t encoded_bytes;
  PJRTD_TRY(pjrtd_compile_options_encode(client, options, &encoded, &encoded_bytes));
  PJRT_Program program = {.struct_size = PJRT_Program_STRUCT_SIZE,
                          .code = (char *)code,
                          .code_size = code_bytes,
                          .format = "mlir",
                          .format_size = 4};
  PJRTD_ARGS(Client_Compile, args, .client = client->handle, .program = &program,
             .compile_options = (const char *)encoded, .compile_options_size = encoded_bytes);
  pjrtd_division_trap trap;
  pjrtd_division_trap_begin(&trap);
  pjrtd_status *status = PJRTD_CALL(client->plugin, Client_Compile, args);
  pjrtd_division_trap_end(&trap);
  if (!status) *out_handle = args.executable;
  if (trap.divisions) {
    pjrtd_status_ignore(status);
    return divided_by_zero(client->plugin);
  }
  if (status)
    return pjrtd_status_code(status) == PJRTD_CODE_UNKNOWN ? pjrtd_status_with_code(status, PJRTD_CODE_INVALID_ARGUMENT)
                                                           : status;
  if (!*out_handle) return PJRTD_INTERNAL("the plugin made no program, and gave no error");
  return PJRTD_OK;
}

static pjrtd_status *make(pjrtd_client *client, const char *code, size_t code_bytes,
                          const pjrtd_compile_options *options, pjrtd_executable **out_executable) {
  PJRTD_AUTO(pjrtd_executable) executable = pjrtd_calloc(1, sizeof *executable);
  if (!executable) return pjrtd_status_oom();
  executable->client = client;
  executable->parameters_in_one_tuple = options->parameter_is_tupled_arguments;
  PJRTD_TRY(compile(client, code, code_bytes, options, &executable->handle));
  PJRTD_TRY(pjrtd_executable_read_info(executable), "reading the compiled program");
  *out_executable = PJRTD_TAKE(executable);
  return PJRTD_OK;
}

/* The partitioner aborts the process on a list that is neither one entry nor one for each parameter or result. The
 * number of them is known once the program is compiled, so where it matters that is done first, without the lists. */
static pjrtd_status *check_propagation(pjrtd_client *client, const char *code, size_t code_bytes,
                                       const pjrtd_compile_options *options) {
  size_t to_parameters = options->num_propagate_to_parameters, to_output = options->num_propagate_to_output;
  if (!options->use_spmd_partitioning || (to_parameters <= 1 && to_output <= 1)) return PJRTD_OK;
  pjrtd_compile_options without = *options;
  without.num_propagate_to_parameters = without.num_propagate_to_output = 0;
  PJRTD_AUTO(pjrtd_executable) executable = NULL;
  PJRTD_TRY(make(client, code, code_bytes, &without, &executable));
  if (to_parameters > 1 && to_parameters != executable->info.num_args)
    return PJRTD_INVALID("allow_spmd_sharding_propagation_to_parameters has %zu entries, the program has %zu arguments",
                         to_parameters, executable->info.num_args);
  if (to_output > 1 && to_output != executable->info.num_outputs)
    return PJRTD_INVALID("allow_spmd_sharding_propagation_to_output has %zu entries, the program has %zu results",
                         to_output, executable->info.num_outputs);
  return PJRTD_OK;
}

pjrtd_status *pjrtd_executable_compile(pjrtd_client *client, const char *code, size_t code_bytes,
                                       const pjrtd_compile_options *options, pjrtd_executable **out_executable) {
  *out_executable = NULL;
  static const pjrtd_compile_options defaults;
  if (!options) options = &defaults;
  PJRTD_TRY(check_code(code, code_bytes));
  PJRTD_TRY(pjrtd_compile_options_check(client, options));
  PJRTD_TRY(check_propagation(client, code, code_bytes, options));
  return make(client, code, code_bytes, options, out_executable);
}

void pjrtd_executable_destroy(pjrtd_executable *executable) {
  if (!executable) return;
  if (executable->handle) {
    PJRTD_ARGS(LoadedExecutable_Destroy, args, .executable = executable->handle);
    pjrtd_status_ignore(PJRTD_CALL(executable->client->plugin, LoadedExecutable_Destroy, args));
  }
  pjrtd_executable_deinit_info(executable);
  pjrtd_free(executable);
}

const pjrtd_program_info *pjrtd_executable_get_info(const pjrtd_executable *executable) {
  return &executable->info;
}
