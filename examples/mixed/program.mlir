// Hand-written kernels mixed with generated code: ((a * b) + b) * (a * b).
// The kernels are C functions; each target compiles and inlines them for itself.
#x86_64 = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
#aarch64 = #hal.executable.target<"llvm-cpu", "embedded-elf-arm_64">
#riscv64 = #hal.executable.target<"llvm-cpu", "embedded-elf-riscv_64">
#cpu = #hal.device.target<"local", [#x86_64, #aarch64, #riscv64]> : !hal.device

module @mixed attributes {hal.device.targets = [#cpu]} {
  stream.executable private @kernels attributes {
    hal.executable.objects = #hal.executable.objects<{
      #x86_64 = [#hal.executable.object<{path = "functions.c"}>],
      #aarch64 = [#hal.executable.object<{path = "functions.c"}>],
      #riscv64 = [#hal.executable.object<{path = "functions.c"}>]
    }>
  } {
    // The regions compute the grid: one workgroup for each 64 elements. Of each binding a workgroup has 256 bytes, so that
    // dispatches that need only what the same workgroups of others have made run together, tile by tile.
    stream.executable.export public @mul workgroups(%size: index) -> (index, index, index) {
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
      %one = arith.constant 1 : index
      stream.return %x, %one, %one : index, index, index
    } attributes {pyd.tiles = [256, 256, 256]}
    stream.executable.export public @scale workgroups(%size: index) -> (index, index, index) {
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
      %one = arith.constant 1 : index
      stream.return %x, %one, %one : index, index, index
    } attributes {pyd.tiles = [256, 256]}
    builtin.module {
      func.func private @mul_workgroup(memref<f32>, index, memref<f32>, index, memref<f32>, index, index, index)
          attributes {hal.import.static, llvm.bareptr = true}
      func.func private @scale_workgroup(memref<f32>, index, memref<f32>, index, index, index)
          attributes {hal.import.static, llvm.bareptr = true}

      func.func @mul(%b0: !stream.binding, %b1: !stream.binding, %b2: !stream.binding, %size: index) {
        %zero = arith.constant 0 : index
        %id = stream.dispatch.workgroup.id[0] : index
        %first = affine.apply affine_map<()[s0] -> (s0 * 64)>()[%id]
        %lhs = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<?xf32>{%size}
        %rhs = stream.binding.subspan %b1[%zero] : !stream.binding -> memref<?xf32>{%size}
        %out = stream.binding.subspan %b2[%zero] : !stream.binding -> memref<?xf32>{%size}
        %p0, %o0, %n0, %s0 = iree_codegen.extract_strided_metadata %lhs : memref<?xf32> -> memref<f32>, index, index, index
        %p1, %o1, %n1, %s1 = iree_codegen.extract_strided_metadata %rhs : memref<?xf32> -> memref<f32>, index, index, index
        %p2, %o2, %n2, %s2 = iree_codegen.extract_strided_metadata %out : memref<?xf32> -> memref<f32>, index, index, index
        func.call @mul_workgroup(%p0, %o0, %p1, %o1, %p2, %o2, %size, %first)
            : (memref<f32>, index, memref<f32>, index, memref<f32>, index, index, index) -> ()
        return
      }
      func.func @scale(%b0: !stream.binding, %b1: !stream.binding, %size: index) {
        %zero = arith.constant 0 : index
        %id = stream.dispatch.workgroup.id[0] : index
        %first = affine.apply affine_map<()[s0] -> (s0 * 64)>()[%id]
        %lhs = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<?xf32>{%size}
        %rhs = stream.binding.subspan %b1[%zero] : !stream.binding -> memref<?xf32>{%size}
        %p0, %o0, %n0, %s0 = iree_codegen.extract_strided_metadata %lhs : memref<?xf32> -> memref<f32>, index, index, index
        %p1, %o1, %n1, %s1 = iree_codegen.extract_strided_metadata %rhs : memref<?xf32> -> memref<f32>, index, index, index
        func.call @scale_workgroup(%p0, %o0, %p1, %o1, %size, %first)
            : (memref<f32>, index, memref<f32>, index, index, index) -> ()
        return
      }
    }
  }

  func.func @mixed_invocation(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
    %zero = arith.constant 0 : index
    %size = tensor.dim %a, %zero : tensor<?xf32>
    %product = flow.dispatch @kernels::@mul[%size](%a, %b, %size)
        : (tensor<?xf32>{%size}, tensor<?xf32>{%size}, index) -> tensor<?xf32>{%size}
    %sum = arith.addf %product, %b : tensor<?xf32>
    %scaled = flow.dispatch @kernels::@scale[%size](%product, %sum, %size)
        : (tensor<?xf32>{%size}, tensor<?xf32>{%size}, index) -> %sum{%size}
    return %scaled : tensor<?xf32>
  }
}
