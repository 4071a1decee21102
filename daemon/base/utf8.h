/* Text of others: what of it is UTF-8. Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Bytes of the well-formed character at `text`, of which `size` bytes are there, its code point in `*out_point`; 0
 * where it is malformed. */
size_t pjrtd_utf8_decode(const char *text, size_t size, uint32_t *out_point);

/* A copy that ends in a 0, with a "?" for each byte that is no UTF-8 and each 0 before. The caller frees it with
 * pjrtd_free. NULL without memory. */
char *pjrtd_utf8_mend(const char *text, size_t size);
