/* Element types and sizes, against the protocol's own table. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <string.h>

#include "pjrtd/v1/common.pb-c.h"
#include "tensor_size.h"

Test(element_type, has_the_protocols_values_and_names) {
  const ProtobufCEnumDescriptor *table = &pjrtd__v1__dtype__descriptor;
  cr_assert_eq(table->n_values, PJRTC_DTYPE_COUNT);
  for (unsigned i = 0; i < table->n_values; i++) {
    char name[32];
    const char *full = table->values[i].name + strlen("DTYPE_");
    for (size_t c = 0; c <= strlen(full); c++) name[c] = (char)tolower((unsigned char)full[c]);
    cr_assert_str_eq(pjrtc_dtype_name((pjrtc_dtype)table->values[i].value), name);
    if (i) cr_assert_eq((int)pjrtc_dtype_from_name(name), table->values[i].value);
  }
  cr_assert_eq(pjrtc_dtype_from_name("invalid"), PJRTC_DTYPE_INVALID);
  cr_assert_eq(pjrtc_dtype_from_name("float32"), PJRTC_DTYPE_INVALID);
  cr_assert_str_eq(pjrtc_dtype_name((pjrtc_dtype)99), "invalid");
}

Test(element_type, knows_sizes) {
  uint64_t bytes = 1;
  int64_t dims[] = {2, 0, 3}, small[] = {2, 3};
  cr_assert_eq(pjrtc_type_size(&(pjrtc_type){PJRTC_F32, 3, dims}, &bytes, NULL), PJRTC_OK);
  cr_assert_eq(bytes, 0);
  cr_assert_eq(pjrtc_type_size(&(pjrtc_type){PJRTC_C128, 2, small}, &bytes, NULL), PJRTC_OK);
  cr_assert_eq(bytes, 96);
  cr_assert_eq(pjrtc_type_size(&(pjrtc_type){PJRTC_S4, 2, small}, &bytes, NULL), PJRTC_OK);
  cr_assert_eq(bytes, 6);
  cr_assert_eq(pjrtc_type_size(&(pjrtc_type){PJRTC_F64, 0, NULL}, &bytes, NULL), PJRTC_OK);
  cr_assert_eq(bytes, 8);
}

static const char *complaint(pjrtc_dtype dtype, uint32_t rank, const int64_t *dims) {
  static pjrtc_error error;
  error = (pjrtc_error)PJRTC_ERROR_INIT;
  uint64_t bytes;
  cr_assert_eq(pjrtc_type_size(&(pjrtc_type){dtype, rank, dims}, &bytes, &error), PJRTC_INVALID_ARGUMENT);
  return error.message;
}

Test(element_type, refuses_impossible_types_with_a_reason) {
  cr_assert_str_eq(complaint(PJRTC_F32, 2, (int64_t[]){-1, 4}), "dimension 0 is -1, must be 0 or more");
  cr_assert_str_eq(complaint(PJRTC_F32, 2, (int64_t[]){1ll << 62, 4}),
                   "the size of f32[4611686018427387904,4] overflows 63 bits");
  cr_assert_str_eq(complaint(PJRTC_F32, 3, (int64_t[]){1ll << 62, 4, 0}),
                   "the size of f32[4611686018427387904,4,0] overflows 63 bits");
  cr_assert_str_eq(complaint(PJRTC_TOKEN, 0, NULL), "element type token has no data");
  cr_assert_str_eq(complaint((pjrtc_dtype)34, 0, NULL), "element type 34 does not exist");
  int64_t ones[65];
  for (int i = 0; i < 65; i++) ones[i] = 1;
  cr_assert_str_eq(complaint(PJRTC_F32, 65, ones), "65 dimensions, at most 64 are allowed");
  cr_assert_str_eq(complaint(PJRTC_F32, 1, NULL), "the type has rank 1 and no dimensions");
}

Test(element_type, is_written_within_the_buffer) {
  char text[32];
  int64_t dims[64];
  for (int i = 0; i < 64; i++) dims[i] = 1000;
  cr_assert_str_eq(pjrtc_type_format(&(pjrtc_type){PJRTC_F32, 0, NULL}, text, sizeof text), "f32[]");
  cr_assert_str_eq(pjrtc_type_format(&(pjrtc_type){PJRTC_BF16, 2, dims}, text, sizeof text), "bf16[1000,1000]");
  cr_assert_str_eq(pjrtc_type_format(&(pjrtc_type){PJRTC_F32, 64, dims}, text, sizeof text),
                   "f32[1000,1000,1000,1000...]");
  for (size_t size = 1; size < sizeof text; size++) {
    memset(text, '#', sizeof text);
    pjrtc_type_format(&(pjrtc_type){PJRTC_F8E4M3B11FNUZ, 64, dims}, text, size);
    cr_assert_lt(strnlen(text, size), size);
    cr_assert_eq(text[size], '#');
  }
}
