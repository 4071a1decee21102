/* See tensor_type.h. */
#include "base/tensor_type.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
  const char *name;
  uint8_t host_bytes;
  uint8_t bits;
  bool signed_subbyte;
} dtypes[PJRTD_DTYPE_COUNT] = {
    [PJRTD_DTYPE_INVALID] = {"invalid", 0, 0, false},
    [PJRTD_DTYPE_PRED] = {"pred", 1, 8, false},
    [PJRTD_DTYPE_S8] = {"s8", 1, 8, false},
    [PJRTD_DTYPE_S16] = {"s16", 2, 16, false},
    [PJRTD_DTYPE_S32] = {"s32", 4, 32, false},
    [PJRTD_DTYPE_S64] = {"s64", 8, 64, false},
    [PJRTD_DTYPE_U8] = {"u8", 1, 8, false},
    [PJRTD_DTYPE_U16] = {"u16", 2, 16, false},
    [PJRTD_DTYPE_U32] = {"u32", 4, 32, false},
    [PJRTD_DTYPE_U64] = {"u64", 8, 64, false},
    [PJRTD_DTYPE_F16] = {"f16", 2, 16, false},
    [PJRTD_DTYPE_F32] = {"f32", 4, 32, false},
    [PJRTD_DTYPE_F64] = {"f64", 8, 64, false},
    [PJRTD_DTYPE_BF16] = {"bf16", 2, 16, false},
    [PJRTD_DTYPE_C64] = {"c64", 8, 64, false},
    [PJRTD_DTYPE_C128] = {"c128", 16, 128, false},
    [PJRTD_DTYPE_F8E5M2] = {"f8e5m2", 1, 8, false},
    [PJRTD_DTYPE_F8E4M3FN] = {"f8e4m3fn", 1, 8, false},
    [PJRTD_DTYPE_F8E4M3B11FNUZ] = {"f8e4m3b11fnuz", 1, 8, false},
    [PJRTD_DTYPE_F8E5M2FNUZ] = {"f8e5m2fnuz", 1, 8, false},
    [PJRTD_DTYPE_F8E4M3FNUZ] = {"f8e4m3fnuz", 1, 8, false},
    [PJRTD_DTYPE_S4] = {"s4", 1, 4, true},
    [PJRTD_DTYPE_U4] = {"u4", 1, 4, false},
    [PJRTD_DTYPE_TOKEN] = {"token", 0, 0, false},
    [PJRTD_DTYPE_S2] = {"s2", 1, 2, true},
    [PJRTD_DTYPE_U2] = {"u2", 1, 2, false},
    [PJRTD_DTYPE_F8E4M3] = {"f8e4m3", 1, 8, false},
    [PJRTD_DTYPE_F8E3M4] = {"f8e3m4", 1, 8, false},
    [PJRTD_DTYPE_F8E8M0FNU] = {"f8e8m0fnu", 1, 8, false},
    [PJRTD_DTYPE_F4E2M1FN] = {"f4e2m1fn", 1, 4, false},
    [PJRTD_DTYPE_S1] = {"s1", 1, 1, true},
    [PJRTD_DTYPE_U1] = {"u1", 1, 1, false},
    [PJRTD_DTYPE_F6E2M3FN] = {"f6e2m3fn", 1, 6, false},
    [PJRTD_DTYPE_F6E3M2FN] = {"f6e3m2fn", 1, 6, false},
};

static unsigned index_of(pjrtd_dtype dtype) {
  return (unsigned)dtype < PJRTD_DTYPE_COUNT ? (unsigned)dtype : PJRTD_DTYPE_INVALID;
}

const char *pjrtd_dtype_name(pjrtd_dtype dtype) {
  return dtypes[index_of(dtype)].name;
}
uint32_t pjrtd_dtype_host_bytes(pjrtd_dtype dtype) {
  return dtypes[index_of(dtype)].host_bytes;
}
uint32_t pjrtd_dtype_bits(pjrtd_dtype dtype) {
  return dtypes[index_of(dtype)].bits;
}
bool pjrtd_dtype_is_signed_subbyte(pjrtd_dtype dtype) {
  return dtypes[index_of(dtype)].signed_subbyte;
}

pjrtd_status *pjrtd_tensor_type_check(const pjrtd_tensor_type *type, uint64_t *out_host_bytes) {
  *out_host_bytes = 0;
  uint64_t bytes = pjrtd_dtype_host_bytes(type->dtype);
  if (!bytes) {
    if (type->dtype == PJRTD_DTYPE_TOKEN) return PJRTD_INVALID("element type token has no data to send");
    return pjrtd_status_with_hint(PJRTD_INVALID("element type %d does not exist", (int)type->dtype),
                                  "element types are PJRT_Buffer_Type's 1 to %d", PJRTD_DTYPE_COUNT - 1);
  }
  if (type->rank > PJRTD_MAX_RANK)
    return PJRTD_INVALID("%u dimensions, at most %d are allowed", type->rank, PJRTD_MAX_RANK);
  bool empty = false;
  for (uint32_t i = 0; i < type->rank; i++) {
    if (type->dims[i] < 0) return PJRTD_INVALID("dimension %u is %" PRId64 ", must be 0 or more", i, type->dims[i]);
    empty |= type->dims[i] == 0;
  }
  /* The product of the non-zero dimensions must fit too, since the plugin computes strides from it. */
  for (uint32_t i = 0; i < type->rank; i++) {
    if (type->dims[i] == 0) continue;
    if (__builtin_mul_overflow(bytes, (uint64_t)type->dims[i], &bytes) || bytes > INT64_MAX) {
      char text[PJRTD_TENSOR_TYPE_TEXT];
      return PJRTD_INVALID("the size of %s overflows 63 bits", pjrtd_tensor_type_format(type, text));
    }
  }
  *out_host_bytes = empty ? 0 : bytes;
  return PJRTD_OK;
}

bool pjrtd_tensor_type_equal(const pjrtd_tensor_type *a, const pjrtd_tensor_type *b) {
  return a->dtype == b->dtype && a->rank == b->rank &&
         (a->rank == 0 || memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0);
}

uint64_t pjrtd_tensor_type_elements(const pjrtd_tensor_type *type) {
  uint64_t count = 1;
  for (uint32_t i = 0; i < type->rank; i++) count *= (uint64_t)type->dims[i];
  return count;
}

const char *pjrtd_tensor_type_format(const pjrtd_tensor_type *type, char buffer[PJRTD_TENSOR_TYPE_TEXT]) {
  size_t size = PJRTD_TENSOR_TYPE_TEXT;
  size_t used = (size_t)snprintf(buffer, size, "%s[", pjrtd_dtype_name(type->dtype));
  for (uint32_t i = 0; i < type->rank; i++) {
    char dim[24];
    size_t length = (size_t)snprintf(dim, sizeof dim, "%s%" PRId64, i ? "," : "", type->dims[i]);
    if (used + length + 6 > size) {
      used += (size_t)snprintf(buffer + used, size - used, "...");
      break;
    }
    memcpy(buffer + used, dim, length + 1);
    used += length;
  }
  snprintf(buffer + used, size - used, "]");
  return buffer;
}

void pjrtd_sign_extend_subbyte(pjrtd_dtype dtype, void *data, uint64_t count) {
  unsigned shift = 8 - pjrtd_dtype_bits(dtype);
  int8_t *values = data;
  for (uint64_t i = 0; i < count; i++) values[i] = (int8_t)(int8_t)((uint8_t)values[i] << shift) >> shift;
}
