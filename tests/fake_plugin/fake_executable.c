/* Compiling, and what a compiled program says of itself. */
#include "fake_executable.h"

#include <stdlib.h>
#include <string.h>

PJRT_Error *fake_Client_Compile(PJRT_Client_Compile_Args *args) {
  fake_client_check(args->client, "Client_Compile");
  FAKE_RULE(args->program && args->program->struct_size == PJRT_Program_STRUCT_SIZE,
            "a program has another struct_size");
  FAKE_RULE(args->program->format_size == 4 && memcmp(args->program->format, "mlir", 4) == 0, "a program is no mlir");
  FAKE_RULE(args->program->code && !args->program->code[args->program->code_size], "a program does not end in a 0");
  FAKE_RULE(args->compile_options || !args->compile_options_size, "Client_Compile was given no options");
  fake_script *own = fake_script_of_text(args->program->code, args->program->code_size);
  FAKE_ENTER(Client_Compile, own);
  fake_module module;
  if (!fake_module_parse(args->program->code, &module))
    return fake_error_text(PJRT_Error_Code_UNKNOWN, "the fake plugin finds no @main that it can read");
  args->executable = NULL;
  if (plan.lies) return NULL; /* no executable, and no error */
  PJRT_LoadedExecutable *loaded = calloc(1, sizeof *loaded);
  fake_object_init(&loaded->object, FAKE_LOADED);
  loaded->module = module;
  loaded->own = own;
  loaded->client = args->client;
  args->executable = loaded;
  return NULL;
}

PJRT_LoadedExecutable *fake_loaded_check(PJRT_LoadedExecutable *loaded, const char *function) {
  fake_object_check(loaded ? &loaded->object : NULL, FAKE_LOADED, function);
  return loaded;
}

static const PJRT_Executable *check(const PJRT_Executable *executable, const char *function) {
  fake_object_check(executable ? &executable->object : NULL, FAKE_EXECUTABLE, function);
  return executable;
}

PJRT_Error *fake_LoadedExecutable_Destroy(PJRT_LoadedExecutable_Destroy_Args *args) {
  PJRT_LoadedExecutable *loaded = fake_loaded_check(args->executable, "LoadedExecutable_Destroy");
  FAKE_ENTER_DESTROY(LoadedExecutable_Destroy, loaded->own);
  FAKE_RULE(!atomic_load(&loaded->users), "a loaded executable was destroyed while it runs");
  fake_object_destroy(&loaded->object, FAKE_LOADED, "LoadedExecutable_Destroy");
  return plan.error;
}

/* `lie`: none, and no error. */
PJRT_Error *fake_LoadedExecutable_GetExecutable(PJRT_LoadedExecutable_GetExecutable_Args *args) {
  PJRT_LoadedExecutable *loaded = fake_loaded_check(args->loaded_executable, "LoadedExecutable_GetExecutable");
  FAKE_ENTER(LoadedExecutable_GetExecutable, loaded->own);
  args->executable = NULL;
  if (plan.lies) return NULL;
  PJRT_Executable *executable = calloc(1, sizeof *executable);
  fake_object_init(&executable->object, FAKE_EXECUTABLE);
  executable->loaded = loaded;
  args->executable = executable;
  return NULL;
}

/* `lie`: that many devices, which are none of the client's. */
PJRT_Error *fake_LoadedExecutable_AddressableDevices(PJRT_LoadedExecutable_AddressableDevices_Args *args) {
  PJRT_LoadedExecutable *loaded = fake_loaded_check(args->executable, "LoadedExecutable_AddressableDevices");
  FAKE_ENTER(LoadedExecutable_AddressableDevices, loaded->own);
  static PJRT_Device stranger;
  static PJRT_Device *strangers[] = {&stranger, &stranger};
  args->addressable_devices = plan.lies ? strangers : loaded->client->list;
  args->num_addressable_devices = plan.lies ? (size_t)plan.lie : 1;
  return NULL;
}

