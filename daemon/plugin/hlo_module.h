/* What pjrtd reads from an optimised HLO module. No plugin call; any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/tensor_type.h"
#include "plugin/plugin.h"
#include "xla_hlo_module.pb-c.h"

typedef struct {
  Xla__ProgramShapeProto *program_shape; /* owned; of the entry computation, with layouts */
  Xla__HloInputOutputAliasProto *alias;  /* owned; NULL: none */
  bool straight_line;
  char first_unbounded[48]; /* the opcode that makes it not straight_line; "" */
} pjrtd_hlo_module;

/* `bytes` are an HloModuleProto, or an HloModuleProtoWithConfig where `with_config`. INTERNAL where they are broken. */
PJRTD_MUST_USE pjrtd_status *pjrtd_hlo_module_read(const uint8_t *bytes, size_t size, bool with_config,
                                                   pjrtd_hlo_module *out_module);
void pjrtd_hlo_module_deinit(pjrtd_hlo_module *module);

/* The parts of a tuple, one level; NULL and `*out_count` 0 where `shape` is none. The caller frees each with
 * pjrtd_hlo_shape_destroy, then the list. */
PJRTD_MUST_USE pjrtd_status *pjrtd_hlo_shape_parts(const Xla__ShapeProto *shape, Xla__ShapeProto ***out_parts,
                                                   size_t *out_count);
void pjrtd_hlo_shape_parts_destroy(Xla__ShapeProto **parts, size_t count);
bool pjrtd_hlo_shape_is_tuple(const Xla__ShapeProto *shape);

/* XLA's PrimitiveType as an element type. INVALID for tuples, opaque types and those that PJRT does not have. */
pjrtd_dtype pjrtd_hlo_dtype(int primitive_type);
/* False where there is no layout, or one that pjrtd_layout cannot hold. */
bool pjrtd_hlo_layout(const Xla__ShapeProto *shape, pjrtd_layout *out_layout);

/* Whether one instruction's time cannot depend on data, on the host, or on other devices (straight_line.c). */
bool pjrtd_opcode_is_straight_line(const char *opcode, size_t length);
