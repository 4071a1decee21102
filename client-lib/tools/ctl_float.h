/* The floating-point formats under 32 bits, described by numbers: conversion from and to double, exactly and rounded to
 * nearest even. Any thread. */
#pragma once

#include <pjrtc/pjrtc.h>

/* f16, bf16 and every f8, f6 and f4. */
bool ctl_float_is_small(pjrtc_dtype dtype);
/* The value of a bit pattern: exact, since a double holds them all. */
double ctl_float_decode(pjrtc_dtype dtype, uint32_t bits);
/* False where the format cannot hold the value: too large, infinite or not a number where it has none of those,
 * negative or zero where it has no sign or zero. */
bool ctl_float_encode(pjrtc_dtype dtype, double value, uint32_t *out_bits);
