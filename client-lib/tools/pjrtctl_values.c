/* See ctl_values.h. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "ctl_float.h"
#include "ctl_values.h"

bool ctl_dtype_is_complex(pjrtc_dtype dtype) {
  return dtype == PJRTC_C64 || dtype == PJRTC_C128;
}

bool ctl_dtype_is_signed(pjrtc_dtype dtype) {
  switch (dtype) {
    case PJRTC_S1:
    case PJRTC_S2:
    case PJRTC_S4:
    case PJRTC_S8:
    case PJRTC_S16:
    case PJRTC_S32:
    case PJRTC_S64: return true;
    default: return false;
  }
}

bool ctl_dtype_is_unsigned(pjrtc_dtype dtype) {
  switch (dtype) {
    case PJRTC_U1:
    case PJRTC_U2:
    case PJRTC_U4:
    case PJRTC_U8:
    case PJRTC_U16:
    case PJRTC_U32:
    case PJRTC_U64: return true;
    default: return false;
  }
}

/* ---- Elements in memory ---- */

int64_t ctl_value_signed(pjrtc_dtype dtype, const void *element) {
  int64_t value = 0;
  switch (pjrtc_dtype_host_bytes(dtype)) {
    case 1: return *(const int8_t *)element;
    case 2: {
      int16_t v;
      memcpy(&v, element, 2);
      return v;
    }
    case 4: {
      int32_t v;
      memcpy(&v, element, 4);
      return v;
    }
    default: memcpy(&value, element, 8); return value;
  }
}

uint64_t ctl_value_unsigned(pjrtc_dtype dtype, const void *element) {
  uint64_t value = 0;
  memcpy(&value, element, pjrtc_dtype_host_bytes(dtype)); /* little-endian */
  return value;
}

static double load_real(pjrtc_dtype dtype, const void *element) {
  if (dtype == PJRTC_F64 || dtype == PJRTC_C128) {
    double value;
    memcpy(&value, element, sizeof value);
    return value;
  }
  if (dtype == PJRTC_F32 || dtype == PJRTC_C64) {
    float value;
    memcpy(&value, element, sizeof value);
    return (double)value;
  }
  return ctl_float_decode(dtype, (uint32_t)ctl_value_unsigned(dtype, element));
}

/* False where the type cannot hold it. */
static bool store_real(pjrtc_dtype dtype, double value, void *out) {
  if (dtype == PJRTC_F64 || dtype == PJRTC_C128) {
    memcpy(out, &value, sizeof value);
    return true;
  }
  if (dtype == PJRTC_F32 || dtype == PJRTC_C64) {
    float narrow = (float)value;
    memcpy(out, &narrow, sizeof narrow);
    return isinf(value) || !isinf(narrow);
  }
  uint32_t bits;
  if (!ctl_float_encode(dtype, value, &bits)) return false;
  memcpy(out, &bits, pjrtc_dtype_host_bytes(dtype));
  return true;
}

static size_t real_bytes(pjrtc_dtype dtype) {
  return pjrtc_dtype_host_bytes(dtype) / (ctl_dtype_is_complex(dtype) ? 2 : 1);
}

bool ctl_value_real(pjrtc_dtype dtype, const void *element, double *out_real, double *out_imaginary) {
  if (dtype == PJRTC_PRED || ctl_dtype_is_signed(dtype) || ctl_dtype_is_unsigned(dtype)) return false;
  *out_real = load_real(dtype, element);
  *out_imaginary = ctl_dtype_is_complex(dtype) ? load_real(dtype, (const char *)element + real_bytes(dtype)) : 0;
  return true;
}

/* ---- Writing ---- */

/* The digits of "d.ddde+xx" without trailing zeros, with the point where people look for it: plain from 1e-5 to 1e16,
 * like Python. */
static void place_point(const char *scientific, char *out) {
  char digits[32];
  int count = 0, exponent;
  const char *c = scientific;
  if (*c == '-') *out++ = *c++;
  for (; *c && *c != 'e'; c++)
    if (isdigit((unsigned char)*c)) digits[count++] = *c;
  exponent = atoi(c + 1);
  while (count > 1 && digits[count - 1] == '0') count--;
  if (exponent < -5 || exponent >= 16) {
    out += sprintf(out, "%c%s%.*s", digits[0], count > 1 ? "." : "", count - 1, digits + 1);
    sprintf(out, "e%+03d", exponent);
  } else if (exponent < 0) {
    sprintf(out, "0.%.*s%.*s", -exponent - 1, "00000", count, digits);
  } else if (exponent >= count - 1) {
    sprintf(out, "%.*s%.*s", count, digits, exponent - count + 1, "0000000000000000");
  } else {
    sprintf(out, "%.*s.%.*s", exponent + 1, digits, count - exponent - 1, digits + exponent + 1);
  }
}

