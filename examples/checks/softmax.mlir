// Functions without arguments are tests: pydispatch check examples/checks

func.func @rows_add_up_to_one() {
  %x = util.unfoldable_constant dense<[[1.0, 2.0, 3.0], [-5.0, 0.0, 5.0]]> : tensor<2x3xf32>
  %e = tensor.empty() : tensor<2x3xf32>
  %y = linalg.softmax dimension(1) ins(%x : tensor<2x3xf32>) outs(%e : tensor<2x3xf32>) -> tensor<2x3xf32>
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %sum = linalg.reduce { arith.addf } ins(%y : tensor<2x3xf32>) outs(%zero : tensor<2xf32>) dimensions = [1]
  check.expect_almost_eq_const(%sum, dense<1.0> : tensor<2xf32>, atol 1.0e-06) : tensor<2xf32>
  return
}

func.func @large_values_do_not_overflow() {
  %x = util.unfoldable_constant dense<[1000.0, 1000.0]> : tensor<2xf32>
  %e = tensor.empty() : tensor<2xf32>
  %y = linalg.softmax dimension(0) ins(%x : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  check.expect_eq_const(%y, dense<0.5> : tensor<2xf32>) : tensor<2xf32>
  return
}
