/* Element types and tensor types. Any thread; nothing here allocates but the two that say so. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* The most dimensions that a client may send. */
#define PJRTD_MAX_RANK 64

/* PJRT_Buffer_Type's values (a test holds them against the headers). */
typedef enum {
  PJRTD_DTYPE_INVALID = 0,
  PJRTD_DTYPE_PRED = 1,
  PJRTD_DTYPE_S8 = 2,
  PJRTD_DTYPE_S16 = 3,
  PJRTD_DTYPE_S32 = 4,
  PJRTD_DTYPE_S64 = 5,
  PJRTD_DTYPE_U8 = 6,
  PJRTD_DTYPE_U16 = 7,
  PJRTD_DTYPE_U32 = 8,
  PJRTD_DTYPE_U64 = 9,
  PJRTD_DTYPE_F16 = 10,
  PJRTD_DTYPE_F32 = 11,
  PJRTD_DTYPE_F64 = 12,
  PJRTD_DTYPE_BF16 = 13,
  PJRTD_DTYPE_C64 = 14,
  PJRTD_DTYPE_C128 = 15,
  PJRTD_DTYPE_F8E5M2 = 16,
  PJRTD_DTYPE_F8E4M3FN = 17,
  PJRTD_DTYPE_F8E4M3B11FNUZ = 18,
  PJRTD_DTYPE_F8E5M2FNUZ = 19,
  PJRTD_DTYPE_F8E4M3FNUZ = 20,
  PJRTD_DTYPE_S4 = 21,
  PJRTD_DTYPE_U4 = 22,
  PJRTD_DTYPE_TOKEN = 23,
  PJRTD_DTYPE_S2 = 24,
  PJRTD_DTYPE_U2 = 25,
  PJRTD_DTYPE_F8E4M3 = 26,
  PJRTD_DTYPE_F8E3M4 = 27,
  PJRTD_DTYPE_F8E8M0FNU = 28,
  PJRTD_DTYPE_F4E2M1FN = 29,
  PJRTD_DTYPE_S1 = 30,
  PJRTD_DTYPE_U1 = 31,
  PJRTD_DTYPE_F6E2M3FN = 32,
  PJRTD_DTYPE_F6E3M2FN = 33,
  PJRTD_DTYPE_COUNT = 34,
} pjrtd_dtype;

/* "f32", "s4", "f8e4m3fn"; "invalid" for anything outside the enum. */
const char *pjrtd_dtype_name(pjrtd_dtype dtype);
/* Bytes of one element on the host: 1 for types under 8 bits. 0 where there is no host form (token, invalid). */
uint32_t pjrtd_dtype_host_bytes(pjrtd_dtype dtype);
/* Bits of the value: 4 for s4. Pred is 8. */
uint32_t pjrtd_dtype_bits(pjrtd_dtype dtype);
/* Signed integers under 8 bits: a download of the plugin's must be sign-extended. */
bool pjrtd_dtype_is_signed_subbyte(pjrtd_dtype dtype);

/* A view: `dims` is borrowed from whoever made it. */
typedef struct {
  pjrtd_dtype dtype;
  uint32_t rank;
  const int64_t *dims;
} pjrtd_tensor_type;

/* Checks element type, rank, signs and that the dense host size fits; gives that size. The error names what is wrong:
 * INVALID_ARGUMENT. */
PJRTD_MUST_USE pjrtd_status *pjrtd_tensor_type_check(const pjrtd_tensor_type *type, uint64_t *out_host_bytes);
bool pjrtd_tensor_type_equal(const pjrtd_tensor_type *a, const pjrtd_tensor_type *b);
/* Elements of a checked type. */
uint64_t pjrtd_tensor_type_elements(const pjrtd_tensor_type *type);

/* Writes "f32[2,3]" and returns `buffer`; cuts it short with "..." where it does not fit. */
#define PJRTD_TENSOR_TYPE_TEXT 160
const char *pjrtd_tensor_type_format(const pjrtd_tensor_type *type, char buffer[PJRTD_TENSOR_TYPE_TEXT]);

/* Makes values of a signed sub-byte type, one a byte, zero-extended or not, into sign-extended ones, in place. */
void pjrtd_sign_extend_subbyte(pjrtd_dtype dtype, void *data, uint64_t count);