/* What reads back to the same bits. The text of f32 is read as f32. */
static bool reads_back(pjrtc_dtype dtype, const char *text, const void *element) {
  unsigned char again[16];
  if (dtype == PJRTC_F32 || dtype == PJRTC_C64) {
    float value = strtof(text, NULL);
    memcpy(again, &value, sizeof value);
  } else if (!store_real(dtype, strtod(text, NULL), again)) {
    return false;
  }
  return memcmp(again, element, real_bytes(dtype)) == 0;
}

/* Types of up to 8 bits are written exactly: the shortest text that reads back would be far from the value. */
static bool is_written_exactly(pjrtc_dtype dtype) {
  return pjrtc_dtype_bits(dtype) <= 8;
}

static void write_finite(pjrtc_dtype dtype, const void *element, double value, char *out) {
  char scientific[40];
  int most = dtype == PJRTC_F64 || dtype == PJRTC_C128 || is_written_exactly(dtype) ? 17 : 9, digits = 1;
  for (; digits <= most; digits++) {
    snprintf(scientific, sizeof scientific, "%.*e", digits - 1, value);
    if (is_written_exactly(dtype) ? strtod(scientific, NULL) == value : reads_back(dtype, scientific, element)) break;
  }
  /* Where zeros would fill up to the point, the exact digits take no more room: 65504, not 65500. */
  if (fabs(value) < 1e16 && value == nearbyint(value) && fabs(value) >= pow(10, digits))
    sprintf(out, "%.0f", value);
  else
    place_point(scientific, out);
}

static void write_real(pjrtc_dtype dtype, const void *element, char *out) {
  double value = load_real(dtype, element);
  if (isnan(value))
    strcpy(out, "nan");
  else if (isinf(value))
    strcpy(out, value < 0 ? "-inf" : "inf");
  else if (value == 0)
    strcpy(out, signbit(value) ? "-0" : "0");
  else
    write_finite(dtype, element, value, out);
}

const char *ctl_value_write(pjrtc_dtype dtype, const void *element, char out[CTL_VALUE_TEXT]) {
  if (dtype == PJRTC_PRED) {
    strcpy(out, *(const uint8_t *)element ? "true" : "false");
  } else if (ctl_dtype_is_signed(dtype)) {
    snprintf(out, CTL_VALUE_TEXT, "%" PRId64, ctl_value_signed(dtype, element));
  } else if (ctl_dtype_is_unsigned(dtype)) {
    snprintf(out, CTL_VALUE_TEXT, "%" PRIu64, ctl_value_unsigned(dtype, element));
  } else {
    write_real(dtype, element, out);
    if (ctl_dtype_is_complex(dtype)) {
      char imaginary[CTL_VALUE_TEXT / 2];
      write_real(dtype, (const char *)element + real_bytes(dtype), imaginary);
      if (imaginary[0] != '-') strcat(out, "+");
      strcat(out, imaginary);
      strcat(out, "j");
    }
  }
  return out;
}

/* ---- Reading ---- */

/* The piece up to the next comma, for complaints. */
static char *complain(const char *text, const char *format, const char *dtype) {
  size_t length = strcspn(text, ",");
  if (length > 40) length = 40;
  char *piece = ctl_text("%.*s", (int)length, text), *complaint = ctl_text(format, piece, dtype);
  free(piece);
  return complaint;
}
#define NOT_A_VALUE "\"%s\" is not a value of %s"
#define DOES_NOT_FIT "%s does not fit %s"

static char *read_signed(pjrtc_dtype dtype, const char **text, void *out) {
  char *end;
  errno = 0;
  long long value = strtoll(*text, &end, 0);
  if (end == *text) return complain(*text, NOT_A_VALUE, pjrtc_dtype_name(dtype));
  unsigned bits = pjrtc_dtype_bits(dtype);
  int64_t most = (int64_t)(UINT64_MAX >> 1 >> (64 - bits));
  if (errno || value > most || value < -most - 1) return complain(*text, DOES_NOT_FIT, pjrtc_dtype_name(dtype));
  memcpy(out, &value, pjrtc_dtype_host_bytes(dtype));
  *text = end;
  return NULL;
}

static char *read_unsigned(pjrtc_dtype dtype, const char **text, void *out) {
  char *end;
  const char *first = *text;
  while (isspace((unsigned char)*first)) first++;
  errno = 0;
  unsigned long long value = strtoull(first, &end, 0);
  if (end == first) return complain(*text, NOT_A_VALUE, pjrtc_dtype_name(dtype));
  if (errno || *first == '-' || value > UINT64_MAX >> (64 - pjrtc_dtype_bits(dtype)))
    return complain(*text, DOES_NOT_FIT, pjrtc_dtype_name(dtype));
  memcpy(out, &value, pjrtc_dtype_host_bytes(dtype));
  *text = end;
  return NULL;
}

