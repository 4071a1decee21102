module @jit_train_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<64x96xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<96xf32> {tf.aliasing_output = 1 : i32}, %arg2: tensor<96x10xf32> {tf.aliasing_output = 2 : i32}, %arg3: tensor<10xf32> {tf.aliasing_output = 3 : i32}, %arg4: tensor<64x96xf32> {tf.aliasing_output = 4 : i32}, %arg5: tensor<96xf32> {tf.aliasing_output = 5 : i32}, %arg6: tensor<96x10xf32> {tf.aliasing_output = 6 : i32}, %arg7: tensor<10xf32> {tf.aliasing_output = 7 : i32}, %arg8: tensor<128x64xf32>, %arg9: tensor<128xi32>) -> (tensor<64x96xf32> {jax.result_info = "result[0]"}, tensor<96xf32> {jax.result_info = "result[1]"}, tensor<96x10xf32> {jax.result_info = "result[2]"}, tensor<10xf32> {jax.result_info = "result[3]"}, tensor<64x96xf32> {jax.result_info = "result[4]"}, tensor<96xf32> {jax.result_info = "result[5]"}, tensor<96x10xf32> {jax.result_info = "result[6]"}, tensor<10xf32> {jax.result_info = "result[7]"}, tensor<f32> {jax.result_info = "result[8]"}) {
    %0 = stablehlo.dot_general %arg8, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x64xf32>, tensor<64x96xf32>) -> tensor<128x96xf32>
    %1 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<96xf32>) -> tensor<1x96xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x96xf32>) -> tensor<128x96xf32>
    %3 = stablehlo.add %0, %2 : tensor<128x96xf32>
    %4 = call @relu(%3) : (tensor<128x96xf32>) -> tensor<128x96xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<128x96xf32>
    %6 = stablehlo.compare GT, %3, %5, FLOAT : (tensor<128x96xf32>, tensor<128x96xf32>) -> tensor<128x96xi1>
    %7 = stablehlo.dot_general %4, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x96xf32>, tensor<96x10xf32>) -> tensor<128x10xf32>
    %8 = stablehlo.broadcast_in_dim %arg3, dims = [1] : (tensor<10xf32>) -> tensor<1x10xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<1x10xf32>) -> tensor<128x10xf32>
    %10 = stablehlo.add %7, %9 : tensor<128x10xf32>
    %11:3 = call @log_softmax(%10) : (tensor<128x10xf32>) -> (tensor<128x10xf32>, tensor<128x10xf32>, tensor<128x1xf32>)
    %12 = call @_one_hot(%arg9) : (tensor<128xi32>) -> tensor<128x10xf32>
    %13 = stablehlo.multiply %11#0, %12 : tensor<128x10xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %14 = stablehlo.reduce(%13 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<128x10xf32>, tensor<f32>) -> tensor<128xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %15 = stablehlo.reduce(%14 init: %cst_1) applies stablehlo.add across dimensions = [0] : (tensor<128xf32>, tensor<f32>) -> tensor<f32>
    %cst_2 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %16 = stablehlo.divide %15, %cst_2 : tensor<f32>
    %17 = stablehlo.negate %16 : tensor<f32>
    %18 = stablehlo.multiply %arg0, %arg0 : tensor<64x96xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %19 = stablehlo.reduce(%18 init: %cst_3) applies stablehlo.add across dimensions = [0, 1] : (tensor<64x96xf32>, tensor<f32>) -> tensor<f32>
    %20 = stablehlo.multiply %arg2, %arg2 : tensor<96x10xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %21 = stablehlo.reduce(%20 init: %cst_4) applies stablehlo.add across dimensions = [0, 1] : (tensor<96x10xf32>, tensor<f32>) -> tensor<f32>
    %22 = stablehlo.add %19, %21 : tensor<f32>
    %cst_5 = stablehlo.constant dense<9.99999974E-5> : tensor<f32>
    %23 = stablehlo.multiply %cst_5, %22 : tensor<f32>
    %24 = stablehlo.add %17, %23 : tensor<f32>
    %cst_6 = stablehlo.constant dense<9.99999974E-5> : tensor<f32>
    %cst_7 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %25 = stablehlo.multiply %cst_6, %cst_7 : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [] : (tensor<f32>) -> tensor<96x10xf32>
    %27 = stablehlo.multiply %arg2, %26 : tensor<96x10xf32>
    %28 = stablehlo.multiply %26, %arg2 : tensor<96x10xf32>
    %29 = stablehlo.add %27, %28 : tensor<96x10xf32>
    %30 = stablehlo.broadcast_in_dim %25, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %31 = stablehlo.multiply %arg0, %30 : tensor<64x96xf32>
    %32 = stablehlo.multiply %30, %arg0 : tensor<64x96xf32>
    %33 = stablehlo.add %31, %32 : tensor<64x96xf32>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %34 = stablehlo.negate %cst_8 : tensor<f32>
    %cst_9 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %35 = stablehlo.divide %34, %cst_9 : tensor<f32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [0] : (tensor<128xf32>) -> tensor<128x10xf32>
    %38 = stablehlo.multiply %37, %12 : tensor<128x10xf32>
    %39 = call @log_softmax_0(%11#1, %11#2, %38) : (tensor<128x10xf32>, tensor<128x1xf32>, tensor<128x10xf32>) -> tensor<128x10xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %40 = stablehlo.reduce(%39 init: %cst_10) applies stablehlo.add across dimensions = [0] : (tensor<128x10xf32>, tensor<f32>) -> tensor<10xf32>
    %41 = stablehlo.reshape %40 : (tensor<10xf32>) -> tensor<1x10xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %42 = stablehlo.reduce(%41 init: %cst_11) applies stablehlo.add across dimensions = [0] : (tensor<1x10xf32>, tensor<f32>) -> tensor<10xf32>
    %43 = stablehlo.dot_general %39, %4, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x10xf32>, tensor<128x96xf32>) -> tensor<10x96xf32>
    %44 = stablehlo.transpose %43, dims = [1, 0] : (tensor<10x96xf32>) -> tensor<96x10xf32>
    %45 = stablehlo.add %29, %44 : tensor<96x10xf32>
    %46 = stablehlo.dot_general %39, %arg2, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<128x10xf32>, tensor<96x10xf32>) -> tensor<128x96xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %47 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<128x96xf32>
    %48 = stablehlo.select %6, %46, %47 : tensor<128x96xi1>, tensor<128x96xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %49 = stablehlo.reduce(%48 init: %cst_13) applies stablehlo.add across dimensions = [0] : (tensor<128x96xf32>, tensor<f32>) -> tensor<96xf32>
    %50 = stablehlo.reshape %49 : (tensor<96xf32>) -> tensor<1x96xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %51 = stablehlo.reduce(%50 init: %cst_14) applies stablehlo.add across dimensions = [0] : (tensor<1x96xf32>, tensor<f32>) -> tensor<96xf32>
    %52 = stablehlo.dot_general %48, %arg8, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x96xf32>, tensor<128x64xf32>) -> tensor<96x64xf32>
    %53 = stablehlo.transpose %52, dims = [1, 0] : (tensor<96x64xf32>) -> tensor<64x96xf32>
    %54 = stablehlo.add %33, %53 : tensor<64x96xf32>
    %cst_15 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %55 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %56 = stablehlo.multiply %55, %arg4 : tensor<64x96xf32>
    %cst_16 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %57 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %58 = stablehlo.multiply %57, %54 : tensor<64x96xf32>
    %59 = stablehlo.subtract %56, %58 : tensor<64x96xf32>
    %cst_17 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %60 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %61 = stablehlo.multiply %60, %arg5 : tensor<96xf32>
    %cst_18 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %62 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<96xf32>
    %63 = stablehlo.multiply %62, %51 : tensor<96xf32>
    %64 = stablehlo.subtract %61, %63 : tensor<96xf32>
    %cst_19 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %65 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<96x10xf32>
    %66 = stablehlo.multiply %65, %arg6 : tensor<96x10xf32>
    %cst_20 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %67 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<96x10xf32>
    %68 = stablehlo.multiply %67, %45 : tensor<96x10xf32>
    %69 = stablehlo.subtract %66, %68 : tensor<96x10xf32>
    %cst_21 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %70 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<10xf32>
    %71 = stablehlo.multiply %70, %arg7 : tensor<10xf32>
    %cst_22 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %72 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<10xf32>
    %73 = stablehlo.multiply %72, %42 : tensor<10xf32>
    %74 = stablehlo.subtract %71, %73 : tensor<10xf32>
    %75 = stablehlo.add %arg0, %59 : tensor<64x96xf32>
    %76 = stablehlo.add %arg1, %64 : tensor<96xf32>
    %77 = stablehlo.add %arg2, %69 : tensor<96x10xf32>
    %78 = stablehlo.add %arg3, %74 : tensor<10xf32>
    return %75, %76, %77, %78, %59, %64, %69, %74, %24 : tensor<64x96xf32>, tensor<96xf32>, tensor<96x10xf32>, tensor<10xf32>, tensor<64x96xf32>, tensor<96xf32>, tensor<96x10xf32>, tensor<10xf32>, tensor<f32>
  }
  func.func private @relu(%arg0: tensor<128x96xf32>) -> tensor<128x96xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<128x96xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<128x96xf32>
    return %1 : tensor<128x96xf32>
  }
  func.func private @log_softmax(%arg0: tensor<128x10xf32>) -> (tensor<128x10xf32>, tensor<128x10xf32>, tensor<128x1xf32>) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [1] : (tensor<128x10xf32>, tensor<f32>) -> tensor<128xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %2 = stablehlo.maximum %1, %0 : tensor<128xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<128xf32>) -> tensor<128x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<128x1xf32>) -> tensor<128x10xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<128x10xf32>
    %6 = stablehlo.exponential %5 : tensor<128x10xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<128x10xf32>, tensor<f32>) -> tensor<128xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<128xf32>) -> tensor<128x1xf32>
    %9 = stablehlo.log %8 : tensor<128x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<128x1xf32>) -> tensor<128x10xf32>
    %11 = stablehlo.subtract %5, %10 : tensor<128x10xf32>
    return %11, %6, %8 : tensor<128x10xf32>, tensor<128x10xf32>, tensor<128x1xf32>
  }
  func.func private @_one_hot(%arg0: tensor<128xi32>) -> tensor<128x10xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0] : (tensor<128xi32>) -> tensor<128x1xi32>
    %1 = stablehlo.iota dim = 1 : tensor<1x10xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<128x1xi32>) -> tensor<128x10xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x10xi32>) -> tensor<128x10xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<128x10xi32>, tensor<128x10xi32>) -> tensor<128x10xi1>
    %5 = stablehlo.convert %4 : (tensor<128x10xi1>) -> tensor<128x10xf32>
    return %5 : tensor<128x10xf32>
  }
  func.func private @log_softmax_0(%arg0: tensor<128x10xf32>, %arg1: tensor<128x1xf32>, %arg2: tensor<128x10xf32>) -> tensor<128x10xf32> {
    %0 = stablehlo.negate %arg2 : tensor<128x10xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<128x10xf32>, tensor<f32>) -> tensor<128xf32>
    %2 = stablehlo.reshape %1 : (tensor<128xf32>) -> tensor<128x1xf32>
    %3 = stablehlo.divide %2, %arg1 : tensor<128x1xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%3 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<128x1xf32>, tensor<f32>) -> tensor<128xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<128xf32>) -> tensor<128x10xf32>
    %6 = stablehlo.multiply %5, %arg0 : tensor<128x10xf32>
    %7 = stablehlo.add %arg2, %6 : tensor<128x10xf32>
    return %7 : tensor<128x10xf32>
  }
}
