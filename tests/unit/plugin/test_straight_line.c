/* plugin/straight_line.c: by name, and by what the compiler makes of programs. */
#include "plugin/hlo_module.h"
#include "plugin_fixture.h"

static bool is(const char *opcode) {
  return pjrtd_opcode_is_straight_line(opcode, strlen(opcode));
}

Test(straight_line, knows_operations_of_fixed_time) {
  static const char *const good[] = {"abs",
                                     "add",
                                     "dot",
                                     "fusion",
                                     "parameter",
                                     "reduce",
                                     "tuple",
                                     "xor",
                                     "convolution",
                                     "call",
                                     "get-tuple-element",
                                     "copy",
                                     "sort",
                                     "rng-bit-generator"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) cr_assert(is(good[i]), "%s", good[i]);
}

Test(straight_line, refuses_what_loops_waits_or_is_unknown) {
  static const char *const bad[] = {"while",
                                    "conditional",
                                    "infeed",
                                    "outfeed",
                                    "send",
                                    "recv",
                                    "send-done",
                                    "recv-done",
                                    "custom-call",
                                    "all-reduce",
                                    "all-gather",
                                    "all-to-all",
                                    "collective-permute",
                                    "reduce-scatter",
                                    "async-start",
                                    "async-done",
                                    "partition",
                                    "",
                                    "ad",
                                    "addd",
                                    "operation-of-the-future",
                                    "Add"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) cr_assert_not(is(bad[i]), "%s", bad[i]);
  cr_assert(pjrtd_opcode_is_straight_line("addition", 3), "the length counts, not a NUL");
}

static bool compiles_straight(const char *code) {
  pjrtd_executable *executable = compile(code);
  bool straight = pjrtd_executable_get_info(executable)->straight_line;
  pjrtd_executable_destroy(executable);
  return straight;
}

Test(straight_line, holds_for_arithmetic_and_not_for_loops_and_branches, .init = open_client, .fini = close_client) {
  cr_assert(
      compiles_straight("func.func @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> { %0 = stablehlo.dot %a, %a : "
                        "(tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> %1 = stablehlo.tanh %0 : "
                        "tensor<8x8xf32> return %1 : tensor<8x8xf32> }"));
  cr_assert(compiles_straight("func.func @main() { return }"));
  cr_assert_not(compiles_straight(
      "func.func @main(%a: tensor<i32>) -> tensor<i32> { %0 = stablehlo.while(%i = %a) : tensor<i32> cond { %z = "
      "stablehlo.constant dense<3> : tensor<i32> %c = stablehlo.compare LT, %i, %z : (tensor<i32>, tensor<i32>) -> "
      "tensor<i1> stablehlo.return %c : tensor<i1> } do { %o = stablehlo.add %i, %i : tensor<i32> stablehlo.return %o "
      ": "
      "tensor<i32> } return %0 : tensor<i32> }"));
  cr_assert_not(compiles_straight(
      "func.func @main(%p: tensor<i1>, %a: tensor<64x64xf32>) -> tensor<64x64xf32> { %0 = \"stablehlo.if\"(%p) ({ %1 = "
      "stablehlo.dot %a, %a : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> stablehlo.return %1 : "
      "tensor<64x64xf32> }, { stablehlo.return %a : tensor<64x64xf32> }) : (tensor<i1>) -> tensor<64x64xf32> return %0 "
      ": "
      "tensor<64x64xf32> }"));
}
