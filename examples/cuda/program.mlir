// Kernels of kernels.cu, whole, in a program whose other operations are generated.
//   pydispatch run program.mlir --device=ptx-interpreter --input=8xf32=2 --input=8xf32=4
#sm_75 = #hal.executable.target<"cuda", "cuda-nvptx-fb", {target_arch = "sm_75"}>
#cuda = #hal.device.target<"cuda", [#sm_75]> : !hal.device

#mul_layout = #hal.pipeline.layout<constants = 1, bindings = [
  #hal.pipeline.binding<storage_buffer, ReadOnly>,
  #hal.pipeline.binding<storage_buffer, ReadOnly>,
  #hal.pipeline.binding<storage_buffer>
]>
#inplace_layout = #hal.pipeline.layout<constants = 1, bindings = [
  #hal.pipeline.binding<storage_buffer, ReadOnly>,
  #hal.pipeline.binding<storage_buffer>
]>

module @cuda_example attributes {hal.device.targets = [#cuda]} {
  hal.executable.source private @executable attributes {
    objects = #hal.executable.objects<{
      #sm_75 = [#hal.executable.object<{path = "kernels.ptx"}>]
    }>
  } {
    hal.executable.export public @simple_mul ordinal(0) layout(#mul_layout)
        count(%device: !hal.device, %size: index) -> (index, index, index) {
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
      %one = arith.constant 1 : index
      hal.return %x, %one, %one : index, index, index
    } attributes {workgroup_size = [64 : index, 1 : index, 1 : index]}
    hal.executable.export public @simple_mul_inplace ordinal(1) layout(#inplace_layout)
        count(%device: !hal.device, %size: index) -> (index, index, index) {
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
      %one = arith.constant 1 : index
      hal.return %x, %one, %one : index, index, index
    } attributes {workgroup_size = [64 : index, 1 : index, 1 : index]}
  }

  // (a * b + b) * (a * b): two kernels by hand, the sum between them generated, the last one in place.
  func.func @mixed_invocation(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
    %zero = arith.constant 0 : index
    %size = tensor.dim %a, %zero : tensor<?xf32>
    %size_i32 = arith.index_cast %size : index to i32
    %product = flow.dispatch @executable::@simple_mul[%size](%size_i32, %a, %b)
        : (i32, tensor<?xf32>{%size}, tensor<?xf32>{%size}) -> tensor<?xf32>{%size}
    %sum = arith.addf %product, %b : tensor<?xf32>
    %result = flow.dispatch @executable::@simple_mul_inplace[%size](%size_i32, %product, %sum)
        : (i32, tensor<?xf32>{%size}, tensor<?xf32>{%size}) -> %sum{%size}
    return %result : tensor<?xf32>
  }
}
