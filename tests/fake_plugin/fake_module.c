/* Programs: what @main takes and gives, read from a module's text, and as an HLO module's bytes. */
#include <stdlib.h>
#include <string.h>

#include "fake_plugin.h"

static const struct {
  const char *text;
  PJRT_Buffer_Type type;
  size_t bytes;
  int primitive; /* XLA's number of it */
} elements[] = {
    {"f32", PJRT_Buffer_Type_F32, 4, 11}, {"i32", PJRT_Buffer_Type_S32, 4, 4}, {"ui8", PJRT_Buffer_Type_U8, 1, 6}};
enum { ELEMENTS = sizeof elements / sizeof *elements };

size_t fake_element_bytes(PJRT_Buffer_Type type) {
  for (size_t i = 0; i < ELEMENTS; i++)
    if (elements[i].type == type) return elements[i].bytes;
  return 0;
}

size_t fake_tensor_bytes(const fake_tensor *tensor) {
  size_t bytes = fake_element_bytes(tensor->type);
  for (size_t i = 0; i < tensor->rank; i++) bytes *= (size_t)tensor->dims[i];
  return bytes;
}

bool fake_tensor_equal(const fake_tensor *a, const fake_tensor *b) {
  return a->type == b->type && a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

/* ---- reading ---- */

/* Behind "tensor<": "2x3xf32>". NULL where it is something else. */
static const char *parse_tensor(const char *at, fake_tensor *out) {
  memset(out, 0, sizeof *out);
  out->alias = -1;
  char *end;
  while (*at >= '0' && *at <= '9') {
    if (out->rank == FAKE_MAX_RANK) return NULL;
    out->dims[out->rank++] = strtoll(at, &end, 10);
    if (*end != 'x') return NULL;
    at = end + 1;
  }
  for (size_t i = 0; i < ELEMENTS; i++) {
    size_t length = strlen(elements[i].text);
    if (strncmp(at, elements[i].text, length) != 0 || at[length] != '>') continue;
    out->type = elements[i].type;
    return at + length + 1;
  }
  return NULL;
}

/* The tensors from `at` to `end`, with the aliases that stand behind them. */
static bool parse_tensors(const char *at, const char *end, fake_tensor *out, size_t *out_count) {
  static const char mark[] = "tensor<", alias[] = "tf.aliasing_output = ";
  for (*out_count = 0; (at = strstr(at, mark)) && at < end;) {
    if (*out_count == FAKE_MAX_TENSORS) return false;
    fake_tensor *tensor = &out[*out_count];
    at = parse_tensor(at + sizeof mark - 1, tensor);
    if (!at) return false;
    const char *aliased = strstr(at, alias), *next = strstr(at, mark);
    if (aliased && aliased < end && (!next || aliased < next)) tensor->alias = atoi(aliased + sizeof alias - 1);
    ++*out_count;
  }
  return true;
}

bool fake_module_parse(const char *text, fake_module *out) {
  memset(out, 0, sizeof *out);
  const char *args = strstr(text, "@main(");
  const char *args_end = args ? strstr(args, ") -> ") : NULL;
  const char *body = args ? strstr(args, args_end ? ") -> " : ") {") : NULL;
  if (!body) return false;
  out->loops = strstr(text, "stablehlo.while");
  if (!parse_tensors(args, body, out->args, &out->num_args)) return false;
  return !args_end ||
         parse_tensors(args_end, strchr(args_end, '\n') ? strchr(args_end, '\n') : args_end + strlen(args_end),
                       out->outputs, &out->num_outputs);
}

/* ---- writing: protobuf, with XLA's field numbers ---- */

typedef struct {
  uint8_t bytes[1 << 16];
  size_t used;
} writer;

static void put_varint(writer *out, uint64_t value) {
  do {
    FAKE_RULE(out->used < sizeof out->bytes, "the fake plugin's module has no room");
    out->bytes[out->used++] = (uint8_t)(value & 0x7F) | (value > 0x7F ? 0x80 : 0);
  } while (value >>= 7);
}
static void put_number(writer *out, unsigned field, uint64_t value) {
  put_varint(out, field << 3);
  put_varint(out, value);
}
static void put_bytes(writer *out, unsigned field, const void *bytes, size_t size) {
  put_varint(out, field << 3 | 2);
  put_varint(out, size);
  FAKE_RULE(size <= sizeof out->bytes - out->used, "the fake plugin's module has no room");
  memcpy(out->bytes + out->used, bytes, size);
  out->used += size;
}
static void put_message(writer *out, unsigned field, writer *message) {
  put_bytes(out, field, message->bytes, message->used);
  free(message);
}
static writer *start(void) {
  return calloc(1, sizeof(writer));
}

static writer *shape_of(const fake_tensor *tensor, int64_t lie) {
  writer *shape = start();
  for (size_t i = 0; i < ELEMENTS; i++)
    if (elements[i].type == tensor->type) put_number(shape, 2, lie == 6 ? 99 : (uint64_t)elements[i].primitive);
  for (size_t i = 0; i < tensor->rank; i++)
    put_number(shape, 3, lie == 3 ? UINT64_MAX : lie == 7 ? (uint64_t)INT64_MAX : (uint64_t)tensor->dims[i]);
  for (int i = 0; lie == 5 && i < 100; i++) put_number(shape, 3, 1);
  return shape;
}

static writer *result_of(const fake_module *module, int64_t lie) {
  if (module->num_outputs == 1 && lie != 4 && lie != 8) return shape_of(&module->outputs[0], lie);
  writer *tuple = start();
  put_number(tuple, 2, 13);
  for (size_t i = 0; lie != 8 && i < module->num_outputs + (lie == 4); i++) {
    writer *part = shape_of(&module->outputs[i < module->num_outputs ? i : 0], lie);
    put_message(tuple, 4, part);
  }
  return tuple;
}

static writer *alias_of(int output, bool in_tuple, size_t argument) {
  writer *entry = start(), *aliases = start();
  uint8_t index = (uint8_t)output;
  if (in_tuple) put_bytes(entry, 1, &index, 1);
  put_number(entry, 2, argument);
  put_number(entry, 4, 1);
  put_message(aliases, 1, entry);
  return aliases;
}

uint8_t *fake_module_encode(const fake_module *module, int64_t lie, size_t *out_bytes) {
  writer *out = start(), *computation = start(), *instruction = start(), *shape = start();
  const char *opcode = module->loops ? "while" : "add";
  put_bytes(out, 1, "fake", 4);
  put_bytes(instruction, 2, opcode, strlen(opcode));
  put_message(computation, 2, instruction);
  put_message(out, 3, computation);
  for (size_t i = 0; i < module->num_args; i++) put_message(shape, 1, shape_of(&module->args[i], 0));
  put_message(shape, 2, result_of(module, lie));
  put_message(out, 4, shape);
  for (size_t i = 0; i < module->num_args; i++)
    if (module->args[i].alias >= 0) put_message(out, 8, alias_of(module->args[i].alias, module->num_outputs != 1, i));
  if (lie == 9) put_message(out, 8, alias_of(0, false, 1u << 20));
  *out_bytes = lie == 2 ? out->used / 2 : out->used;
  uint8_t *bytes = malloc(out->used);
  memcpy(bytes, out->bytes, out->used);
  if (lie == 1) memset(bytes, 0xFF, out->used);
  free(out);
  return bytes;
}
