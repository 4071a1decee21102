module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<i32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<i32> {tf.aliasing_output = 1 : i32}, %arg2: tensor<2x128x4x16xf32> {tf.aliasing_output = 2 : i32}, %arg3: tensor<2x128x4x16xf32> {tf.aliasing_output = 3 : i32}, %arg4: tensor<71x64xf32>, %arg5: tensor<128x64xf32>, %arg6: tensor<64xf32>, %arg7: tensor<64x192xf32>, %arg8: tensor<64x64xf32>, %arg9: tensor<64xf32>, %arg10: tensor<64x256xf32>, %arg11: tensor<256x64xf32>, %arg12: tensor<64xf32>, %arg13: tensor<64x192xf32>, %arg14: tensor<64x64xf32>, %arg15: tensor<64xf32>, %arg16: tensor<64x256xf32>, %arg17: tensor<256x64xf32>, %arg18: tensor<64xf32>, %arg19: tensor<64x71xf32>) -> (tensor<i32> {jax.result_info = "result[0]"}, tensor<i32> {jax.result_info = "result[1]"}, tensor<2x128x4x16xf32> {jax.result_info = "result[2]"}, tensor<2x128x4x16xf32> {jax.result_info = "result[3]"}, tensor<i1> {jax.result_info = "result[4]"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.compare LT, %arg0, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<71> : tensor<i32>
    %1 = stablehlo.add %arg0, %c_0 : tensor<i32>
    %2 = stablehlo.select %0, %1, %arg0 : tensor<i1>, tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.compare LT, %c_1, %c_2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %c_4 = stablehlo.constant dense<64> : tensor<i32>
    %4 = stablehlo.add %c_3, %c_4 : tensor<i32>
    %c_5 = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.select %3, %4, %c_5 : tensor<i1>, tensor<i32>
    %6 = stablehlo.dynamic_slice %arg4, %2, %5, sizes = [1, 64] : (tensor<71x64xf32>, tensor<i32>, tensor<i32>) -> tensor<1x64xf32>
    %7 = stablehlo.reshape %6 : (tensor<1x64xf32>) -> tensor<64xf32>
    %c_6 = stablehlo.constant dense<0> : tensor<i32>
    %8 = stablehlo.compare LT, %arg1, %c_6, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_7 = stablehlo.constant dense<128> : tensor<i32>
    %9 = stablehlo.add %arg1, %c_7 : tensor<i32>
    %10 = stablehlo.select %8, %9, %arg1 : tensor<i1>, tensor<i32>
    %c_8 = stablehlo.constant dense<0> : tensor<i32>
    %c_9 = stablehlo.constant dense<0> : tensor<i32>
    %11 = stablehlo.compare LT, %c_8, %c_9, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_10 = stablehlo.constant dense<0> : tensor<i32>
    %c_11 = stablehlo.constant dense<64> : tensor<i32>
    %12 = stablehlo.add %c_10, %c_11 : tensor<i32>
    %c_12 = stablehlo.constant dense<0> : tensor<i32>
    %13 = stablehlo.select %11, %12, %c_12 : tensor<i1>, tensor<i32>
    %14 = stablehlo.dynamic_slice %arg5, %10, %13, sizes = [1, 64] : (tensor<128x64xf32>, tensor<i32>, tensor<i32>) -> tensor<1x64xf32>
    %15 = stablehlo.reshape %14 : (tensor<1x64xf32>) -> tensor<64xf32>
    %16 = stablehlo.add %7, %15 : tensor<64xf32>
    %17 = stablehlo.iota dim = 0 : tensor<128xi32>
    %18 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<i32>) -> tensor<128xi32>
    %19 = stablehlo.compare LE, %17, %18, SIGNED : (tensor<128xi32>, tensor<128xi32>) -> tensor<128xi1>
    %20 = stablehlo.multiply %16, %16 : tensor<64xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %21 = stablehlo.reduce(%20 init: %cst) applies stablehlo.add across dimensions = [0] : (tensor<64xf32>, tensor<f32>) -> tensor<f32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %cst_13 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %24 = stablehlo.divide %22, %23 : tensor<1xf32>
    %cst_14 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %26 = stablehlo.add %24, %25 : tensor<1xf32>
    %27 = stablehlo.rsqrt %26 : tensor<1xf32>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0] : (tensor<1xf32>) -> tensor<64xf32>
    %29 = stablehlo.multiply %16, %28 : tensor<64xf32>
    %30 = stablehlo.multiply %29, %arg6 : tensor<64xf32>
    %31 = stablehlo.dot_general %30, %arg7, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64xf32>, tensor<64x192xf32>) -> tensor<192xf32>
    %32 = stablehlo.reshape %31 : (tensor<192xf32>) -> tensor<3x4x16xf32>
    %33 = stablehlo.slice %32 [0:1, 0:4, 0:16] : (tensor<3x4x16xf32>) -> tensor<1x4x16xf32>
    %34 = stablehlo.reshape %33 : (tensor<1x4x16xf32>) -> tensor<4x16xf32>
    %35 = stablehlo.slice %32 [1:2, 0:4, 0:16] : (tensor<3x4x16xf32>) -> tensor<1x4x16xf32>
    %36 = stablehlo.reshape %35 : (tensor<1x4x16xf32>) -> tensor<4x16xf32>
    %37 = stablehlo.slice %32 [2:3, 0:4, 0:16] : (tensor<3x4x16xf32>) -> tensor<1x4x16xf32>
    %38 = stablehlo.reshape %37 : (tensor<1x4x16xf32>) -> tensor<4x16xf32>
    %c_15 = stablehlo.constant dense<0> : tensor<i32>
    %39 = stablehlo.compare LT, %arg1, %c_15, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_16 = stablehlo.constant dense<128> : tensor<i32>
    %40 = stablehlo.add %arg1, %c_16 : tensor<i32>
    %41 = stablehlo.select %39, %40, %arg1 : tensor<i1>, tensor<i32>
    %c_17 = stablehlo.constant dense<0> : tensor<i32>
    %42 = stablehlo.broadcast_in_dim %c_17, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %43 = stablehlo.broadcast_in_dim %41, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %44 = stablehlo.concatenate %42, %43, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %45 = "stablehlo.scatter"(%arg2, %44, %36) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1]>, unique_indices = true}> ({
    ^bb0(%arg20: tensor<f32>, %arg21: tensor<f32>):
      stablehlo.return %arg21 : tensor<f32>
    }) : (tensor<2x128x4x16xf32>, tensor<2xi32>, tensor<4x16xf32>) -> tensor<2x128x4x16xf32>
    %c_18 = stablehlo.constant dense<0> : tensor<i32>
    %46 = stablehlo.compare LT, %arg1, %c_18, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_19 = stablehlo.constant dense<128> : tensor<i32>
    %47 = stablehlo.add %arg1, %c_19 : tensor<i32>
    %48 = stablehlo.select %46, %47, %arg1 : tensor<i1>, tensor<i32>
    %c_20 = stablehlo.constant dense<0> : tensor<i32>
    %49 = stablehlo.broadcast_in_dim %c_20, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %50 = stablehlo.broadcast_in_dim %48, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %51 = stablehlo.concatenate %49, %50, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %52 = "stablehlo.scatter"(%arg3, %51, %38) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1]>, unique_indices = true}> ({
    ^bb0(%arg20: tensor<f32>, %arg21: tensor<f32>):
      stablehlo.return %arg21 : tensor<f32>
    }) : (tensor<2x128x4x16xf32>, tensor<2xi32>, tensor<4x16xf32>) -> tensor<2x128x4x16xf32>
    %53 = stablehlo.slice %45 [0:1, 0:128, 0:4, 0:16] : (tensor<2x128x4x16xf32>) -> tensor<1x128x4x16xf32>
    %54 = stablehlo.reshape %53 : (tensor<1x128x4x16xf32>) -> tensor<128x4x16xf32>
    %55 = stablehlo.dot_general %34, %54, batching_dims = [0] x [1], contracting_dims = [1] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x16xf32>, tensor<128x4x16xf32>) -> tensor<4x128xf32>
    %cst_21 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %56 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<4x128xf32>
    %57 = stablehlo.divide %55, %56 : tensor<4x128xf32>
    %cst_22 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %58 = call @_where(%19, %57, %cst_22) : (tensor<128xi1>, tensor<4x128xf32>, tensor<f32>) -> tensor<4x128xf32>
    %cst_23 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %59 = stablehlo.reduce(%58 init: %cst_23) applies stablehlo.maximum across dimensions = [1] : (tensor<4x128xf32>, tensor<f32>) -> tensor<4xf32>
    %cst_24 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %60 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %61 = stablehlo.maximum %60, %59 : tensor<4xf32>
    %62 = stablehlo.broadcast_in_dim %61, dims = [0] : (tensor<4xf32>) -> tensor<4x1xf32>
    %63 = stablehlo.broadcast_in_dim %62, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x128xf32>
    %64 = stablehlo.subtract %58, %63 : tensor<4x128xf32>
    %65 = stablehlo.exponential %64 : tensor<4x128xf32>
    %cst_25 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %66 = stablehlo.reduce(%65 init: %cst_25) applies stablehlo.add across dimensions = [1] : (tensor<4x128xf32>, tensor<f32>) -> tensor<4xf32>
    %67 = stablehlo.broadcast_in_dim %66, dims = [0] : (tensor<4xf32>) -> tensor<4x1xf32>
    %68 = stablehlo.broadcast_in_dim %67, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x128xf32>
    %69 = stablehlo.divide %65, %68 : tensor<4x128xf32>
    %70 = stablehlo.slice %52 [0:1, 0:128, 0:4, 0:16] : (tensor<2x128x4x16xf32>) -> tensor<1x128x4x16xf32>
    %71 = stablehlo.reshape %70 : (tensor<1x128x4x16xf32>) -> tensor<128x4x16xf32>
    %72 = stablehlo.dot_general %69, %71, batching_dims = [0] x [1], contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x128xf32>, tensor<128x4x16xf32>) -> tensor<4x16xf32>
    %73 = stablehlo.reshape %72 : (tensor<4x16xf32>) -> tensor<64xf32>
    %74 = stablehlo.dot_general %73, %arg8, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64xf32>, tensor<64x64xf32>) -> tensor<64xf32>
    %75 = stablehlo.add %16, %74 : tensor<64xf32>
    %76 = stablehlo.multiply %75, %75 : tensor<64xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %77 = stablehlo.reduce(%76 init: %cst_26) applies stablehlo.add across dimensions = [0] : (tensor<64xf32>, tensor<f32>) -> tensor<f32>
    %78 = stablehlo.broadcast_in_dim %77, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %cst_27 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %79 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %80 = stablehlo.divide %78, %79 : tensor<1xf32>
    %cst_28 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %81 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %82 = stablehlo.add %80, %81 : tensor<1xf32>
    %83 = stablehlo.rsqrt %82 : tensor<1xf32>
    %84 = stablehlo.broadcast_in_dim %83, dims = [0] : (tensor<1xf32>) -> tensor<64xf32>
    %85 = stablehlo.multiply %75, %84 : tensor<64xf32>
    %86 = stablehlo.multiply %85, %arg9 : tensor<64xf32>
    %87 = stablehlo.dot_general %86, %arg10, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64xf32>, tensor<64x256xf32>) -> tensor<256xf32>
    %88 = call @silu(%87) : (tensor<256xf32>) -> tensor<256xf32>
    %89 = stablehlo.dot_general %88, %arg11, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<256xf32>, tensor<256x64xf32>) -> tensor<64xf32>
    %90 = stablehlo.add %75, %89 : tensor<64xf32>
    %91 = stablehlo.multiply %90, %90 : tensor<64xf32>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %92 = stablehlo.reduce(%91 init: %cst_29) applies stablehlo.add across dimensions = [0] : (tensor<64xf32>, tensor<f32>) -> tensor<f32>
    %93 = stablehlo.broadcast_in_dim %92, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %cst_30 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %94 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %95 = stablehlo.divide %93, %94 : tensor<1xf32>
    %cst_31 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %96 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %97 = stablehlo.add %95, %96 : tensor<1xf32>
    %98 = stablehlo.rsqrt %97 : tensor<1xf32>
    %99 = stablehlo.broadcast_in_dim %98, dims = [0] : (tensor<1xf32>) -> tensor<64xf32>
    %100 = stablehlo.multiply %90, %99 : tensor<64xf32>
    %101 = stablehlo.multiply %100, %arg12 : tensor<64xf32>
    %102 = stablehlo.dot_general %101, %arg13, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64xf32>, tensor<64x192xf32>) -> tensor<192xf32>
    %103 = stablehlo.reshape %102 : (tensor<192xf32>) -> tensor<3x4x16xf32>
    %104 = stablehlo.slice %103 [0:1, 0:4, 0:16] : (tensor<3x4x16xf32>) -> tensor<1x4x16xf32>
    %105 = stablehlo.reshape %104 : (tensor<1x4x16xf32>) -> tensor<4x16xf32>
    %106 = stablehlo.slice %103 [1:2, 0:4, 0:16] : (tensor<3x4x16xf32>) -> tensor<1x4x16xf32>
    %107 = stablehlo.reshape %106 : (tensor<1x4x16xf32>) -> tensor<4x16xf32>
    %108 = stablehlo.slice %103 [2:3, 0:4, 0:16] : (tensor<3x4x16xf32>) -> tensor<1x4x16xf32>
    %109 = stablehlo.reshape %108 : (tensor<1x4x16xf32>) -> tensor<4x16xf32>
    %c_32 = stablehlo.constant dense<0> : tensor<i32>
    %110 = stablehlo.compare LT, %arg1, %c_32, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_33 = stablehlo.constant dense<128> : tensor<i32>
    %111 = stablehlo.add %arg1, %c_33 : tensor<i32>
    %112 = stablehlo.select %110, %111, %arg1 : tensor<i1>, tensor<i32>
    %c_34 = stablehlo.constant dense<1> : tensor<i32>
    %113 = stablehlo.broadcast_in_dim %c_34, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %114 = stablehlo.broadcast_in_dim %112, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %115 = stablehlo.concatenate %113, %114, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %116 = "stablehlo.scatter"(%45, %115, %107) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1]>, unique_indices = true}> ({
    ^bb0(%arg20: tensor<f32>, %arg21: tensor<f32>):
      stablehlo.return %arg21 : tensor<f32>
    }) : (tensor<2x128x4x16xf32>, tensor<2xi32>, tensor<4x16xf32>) -> tensor<2x128x4x16xf32>
    %c_35 = stablehlo.constant dense<0> : tensor<i32>
    %117 = stablehlo.compare LT, %arg1, %c_35, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_36 = stablehlo.constant dense<128> : tensor<i32>
    %118 = stablehlo.add %arg1, %c_36 : tensor<i32>
    %119 = stablehlo.select %117, %118, %arg1 : tensor<i1>, tensor<i32>
    %c_37 = stablehlo.constant dense<1> : tensor<i32>
    %120 = stablehlo.broadcast_in_dim %c_37, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %121 = stablehlo.broadcast_in_dim %119, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %122 = stablehlo.concatenate %120, %121, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %123 = "stablehlo.scatter"(%52, %122, %109) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1]>, unique_indices = true}> ({
    ^bb0(%arg20: tensor<f32>, %arg21: tensor<f32>):
      stablehlo.return %arg21 : tensor<f32>
    }) : (tensor<2x128x4x16xf32>, tensor<2xi32>, tensor<4x16xf32>) -> tensor<2x128x4x16xf32>
    %124 = stablehlo.slice %116 [1:2, 0:128, 0:4, 0:16] : (tensor<2x128x4x16xf32>) -> tensor<1x128x4x16xf32>
    %125 = stablehlo.reshape %124 : (tensor<1x128x4x16xf32>) -> tensor<128x4x16xf32>
    %126 = stablehlo.dot_general %105, %125, batching_dims = [0] x [1], contracting_dims = [1] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x16xf32>, tensor<128x4x16xf32>) -> tensor<4x128xf32>
    %cst_38 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %127 = stablehlo.broadcast_in_dim %cst_38, dims = [] : (tensor<f32>) -> tensor<4x128xf32>
    %128 = stablehlo.divide %126, %127 : tensor<4x128xf32>
    %cst_39 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %129 = call @_where(%19, %128, %cst_39) : (tensor<128xi1>, tensor<4x128xf32>, tensor<f32>) -> tensor<4x128xf32>
    %cst_40 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %130 = stablehlo.reduce(%129 init: %cst_40) applies stablehlo.maximum across dimensions = [1] : (tensor<4x128xf32>, tensor<f32>) -> tensor<4xf32>
    %cst_41 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %131 = stablehlo.broadcast_in_dim %cst_41, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %132 = stablehlo.maximum %131, %130 : tensor<4xf32>
    %133 = stablehlo.broadcast_in_dim %132, dims = [0] : (tensor<4xf32>) -> tensor<4x1xf32>
    %134 = stablehlo.broadcast_in_dim %133, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x128xf32>
    %135 = stablehlo.subtract %129, %134 : tensor<4x128xf32>
    %136 = stablehlo.exponential %135 : tensor<4x128xf32>
    %cst_42 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %137 = stablehlo.reduce(%136 init: %cst_42) applies stablehlo.add across dimensions = [1] : (tensor<4x128xf32>, tensor<f32>) -> tensor<4xf32>
    %138 = stablehlo.broadcast_in_dim %137, dims = [0] : (tensor<4xf32>) -> tensor<4x1xf32>
    %139 = stablehlo.broadcast_in_dim %138, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x128xf32>
    %140 = stablehlo.divide %136, %139 : tensor<4x128xf32>
    %141 = stablehlo.slice %123 [1:2, 0:128, 0:4, 0:16] : (tensor<2x128x4x16xf32>) -> tensor<1x128x4x16xf32>
    %142 = stablehlo.reshape %141 : (tensor<1x128x4x16xf32>) -> tensor<128x4x16xf32>
    %143 = stablehlo.dot_general %140, %142, batching_dims = [0] x [1], contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x128xf32>, tensor<128x4x16xf32>) -> tensor<4x16xf32>
    %144 = stablehlo.reshape %143 : (tensor<4x16xf32>) -> tensor<64xf32>
    %145 = stablehlo.dot_general %144, %arg14, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64xf32>, tensor<64x64xf32>) -> tensor<64xf32>
    %146 = stablehlo.add %90, %145 : tensor<64xf32>
    %147 = stablehlo.multiply %146, %146 : tensor<64xf32>
    %cst_43 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %148 = stablehlo.reduce(%147 init: %cst_43) applies stablehlo.add across dimensions = [0] : (tensor<64xf32>, tensor<f32>) -> tensor<f32>
    %149 = stablehlo.broadcast_in_dim %148, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %cst_44 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %150 = stablehlo.broadcast_in_dim %cst_44, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %151 = stablehlo.divide %149, %150 : tensor<1xf32>
    %cst_45 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %152 = stablehlo.broadcast_in_dim %cst_45, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %153 = stablehlo.add %151, %152 : tensor<1xf32>
    %154 = stablehlo.rsqrt %153 : tensor<1xf32>
    %155 = stablehlo.broadcast_in_dim %154, dims = [0] : (tensor<1xf32>) -> tensor<64xf32>
    %156 = stablehlo.multiply %146, %155 : tensor<64xf32>
    %157 = stablehlo.multiply %156, %arg15 : tensor<64xf32>
    %158 = stablehlo.dot_general %157, %arg16, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64xf32>, tensor<64x256xf32>) -> tensor<256xf32>
    %159 = call @silu(%158) : (tensor<256xf32>) -> tensor<256xf32>
    %160 = stablehlo.dot_general %159, %arg17, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<256xf32>, tensor<256x64xf32>) -> tensor<64xf32>
    %161 = stablehlo.add %146, %160 : tensor<64xf32>
    %162 = stablehlo.multiply %161, %161 : tensor<64xf32>
    %cst_46 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %163 = stablehlo.reduce(%162 init: %cst_46) applies stablehlo.add across dimensions = [0] : (tensor<64xf32>, tensor<f32>) -> tensor<f32>
    %164 = stablehlo.broadcast_in_dim %163, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %cst_47 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %165 = stablehlo.broadcast_in_dim %cst_47, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %166 = stablehlo.divide %164, %165 : tensor<1xf32>
    %cst_48 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %167 = stablehlo.broadcast_in_dim %cst_48, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %168 = stablehlo.add %166, %167 : tensor<1xf32>
    %169 = stablehlo.rsqrt %168 : tensor<1xf32>
    %170 = stablehlo.broadcast_in_dim %169, dims = [0] : (tensor<1xf32>) -> tensor<64xf32>
    %171 = stablehlo.multiply %161, %170 : tensor<64xf32>
    %172 = stablehlo.multiply %171, %arg18 : tensor<64xf32>
    %173 = stablehlo.dot_general %172, %arg19, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64xf32>, tensor<64x71xf32>) -> tensor<71xf32>
    %174 = call @argmax(%173) : (tensor<71xf32>) -> tensor<i32>
    %c_49 = stablehlo.constant dense<1> : tensor<i32>
    %175 = stablehlo.add %arg1, %c_49 : tensor<i32>
    %c_50 = stablehlo.constant dense<0> : tensor<i32>
    %176 = stablehlo.compare EQ, %174, %c_50, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_51 = stablehlo.constant dense<1> : tensor<i32>
    %177 = stablehlo.add %arg1, %c_51 : tensor<i32>
    %c_52 = stablehlo.constant dense<127> : tensor<i32>
    %178 = stablehlo.compare EQ, %177, %c_52, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %179 = stablehlo.or %176, %178 : tensor<i1>
    return %174, %175, %116, %123, %179 : tensor<i32>, tensor<i32>, tensor<2x128x4x16xf32>, tensor<2x128x4x16xf32>, tensor<i1>
  }
  func.func private @_where(%arg0: tensor<128xi1>, %arg1: tensor<4x128xf32>, %arg2: tensor<f32>) -> tensor<4x128xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<128xi1>) -> tensor<4x128xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4x128xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<4x128xi1>, tensor<4x128xf32>
    return %3 : tensor<4x128xf32>
  }
  func.func private @silu(%arg0: tensor<256xf32>) -> tensor<256xf32> {
    %0 = stablehlo.negate %arg0 : tensor<256xf32>
    %1 = stablehlo.exponential %0 : tensor<256xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %3 = stablehlo.add %2, %1 : tensor<256xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %5 = stablehlo.divide %4, %3 : tensor<256xf32>
    %6 = stablehlo.multiply %arg0, %5 : tensor<256xf32>
    return %6 : tensor<256xf32>
  }
  func.func private @argmax(%arg0: tensor<71xf32>) -> tensor<i32> {
    %0 = stablehlo.iota dim = 0 : tensor<71xi32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:2 = stablehlo.reduce(%arg0 init: %cst), (%0 init: %c) across dimensions = [0] : (tensor<71xf32>, tensor<71xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
     reducer(%arg1: tensor<f32>, %arg3: tensor<f32>) (%arg2: tensor<i32>, %arg4: tensor<i32>)  {
      %2 = stablehlo.compare GT, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %4 = stablehlo.or %2, %3 : tensor<i1>
      %5 = stablehlo.compare EQ, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %6 = stablehlo.compare LT, %arg2, %arg4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %7 = stablehlo.and %5, %6 : tensor<i1>
      %8 = stablehlo.or %4, %7 : tensor<i1>
      %9 = stablehlo.select %4, %arg1, %arg3 : tensor<i1>, tensor<f32>
      %10 = stablehlo.select %8, %arg2, %arg4 : tensor<i1>, tensor<i32>
      stablehlo.return %9, %10 : tensor<f32>, tensor<i32>
    }
    return %1#1 : tensor<i32>
  }
}
