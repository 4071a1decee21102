/* What the stress programs fail with: the claim, where it stands, and exit code 1. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(claim)                                                  \
  do {                                                                  \
    if (!(claim)) {                                                     \
      printf("%s:%d: does not hold: %s\n", __FILE__, __LINE__, #claim); \
      exit(1);                                                          \
    }                                                                   \
  } while (0)
