/* Strided arrays come out row-major, in pieces of any size. */
#include <criterion/criterion.h>
#include <string.h>

#include "strided.h"

/* Reads the whole array in pieces of `piece` bytes. */
static void read_in_pieces(const pjrtc_type *type, const void *data, const int64_t *strides, uint64_t size_bytes,
                           uint64_t piece, uint8_t *out) {
  pjrtc_strided walk;
  pjrtc_strided_init(&walk, type, data, strides);
  for (uint64_t at = 0; at < size_bytes; at += piece)
    pjrtc_strided_read(&walk, out + at, size_bytes - at < piece ? size_bytes - at : piece);
}

static void expect(const pjrtc_type *type, const void *data, const int64_t *strides, const void *expected) {
  uint64_t size_bytes;
  cr_assert_eq(pjrtc_type_size(type, &size_bytes, NULL), PJRTC_OK);
  for (uint64_t piece = 1; piece <= size_bytes + 1; piece++) {
    uint8_t out[512];
    read_in_pieces(type, data, strides, size_bytes, piece, out);
    cr_assert_eq(memcmp(out, expected, size_bytes), 0, "pieces of %d bytes", (int)piece);
  }
}

Test(strided, transposes) {
  float data[] = {0, 1, 2, 3, 4, 5}, expected[] = {0, 2, 4, 1, 3, 5};
  expect(&(pjrtc_type){PJRTC_F32, 2, (int64_t[]){2, 3}}, data, (int64_t[]){4, 8}, expected);
}

Test(strided, skips_rows) {
  float data[12], expected[] = {0, 1, 2, 6, 7, 8};
  for (int i = 0; i < 12; i++) data[i] = (float)i;
  expect(&(pjrtc_type){PJRTC_F32, 2, (int64_t[]){2, 3}}, data, (int64_t[]){24, 4}, expected);
}

Test(strided, reverses) {
  int16_t data[] = {0, 1, 2, 3, 4, 5}, expected[] = {5, 4, 3, 2, 1, 0};
  expect(&(pjrtc_type){PJRTC_S16, 1, (int64_t[]){6}}, data + 5, (int64_t[]){-2}, expected);
}

Test(strided, broadcasts) {
  double data = 7, expected[] = {7, 7, 7, 7, 7, 7};
  expect(&(pjrtc_type){PJRTC_F64, 2, (int64_t[]){2, 3}}, &data, (int64_t[]){0, 0}, expected);
}

Test(strided, keeps_dimensions_of_one_out_of_the_way) {
  uint8_t data[] = {1, 2, 3, 4, 5, 6, 7, 8}, expected[] = {1, 3, 5, 7};
  expect(&(pjrtc_type){PJRTC_U8, 4, (int64_t[]){1, 2, 1, 2}}, data, (int64_t[]){999, 4, -5, 2}, expected);
}

Test(strided, walks_four_dimensions_backwards) {
  uint32_t data[24], expected[24];
  for (uint32_t i = 0; i < 24; i++) data[i] = i;
  /* [2,3,2,2] with the first two dimensions reversed. */
  int k = 0;
  for (int a = 1; a >= 0; a--)
    for (int b = 2; b >= 0; b--)
      for (int c = 0; c < 4; c++) expected[k++] = (uint32_t)(a * 12 + b * 4 + c);
  expect(&(pjrtc_type){PJRTC_U32, 4, (int64_t[]){2, 3, 2, 2}}, data + 12 + 8, (int64_t[]){-48, -16, 8, 4}, expected);
}

Test(strided, knows_a_dense_array) {
  pjrtc_strided walk;
  uint8_t data[24] = {0};
  pjrtc_type type = {PJRTC_U16, 3, (int64_t[]){2, 3, 2}};
  pjrtc_strided_init(&walk, &type, data, (int64_t[]){12, 4, 2});
  cr_assert(pjrtc_strided_is_dense(&walk));
  pjrtc_strided_init(&walk, &type, data, (int64_t[]){12, 2, 6});
  cr_assert_not(pjrtc_strided_is_dense(&walk));
}
