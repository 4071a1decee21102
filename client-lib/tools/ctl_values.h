/* Values as text: reading what --arg gives, writing results, so that what is written reads back to the same bits (but
 * for the payload of a NaN). One thread. */
#pragma once

#include <pjrtc/pjrtc.h>

/* The longest text of one element, with its NUL. */
#define CTL_VALUE_TEXT 80

/* Reads one element. `*text` moves behind it. NULL is success; else a complaint to be freed. */
char *ctl_value_read(pjrtc_dtype dtype, const char **text, void *out);
/* Writes one element: the shortest text that reads back; of types of up to 8 bits the exact value. */
const char *ctl_value_write(pjrtc_dtype dtype, const void *element, char out[CTL_VALUE_TEXT]);
/* A real number's value for JSON; complex ones in two parts. False for what is no real number (an integer, pred). */
bool ctl_value_real(pjrtc_dtype dtype, const void *element, double *out_real, double *out_imaginary);
bool ctl_dtype_is_complex(pjrtc_dtype dtype);
bool ctl_dtype_is_signed(pjrtc_dtype dtype);
bool ctl_dtype_is_unsigned(pjrtc_dtype dtype);
/* An integer element. */
int64_t ctl_value_signed(pjrtc_dtype dtype, const void *element);
uint64_t ctl_value_unsigned(pjrtc_dtype dtype, const void *element);

/* Reads a list of values, separated by commas, into `count` elements; one value fills all. NULL is success. */
char *ctl_values_read(pjrtc_dtype dtype, const char *text, void *out, uint64_t count);
/* Reads hexadecimal digits into `size_bytes` bytes. NULL is success. */
char *ctl_values_read_hex(const char *text, void *out, uint64_t size_bytes);
