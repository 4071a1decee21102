// Adds two arrays: pjrtctl run add.mlir --arg 'f32[4]=1,2,3,4' --arg 'f32[4]=10,20,30,40'
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %sum = stablehlo.add %x, %y : tensor<4xf32>
  return %sum : tensor<4xf32>
}
