// A dispatch whose kernel is given in place: where the largest element of x + y is.
#webgpu = #hal.executable.target<"webgpu-wgsl", "webgpu-wgsl-fb">
#in = #hal.pipeline.binding<storage_buffer, ReadOnly>
#out = #hal.pipeline.binding<storage_buffer>

module attributes {hal.device.targets = [#hal.device.target<"webgpu", [#webgpu]>]} {
  func.func private @largest_of_row(%row: tensor<1x?xf32>) -> tensor<1xi64> {
    %c1 = arith.constant 1 : index
    %n = tensor.dim %row, %c1 : tensor<1x?xf32>
    %count = arith.index_cast %n : index to i32
    %at = hal.dispatch.extern "largest"[%n](%count, %row) : (i32, tensor<1x?xf32>{%n}) -> tensor<1xi64>
      count(%device: !hal.device, %w: index) -> (index, index, index) {
        %one = arith.constant 1 : index
        hal.return %one, %one, %one : index, index, index
      }
      layout(#hal.pipeline.layout<constants = 1, bindings = [#in, #out]>)
      objects({ #webgpu ordinal(0) = [#hal.executable.object<{path = "largest.wgsl"}>] })
    return %at : tensor<1xi64>
  }
  func.func @f(%x: tensor<1x128xf32>, %y: tensor<1x128xf32>) -> tensor<1xi64> {
    %sum = arith.addf %x, %y : tensor<1x128xf32>
    %row = tensor.cast %sum : tensor<1x128xf32> to tensor<1x?xf32>
    %at = func.call @largest_of_row(%row) : (tensor<1x?xf32>) -> tensor<1xi64>
    return %at : tensor<1xi64>
  }
}
