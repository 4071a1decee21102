/* Byte counts as people read them. Any thread. */
#pragma once

#include <stdint.h>

#define PJRTD_BYTE_COUNT_TEXT 24
/* "512 B", "4.00 MiB", "2.40 GiB"; in `buffer`. */
const char *pjrtd_byte_count_format(uint64_t bytes, char buffer[PJRTD_BYTE_COUNT_TEXT]);
