/* plugin/hlo_module.c: any bytes either are refused, or give shapes whose parts, types and layouts can be read. */
#include <stdint.h>
#include <stdlib.h>

#include "plugin/hlo_module.h"

static void require(bool claim) {
  if (!claim) abort();
}

static void check_shape(const Xla__ShapeProto *shape) {
  require(pjrtd_hlo_dtype(shape->element_type) < PJRTD_DTYPE_COUNT);
  pjrtd_layout layout;
  if (pjrtd_hlo_layout(shape, &layout)) require(layout.rank == shape->n_dimensions);
}

static void check(const uint8_t *bytes, size_t size, bool with_config) {
  pjrtd_hlo_module module;
  pjrtd_status *status = pjrtd_hlo_module_read(bytes, size, with_config, &module);
  if (status) {
    require(!module.program_shape && !module.alias);
    pjrtd_status_destroy(status);
    return;
  }
  require(module.program_shape && module.program_shape->result);
  require(module.straight_line || module.first_unbounded[sizeof module.first_unbounded - 1] == 0);
  for (size_t i = 0; i < module.program_shape->n_parameters; i++) check_shape(module.program_shape->parameters[i]);
  check_shape(module.program_shape->result);
  Xla__ShapeProto **parts;
  size_t count;
  status = pjrtd_hlo_shape_parts(module.program_shape->result, &parts, &count);
  for (size_t i = 0; !status && i < count; i++) check_shape(parts[i]);
  pjrtd_hlo_shape_parts_destroy(parts, count);
  pjrtd_status_destroy(status);
  pjrtd_hlo_module_deinit(&module);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  check(bytes, size, true);
  check(bytes, size, false);
  return 0;
}
