/* See utf8.h. */
#include "base/utf8.h"

#include "base/alloc.h"

size_t pjrtd_utf8_decode(const char *text, size_t size, uint32_t *out_point) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (!size) return 0;
  const unsigned char *at = (const unsigned char *)text;
  size_t length = at[0] < 0x80             ? 1
                  : (at[0] & 0xe0) == 0xc0 ? 2
                  : (at[0] & 0xf0) == 0xe0 ? 3
                  : (at[0] & 0xf8) == 0xf0 ? 4
                                           : 0;
  if (!length || length > size) return 0;
  uint32_t point = length == 1 ? at[0] : at[0] & (0x7fu >> length);
  for (size_t i = 1; i < length; i++) {
    if ((at[i] & 0xc0) != 0x80) return 0;
    point = point << 6 | (at[i] & 0x3fu);
  }
  if (point < least[length] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) return 0;
  *out_point = point;
  return length;
}

char *pjrtd_utf8_mend(const char *text, size_t size) {
  char *copy = pjrtd_strndup(text, size);
  if (!copy) return NULL;
  for (size_t at = 0; at < size;) {
    uint32_t point;
    size_t length = pjrtd_utf8_decode(text + at, size - at, &point);
    if (!length || !point) {
      copy[at] = '?';
      length = 1;
    }
    at += length;
  }
  return copy;
}
