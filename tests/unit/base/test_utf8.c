/* base/utf8.c */
#include <criterion/criterion.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

static void mends(const char *text, size_t size, const char *right) {
  char *mended = pjrtd_utf8_mend(text, size);
  cr_assert_str_eq(mended, right);
  cr_assert_eq(strlen(mended), size);
  pjrtd_free(mended);
}

Test(utf8, leaves_well_formed_text_as_it_is) {
  mends("", 0, "");
  mends("plain", 5, "plain");
  mends("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xed\x9f\xbf \xee\x80\x80 \xf4\x8f\xbf\xbf", 27,
        "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xed\x9f\xbf \xee\x80\x80 \xf4\x8f\xbf\xbf");
}

Test(utf8, replaces_each_byte_that_is_none) {
  mends("a\xff\xfe z", 5, "a?? z");
  mends("\x80", 1, "?");
  mends("\xc0\xaf", 2, "??");           /* longer than need be */
  mends("\xe0\x9f\xbf", 3, "???");      /* so too */
  mends("\xed\xa0\x80", 3, "???");      /* half of a pair */
  mends("\xf4\x90\x80\x80", 4, "????"); /* beyond the last character */
  mends("\xf8\x88\x80\x80\x80", 5, "?????");
  mends("a\0b", 3, "a?b");
}

/* Exactly `size` bytes of memory: a sanitizer sees a read beyond. */
Test(utf8, reads_no_further_than_the_text) {
  static const char whole[] = "\xf0\x9f\x98\x80";
  for (size_t size = 1; size < 4; size++) {
    char *part = pjrtd_memdup(whole, size);
    mends(part, size, &"????"[4 - size]);
    pjrtd_free(part);
  }
  uint32_t point = 7;
  cr_assert_eq(pjrtd_utf8_decode("", 0, &point), 0);
  cr_assert_eq(pjrtd_utf8_decode(whole, 4, &point), 4);
  cr_assert_eq(point, 0x1f600);
}

Test(utf8, survives_a_failing_allocation) {
  pjrtd_alloc_fail_after(0);
  char *mended = pjrtd_utf8_mend("text", 4);
  pjrtd_alloc_fail_after(-1);
  cr_assert_null(mended);
}
