/* base/tensor_type.c. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/tensor_type.h"

static pjrtd_tensor_type type_of(pjrtd_dtype dtype, uint32_t rank, const int64_t *dims) {
  return (pjrtd_tensor_type){.dtype = dtype, .rank = rank, .dims = dims};
}
#define TYPE(dtype, ...) \
  type_of((dtype), sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})

static void check_bytes(pjrtd_tensor_type type, uint64_t expected) {
  uint64_t bytes = 99;
  PJRTD_AUTO(pjrtd_status) status = pjrtd_tensor_type_check(&type, &bytes);
  cr_assert_null(status, "%s", pjrtd_status_message(status));
  cr_assert_eq(bytes, expected);
}

static void check_refused(pjrtd_tensor_type type, const char *message) {
  uint64_t bytes = 99;
  PJRTD_AUTO(pjrtd_status) status = pjrtd_tensor_type_check(&type, &bytes);
  cr_assert_not_null(status, "%s", message);
  cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_INVALID_ARGUMENT);
  cr_assert_str_eq(pjrtd_status_message(status), message);
  cr_assert_eq(bytes, 0);
}

Test(tensor_type, knows_name_size_and_bits_of_each_element_type) {
  static const struct {
    pjrtd_dtype dtype;
    const char *name;
    uint32_t host_bytes, bits;
    bool signed_subbyte;
  } rows[] = {
      {PJRTD_DTYPE_PRED, "pred", 1, 8, false},
      {PJRTD_DTYPE_S1, "s1", 1, 1, true},
      {PJRTD_DTYPE_S2, "s2", 1, 2, true},
      {PJRTD_DTYPE_S4, "s4", 1, 4, true},
      {PJRTD_DTYPE_S8, "s8", 1, 8, false},
      {PJRTD_DTYPE_S16, "s16", 2, 16, false},
      {PJRTD_DTYPE_S32, "s32", 4, 32, false},
      {PJRTD_DTYPE_S64, "s64", 8, 64, false},
      {PJRTD_DTYPE_U1, "u1", 1, 1, false},
      {PJRTD_DTYPE_U2, "u2", 1, 2, false},
      {PJRTD_DTYPE_U4, "u4", 1, 4, false},
      {PJRTD_DTYPE_U8, "u8", 1, 8, false},
      {PJRTD_DTYPE_U16, "u16", 2, 16, false},
      {PJRTD_DTYPE_U32, "u32", 4, 32, false},
      {PJRTD_DTYPE_U64, "u64", 8, 64, false},
      {PJRTD_DTYPE_F16, "f16", 2, 16, false},
      {PJRTD_DTYPE_BF16, "bf16", 2, 16, false},
      {PJRTD_DTYPE_F32, "f32", 4, 32, false},
      {PJRTD_DTYPE_F64, "f64", 8, 64, false},
      {PJRTD_DTYPE_C64, "c64", 8, 64, false},
      {PJRTD_DTYPE_C128, "c128", 16, 128, false},
      {PJRTD_DTYPE_F4E2M1FN, "f4e2m1fn", 1, 4, false},
      {PJRTD_DTYPE_F6E2M3FN, "f6e2m3fn", 1, 6, false},
      {PJRTD_DTYPE_F6E3M2FN, "f6e3m2fn", 1, 6, false},
      {PJRTD_DTYPE_F8E3M4, "f8e3m4", 1, 8, false},
      {PJRTD_DTYPE_F8E4M3, "f8e4m3", 1, 8, false},
      {PJRTD_DTYPE_F8E4M3FN, "f8e4m3fn", 1, 8, false},
      {PJRTD_DTYPE_F8E4M3FNUZ, "f8e4m3fnuz", 1, 8, false},
      {PJRTD_DTYPE_F8E4M3B11FNUZ, "f8e4m3b11fnuz", 1, 8, false},
      {PJRTD_DTYPE_F8E5M2, "f8e5m2", 1, 8, false},
      {PJRTD_DTYPE_F8E5M2FNUZ, "f8e5m2fnuz", 1, 8, false},
      {PJRTD_DTYPE_F8E8M0FNU, "f8e8m0fnu", 1, 8, false},
      {PJRTD_DTYPE_TOKEN, "token", 0, 0, false},
      {PJRTD_DTYPE_INVALID, "invalid", 0, 0, false},
  };
  cr_assert_eq(sizeof rows / sizeof *rows, PJRTD_DTYPE_COUNT, "a type has no row");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    cr_assert_str_eq(pjrtd_dtype_name(rows[i].dtype), rows[i].name);
    cr_assert_eq(pjrtd_dtype_host_bytes(rows[i].dtype), rows[i].host_bytes, "%s", rows[i].name);
    cr_assert_eq(pjrtd_dtype_bits(rows[i].dtype), rows[i].bits, "%s", rows[i].name);
    cr_assert_eq(pjrtd_dtype_is_signed_subbyte(rows[i].dtype), rows[i].signed_subbyte, "%s", rows[i].name);
  }
}

Test(tensor_type, reads_numbers_outside_the_enum_as_invalid) {
  cr_assert_str_eq(pjrtd_dtype_name((pjrtd_dtype)PJRTD_DTYPE_COUNT), "invalid");
  cr_assert_str_eq(pjrtd_dtype_name((pjrtd_dtype)-1), "invalid");
  cr_assert_eq(pjrtd_dtype_host_bytes((pjrtd_dtype)1000), 0);
}

Test(tensor_type, sizes_scalars_arrays_and_empty_ones) {
  check_bytes(type_of(PJRTD_DTYPE_F32, 0, NULL), 4);
  check_bytes(TYPE(PJRTD_DTYPE_F32, 2, 3), 24);
  check_bytes(TYPE(PJRTD_DTYPE_C128, 5), 80);
  check_bytes(TYPE(PJRTD_DTYPE_S4, 7), 7);
  check_bytes(TYPE(PJRTD_DTYPE_F64, 3, 0, 5), 0);
  check_bytes(TYPE(PJRTD_DTYPE_U8, INT64_MAX), INT64_MAX);
}

Test(tensor_type, refuses_what_has_no_host_form) {
  check_refused(type_of(PJRTD_DTYPE_TOKEN, 0, NULL), "element type token has no data to send");
  check_refused(type_of(PJRTD_DTYPE_INVALID, 0, NULL), "element type 0 does not exist");
  check_refused(type_of((pjrtd_dtype)77, 0, NULL), "element type 77 does not exist");
  check_refused(type_of((pjrtd_dtype)-3, 0, NULL), "element type -3 does not exist");
}

Test(tensor_type, refuses_negative_and_too_many_dimensions) {
  check_refused(TYPE(PJRTD_DTYPE_F32, 2, -1), "dimension 1 is -1, must be 0 or more");
  int64_t dims[PJRTD_MAX_RANK + 1];
  for (int i = 0; i <= PJRTD_MAX_RANK; i++) dims[i] = 1;
  check_bytes(type_of(PJRTD_DTYPE_F32, PJRTD_MAX_RANK, dims), 4);
  check_refused(type_of(PJRTD_DTYPE_F32, PJRTD_MAX_RANK + 1, dims), "65 dimensions, at most 64 are allowed");
}

Test(tensor_type, refuses_sizes_that_overflow_even_with_an_empty_dimension) {
  check_refused(TYPE(PJRTD_DTYPE_F32, INT64_MAX), "the size of f32[9223372036854775807] overflows 63 bits");
  check_refused(TYPE(PJRTD_DTYPE_U8, (int64_t)1 << 32, (int64_t)1 << 31),
                "the size of u8[4294967296,2147483648] overflows 63 bits");
  check_refused(TYPE(PJRTD_DTYPE_U8, (int64_t)1 << 40, 0, (int64_t)1 << 40),
                "the size of u8[1099511627776,0,1099511627776] overflows 63 bits");
}

Test(tensor_type, compares_type_rank_and_dimensions) {
  pjrtd_tensor_type a = TYPE(PJRTD_DTYPE_F32, 2, 3), same = TYPE(PJRTD_DTYPE_F32, 2, 3);
  pjrtd_tensor_type turned = TYPE(PJRTD_DTYPE_F32, 3, 2), longer = TYPE(PJRTD_DTYPE_F32, 2, 3, 1);
  pjrtd_tensor_type other = TYPE(PJRTD_DTYPE_S32, 2, 3);
  pjrtd_tensor_type scalar = type_of(PJRTD_DTYPE_F32, 0, NULL);
  cr_assert(pjrtd_tensor_type_equal(&a, &same));
  cr_assert_not(pjrtd_tensor_type_equal(&a, &turned));
  cr_assert_not(pjrtd_tensor_type_equal(&a, &longer));
  cr_assert_not(pjrtd_tensor_type_equal(&a, &other));
  cr_assert(pjrtd_tensor_type_equal(&scalar, &scalar));
  cr_assert_eq(pjrtd_tensor_type_elements(&a), 6);
  cr_assert_eq(pjrtd_tensor_type_elements(&scalar), 1);
}

Test(tensor_type, formats_as_programs_spell_it) {
  char text[PJRTD_TENSOR_TYPE_TEXT];
  pjrtd_tensor_type matrix = TYPE(PJRTD_DTYPE_BF16, 2, 0, 3), scalar = type_of(PJRTD_DTYPE_PRED, 0, NULL);
  cr_assert_str_eq(pjrtd_tensor_type_format(&matrix, text), "bf16[2,0,3]");
  cr_assert_str_eq(pjrtd_tensor_type_format(&scalar, text), "pred[]");
}

Test(tensor_type, cuts_a_long_format_within_its_bound) {
  int64_t dims[PJRTD_MAX_RANK];
  for (int i = 0; i < PJRTD_MAX_RANK; i++) dims[i] = INT64_MIN;
  for (uint32_t rank = 0; rank <= PJRTD_MAX_RANK; rank++) {
    char text[PJRTD_TENSOR_TYPE_TEXT + 1];
    text[PJRTD_TENSOR_TYPE_TEXT] = '#';
    pjrtd_tensor_type type = type_of(PJRTD_DTYPE_F8E4M3B11FNUZ, rank, dims);
    pjrtd_tensor_type_format(&type, text);
    cr_assert_eq(text[PJRTD_TENSOR_TYPE_TEXT], '#');
    size_t length = strlen(text);
    cr_assert(length < PJRTD_TENSOR_TYPE_TEXT && text[length - 1] == ']', "%s", text);
    if (rank > 10) cr_assert(strstr(text, "...]"), "%s", text);
  }
}

Test(tensor_type, extends_the_sign_of_each_value) {
  int8_t nibbles[16], expected[16];
  for (int i = 0; i < 16; i++) {
    nibbles[i] = (int8_t)i;
    expected[i] = (int8_t)(i < 8 ? i : i - 16);
  }
  pjrtd_sign_extend_subbyte(PJRTD_DTYPE_S4, nibbles, 16);
  cr_assert_eq(memcmp(nibbles, expected, 16), 0);
  pjrtd_sign_extend_subbyte(PJRTD_DTYPE_S4, nibbles, 16);
  cr_assert_eq(memcmp(nibbles, expected, 16), 0, "what was extended stays");
  int8_t pairs[] = {0, 1, 2, 3}, ones[] = {0, 1};
  pjrtd_sign_extend_subbyte(PJRTD_DTYPE_S2, pairs, 4);
  cr_assert_eq(memcmp(pairs, (int8_t[]){0, 1, -2, -1}, 4), 0);
  pjrtd_sign_extend_subbyte(PJRTD_DTYPE_S1, ones, 2);
  cr_assert_eq(memcmp(ones, (int8_t[]){0, -1}, 2), 0);
}
