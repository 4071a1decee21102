/* service/convert.c. */
#include "../state/runtime_fixture.h"
#include "service/convert.h"

/* The text of an error as it goes out. */
static const char *text_of(const char *bytes) {
  static pjrtd_error_message message;
  static pjrtd_status *status;
  pjrtd_status_destroy(status);
  status = pjrtd_status_make_n(PJRTD_CODE_INTERNAL, bytes, strlen(bytes));
  pjrtd_error_message_fill(&message, status);
  return message.message.message;
}

Test(convert, leaves_text_alone_that_is_utf_8) {
  static const char *const good[] = {"",
                                     "plain",
                                     "\xc3\xa4",
                                     "\xe2\x82\xac",
                                     "\xf0\x9f\x98\x80",
                                     "\xed\x9f\xbf",
                                     "\xee\x80\x80",
                                     "\xf4\x8f\xbf\xbf",
                                     "\xc2\x80",
                                     "\xe0\xa0\x80",
                                     "\xf0\x90\x80\x80"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) cr_assert_str_eq(text_of(good[i]), good[i]);
}

Test(convert, mends_text_that_is_not) {
  static const struct {
    const char *bad, *mended;
  } cases[] = {
      {"\xff", "?"},
      {"a\x80z", "a?z"},            /* a continuation alone */
      {"a\xc3", "a?"},              /* cut short */
      {"a\xe2\x82", "a??"},         /* cut short */
      {"a\xf0\x9f\x98", "a???"},    /* cut short */
      {"\xc0\xaf", "??"},           /* an overlong slash */
      {"\xc1\xbf", "??"},           /* overlong */
      {"\xe0\x80\xaf", "???"},      /* overlong */
      {"\xe0\x9f\xbf", "???"},      /* overlong */
      {"\xf0\x8f\xbf\xbf", "????"}, /* overlong */
      {"\xed\xa0\x80", "???"},      /* half of a surrogate pair */
      {"\xed\xbf\xbf", "???"},      /* the other half */
      {"\xf4\x90\x80\x80", "????"}, /* beyond the last character */
      {"\xf5\x80\x80\x80", "????"}, /* never a first byte */
      {"\xe2(\xa1", "?(?"},
      {"x\xc3\xa4\xffy", "x\xc3\xa4?y"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    cr_assert_str_eq(text_of(cases[i].bad), cases[i].mended, "case %zu", i);
}

Test(convert, cuts_a_text_that_no_frame_could_carry_at_a_character) {
  enum { SIZE = 3 << 20 };
  char *text = malloc(SIZE + 1);
  for (int i = 0; i < SIZE / 3; i++) memcpy(text + i * 3, "\xe2\x82\xac", 3);
  text[SIZE] = 0;
  const char *cut = text_of(text);
  size_t length = strlen(cut);
  cr_assert_lt(length, 1 << 20);
  cr_assert_gt(length, 900 << 10);
  cr_assert_eq(length % 3, 0);
  cr_assert_eq(memcmp(cut, text, length), 0);
  memset(text, 0xff, SIZE);
  cut = text_of(text);
  cr_assert_lt(strlen(cut), 1 << 20);
  cr_assert_eq(strspn(cut, "?"), strlen(cut));
  free(text);
}

Test(convert, says_so_when_there_is_no_memory_to_mend) {
  PJRTD_AUTO(pjrtd_status) status = PJRTD_INVALID("\xff");
  pjrtd_error_message message;
  pjrtd_alloc_fail_after(0);
  pjrtd_error_message_fill(&message, status);
  pjrtd_alloc_fail_after(-1);
  cr_assert(strstr(message.message.message, "memory"));
}

Test(convert, carries_everything_that_a_status_says) {
  PJRTD_AUTO(pjrtd_status)
  status = pjrtd_status_with_argument(
      pjrtd_status_with_retry(
          pjrtd_status_with_origin(pjrtd_status_with_hint(pjrtd_status_make(PJRTD_CODE_ABORTED, "why"), "do"), 12), 34),
      5, "f32[2]", "s8[3]");
  pjrtd_error_message message;
  pjrtd_error_message_fill(&message, status);
  cr_assert_eq(message.message.code, 10);
  cr_assert_str_eq(message.message.message, "why");
  cr_assert_str_eq(message.message.hint, "do");
  cr_assert_eq(message.message.origin_call, 12);
  cr_assert_eq(message.message.retry_after_ns, 34);
  cr_assert_eq(message.message.argument->index, 5);
  cr_assert_str_eq(message.message.argument->expected, "f32[2]");
  cr_assert_str_eq(message.message.argument->actual, "s8[3]");
  PJRTD_AUTO(pjrtd_status) bare = PJRTD_INVALID("x");
  pjrtd_error_message_fill(&message, bare);
  cr_assert_null(message.message.argument);
  cr_assert_str_eq(message.message.hint, "");
}

Test(convert, brings_tensor_types_there_and_back) {
  const int64_t dims[] = {2, 0, 7};
  const pjrtd_tensor_type type = {.dtype = PJRTD_DTYPE_F8E4M3FN, .rank = 3, .dims = dims};
  Pjrtd__V1__TensorType message;
  pjrtd_type_message_fill(&message, &type);
  pjrtd_tensor_type back = pjrtd_type_of_message(&message);
  cr_assert(pjrtd_tensor_type_equal(&type, &back));
  cr_assert_eq(pjrtd_type_of_message(NULL).dtype, PJRTD_DTYPE_INVALID);
}

Test(convert, puts_each_tile_of_a_layout_in_its_place) {
  const pjrtd_layout layout = {
      .rank = 2, .minor_to_major = {0, 1}, .num_tiles = 2, .tile_ranks = {2, 1}, .tile_dims = {8, 128, 2}};
  pjrtd_layout_message message;
  pjrtd_layout_message_fill(&message, &layout);
  cr_assert_eq(message.message.n_minor_to_major, 2);
  cr_assert_eq(message.message.minor_to_major[0], 0);
  cr_assert_eq(message.message.n_tiles, 2);
  cr_assert_eq(message.message.tiles[0]->n_dims, 2);
  cr_assert_eq(message.message.tiles[0]->dims[1], 128);
  cr_assert_eq(message.message.tiles[1]->n_dims, 1);
  cr_assert_eq(message.message.tiles[1]->dims[0], 2);
}

Test(convert, brings_values_of_every_kind_there_and_back) {
  int64_t integers[] = {1, -2, 3};
  pjrtd_value values[] = {
      {.name = "text", .kind = PJRTD_VALUE_TEXT, .text = "abc"},
      {.name = "integer", .kind = PJRTD_VALUE_INTEGER, .integer = -5},
      {.name = "real", .kind = PJRTD_VALUE_REAL, .real = 0.25},
      {.name = "boolean", .kind = PJRTD_VALUE_BOOLEAN, .integer = 1},
      {.name = "integers", .kind = PJRTD_VALUE_INTEGERS, .integers = integers, .num_integers = 3},
  };
  bool ok;
  Pjrtd__V1__Attribute **attributes = pjrtd_attributes_make(values, 5, &ok);
  cr_assert(ok);
  pjrtd_value *back = pjrtd_values_of_attributes(attributes, 5);
  cr_assert_not_null(back);
  for (int i = 0; i < 5; i++) {
    cr_assert_str_eq(back[i].name, values[i].name);
    cr_assert_eq(back[i].kind, values[i].kind);
  }
  cr_assert_str_eq(back[0].text, "abc");
  cr_assert_eq(back[1].integer, -5);
  cr_assert_eq(back[2].real, 0.25);
  cr_assert_eq(back[3].integer, 1);
  cr_assert_eq(back[4].num_integers, 3);
  cr_assert_eq(back[4].integers[1], -2);
  pjrtd_free(back);
  pjrtd_free(attributes);
}

Test(convert, makes_a_text_of_an_attribute_without_a_value) {
  Pjrtd__V1__Attribute attribute = PJRTD__V1__ATTRIBUTE__INIT, *list = &attribute;
  attribute.name = (char *)"x";
  pjrtd_value *values = pjrtd_values_of_attributes(&list, 1);
  cr_assert_eq(values[0].kind, PJRTD_VALUE_TEXT);
  cr_assert_str_eq(values[0].text, "");
  pjrtd_free(values);
}

Test(convert, tells_no_values_from_no_memory) {
  bool ok = false;
  cr_assert_null(pjrtd_attributes_make(NULL, 0, &ok));
  cr_assert(ok);
  const pjrtd_value value = {.name = (char *)"x", .kind = PJRTD_VALUE_INTEGER};
  pjrtd_alloc_fail_after(0);
  cr_assert_null(pjrtd_attributes_make(&value, 1, &ok));
  pjrtd_alloc_fail_after(-1);
  cr_assert_not(ok);
}

Test(convert, tells_what_ran_short) {
  pjrtd_shortage shortage = {.setting = "max_session_device_bytes",
                             .used = 3,
                             .allowed = 4,
                             .needed = 2,
                             .num_biggest = 2,
                             .num_allocator = 1};
  shortage.biggest[0] = (pjrtd_buffer_detail){.session = 5, .buffer = 7, .bytes = 8, .device = 1, .type = "f32[2]"};
  shortage.biggest[1] = (pjrtd_buffer_detail){.session = 5, .slot = "theta", .bytes = 4, .type = "f32[1]"};
  strcpy(shortage.allocator[0].name, "bytes_in_use");
  shortage.allocator[0].value = -1;
  PJRTD_AUTO(pjrtd_status) status = pjrtd_status_with_shortage(PJRTD_INTERNAL("no room"), &shortage);
  pjrtd_error_message filled;
  pjrtd_error_message_fill(&filled, status);
  uint8_t packed[512];
  Pjrtd__V1__Error *error = pjrtd__v1__error__unpack(NULL, pjrtd__v1__error__pack(&filled.message, packed), packed);
  cr_assert_str_eq(error->quota->setting, "max_session_device_bytes");
  cr_assert_eq(error->quota->used, 3);
  cr_assert_eq(error->quota->allowed, 4);
  cr_assert_eq(error->needed, 2);
  cr_assert_eq(error->n_biggest, 2);
  cr_assert_eq(error->biggest[0]->buffer, 7);
  cr_assert_eq(error->biggest[0]->device, 1);
  cr_assert_str_eq(error->biggest[0]->type, "f32[2]");
  cr_assert_str_eq(error->biggest[1]->slot, "theta");
  cr_assert_eq(error->n_allocator, 1);
  cr_assert_str_eq(error->allocator[0]->name, "bytes_in_use");
  cr_assert_eq(error->allocator[0]->integer, -1);
  pjrtd__v1__error__free_unpacked(error, NULL);
}
