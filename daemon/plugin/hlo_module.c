/* Reads an optimised HLO module: shapes, aliasing, and which operations it has.
 *
 * Instructions are walked on the wire, since one may hold a constant of gigabytes; the small messages are decoded. The
 * field numbers here are those of proto/xla_hlo_module.proto, and a test compares both ways of reading. */
#include "plugin/hlo_module.h"

#include <string.h>

#include "plugin/wire_cursor.h"

enum {
  WITH_CONFIG_HLO_MODULE = 1,
  MODULE_COMPUTATIONS = 3,
  MODULE_HOST_PROGRAM_SHAPE = 4,
  MODULE_INPUT_OUTPUT_ALIAS = 8,
  COMPUTATION_INSTRUCTIONS = 2,
  INSTRUCTION_OPCODE = 2,
};

/* A decoder allocates through these, so that tests can make it fail; and is bounded, whatever the bytes say. */
#define MAX_DECODED_BYTES (256u << 20)

static void *decoder_alloc(void *unused, size_t size) {
  return size > MAX_DECODED_BYTES ? NULL : pjrtd_malloc(size);
}
static void decoder_free(void *unused, void *block) {
  pjrtd_free(block);
}
static ProtobufCAllocator decoder_allocator = {.alloc = decoder_alloc, .free = decoder_free};

static pjrtd_status *broken(const char *what) {
  return PJRTD_INTERNAL("the plugin's optimised program cannot be read: %s", what);
}

/* Decodes one sub-message; the last one wins where there are several. */
static pjrtd_status *decode(const ProtobufCMessageDescriptor *descriptor, const pjrtd_wire_field *field,
                            void *out_slot) {
  ProtobufCMessage **slot = out_slot;
  if (!field->is_bytes) return broken("a message is expected where a number is");
  if (*slot) protobuf_c_message_free_unpacked(*slot, &decoder_allocator);
  *slot = protobuf_c_message_unpack(descriptor, &decoder_allocator, field->size, field->bytes);
  return *slot ? PJRTD_OK : broken(descriptor->short_name);
}

static pjrtd_status *walk_instruction(const pjrtd_wire_field *instruction, pjrtd_hlo_module *module) {
  pjrtd_wire_cursor cursor = pjrtd_wire_open(instruction->bytes, instruction->size);
  const char *opcode = "";
  size_t length = 0;
  pjrtd_wire_field field;
  pjrtd_wire_step step;
  while ((step = pjrtd_wire_next(&cursor, &field)) == PJRTD_WIRE_FIELD) {
    if (field.number != INSTRUCTION_OPCODE || !field.is_bytes) continue;
    opcode = (const char *)field.bytes;
    length = field.size;
  }
  if (step == PJRTD_WIRE_BROKEN) return broken("an instruction");
  if (module->straight_line && !pjrtd_opcode_is_straight_line(opcode, length)) {
    module->straight_line = false;
    if (length >= sizeof module->first_unbounded) length = sizeof module->first_unbounded - 1;
    memcpy(module->first_unbounded, opcode, length);
  }
  return PJRTD_OK;
}

static pjrtd_status *walk_computation(const pjrtd_wire_field *computation, pjrtd_hlo_module *module) {
  pjrtd_wire_cursor cursor = pjrtd_wire_open(computation->bytes, computation->size);
  pjrtd_wire_field field;
  pjrtd_wire_step step;
  while ((step = pjrtd_wire_next(&cursor, &field)) == PJRTD_WIRE_FIELD)
    if (field.number == COMPUTATION_INSTRUCTIONS && field.is_bytes) PJRTD_TRY(walk_instruction(&field, module));
  return step == PJRTD_WIRE_BROKEN ? broken("a computation") : PJRTD_OK;
}

static pjrtd_status *walk_module(const uint8_t *bytes, size_t size, pjrtd_hlo_module *module) {
  pjrtd_wire_cursor cursor = pjrtd_wire_open(bytes, size);
  pjrtd_wire_field field;
  pjrtd_wire_step step;
  size_t computations = 0;
  while ((step = pjrtd_wire_next(&cursor, &field)) == PJRTD_WIRE_FIELD) {
    switch (field.number) {
      case MODULE_COMPUTATIONS:
        if (field.is_bytes) PJRTD_TRY(walk_computation(&field, module));
        computations++;
        break;
      case MODULE_HOST_PROGRAM_SHAPE:
        PJRTD_TRY(decode(&xla__program_shape_proto__descriptor, &field, &module->program_shape));
        break;
      case MODULE_INPUT_OUTPUT_ALIAS:
        PJRTD_TRY(decode(&xla__hlo_input_output_alias_proto__descriptor, &field, &module->alias));
        break;
      default: break;
    }
  }
  if (step == PJRTD_WIRE_BROKEN) return broken("the module");
  if (!module->program_shape || !module->program_shape->result) return broken("it has no program shape");
  if (computations == 0) return broken("it has no computation");
  return PJRTD_OK;
}

pjrtd_status *pjrtd_hlo_module_read(const uint8_t *bytes, size_t size, bool with_config, pjrtd_hlo_module *out_module) {
  memset(out_module, 0, sizeof *out_module);
  out_module->straight_line = true;
  const uint8_t *module = bytes;
  size_t module_size = size;
  if (with_config) {
    pjrtd_wire_cursor cursor = pjrtd_wire_open(bytes, size);
    pjrtd_wire_field field;
    pjrtd_wire_step step;
    module = NULL;
    while ((step = pjrtd_wire_next(&cursor, &field)) == PJRTD_WIRE_FIELD) {
      if (field.number != WITH_CONFIG_HLO_MODULE || !field.is_bytes) continue;
      module = field.bytes;
      module_size = field.size;
    }
    if (step == PJRTD_WIRE_BROKEN || !module) return broken("there is no module beside the configuration");
  }
  pjrtd_status *status = walk_module(module, module_size, out_module);
  if (status) pjrtd_hlo_module_deinit(out_module);
  return status;
}

