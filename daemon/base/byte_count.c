/* See byte_count.h. */
#include "base/byte_count.h"

#include <inttypes.h>
#include <stdio.h>

const char *pjrtd_byte_count_format(uint64_t bytes, char buffer[PJRTD_BYTE_COUNT_TEXT]) {
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) {
    snprintf(buffer, PJRTD_BYTE_COUNT_TEXT, "%" PRIu64 " B", bytes);
    return buffer;
  }
  double amount = (double)bytes / 1024;
  size_t unit = 0;
  /* What would read "1024.00 KiB" is 1.00 MiB. */
  for (; amount >= 1023.995 && unit < sizeof units / sizeof *units - 1; unit++) amount /= 1024;
  snprintf(buffer, PJRTD_BYTE_COUNT_TEXT, "%.2f %s", amount, units[unit]);
  return buffer;
}
