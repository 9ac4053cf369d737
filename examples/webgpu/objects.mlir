// Kernels from files, and a generated one, in one program: @mixed is (a * b) + b * (a * b).
#webgpu = #hal.executable.target<"webgpu-wgsl", "webgpu-wgsl-fb">
#in = #hal.pipeline.binding<storage_buffer, ReadOnly>
#out = #hal.pipeline.binding<storage_buffer>

module attributes {hal.device.targets = [#hal.device.target<"webgpu", [#webgpu]>]} {
  hal.executable.source private @executable attributes {
    objects = #hal.executable.objects<{#webgpu = [
      #hal.executable.object<{path = "mul.wgsl"}>, #hal.executable.object<{path = "mul_inplace.wgsl"}>]}>
  } {
    hal.executable.export public @mul ordinal(0) layout(#hal.pipeline.layout<constants = 1, bindings = [#in, #in, #out]>)
        count(%device: !hal.device, %n: index) -> (index, index, index) {
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%n]
      %one = arith.constant 1 : index
      hal.return %x, %one, %one : index, index, index
    }
    hal.executable.export public @mul_inplace ordinal(1) layout(#hal.pipeline.layout<constants = 1, bindings = [#in, #out]>)
        count(%device: !hal.device, %n: index) -> (index, index, index) {
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%n]
      %one = arith.constant 1 : index
      hal.return %x, %one, %one : index, index, index
    }
  }
  func.func @mixed(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
    %zero = arith.constant 0 : index
    %size = tensor.dim %a, %zero : tensor<?xf32>
    %n = arith.index_cast %size : index to i32
    %0 = flow.dispatch @executable::@mul[%size](%n, %a, %b)
        : (i32, tensor<?xf32>{%size}, tensor<?xf32>{%size}) -> tensor<?xf32>{%size}
    %1 = flow.dispatch @executable::@mul_inplace[%size](%n, %0, %b)
        : (i32, tensor<?xf32>{%size}, tensor<?xf32>{%size}) -> %b{%size}
    %2 = arith.addf %0, %1 : tensor<?xf32>
    return %2 : tensor<?xf32>
  }
}
