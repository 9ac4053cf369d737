// Checks as StableHLO's tests have them, which have no parentheses.
func.func @f(%a: tensor<3xf32>, %b: tensor<3xf32>) {
  check.expect_close %a, %b, max_ulp_difference = 3 : tensor<3xf32>, tensor<3xf32>
  check.expect_close %a, %b, max_ulp_difference = 3, min_ulp_difference = 1 : tensor<3xf32>, tensor<3xf32>
  %0 = interpreter.probe %a, probe_id = "p" : tensor<3xf32>
  check.expect_serialized_eq %0, probe_id = "p" : tensor<3xf32>
  check.expect_serialized_eq %0, probe_id = "p", iter = 2 : tensor<3xf32>
  %1 = "interpreter.run_parallel"(%a) {programs = [[@f]]} : (tensor<3xf32>) -> tensor<3xf32>
  return
}