static char *read_pred(const char **text, void *out) {
  static const struct {
    const char *name;
    uint8_t value;
  } names[] = {{"true", 1}, {"false", 0}, {"1", 1}, {"0", 0}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    size_t length = strlen(names[i].name);
    if (strncmp(*text, names[i].name, length) != 0) continue;
    memcpy(out, &names[i].value, 1);
    *text += length;
    return NULL;
  }
  return complain(*text, NOT_A_VALUE, "pred (true, false)");
}

/* A number at `text`, rounded once to the type; `*out_end` is behind it. */
static char *read_real(pjrtc_dtype dtype, const char *text, const char **out_end, void *out) {
  char *end;
  double value = strtod(text, &end);
  if (end == text) return complain(text, NOT_A_VALUE, pjrtc_dtype_name(dtype));
  bool infinite = isinf(value) && strpbrk(text, "iInN") && strpbrk(text, "iInN") < end;
  bool fits = infinite || !isinf(value);
  if (fits && !isinf(value) && (dtype == PJRTC_F32 || dtype == PJRTC_C64)) {
    float narrow = strtof(text, NULL);
    fits = !isinf(narrow);
    memcpy(out, &narrow, sizeof narrow);
  } else if (fits) {
    fits = store_real(dtype, value, out);
  }
  *out_end = end;
  return fits ? NULL : complain(text, DOES_NOT_FIT, pjrtc_dtype_name(dtype));
}

/* "1+2j", "1", "2j", "-1.5e3-infj". */
static char *read_complex(pjrtc_dtype dtype, const char **text, void *out) {
  char *imaginary = (char *)out + real_bytes(dtype);
  const char *end;
  memset(out, 0, pjrtc_dtype_host_bytes(dtype));
  char *complaint = read_real(dtype, *text, &end, out);
  if (complaint) return complaint;
  if (*end == 'j') {
    memcpy(imaginary, out, real_bytes(dtype));
    memset(out, 0, real_bytes(dtype));
    end++;
  } else if (*end == '+' || *end == '-') {
    complaint = read_real(dtype, end, &end, imaginary);
    if (!complaint && *end++ != 'j') complaint = complain(*text, NOT_A_VALUE, pjrtc_dtype_name(dtype));
  }
  if (!complaint) *text = end;
  return complaint;
}

char *ctl_value_read(pjrtc_dtype dtype, const char **text, void *out) {
  if (dtype == PJRTC_PRED) return read_pred(text, out);
  if (ctl_dtype_is_signed(dtype)) return read_signed(dtype, text, out);
  if (ctl_dtype_is_unsigned(dtype)) return read_unsigned(dtype, text, out);
  if (ctl_dtype_is_complex(dtype)) return read_complex(dtype, text, out);
  return read_real(dtype, *text, text, out);
}

char *ctl_values_read(pjrtc_dtype dtype, const char *text, void *out, uint64_t count) {
  size_t size = pjrtc_dtype_host_bytes(dtype);
  uint64_t found = 0;
  char *to = out, spare[16];
  while (isspace((unsigned char)*text)) text++;
  while (*text) {
    while (isspace((unsigned char)*text)) text++;
    char *complaint = ctl_value_read(dtype, &text, found < count ? to + found * size : spare);
    if (complaint) return complaint;
    found++;
    while (isspace((unsigned char)*text)) text++;
    if (*text && *text != ',') return complain(text, "\"%s\" follows a value of %s", pjrtc_dtype_name(dtype));
    if (*text == ',' && !*++text) return ctl_text("a value is missing behind the last comma");
  }
  if (found == 1 && count > 1) {
    for (uint64_t i = 1; i < count; i++) memcpy(to + i * size, to, size);
    return NULL;
  }
  if (found != count) return ctl_text("there are %" PRIu64 " values for %" PRIu64 " elements", found, count);
  return NULL;
}

char *ctl_values_read_hex(const char *text, void *out, uint64_t size_bytes) {
  size_t digits = strlen(text);
  for (size_t i = 0; i < digits; i++)
    if (!isxdigit((unsigned char)text[i])) return ctl_text("'%c' is not a hexadecimal digit", text[i]);
  if (digits != size_bytes * 2)
    return ctl_text("there are %zu hexadecimal digits for %" PRIu64 " bytes", digits, size_bytes);
  for (uint64_t i = 0; i < size_bytes; i++) {
    const char pair[3] = {text[2 * i], text[2 * i + 1], '\0'};
    ((uint8_t *)out)[i] = (uint8_t)strtoul(pair, NULL, 16);
  }
  return NULL;
}