PJRT_Error *fake_Executable_Destroy(PJRT_Executable_Destroy_Args *args) {
  const PJRT_Executable *executable = check(args->executable, "Executable_Destroy");
  FAKE_ENTER_DESTROY(Executable_Destroy, executable->loaded->own);
  fake_object_destroy(&args->executable->object, FAKE_EXECUTABLE, "Executable_Destroy");
  return plan.error;
}

/* `lie`: that many bytes, of a name that is NULL. */
PJRT_Error *fake_Executable_Name(PJRT_Executable_Name_Args *args) {
  const PJRT_Executable *executable = check(args->executable, "Executable_Name");
  FAKE_ENTER(Executable_Name, executable->loaded->own);
  args->executable_name = plan.lies ? NULL : "fake";
  args->executable_name_size = plan.lies ? (size_t)plan.lie : 4;
  return NULL;
}

PJRT_Error *fake_Executable_NumReplicas(PJRT_Executable_NumReplicas_Args *args) {
  const PJRT_Executable *executable = check(args->executable, "Executable_NumReplicas");
  FAKE_ENTER(Executable_NumReplicas, executable->loaded->own);
  args->num_replicas = plan.lies ? (size_t)plan.lie : 1;
  return NULL;
}

PJRT_Error *fake_Executable_NumPartitions(PJRT_Executable_NumPartitions_Args *args) {
  const PJRT_Executable *executable = check(args->executable, "Executable_NumPartitions");
  FAKE_ENTER(Executable_NumPartitions, executable->loaded->own);
  args->num_partitions = plan.lies ? (size_t)plan.lie : 1;
  return NULL;
}

PJRT_Error *fake_Executable_NumOutputs(PJRT_Executable_NumOutputs_Args *args) {
  const PJRT_Executable *executable = check(args->executable, "Executable_NumOutputs");
  FAKE_ENTER(Executable_NumOutputs, executable->loaded->own);
  args->num_outputs = plan.lies ? (size_t)plan.lie : executable->loaded->module.num_outputs;
  return NULL;
}

PJRT_Error *fake_Executable_Fingerprint(PJRT_Executable_Fingerprint_Args *args) {
  const PJRT_Executable *executable = check(args->executable, "Executable_Fingerprint");
  FAKE_ENTER(Executable_Fingerprint, executable->loaded->own);
  args->executable_fingerprint = plan.lies ? NULL : "\xfa\x4e";
  args->executable_fingerprint_size = plan.lies ? (size_t)plan.lie : 2;
  return NULL;
}

/* `lie`: as fake_module_encode says; 20: a size of 2^62, 21: another format, 22: no format, 23: a longer module at the
 * second call than at the first. */
PJRT_Error *fake_Executable_OptimizedProgram(PJRT_Executable_OptimizedProgram_Args *args) {
  const PJRT_Executable *executable = check(args->executable, "Executable_OptimizedProgram");
  FAKE_ENTER(Executable_OptimizedProgram, executable->loaded->own);
  FAKE_RULE(args->program && args->program->struct_size == PJRT_Program_STRUCT_SIZE,
            "a program has another struct_size");
  size_t bytes;
  uint8_t *encoded = fake_module_encode(&executable->loaded->module, plan.lie < 20 ? plan.lie : 0, &bytes);
  if (args->program->code) {
    FAKE_RULE(args->program->code_size == bytes, "Executable_OptimizedProgram was given %zu bytes for %zu",
              args->program->code_size, bytes);
    memcpy(args->program->code, encoded, bytes);
  }
  args->program->code_size = plan.lie == 20                          ? (size_t)1 << 62
                             : plan.lie == 23 && args->program->code ? bytes + 1000
                                                                     : bytes;
  args->program->format = plan.lie == 22 ? NULL : plan.lie == 21 ? "txt" : "hlo";
  args->program->format_size = 3;
  free(encoded);
  return NULL;
}
