/* plugin/named_value.c: options as they are written on a command line. */
#include "plugin_fixture.h"

static pjrtd_value parsed(const char *text) {
  pjrtd_value value;
  ASSERT_OK(pjrtd_value_parse(text, &value));
  return value;
}

Test(named_value, takes_the_kind_from_the_look_of_the_value) {
  pjrtd_value value = parsed("cpu_device_count=2");
  cr_assert_str_eq(value.name, "cpu_device_count");
  cr_assert_eq(value.kind, PJRTD_VALUE_INTEGER);
  cr_assert_eq(value.integer, 2);
  pjrtd_value_deinit(&value);

  value = parsed("memory_fraction=0.25");
  cr_assert_eq(value.kind, PJRTD_VALUE_REAL);
  cr_assert_eq(value.real, 0.25);
  pjrtd_value_deinit(&value);

  value = parsed("preallocate=false");
  cr_assert_eq(value.kind, PJRTD_VALUE_BOOLEAN);
  cr_assert_eq(value.integer, 0);
  pjrtd_value_deinit(&value);

  value = parsed("visible_devices=0,2,-3");
  cr_assert_eq(value.kind, PJRTD_VALUE_INTEGERS);
  cr_assert_eq(value.num_integers, 3);
  cr_assert_eq(value.integers[2], -3);
  pjrtd_value_deinit(&value);

  value = parsed("allocator=a=b,c");
  cr_assert_eq(value.kind, PJRTD_VALUE_TEXT);
  cr_assert_str_eq(value.text, "a=b,c");
  pjrtd_value_deinit(&value);

  value = parsed("empty=");
  cr_assert_eq(value.kind, PJRTD_VALUE_TEXT);
  cr_assert_str_eq(value.text, "");
  pjrtd_value_deinit(&value);
}

Test(named_value, lets_the_caller_say_the_kind) {
  pjrtd_value value = parsed("version:s=12");
  cr_assert_str_eq(value.name, "version");
  cr_assert_eq(value.kind, PJRTD_VALUE_TEXT);
  cr_assert_str_eq(value.text, "12");
  pjrtd_value_deinit(&value);

  value = parsed("visible_devices:l=7");
  cr_assert_eq(value.kind, PJRTD_VALUE_INTEGERS);
  cr_assert_eq(value.num_integers, 1);
  cr_assert_eq(value.integers[0], 7);
  pjrtd_value_deinit(&value);

  value = parsed("fraction:f=1");
  cr_assert_eq(value.kind, PJRTD_VALUE_REAL);
  cr_assert_eq(value.real, 1.0);
  pjrtd_value_deinit(&value);
}

Test(named_value, refuses_what_is_not_an_option) {
  pjrtd_value value;
  ASSERT_FAILS(pjrtd_value_parse("name", &value), PJRTD_CODE_INVALID_ARGUMENT, "is not an option");
  ASSERT_FAILS(pjrtd_value_parse("=1", &value), PJRTD_CODE_INVALID_ARGUMENT, "is not an option");
  ASSERT_FAILS(pjrtd_value_parse("n:i=x", &value), PJRTD_CODE_INVALID_ARGUMENT, "\"x\" is not an integer");
  ASSERT_FAILS(pjrtd_value_parse("n:i=99999999999999999999", &value), PJRTD_CODE_INVALID_ARGUMENT, "is not an integer");
  ASSERT_FAILS(pjrtd_value_parse("n:b=1", &value), PJRTD_CODE_INVALID_ARGUMENT, "is not true or false");
  ASSERT_FAILS(pjrtd_value_parse("n:l=1,,2", &value), PJRTD_CODE_INVALID_ARGUMENT, "is not a list of integers");
  ASSERT_FAILS(pjrtd_value_parse("n:z=1", &value), PJRTD_CODE_INVALID_ARGUMENT, "the kind 'z'");
}

static pjrtd_status *parse_list(void) {
  pjrtd_value value;
  pjrtd_status *status = pjrtd_value_parse("n=1,2,3", &value);
  if (!status) pjrtd_value_deinit(&value);
  return status;
}
static pjrtd_status *parse_text(void) {
  pjrtd_value value;
  pjrtd_status *status = pjrtd_value_parse("n=x", &value);
  if (!status) pjrtd_value_deinit(&value);
  return status;
}

Test(named_value, survives_each_failing_allocation) {
  cr_assert_eq(walk_failures(parse_list), 3);
  cr_assert_geq(walk_failures(parse_text), 2);
}
