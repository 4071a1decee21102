module @jit_embed attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x32xi32>, %arg1: tensor<1xi32>, %arg2: tensor<30522x384xf32>, %arg3: tensor<512x384xf32>, %arg4: tensor<2x384xf32>, %arg5: tensor<384xf32>, %arg6: tensor<384xf32>, %arg7: tensor<384x384xf32>, %arg8: tensor<384xf32>, %arg9: tensor<384x384xf32>, %arg10: tensor<384xf32>, %arg11: tensor<384x384xf32>, %arg12: tensor<384xf32>, %arg13: tensor<384x384xf32>, %arg14: tensor<384xf32>, %arg15: tensor<384xf32>, %arg16: tensor<384xf32>, %arg17: tensor<1536x384xf32>, %arg18: tensor<1536xf32>, %arg19: tensor<384x1536xf32>, %arg20: tensor<384xf32>, %arg21: tensor<384xf32>, %arg22: tensor<384xf32>, %arg23: tensor<384x384xf32>, %arg24: tensor<384xf32>, %arg25: tensor<384x384xf32>, %arg26: tensor<384xf32>, %arg27: tensor<384x384xf32>, %arg28: tensor<384xf32>, %arg29: tensor<384x384xf32>, %arg30: tensor<384xf32>, %arg31: tensor<384xf32>, %arg32: tensor<384xf32>, %arg33: tensor<1536x384xf32>, %arg34: tensor<1536xf32>, %arg35: tensor<384x1536xf32>, %arg36: tensor<384xf32>, %arg37: tensor<384xf32>, %arg38: tensor<384xf32>, %arg39: tensor<384x384xf32>, %arg40: tensor<384xf32>, %arg41: tensor<384x384xf32>, %arg42: tensor<384xf32>, %arg43: tensor<384x384xf32>, %arg44: tensor<384xf32>, %arg45: tensor<384x384xf32>, %arg46: tensor<384xf32>, %arg47: tensor<384xf32>, %arg48: tensor<384xf32>, %arg49: tensor<1536x384xf32>, %arg50: tensor<1536xf32>, %arg51: tensor<384x1536xf32>, %arg52: tensor<384xf32>, %arg53: tensor<384xf32>, %arg54: tensor<384xf32>, %arg55: tensor<384x384xf32>, %arg56: tensor<384xf32>, %arg57: tensor<384x384xf32>, %arg58: tensor<384xf32>, %arg59: tensor<384x384xf32>, %arg60: tensor<384xf32>, %arg61: tensor<384x384xf32>, %arg62: tensor<384xf32>, %arg63: tensor<384xf32>, %arg64: tensor<384xf32>, %arg65: tensor<1536x384xf32>, %arg66: tensor<1536xf32>, %arg67: tensor<384x1536xf32>, %arg68: tensor<384xf32>, %arg69: tensor<384xf32>, %arg70: tensor<384xf32>, %arg71: tensor<384x384xf32>, %arg72: tensor<384xf32>, %arg73: tensor<384x384xf32>, %arg74: tensor<384xf32>, %arg75: tensor<384x384xf32>, %arg76: tensor<384xf32>, %arg77: tensor<384x384xf32>, %arg78: tensor<384xf32>, %arg79: tensor<384xf32>, %arg80: tensor<384xf32>, %arg81: tensor<1536x384xf32>, %arg82: tensor<1536xf32>, %arg83: tensor<384x1536xf32>, %arg84: tensor<384xf32>, %arg85: tensor<384xf32>, %arg86: tensor<384xf32>, %arg87: tensor<384x384xf32>, %arg88: tensor<384xf32>, %arg89: tensor<384x384xf32>, %arg90: tensor<384xf32>, %arg91: tensor<384x384xf32>, %arg92: tensor<384xf32>, %arg93: tensor<384x384xf32>, %arg94: tensor<384xf32>, %arg95: tensor<384xf32>, %arg96: tensor<384xf32>, %arg97: tensor<1536x384xf32>, %arg98: tensor<1536xf32>, %arg99: tensor<384x1536xf32>, %arg100: tensor<384xf32>, %arg101: tensor<384xf32>, %arg102: tensor<384xf32>) -> (tensor<1x384xf32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<1x32xi32>
    %1 = stablehlo.compare LT, %arg0, %0, SIGNED : (tensor<1x32xi32>, tensor<1x32xi32>) -> tensor<1x32xi1>
    %c_0 = stablehlo.constant dense<30522> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<1x32xi32>
    %3 = stablehlo.add %arg0, %2 : tensor<1x32xi32>
    %4 = stablehlo.select %1, %3, %arg0 : tensor<1x32xi1>, tensor<1x32xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<1x32xi32>) -> tensor<1x32x1xi32>
    %6 = "stablehlo.gather"(%arg2, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 384>}> : (tensor<30522x384xf32>, tensor<1x32x1xi32>) -> tensor<1x32x384xf32>
    %7 = stablehlo.slice %arg3 [0:32, 0:384] : (tensor<512x384xf32>) -> tensor<32x384xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [1, 2] : (tensor<32x384xf32>) -> tensor<1x32x384xf32>
    %9 = stablehlo.add %6, %8 : tensor<1x32x384xf32>
    %10 = stablehlo.slice %arg4 [0:1, 0:384] : (tensor<2x384xf32>) -> tensor<1x384xf32>
    %11 = stablehlo.reshape %10 : (tensor<1x384xf32>) -> tensor<384xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [2] : (tensor<384xf32>) -> tensor<1x1x384xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2] : (tensor<1x1x384xf32>) -> tensor<1x32x384xf32>
    %14 = stablehlo.add %9, %13 : tensor<1x32x384xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %15 = stablehlo.reduce(%14 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<1x32x384xf32>, tensor<f32>) -> tensor<1x32xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<1x32x1xf32>
    %cst_1 = stablehlo.constant dense<3.840000e+02> : tensor<f32>
    %17 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<1x32x1xf32>
    %18 = stablehlo.divide %16, %17 : tensor<1x32x1xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<1x32x1xf32>) -> tensor<1x32x384xf32>
    %20 = stablehlo.subtract %14, %19 : tensor<1x32x384xf32>
    %21 = stablehlo.multiply %20, %20 : tensor<1x32x384xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %22 = stablehlo.reduce(%21 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<1x32x384xf32>, tensor<f32>) -> tensor<1x32xf32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<1x32x1xf32>
    %cst_3 = stablehlo.constant dense<3.840000e+02> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<1x32x1xf32>
    %25 = stablehlo.divide %23, %24 : tensor<1x32x1xf32>
    %cst_4 = stablehlo.constant dense<9.99999996E-13> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<1x32x1xf32>
    %27 = stablehlo.add %25, %26 : tensor<1x32x1xf32>
    %28 = stablehlo.sqrt %27 : tensor<1x32x1xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 2] : (tensor<1x32x1xf32>) -> tensor<1x32x384xf32>
    %30 = stablehlo.divide %20, %29 : tensor<1x32x384xf32>
    %31 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<384xf32>) -> tensor<1x1x384xf32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2] : (tensor<1x1x384xf32>) -> tensor<1x32x384xf32>
    %33 = stablehlo.multiply %30, %32 : tensor<1x32x384xf32>
    %34 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<384xf32>) -> tensor<1x1x384xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 1, 2] : (tensor<1x1x384xf32>) -> tensor<1x32x384xf32>
    %36 = stablehlo.add %33, %35 : tensor<1x32x384xf32>
    %37 = stablehlo.iota dim = 0 : tensor<32xi32>
    %38 = stablehlo.broadcast_in_dim %arg1, dims = [0] : (tensor<1xi32>) -> tensor<1x1xi32>
    %39 = stablehlo.broadcast_in_dim %37, dims = [1] : (tensor<32xi32>) -> tensor<1x32xi32>
    %40 = stablehlo.broadcast_in_dim %38, dims = [0, 1] : (tensor<1x1xi32>) -> tensor<1x32xi32>
    %41 = stablehlo.compare LT, %39, %40, SIGNED : (tensor<1x32xi32>, tensor<1x32xi32>) -> tensor<1x32xi1>
    %42 = call @layer(%36, %41, %arg7, %arg8, %arg9, %arg10, %arg11, %arg12, %arg13, %arg14, %arg15, %arg16, %arg17, %arg18, %arg19, %arg20, %arg21, %arg22) : (tensor<1x32x384xf32>, tensor<1x32xi1>, tensor<384x384xf32>, tensor<384xf32>, tensor<384x384xf32>, tensor<384xf32>, tensor<384x384xf32>, tensor<384xf32>, tensor<384x384xf32>, tensor<384xf32>, tensor<384xf32>, tensor<384xf32>, tensor<1536x384xf32>, tensor<1536xf32>, tensor<384x1536xf32>, tensor<384xf32>, tensor<384xf32>, tensor<384xf32>) -> tensor<1x32x384xf32>
    %43 = call @layer(%42, %41, %arg23, %arg24, %arg25, %arg26, %arg27, %arg28, %arg29, %arg30, %arg31, %arg32, %arg33, %arg34, %arg35, %arg36, %arg37, %arg38) : (tensor<1x32x384xf32>, tensor<1x32xi1>, tensor<384x384xf32>, tensor<384xf32>, tensor<384x384xf32>, tensor<384xf32>, tensor<384x384xf32>, tensor<384xf32>, tensor<384x384xf32>, tensor<384xf32>, tensor<384xf32>, tensor<384xf32>, tensor<1536x384xf32>, tensor<1536xf32>, tensor<384x1536xf32>, tensor<384xf32>, tensor<384xf32>, tensor<384xf32>) -> tensor<1x32x384xf32>
    %44 = call @layer(%43, %41, %arg39, %arg40, %arg41, %arg42, %arg43, %arg44, %arg45, %arg46, %arg47, %arg48, %arg49, %arg50, %arg51, %arg52, %arg53, %arg54) : (tensor<1x32x384xf32>, tensor<1x32xi1>, tensor<384x384xf32>, tensor<384xf32>, tensor<384x384xf32>, tensor<384xf32>, tensor<384x384xf32>, tensor<384xf32>, tensor<384x384xf32>, tensor<384xf32>, tensor<384xf32>, tensor<384xf32>, tensor<1536x384xf32>, tensor<1536xf32>, tensor<384x1536xf32>, tensor<384xf32>, tensor<384xf32>, tensor<384xf32>) -> tensor<1x32x384xf32>
    %45 = call @layer(%44, %41, %arg55, %arg56, %arg57, %arg58, %arg59, %arg60, %arg61, %arg62, %arg63, %arg64, %arg65, %arg66, %arg67, %arg68, %arg69, %arg70) : (tensor<1x32x384xf32>, tensor<1x32xi1>, tensor<384x384xf32>, tensor<384xf32>, tensor<384x384xf32>, tensor<384xf32>, tensor<384x384xf32>, tensor<384xf32>, tensor<384x384xf32>, tensor<384xf32>, tensor<384xf32>, tensor<384xf32>, tensor<1536x384xf32>, tensor<1536xf32>, tensor<384x1536xf32>, tensor<384xf32>, tensor<384xf32>, tensor<384xf32>) -> tensor<1x32x384xf32>
    %46 = call @layer(%45, %41, %arg71, %arg72, %arg73, %arg74, %arg75, %arg76, %arg77, %arg78, %arg79, %arg80, %arg81, %arg82, %arg83, %arg84, %arg85, %arg86) : (tensor<1x32x384xf32>, tensor<1x32xi1>, tensor<384x384xf32>, tensor<384xf32>, tensor<384x384xf32>, tensor<384xf32>, tensor<384x384xf32>, tensor<384xf32>, tensor<384x384xf32>, tensor<384xf32>, tensor<384xf32>, tensor<384xf32>, tensor<1536x384xf32>, tensor<1536xf32>, tensor<384x1536xf32>, tensor<384xf32>, tensor<384xf32>, tensor<384xf32>) -> tensor<1x32x384xf32>
    %47 = call @layer(%46, %41, %arg87, %arg88, %arg89, %arg90, %arg91, %arg92, %arg93, %arg94, %arg95, %arg96, %arg97, %arg98, %arg99, %arg100, %arg101, %arg102) : (tensor<1x32x384xf32>, tensor<1x32xi1>, tensor<384x384xf32>, tensor<384xf32>, tensor<384x384xf32>, tensor<384xf32>, tensor<384x384xf32>, tensor<384xf32>, tensor<384x384xf32>, tensor<384xf32>, tensor<384xf32>, tensor<384xf32>, tensor<1536x384xf32>, tensor<1536xf32>, tensor<384x1536xf32>, tensor<384xf32>, tensor<384xf32>, tensor<384xf32>) -> tensor<1x32x384xf32>
    %48 = stablehlo.broadcast_in_dim %41, dims = [0, 1] : (tensor<1x32xi1>) -> tensor<1x32x1xi1>
    %c_5 = stablehlo.constant dense<0> : tensor<i32>
    %49 = call @_where_0(%48, %47, %c_5) : (tensor<1x32x1xi1>, tensor<1x32x384xf32>, tensor<i32>) -> tensor<1x32x384xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %50 = stablehlo.reduce(%49 init: %cst_6) applies stablehlo.add across dimensions = [1] : (tensor<1x32x384xf32>, tensor<f32>) -> tensor<1x384xf32>
    %c_7 = stablehlo.constant dense<1> : tensor<i32>
    %51 = stablehlo.broadcast_in_dim %c_7, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %52 = stablehlo.maximum %arg1, %51 : tensor<1xi32>
    %53 = stablehlo.broadcast_in_dim %52, dims = [0] : (tensor<1xi32>) -> tensor<1x1xi32>
    %54 = stablehlo.convert %53 : (tensor<1x1xi32>) -> tensor<1x1xf32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x384xf32>
    %56 = stablehlo.divide %50, %55 : tensor<1x384xf32>
    %57 = call @norm(%56) : (tensor<1x384xf32>) -> tensor<1x1xf32>
    %cst_8 = stablehlo.constant dense<9.99999996E-13> : tensor<f32>
    %58 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
    %59 = stablehlo.maximum %57, %58 : tensor<1x1xf32>
    %60 = stablehlo.broadcast_in_dim %59, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x384xf32>
    %61 = stablehlo.divide %56, %60 : tensor<1x384xf32>
    return %61 : tensor<1x384xf32>
  }
  func.func private @layer(%arg0: tensor<1x32x384xf32>, %arg1: tensor<1x32xi1>, %arg2: tensor<384x384xf32>, %arg3: tensor<384xf32>, %arg4: tensor<384x384xf32>, %arg5: tensor<384xf32>, %arg6: tensor<384x384xf32>, %arg7: tensor<384xf32>, %arg8: tensor<384x384xf32>, %arg9: tensor<384xf32>, %arg10: tensor<384xf32>, %arg11: tensor<384xf32>, %arg12: tensor<1536x384xf32>, %arg13: tensor<1536xf32>, %arg14: tensor<384x1536xf32>, %arg15: tensor<384xf32>, %arg16: tensor<384xf32>, %arg17: tensor<384xf32>) -> tensor<1x32x384xf32> {
    %0 = stablehlo.dot_general %arg0, %arg2, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x32x384xf32>, tensor<384x384xf32>) -> tensor<1x32x384xf32>
    %1 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<384xf32>) -> tensor<1x1x384xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x384xf32>) -> tensor<1x32x384xf32>
    %3 = stablehlo.add %0, %2 : tensor<1x32x384xf32>
    %4 = stablehlo.reshape %3 : (tensor<1x32x384xf32>) -> tensor<1x32x12x32xf32>
    %5 = stablehlo.dot_general %arg0, %arg4, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x32x384xf32>, tensor<384x384xf32>) -> tensor<1x32x384xf32>
    %6 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<384xf32>) -> tensor<1x1x384xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2] : (tensor<1x1x384xf32>) -> tensor<1x32x384xf32>
    %8 = stablehlo.add %5, %7 : tensor<1x32x384xf32>
    %9 = stablehlo.reshape %8 : (tensor<1x32x384xf32>) -> tensor<1x32x12x32xf32>
    %10 = stablehlo.dot_general %arg0, %arg6, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x32x384xf32>, tensor<384x384xf32>) -> tensor<1x32x384xf32>
    %11 = stablehlo.broadcast_in_dim %arg7, dims = [2] : (tensor<384xf32>) -> tensor<1x1x384xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1, 2] : (tensor<1x1x384xf32>) -> tensor<1x32x384xf32>
    %13 = stablehlo.add %10, %12 : tensor<1x32x384xf32>
    %14 = stablehlo.reshape %13 : (tensor<1x32x384xf32>) -> tensor<1x32x12x32xf32>
    %15 = stablehlo.dot_general %4, %9, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x32x12x32xf32>, tensor<1x32x12x32xf32>) -> tensor<1x12x32x32xf32>
    %cst = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %16 = stablehlo.sqrt %cst : tensor<f32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<f32>) -> tensor<1x12x32x32xf32>
    %18 = stablehlo.divide %15, %17 : tensor<1x12x32x32xf32>
    %19 = stablehlo.broadcast_in_dim %arg1, dims = [0, 3] : (tensor<1x32xi1>) -> tensor<1x1x1x32xi1>
    %cst_0 = stablehlo.constant dense<-3.40282347E+38> : tensor<f32>
    %20 = call @_where(%19, %18, %cst_0) : (tensor<1x1x1x32xi1>, tensor<1x12x32x32xf32>, tensor<f32>) -> tensor<1x12x32x32xf32>
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %21 = stablehlo.reduce(%20 init: %cst_1) applies stablehlo.maximum across dimensions = [3] : (tensor<1x12x32x32xf32>, tensor<f32>) -> tensor<1x12x32xf32>
    %cst_2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<1x12x32xf32>
    %23 = stablehlo.maximum %22, %21 : tensor<1x12x32xf32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2] : (tensor<1x12x32xf32>) -> tensor<1x12x32x1xf32>
    %25 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 2, 3] : (tensor<1x12x32x1xf32>) -> tensor<1x12x32x32xf32>
    %26 = stablehlo.subtract %20, %25 : tensor<1x12x32x32xf32>
    %27 = stablehlo.exponential %26 : tensor<1x12x32x32xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %28 = stablehlo.reduce(%27 init: %cst_3) applies stablehlo.add across dimensions = [3] : (tensor<1x12x32x32xf32>, tensor<f32>) -> tensor<1x12x32xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 2] : (tensor<1x12x32xf32>) -> tensor<1x12x32x1xf32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2, 3] : (tensor<1x12x32x1xf32>) -> tensor<1x12x32x32xf32>
    %31 = stablehlo.divide %27, %30 : tensor<1x12x32x32xf32>
    %32 = stablehlo.dot_general %14, %31, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x32x12x32xf32>, tensor<1x12x32x32xf32>) -> tensor<1x12x32x32xf32>
    %33 = stablehlo.transpose %32, dims = [0, 3, 1, 2] : (tensor<1x12x32x32xf32>) -> tensor<1x32x12x32xf32>
    %34 = stablehlo.reshape %33 : (tensor<1x32x12x32xf32>) -> tensor<1x32x384xf32>
    %35 = stablehlo.dot_general %34, %arg8, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x32x384xf32>, tensor<384x384xf32>) -> tensor<1x32x384xf32>
    %36 = stablehlo.broadcast_in_dim %arg9, dims = [2] : (tensor<384xf32>) -> tensor<1x1x384xf32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [0, 1, 2] : (tensor<1x1x384xf32>) -> tensor<1x32x384xf32>
    %38 = stablehlo.add %35, %37 : tensor<1x32x384xf32>
    %39 = stablehlo.add %arg0, %38 : tensor<1x32x384xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %40 = stablehlo.reduce(%39 init: %cst_4) applies stablehlo.add across dimensions = [2] : (tensor<1x32x384xf32>, tensor<f32>) -> tensor<1x32xf32>
    %41 = stablehlo.broadcast_in_dim %40, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<1x32x1xf32>
    %cst_5 = stablehlo.constant dense<3.840000e+02> : tensor<f32>
    %42 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<1x32x1xf32>
    %43 = stablehlo.divide %41, %42 : tensor<1x32x1xf32>
    %44 = stablehlo.broadcast_in_dim %43, dims = [0, 1, 2] : (tensor<1x32x1xf32>) -> tensor<1x32x384xf32>
    %45 = stablehlo.subtract %39, %44 : tensor<1x32x384xf32>
    %46 = stablehlo.multiply %45, %45 : tensor<1x32x384xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %47 = stablehlo.reduce(%46 init: %cst_6) applies stablehlo.add across dimensions = [2] : (tensor<1x32x384xf32>, tensor<f32>) -> tensor<1x32xf32>
    %48 = stablehlo.broadcast_in_dim %47, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<1x32x1xf32>
    %cst_7 = stablehlo.constant dense<3.840000e+02> : tensor<f32>
    %49 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<1x32x1xf32>
    %50 = stablehlo.divide %48, %49 : tensor<1x32x1xf32>
    %cst_8 = stablehlo.constant dense<9.99999996E-13> : tensor<f32>
    %51 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<1x32x1xf32>
    %52 = stablehlo.add %50, %51 : tensor<1x32x1xf32>
    %53 = stablehlo.sqrt %52 : tensor<1x32x1xf32>
    %54 = stablehlo.broadcast_in_dim %53, dims = [0, 1, 2] : (tensor<1x32x1xf32>) -> tensor<1x32x384xf32>
    %55 = stablehlo.divide %45, %54 : tensor<1x32x384xf32>
    %56 = stablehlo.broadcast_in_dim %arg10, dims = [2] : (tensor<384xf32>) -> tensor<1x1x384xf32>
    %57 = stablehlo.broadcast_in_dim %56, dims = [0, 1, 2] : (tensor<1x1x384xf32>) -> tensor<1x32x384xf32>
    %58 = stablehlo.multiply %55, %57 : tensor<1x32x384xf32>
    %59 = stablehlo.broadcast_in_dim %arg11, dims = [2] : (tensor<384xf32>) -> tensor<1x1x384xf32>
    %60 = stablehlo.broadcast_in_dim %59, dims = [0, 1, 2] : (tensor<1x1x384xf32>) -> tensor<1x32x384xf32>
    %61 = stablehlo.add %58, %60 : tensor<1x32x384xf32>
    %62 = stablehlo.dot_general %61, %arg12, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x32x384xf32>, tensor<1536x384xf32>) -> tensor<1x32x1536xf32>
    %63 = stablehlo.broadcast_in_dim %arg13, dims = [2] : (tensor<1536xf32>) -> tensor<1x1x1536xf32>
    %64 = stablehlo.broadcast_in_dim %63, dims = [0, 1, 2] : (tensor<1x1x1536xf32>) -> tensor<1x32x1536xf32>
    %65 = stablehlo.add %62, %64 : tensor<1x32x1536xf32>
    %cst_9 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %66 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<1x32x1536xf32>
    %67 = stablehlo.multiply %66, %65 : tensor<1x32x1536xf32>
    %68 = stablehlo.negate %65 : tensor<1x32x1536xf32>
    %cst_10 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %69 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<1x32x1536xf32>
    %70 = stablehlo.multiply %68, %69 : tensor<1x32x1536xf32>
    %71 = chlo.erfc %70 : tensor<1x32x1536xf32> -> tensor<1x32x1536xf32>
    %72 = stablehlo.multiply %67, %71 : tensor<1x32x1536xf32>
    %73 = stablehlo.dot_general %72, %arg14, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x32x1536xf32>, tensor<384x1536xf32>) -> tensor<1x32x384xf32>
    %74 = stablehlo.broadcast_in_dim %arg15, dims = [2] : (tensor<384xf32>) -> tensor<1x1x384xf32>
    %75 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2] : (tensor<1x1x384xf32>) -> tensor<1x32x384xf32>
    %76 = stablehlo.add %73, %75 : tensor<1x32x384xf32>
    %77 = stablehlo.add %61, %76 : tensor<1x32x384xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %78 = stablehlo.reduce(%77 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<1x32x384xf32>, tensor<f32>) -> tensor<1x32xf32>
    %79 = stablehlo.broadcast_in_dim %78, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<1x32x1xf32>
    %cst_12 = stablehlo.constant dense<3.840000e+02> : tensor<f32>
    %80 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<1x32x1xf32>
    %81 = stablehlo.divide %79, %80 : tensor<1x32x1xf32>
    %82 = stablehlo.broadcast_in_dim %81, dims = [0, 1, 2] : (tensor<1x32x1xf32>) -> tensor<1x32x384xf32>
    %83 = stablehlo.subtract %77, %82 : tensor<1x32x384xf32>
    %84 = stablehlo.multiply %83, %83 : tensor<1x32x384xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %85 = stablehlo.reduce(%84 init: %cst_13) applies stablehlo.add across dimensions = [2] : (tensor<1x32x384xf32>, tensor<f32>) -> tensor<1x32xf32>
    %86 = stablehlo.broadcast_in_dim %85, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<1x32x1xf32>
    %cst_14 = stablehlo.constant dense<3.840000e+02> : tensor<f32>
    %87 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<1x32x1xf32>
    %88 = stablehlo.divide %86, %87 : tensor<1x32x1xf32>
    %cst_15 = stablehlo.constant dense<9.99999996E-13> : tensor<f32>
    %89 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<1x32x1xf32>
    %90 = stablehlo.add %88, %89 : tensor<1x32x1xf32>
    %91 = stablehlo.sqrt %90 : tensor<1x32x1xf32>
    %92 = stablehlo.broadcast_in_dim %91, dims = [0, 1, 2] : (tensor<1x32x1xf32>) -> tensor<1x32x384xf32>
    %93 = stablehlo.divide %83, %92 : tensor<1x32x384xf32>
    %94 = stablehlo.broadcast_in_dim %arg16, dims = [2] : (tensor<384xf32>) -> tensor<1x1x384xf32>
    %95 = stablehlo.broadcast_in_dim %94, dims = [0, 1, 2] : (tensor<1x1x384xf32>) -> tensor<1x32x384xf32>
    %96 = stablehlo.multiply %93, %95 : tensor<1x32x384xf32>
    %97 = stablehlo.broadcast_in_dim %arg17, dims = [2] : (tensor<384xf32>) -> tensor<1x1x384xf32>
    %98 = stablehlo.broadcast_in_dim %97, dims = [0, 1, 2] : (tensor<1x1x384xf32>) -> tensor<1x32x384xf32>
    %99 = stablehlo.add %96, %98 : tensor<1x32x384xf32>
    return %99 : tensor<1x32x384xf32>
  }
  func.func private @_where(%arg0: tensor<1x1x1x32xi1>, %arg1: tensor<1x12x32x32xf32>, %arg2: tensor<f32>) -> tensor<1x12x32x32xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xi1>) -> tensor<1x12x32x32xi1>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<1x12x32x32xf32>
    %2 = stablehlo.select %0, %arg1, %1 : tensor<1x12x32x32xi1>, tensor<1x12x32x32xf32>
    return %2 : tensor<1x12x32x32xf32>
  }
  func.func private @_where_0(%arg0: tensor<1x32x1xi1>, %arg1: tensor<1x32x384xf32>, %arg2: tensor<i32>) -> tensor<1x32x384xf32> {
    %0 = stablehlo.convert %arg2 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2] : (tensor<1x32x1xi1>) -> tensor<1x32x384xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1x32x384xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<1x32x384xi1>, tensor<1x32x384xf32>
    return %3 : tensor<1x32x384xf32>
  }
  func.func private @norm(%arg0: tensor<1x384xf32>) -> tensor<1x1xf32> {
    %0 = stablehlo.multiply %arg0, %arg0 : tensor<1x384xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<1x384xf32>, tensor<f32>) -> tensor<1xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<1xf32>) -> tensor<1x1xf32>
    %3 = stablehlo.sqrt %2 : tensor<1x1xf32>
    return %3 : tensor<1x1xf32>
  }
}
