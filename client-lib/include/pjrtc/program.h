/* pjrtc: compiling programs. Part of pjrtc.h. */
#ifndef PJRTC_PROGRAM_H_
#define PJRTC_PROGRAM_H_

#include "client.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pjrtc_compile_options {
  size_t struct_size;
  const void *code; /* StableHLO: text, MLIR bytecode or a portable artifact */
  size_t code_bytes;
  uint64_t timeout_ns;
  /* XLA's executable build options; 0, false and NULL mean its defaults. */
  uint32_t num_replicas;
  uint32_t num_partitions;
  const int32_t *device_assignment; /* device ids, replica-major */
  size_t num_device_assignment;
  bool use_spmd_partitioning;
  bool use_shardy_partitioner;
  bool use_auto_spmd_partitioning;
  bool alias_passthrough_params;
  bool parameter_is_tupled_arguments;
  bool compile_portable_executable;
  bool deduplicate_hlo;
  const int64_t *auto_spmd_partitioning_mesh_shape;
  size_t num_auto_spmd_partitioning_mesh_shape;
  const int64_t *auto_spmd_partitioning_mesh_ids;
  size_t num_auto_spmd_partitioning_mesh_ids;
  const bool *allow_spmd_sharding_propagation_to_parameters;
  size_t num_allow_spmd_sharding_propagation_to_parameters;
  const bool *allow_spmd_sharding_propagation_to_output;
  size_t num_allow_spmd_sharding_propagation_to_output;
  double exec_time_optimization_effort; /* -1 to 1 */
  double memory_fitting_effort;         /* -1 to 1 */
  const pjrtc_attribute *overrides;     /* XLA's own flags by name, "xla_..." */
  size_t num_overrides;
} pjrtc_compile_options;

typedef struct pjrtc_program_tensor {
  size_t struct_size;
  pjrtc_type type;
  const int64_t *minor_to_major; /* device layout, fastest varying dimension first; NULL where not known */
  const char *memory_kind;       /* "" where the plugin does not say */
  const char *unsupported;       /* why it cannot be passed (a tuple, a token); "": it can */
  bool donated;                  /* an argument that the program may consume */
} pjrtc_program_tensor;

typedef struct pjrtc_program_info {
  size_t struct_size;
  const char *name;
  const char *fingerprint; /* the plugin's; not a cache key */
  uint32_t num_replicas;
  uint32_t num_partitions;
  const int32_t *devices; /* ids, in the order of pjrtc_execute's device-major lists */
  size_t num_devices;
  const pjrtc_program_tensor *const *args; /* of one device */
  size_t num_args;
  const pjrtc_program_tensor *const *outputs; /* of one device */
  size_t num_outputs;
  uint64_t generated_code_bytes;
  uint64_t compile_ns; /* 0 from pjrtc_describe, and where the daemon had the same program already */
  bool straight_line;  /* its time does not depend on data: no loop, no host, no collective */
} pjrtc_program_info;

PJRTC_API void pjrtc_program_info_destroy(pjrtc_program_info *info);

/* Compiles a program. `*out_program` is its id, valid for further calls at once. `out_info` may be NULL; else
 * `*out_info` is NULL until the call has succeeded, and the caller's from then on. */
PJRTC_API pjrtc_code pjrtc_compile(pjrtc_client *client, const pjrtc_compile_options *options, uint64_t *out_program,
                                   pjrtc_program_info **out_info, pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_compile_start(pjrtc_client *client, const pjrtc_compile_options *options,
                                         uint64_t *out_program, pjrtc_program_info **out_info,
                                         pjrtc_future **out_future, pjrtc_error *error);

/* Argument and result types, donation, devices. Waits for the compile. */
PJRTC_API pjrtc_code pjrtc_describe(pjrtc_client *client, uint64_t program, pjrtc_program_info **out_info,
                                    pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_describe_start(pjrtc_client *client, uint64_t program, pjrtc_program_info **out_info,
                                          pjrtc_future **out_future, pjrtc_error *error);

/* Releases programs. One that runs goes when it has ended. */
PJRTC_API pjrtc_code pjrtc_release(pjrtc_client *client, const uint64_t *programs, size_t num_programs,
                                   pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_release_start(pjrtc_client *client, const uint64_t *programs, size_t num_programs,
                                         pjrtc_future **out_future, pjrtc_error *error);

#ifdef __cplusplus
}
#endif

#endif /* PJRTC_PROGRAM_H_ */
