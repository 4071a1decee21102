// ARG s4[5] hex f8ff070300
// OUT s4[5] hex 00fefe0600
// OUT s8[5] = -8,-1,7,3,0
module @int4_sign {
  func.func @main(%a: tensor<5xi4>) -> (tensor<5xi4>, tensor<5xi8>) {
    %0 = stablehlo.add %a, %a : tensor<5xi4>
    %1 = stablehlo.convert %a : (tensor<5xi4>) -> tensor<5xi8>
    return %0, %1 : tensor<5xi4>, tensor<5xi8>
  }
}
