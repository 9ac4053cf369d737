// What pydispatch itself writes into programs.
func.func @recurrence(%n: index, %zero: f32, %x: tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xi1>) {
  %0:2 = pyd.recurrence (%n) dimension(0) first {
  ^bb0(%column: index):
    linalg.yield %zero : f32
  } next {
  ^bb0(%row: index, %column: index, %sum: f32):
    %value = tensor.extract %x[%row, %column] : tensor<?x4xf32>
    %next = arith.addf %sum, %value : f32
    %grows = arith.cmpf ogt, %next, %sum : f32
    linalg.yield %next, %next, %grows : f32, f32, i1
  } : tensor<?x4xf32>, tensor<?x4xi1>
  return %0#0, %0#1 : tensor<?x4xf32>, tensor<?x4xi1>
}
