/* Element and tensor types of the public header. Any thread; nothing here allocates on success. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "failure.h"
#include "tensor_size.h"

static const struct {
  const char *name;
  uint8_t host_bytes;
  uint8_t bits;
} dtypes[PJRTC_DTYPE_COUNT] = {
    [PJRTC_DTYPE_INVALID] = {"invalid", 0, 0},
    [PJRTC_PRED] = {"pred", 1, 8},
    [PJRTC_S8] = {"s8", 1, 8},
    [PJRTC_S16] = {"s16", 2, 16},
    [PJRTC_S32] = {"s32", 4, 32},
    [PJRTC_S64] = {"s64", 8, 64},
    [PJRTC_U8] = {"u8", 1, 8},
    [PJRTC_U16] = {"u16", 2, 16},
    [PJRTC_U32] = {"u32", 4, 32},
    [PJRTC_U64] = {"u64", 8, 64},
    [PJRTC_F16] = {"f16", 2, 16},
    [PJRTC_F32] = {"f32", 4, 32},
    [PJRTC_F64] = {"f64", 8, 64},
    [PJRTC_BF16] = {"bf16", 2, 16},
    [PJRTC_C64] = {"c64", 8, 64},
    [PJRTC_C128] = {"c128", 16, 128},
    [PJRTC_F8E5M2] = {"f8e5m2", 1, 8},
    [PJRTC_F8E4M3FN] = {"f8e4m3fn", 1, 8},
    [PJRTC_F8E4M3B11FNUZ] = {"f8e4m3b11fnuz", 1, 8},
    [PJRTC_F8E5M2FNUZ] = {"f8e5m2fnuz", 1, 8},
    [PJRTC_F8E4M3FNUZ] = {"f8e4m3fnuz", 1, 8},
    [PJRTC_S4] = {"s4", 1, 4},
    [PJRTC_U4] = {"u4", 1, 4},
    [PJRTC_TOKEN] = {"token", 0, 0},
    [PJRTC_S2] = {"s2", 1, 2},
    [PJRTC_U2] = {"u2", 1, 2},
    [PJRTC_F8E4M3] = {"f8e4m3", 1, 8},
    [PJRTC_F8E3M4] = {"f8e3m4", 1, 8},
    [PJRTC_F8E8M0FNU] = {"f8e8m0fnu", 1, 8},
    [PJRTC_F4E2M1FN] = {"f4e2m1fn", 1, 4},
    [PJRTC_S1] = {"s1", 1, 1},
    [PJRTC_U1] = {"u1", 1, 1},
    [PJRTC_F6E2M3FN] = {"f6e2m3fn", 1, 6},
    [PJRTC_F6E3M2FN] = {"f6e3m2fn", 1, 6},
};

static unsigned index_of(pjrtc_dtype dtype) {
  return (unsigned)dtype < PJRTC_DTYPE_COUNT ? (unsigned)dtype : PJRTC_DTYPE_INVALID;
}

const char *pjrtc_dtype_name(pjrtc_dtype dtype) {
  return dtypes[index_of(dtype)].name;
}
uint32_t pjrtc_dtype_host_bytes(pjrtc_dtype dtype) {
  return dtypes[index_of(dtype)].host_bytes;
}
uint32_t pjrtc_dtype_bits(pjrtc_dtype dtype) {
  return dtypes[index_of(dtype)].bits;
}

pjrtc_dtype pjrtc_dtype_from_name(const char *name) {
  for (unsigned i = 1; name && i < PJRTC_DTYPE_COUNT; i++)
    if (strcmp(dtypes[i].name, name) == 0) return (pjrtc_dtype)i;
  return PJRTC_DTYPE_INVALID;
}

bool pjrtc_tensor_size(pjrtc_dtype dtype, uint32_t rank, const int64_t *dims, uint64_t *out_size_bytes) {
  *out_size_bytes = 0;
  uint64_t bytes = pjrtc_dtype_host_bytes(dtype);
  if (!bytes || rank > PJRTC_MAX_RANK) return false;
  bool empty = false;
  for (uint32_t i = 0; i < rank; i++) {
    if (dims[i] < 0) return false;
    if (dims[i] == 0) empty = true;
    /* The product of the other dimensions must fit too, since strides are computed from it. */
    else if (__builtin_mul_overflow(bytes, (uint64_t)dims[i], &bytes) || bytes > INT64_MAX)
      return false;
  }
  *out_size_bytes = empty ? 0 : bytes;
  return true;
}

static pjrtc_failure *explain(const pjrtc_type *type) {
  if (type->dtype == PJRTC_TOKEN)
    return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, NULL, "element type token has no data");
  if (!pjrtc_dtype_host_bytes(type->dtype))
    return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, NULL, "element type %d does not exist", (int)type->dtype);
  if (type->rank > PJRTC_MAX_RANK)
    return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, NULL, "%" PRIu32 " dimensions, at most %d are allowed",
                              type->rank, PJRTC_MAX_RANK);
  for (uint32_t i = 0; i < type->rank; i++)
    if (type->dims[i] < 0)
      return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, NULL, "dimension %" PRIu32 " is %" PRId64 ", must be 0 or more",
                                i, type->dims[i]);
  char text[160];
  return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, NULL, "the size of %s overflows 63 bits",
                            pjrtc_type_format(type, text, sizeof text));
}

pjrtc_failure *pjrtc_tensor_check(const pjrtc_type *type, uint64_t *out_size_bytes) {
  if (type->rank && !type->dims)
    return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, NULL, "the type has rank %" PRIu32 " and no dimensions",
                              type->rank);
  return pjrtc_tensor_size(type->dtype, type->rank, type->dims, out_size_bytes) ? NULL : explain(type);
}

pjrtc_code pjrtc_type_size(const pjrtc_type *type, uint64_t *out_size_bytes, pjrtc_error *error) {
  return pjrtc_failure_finish(pjrtc_tensor_check(type, out_size_bytes), error);
}

char *pjrtc_type_format(const pjrtc_type *type, char *buffer, size_t buffer_size) {
  if (!buffer_size) return buffer;
  size_t used = (size_t)snprintf(buffer, buffer_size, "%s[", pjrtc_dtype_name(type->dtype));
  for (uint32_t i = 0; i < type->rank && used < buffer_size; i++) {
    char dim[24];
    size_t length = (size_t)snprintf(dim, sizeof dim, "%s%" PRId64, i ? "," : "", type->dims[i]);
    if (used + length + sizeof "...]" > buffer_size) {
      used += (size_t)snprintf(buffer + used, buffer_size - used, "...");
      break;
    }
    memcpy(buffer + used, dim, length + 1);
    used += length;
  }
  if (used < buffer_size) snprintf(buffer + used, buffer_size - used, "]");
  return buffer;
}
