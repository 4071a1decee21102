/* See ctl_float.h. */
#include <math.h>

#include "ctl_float.h"

/* What the patterns with the largest exponent mean. */
typedef enum {
  IEEE,         /* infinities and NaNs, as in f32 */
  ONLY_NAN,     /* "fn": one NaN, all ones beside the sign; the rest are numbers */
  NEGATIVE_NAN, /* "fnuz": NaN is what would be -0; the rest are numbers */
  ALL_NUMBERS,  /* neither */
} specials;

typedef struct {
  uint8_t exponent_bits;
  uint8_t mantissa_bits;
  uint8_t bias;
  specials specials;
  bool is_unsigned; /* and has no zero: the exponent alone */
} format;

static const format formats[] = {
    [PJRTC_F16] = {5, 10, 15, IEEE, false},
    [PJRTC_BF16] = {8, 7, 127, IEEE, false},
    [PJRTC_F8E5M2] = {5, 2, 15, IEEE, false},
    [PJRTC_F8E4M3] = {4, 3, 7, IEEE, false},
    [PJRTC_F8E3M4] = {3, 4, 3, IEEE, false},
    [PJRTC_F8E4M3FN] = {4, 3, 7, ONLY_NAN, false},
    [PJRTC_F8E4M3B11FNUZ] = {4, 3, 11, NEGATIVE_NAN, false},
    [PJRTC_F8E5M2FNUZ] = {5, 2, 16, NEGATIVE_NAN, false},
    [PJRTC_F8E4M3FNUZ] = {4, 3, 8, NEGATIVE_NAN, false},
    [PJRTC_F8E8M0FNU] = {8, 0, 127, ONLY_NAN, true},
    [PJRTC_F4E2M1FN] = {2, 1, 1, ALL_NUMBERS, false},
    [PJRTC_F6E2M3FN] = {2, 3, 1, ALL_NUMBERS, false},
    [PJRTC_F6E3M2FN] = {3, 2, 3, ALL_NUMBERS, false},
};

static const format *format_of(pjrtc_dtype dtype) {
  return (unsigned)dtype < sizeof formats / sizeof *formats && formats[dtype].exponent_bits ? &formats[dtype] : NULL;
}

bool ctl_float_is_small(pjrtc_dtype dtype) {
  return format_of(dtype) != NULL;
}

static uint32_t sign_bit(const format *f) {
  return 1u << (f->exponent_bits + f->mantissa_bits);
}
static uint32_t largest_exponent(const format *f) {
  return (1u << f->exponent_bits) - 1;
}
static uint32_t mantissa_mask(const format *f) {
  return (1u << f->mantissa_bits) - 1;
}

double ctl_float_decode(pjrtc_dtype dtype, uint32_t bits) {
  const format *f = format_of(dtype);
  uint32_t exponent = bits >> f->mantissa_bits & largest_exponent(f), mantissa = bits & mantissa_mask(f);
  if (f->is_unsigned) return exponent == largest_exponent(f) ? NAN : ldexp(1, (int)exponent - f->bias);
  bool negative = bits & sign_bit(f);
  double value;
  if (f->specials == NEGATIVE_NAN && negative && !exponent && !mantissa) return NAN;
  if (f->specials == IEEE && exponent == largest_exponent(f))
    value = mantissa ? NAN : INFINITY;
  else if (f->specials == ONLY_NAN && exponent == largest_exponent(f) && mantissa == mantissa_mask(f))
    value = NAN;
  else if (exponent == 0)
    value = ldexp(mantissa, 1 - f->bias - f->mantissa_bits);
  else
    value = ldexp(mantissa | 1u << f->mantissa_bits, (int)exponent - f->bias - f->mantissa_bits);
  return negative ? -value : value;
}

static bool encode_nan(const format *f, uint32_t *out_bits) {
  switch (f->specials) {
    case IEEE: *out_bits = largest_exponent(f) << f->mantissa_bits | 1u << (f->mantissa_bits - 1); return true;
    case ONLY_NAN: *out_bits = largest_exponent(f) << f->mantissa_bits | mantissa_mask(f); return true;
    case NEGATIVE_NAN: *out_bits = sign_bit(f); return true;
    default: return false;
  }
}

bool ctl_float_encode(pjrtc_dtype dtype, double value, uint32_t *out_bits) {
  const format *f = format_of(dtype);
  if (isnan(value)) return encode_nan(f, out_bits);
  bool negative = signbit(value);
  if (f->is_unsigned && (negative || value == 0)) return false;
  double magnitude = fabs(value);
  uint32_t sign = negative && !f->is_unsigned ? sign_bit(f) : 0;
  if (isinf(value)) {
    *out_bits = sign | largest_exponent(f) << f->mantissa_bits;
    return f->specials == IEEE;
  }
  if (magnitude == 0) {
    *out_bits = f->specials == NEGATIVE_NAN ? 0 : sign;
    return true;
  }
  /* The value in units of the last place of its binade, rounded to even. */
  int exponent = ilogb(magnitude), lowest = f->is_unsigned ? -f->bias : 1 - f->bias;
  if (exponent < lowest) exponent = lowest;
  double units = nearbyint(ldexp(magnitude, f->mantissa_bits - exponent));
  if (f->is_unsigned && units < 1) return false;
  uint32_t whole = (uint32_t)units, bits;
  /* Rounding up may reach the next binade: then the carry runs into the exponent, as it should. */
  if (whole < 1u << f->mantissa_bits && !f->is_unsigned)
    bits = whole;
  else
    bits = ((uint32_t)(exponent + f->bias) << f->mantissa_bits) + (whole - (1u << f->mantissa_bits));
  uint32_t beyond = (largest_exponent(f) + 1) << f->mantissa_bits;
  if (f->specials == IEEE) beyond = largest_exponent(f) << f->mantissa_bits;
  if (f->specials == ONLY_NAN) beyond--;
  if (bits >= beyond) return false;
  if (f->specials == NEGATIVE_NAN && bits == 0) sign = 0;
  *out_bits = sign | bits;
  return true;
}
