// Loops whose tensors change their shape, whose trip counts are known late, and whose results alias.

func.func @grows_by_one_element() {
  %iters = util.unfoldable_constant 10 : i64
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %init = flow.tensor.dynamic_constant dense<> : tensor<0xi64> -> tensor<?xi64>
  %result = scf.for %i = %c0 to %iters step %c1 iter_args(%iter_arg = %init) -> (tensor<?xi64>) : i64 {
    %empty = tensor.empty() : tensor<1xi64>
    %fill = linalg.fill ins(%i : i64) outs(%empty : tensor<1xi64>) -> tensor<1xi64>
    %concat = tensor.concat dim(0) %iter_arg, %fill : (tensor<?xi64>, tensor<1xi64>) -> tensor<?xi64>
    scf.yield %concat : tensor<?xi64>
  }
  %static = tensor.cast %result : tensor<?xi64> to tensor<10xi64>
  check.expect_eq_const(%static, dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]> : tensor<10xi64>) : tensor<10xi64>
  return
}

func.func @runs_not_at_all() {
  %iters = util.unfoldable_constant 0 : i64
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %init = flow.tensor.dynamic_constant dense<> : tensor<0xi64> -> tensor<?xi64>
  %result = scf.for %i = %c0 to %iters step %c1 iter_args(%iter_arg = %init) -> (tensor<?xi64>) : i64 {
    %empty = tensor.empty() : tensor<1xi64>
    %fill = linalg.fill ins(%i : i64) outs(%empty : tensor<1xi64>) -> tensor<1xi64>
    %concat = tensor.concat dim(0) %iter_arg, %fill : (tensor<?xi64>, tensor<1xi64>) -> tensor<?xi64>
    scf.yield %concat : tensor<?xi64>
  }
  %static = tensor.cast %result : tensor<?xi64> to tensor<0xi64>
  check.expect_eq_const(%static, dense<> : tensor<0xi64>) : tensor<0xi64>
  return
}

func.func @collatz_over_blocks() {
  %arg0 = util.unfoldable_constant dense<178.0> : tensor<f32>
  %0 = arith.constant dense<1.0> : tensor<f32>
  %1 = arith.constant dense<3.0> : tensor<f32>
  %2 = arith.constant dense<2.0> : tensor<f32>
  %3 = arith.constant dense<0.0> : tensor<f32>
  cf.br ^bb1(%3, %arg0 : tensor<f32>, tensor<f32>)
^bb1(%4: tensor<f32>, %5: tensor<f32>):
  %6 = arith.cmpf ogt, %5, %0 : tensor<f32>
  %7 = tensor.extract %6[] : tensor<i1>
  cf.cond_br %7, ^bb2(%4, %5 : tensor<f32>, tensor<f32>), ^bb6(%4 : tensor<f32>)
^bb2(%8: tensor<f32>, %9: tensor<f32>):
  %10 = arith.addf %8, %0 : tensor<f32>
  %11 = arith.remf %9, %2 : tensor<f32>
  %12 = arith.cmpf one, %11, %3 : tensor<f32>
  %20 = tensor.extract %12[] : tensor<i1>
  cf.cond_br %20, ^bb3, ^bb4
^bb3:
  %21 = arith.mulf %9, %1 : tensor<f32>
  %22 = arith.addf %21, %0 : tensor<f32>
  cf.br ^bb5(%22 : tensor<f32>)
^bb4:
  %23 = arith.divf %9, %2 : tensor<f32>
  cf.br ^bb5(%23 : tensor<f32>)
^bb5(%24: tensor<f32>):
  cf.br ^bb1(%10, %24 : tensor<f32>, tensor<f32>)
^bb6(%25: tensor<f32>):
  check.expect_eq_const(%25, dense<31.0> : tensor<f32>) : tensor<f32>
  return
}

func.func @sums_in_double() {
  %input = util.unfoldable_constant dense<3.0> : tensor<83886xf32>
  %cst_0 = arith.constant 0.000000e+00 : f64
  %init = tensor.empty() : tensor<1xf64>
  %zeros = linalg.fill ins(%cst_0 : f64) outs(%init : tensor<1xf64>) -> tensor<1xf64>
  %accum = linalg.generic {indexing_maps = [affine_map<(d1) -> (d1)>, affine_map<(d1) -> (0)>], iterator_types = ["reduction"]} ins(%input : tensor<83886xf32>) outs(%zeros : tensor<1xf64>) {
  ^bb0(%arg1: f32, %arg2: f64):
    %ext = arith.extf %arg1 : f32 to f64
    %add = arith.addf %ext, %arg2 : f64
    linalg.yield %add : f64
  } -> tensor<1xf64>
  %init2 = tensor.empty() : tensor<1xf32>
  %result = linalg.generic {indexing_maps = [affine_map<(d1) -> (d1)>, affine_map<(d1) -> (d1)>], iterator_types = ["parallel"]} ins(%accum : tensor<1xf64>) outs(%init2 : tensor<1xf32>) {
  ^bb0(%arg1: f64, %arg2: f32):
    %res = arith.truncf %arg1 : f64 to f32
    linalg.yield %res : f32
  } -> tensor<1xf32>
  check.expect_almost_eq_const(%result, dense<[251658.0]> : tensor<1xf32>) : tensor<1xf32>
  return
}

func.func @results_alias() {
  %c100_i32 = arith.constant 100 : i32
  %cst = arith.constant dense<1> : tensor<i32>
  %cst_0 = arith.constant dense<0> : tensor<i32>
  %c44 = arith.constant 44 : index
  %c0 = arith.constant 0 : index
  %cst_1 = arith.constant dense<0> : tensor<1x44x1xi32>
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %4:2 = scf.for %arg1 = %c0 to %c44 step %c1 iter_args(%arg2 = %cst_0, %arg3 = %cst_1) -> (tensor<i32>, tensor<1x44x1xi32>) {
    %8 = arith.index_cast %arg1 : index to i32
    %from = tensor.from_elements %8 : tensor<1x1x1xi32>
    %r = arith.remui %arg1, %c2 : index
    %e = arith.cmpi eq, %r, %c0 : index
    %13:2 = scf.if %e -> (tensor<i32>, tensor<1x44x1xi32>) {
      %x = tensor.extract %arg2[] : tensor<i32>
      %14 = arith.index_cast %x : i32 to index
      %ins = tensor.insert_slice %from into %arg3[0, %14, 0] [1, 1, 1] [1, 1, 1] : tensor<1x1x1xi32> into tensor<1x44x1xi32>
      %15 = arith.addi %arg2, %cst : tensor<i32>
      %y = tensor.extract %15[] : tensor<i32>
      %16 = arith.cmpi sgt, %y, %c100_i32 : i32
      %17 = arith.select %16, %arg3, %ins : tensor<1x44x1xi32>
      scf.yield %15, %17 : tensor<i32>, tensor<1x44x1xi32>
    } else {
      scf.yield %arg2, %arg3 : tensor<i32>, tensor<1x44x1xi32>
    }
    scf.yield %13#0, %13#1 : tensor<i32>, tensor<1x44x1xi32>
  }
  %s = tensor.extract_slice %4#1[0, 0, 0] [1, 22, 1] [1, 1, 1] : tensor<1x44x1xi32> to tensor<22xi32>
  check.expect_eq_const(%s, dense<[0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38,40,42]> : tensor<22xi32>) : tensor<22xi32>
  check.expect_eq_const(%4#0, dense<22> : tensor<i32>) : tensor<i32>
  return
}
