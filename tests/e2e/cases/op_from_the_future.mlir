// COMPILE-ERROR INVALID_ARGUMENT
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "vhlo.constant_v99"() : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