void pjrtd_hlo_module_deinit(pjrtd_hlo_module *module) {
  if (module->program_shape) xla__program_shape_proto__free_unpacked(module->program_shape, &decoder_allocator);
  if (module->alias) xla__hlo_input_output_alias_proto__free_unpacked(module->alias, &decoder_allocator);
  memset(module, 0, sizeof *module);
}

/* ---- shapes ---- */

enum { PRIMITIVE_TUPLE = 13 };

bool pjrtd_hlo_shape_is_tuple(const Xla__ShapeProto *shape) {
  return shape->element_type == PRIMITIVE_TUPLE;
}

pjrtd_status *pjrtd_hlo_shape_parts(const Xla__ShapeProto *shape, Xla__ShapeProto ***out_parts, size_t *out_count) {
  *out_parts = NULL;
  *out_count = 0;
  if (!pjrtd_hlo_shape_is_tuple(shape)) return PJRTD_OK;
  size_t count = shape->n_tuple_shapes;
  Xla__ShapeProto **parts = pjrtd_calloc(count, sizeof *parts);
  if (!parts) return pjrtd_status_oom();
  for (size_t i = 0; i < count; i++) {
    parts[i] = xla__shape_proto__unpack(&decoder_allocator, shape->tuple_shapes[i].len, shape->tuple_shapes[i].data);
    if (parts[i]) continue;
    pjrtd_hlo_shape_parts_destroy(parts, i);
    return broken("a part of a tuple");
  }
  *out_parts = parts;
  *out_count = count;
  return PJRTD_OK;
}

void pjrtd_hlo_shape_parts_destroy(Xla__ShapeProto **parts, size_t count) {
  for (size_t i = 0; parts && i < count; i++) xla__shape_proto__free_unpacked(parts[i], &decoder_allocator);
  pjrtd_free(parts);
}

pjrtd_dtype pjrtd_hlo_dtype(int primitive_type) {
  static const uint8_t dtypes[] = {
      [1] = PJRTD_DTYPE_PRED,        [2] = PJRTD_DTYPE_S8,          [3] = PJRTD_DTYPE_S16,
      [4] = PJRTD_DTYPE_S32,         [5] = PJRTD_DTYPE_S64,         [6] = PJRTD_DTYPE_U8,
      [7] = PJRTD_DTYPE_U16,         [8] = PJRTD_DTYPE_U32,         [9] = PJRTD_DTYPE_U64,
      [10] = PJRTD_DTYPE_F16,        [11] = PJRTD_DTYPE_F32,        [12] = PJRTD_DTYPE_F64,
      [15] = PJRTD_DTYPE_C64,        [16] = PJRTD_DTYPE_BF16,       [17] = PJRTD_DTYPE_TOKEN,
      [18] = PJRTD_DTYPE_C128,       [19] = PJRTD_DTYPE_F8E5M2,     [20] = PJRTD_DTYPE_F8E4M3FN,
      [21] = PJRTD_DTYPE_S4,         [22] = PJRTD_DTYPE_U4,         [23] = PJRTD_DTYPE_F8E4M3B11FNUZ,
      [24] = PJRTD_DTYPE_F8E5M2FNUZ, [25] = PJRTD_DTYPE_F8E4M3FNUZ, [26] = PJRTD_DTYPE_S2,
      [27] = PJRTD_DTYPE_U2,         [28] = PJRTD_DTYPE_F8E4M3,     [29] = PJRTD_DTYPE_F8E3M4,
      [30] = PJRTD_DTYPE_S1,         [31] = PJRTD_DTYPE_U1,         [32] = PJRTD_DTYPE_F4E2M1FN,
      [33] = PJRTD_DTYPE_F8E8M0FNU,  [35] = PJRTD_DTYPE_F6E3M2FN,   [36] = PJRTD_DTYPE_F6E2M3FN,
  };
  return primitive_type > 0 && (size_t)primitive_type < sizeof dtypes ? (pjrtd_dtype)dtypes[primitive_type]
                                                                      : PJRTD_DTYPE_INVALID;
}

bool pjrtd_hlo_layout(const Xla__ShapeProto *shape, pjrtd_layout *out_layout) {
  memset(out_layout, 0, sizeof *out_layout);
  const Xla__LayoutProto *layout = shape->layout;
  if (!layout || layout->n_minor_to_major != shape->n_dimensions || shape->n_dimensions > PJRTD_MAX_RANK ||
      layout->n_tiles > sizeof out_layout->tile_ranks / sizeof *out_layout->tile_ranks)
    return false;
  out_layout->rank = (uint32_t)shape->n_dimensions;
  for (size_t i = 0; i < layout->n_minor_to_major; i++) out_layout->minor_to_major[i] = layout->minor_to_major[i];
  size_t dims = 0;
  for (size_t i = 0; i < layout->n_tiles; i++) {
    const Xla__TileProto *tile = layout->tiles[i];
    if (tile->n_dimensions > sizeof out_layout->tile_dims / sizeof *out_layout->tile_dims - dims) return false;
    out_layout->tile_ranks[i] = (uint32_t)tile->n_dimensions;
    for (size_t j = 0; j < tile->n_dimensions; j++) out_layout->tile_dims[dims++] = tile->dimensions[j];
  }
  out_layout->num_tiles = (uint32_t)layout->n_tiles;
  return true;
}
