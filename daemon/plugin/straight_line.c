/* Which HLO operations run for a time that is fixed when the program is compiled: no loop, no branch on data, nothing
 * that waits for the host or for another device. Of those not listed nothing is known, so they are not among them. */
#include <stdlib.h>
#include <string.h>

#include "plugin/hlo_module.h"

/* Sorted, for the search; a test checks that. */
static const char *const opcodes[] = {
    "abs",
    "acos",
    "acosh",
    "add",
    "after-all",
    "and",
    "asin",
    "asinh",
    "atan2",
    "atanh",
    "batch-norm-grad",
    "batch-norm-inference",
    "batch-norm-training",
    "bitcast",
    "bitcast-convert",
    "broadcast",
    "call",
    "cbrt",
    "ceil",
    "cholesky",
    "clamp",
    "compare",
    "complex",
    "concatenate",
    "constant",
    "convert",
    "convolution",
    "copy",
    "cosh",
    "cosine",
    "count-leading-zeros",
    "divide",
    "dot",
    "dynamic-slice",
    "dynamic-update-slice",
    "erf",
    "exponential",
    "exponential-minus-one",
    "fft",
    "floor",
    "fusion",
    "gather",
    "get-tuple-element",
    "imag",
    "iota",
    "is-finite",
    "log",
    "log-plus-one",
    "logistic",
    "map",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "not",
    "opt-barrier",
    "or",
    "pad",
    "parameter",
    "partition-id",
    "popcnt",
    "power",
    "real",
    "reduce",
    "reduce-precision",
    "reduce-window",
    "remainder",
    "replica-id",
    "reshape",
    "reverse",
    "rng",
    "rng-bit-generator",
    "rng-get-and-update-state",
    "round-nearest-afz",
    "round-nearest-even",
    "rsqrt",
    "scaled-dot",
    "scatter",
    "select",
    "select-and-scatter",
    "shift-left",
    "shift-right-arithmetic",
    "shift-right-logical",
    "sign",
    "sine",
    "sinh",
    "slice",
    "sort",
    "sqrt",
    "stochastic-convert",
    "subtract",
    "tan",
    "tanh",
    "topk",
    "transpose",
    "triangular-solve",
    "tuple",
    "xor",
};

typedef struct {
  const char *text;
  size_t length;
} name;

static int compare(const void *key, const void *element) {
  const name *wanted = key;
  const char *opcode = *(const char *const *)element;
  size_t length = strlen(opcode), shorter = length < wanted->length ? length : wanted->length;
  int order = memcmp(wanted->text, opcode, shorter);
  return order ? order : (wanted->length > length) - (wanted->length < length);
}

bool pjrtd_opcode_is_straight_line(const char *opcode, size_t length) {
  name wanted = {opcode, length};
  return bsearch(&wanted, opcodes, sizeof opcodes / sizeof *opcodes, sizeof *opcodes, compare) != NULL;
}
