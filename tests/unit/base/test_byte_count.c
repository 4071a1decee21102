/* base/byte_count.c. */
#include <criterion/criterion.h>

#include "base/byte_count.h"

TestSuite(byte_count, .timeout = 60);

Test(byte_count, is_read_by_people) {
  static const struct {
    uint64_t bytes;
    const char *text;
  } cases[] = {{0, "0 B"},
               {1023, "1023 B"},
               {1024, "1.00 KiB"},
               {1536, "1.50 KiB"},
               {(1 << 20) - 1, "1.00 MiB"},
               {4 << 20, "4.00 MiB"},
               {UINT64_C(2576980378), "2.40 GiB"},
               {UINT64_C(1) << 50, "1.00 PiB"},
               {UINT64_MAX, "16.00 EiB"}};
  char text[PJRTD_BYTE_COUNT_TEXT];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    cr_assert_str_eq(pjrtd_byte_count_format(cases[i].bytes, text), cases[i].text);
}
