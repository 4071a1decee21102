/* plugin/wire_cursor.c. */
#include <criterion/criterion.h>
#include <string.h>

#include "plugin/wire_cursor.h"

static pjrtd_wire_step step(const char *bytes, size_t size, pjrtd_wire_field *field) {
  pjrtd_wire_cursor cursor = pjrtd_wire_open((const uint8_t *)bytes, size);
  return pjrtd_wire_next(&cursor, field);
}
#define STEP(text, field) step(text, sizeof(text) - 1, field)

Test(wire_cursor, reads_every_kind_of_field_in_order) {
  static const uint8_t bytes[] = {0x08, 0x96, 0x01,                                  /* 1: varint 150 */
                                  0x12, 2,    'h',  'i',                             /* 2: bytes */
                                  0x1d, 1,    2,    3,    4,                         /* 3: fixed32 */
                                  0x21, 1,    0,    0,    0,    0,    0,    0,    2, /* 4: fixed64 */
                                  0xc8, 0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}; /* 41: -1 */
  pjrtd_wire_cursor cursor = pjrtd_wire_open(bytes, sizeof bytes);
  pjrtd_wire_field field;
  cr_assert_eq(pjrtd_wire_next(&cursor, &field), PJRTD_WIRE_FIELD);
  cr_assert(field.number == 1 && !field.is_bytes && field.value == 150);
  cr_assert_eq(pjrtd_wire_next(&cursor, &field), PJRTD_WIRE_FIELD);
  cr_assert(field.number == 2 && field.is_bytes && field.size == 2 && memcmp(field.bytes, "hi", 2) == 0);
  cr_assert_eq(pjrtd_wire_next(&cursor, &field), PJRTD_WIRE_FIELD);
  cr_assert(field.number == 3 && field.value == 0x04030201);
  cr_assert_eq(pjrtd_wire_next(&cursor, &field), PJRTD_WIRE_FIELD);
  cr_assert(field.number == 4 && field.value == 0x0200000000000001);
  cr_assert_eq(pjrtd_wire_next(&cursor, &field), PJRTD_WIRE_FIELD);
  cr_assert(field.number == 41 && field.value == UINT64_MAX);
  cr_assert_eq(pjrtd_wire_next(&cursor, &field), PJRTD_WIRE_END);
}

Test(wire_cursor, stops_at_broken_bytes_without_reading_past_them) {
  pjrtd_wire_field field;
  cr_assert_eq(STEP("", &field), PJRTD_WIRE_END);
  cr_assert_eq(STEP("\x08", &field), PJRTD_WIRE_BROKEN);     /* a tag without its value */
  cr_assert_eq(STEP("\x08\x80", &field), PJRTD_WIRE_BROKEN); /* a varint that does not end */
  cr_assert_eq(STEP("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", &field), PJRTD_WIRE_BROKEN); /* too long */
  cr_assert_eq(STEP("\x12\x05hi", &field), PJRTD_WIRE_BROKEN); /* longer than what is there */
  cr_assert_eq(STEP("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", &field), PJRTD_WIRE_BROKEN);
  cr_assert_eq(STEP("\x1d\x01\x02\x03", &field), PJRTD_WIRE_BROKEN);
  cr_assert_eq(STEP("\x21\x01", &field), PJRTD_WIRE_BROKEN);
  cr_assert_eq(STEP("\x0b", &field), PJRTD_WIRE_BROKEN); /* a group */
  cr_assert_eq(STEP("\x07", &field), PJRTD_WIRE_BROKEN); /* field number 0 */
  cr_assert_eq(STEP("\x0f", &field), PJRTD_WIRE_BROKEN); /* wire type 7 */
}
