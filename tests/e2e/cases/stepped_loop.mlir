// ARG s32[] = 3
// ARG u32[] = 1
// OUT u32[] = 2165703038
// As many steps of a generator as the first argument says, from the second: its time depends on data.
func.func @main(%n: tensor<i32>, %x: tensor<ui32>) -> tensor<ui32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<ui32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %a = stablehlo.constant dense<1664525> : tensor<ui32>
    %b = stablehlo.constant dense<1013904223> : tensor<ui32>
    %next = stablehlo.add %i, %one : tensor<i32>
    %p = stablehlo.multiply %y, %a : tensor<ui32>
    %q = stablehlo.add %p, %b : tensor<ui32>
    stablehlo.return %next, %q : tensor<i32>, tensor<ui32>
  }
  return %0#1 : tensor<ui32>
}
