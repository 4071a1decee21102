/* What C programs without Criterion fail with: the claim and where it stands, then an abort. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(claim)                                                           \
  do {                                                                           \
    if (!(claim)) {                                                              \
      fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #claim); \
      abort();                                                                   \
    }                                                                            \
  } while (0)
