// A program that calls a function which no one has linked in: @simple_mul_workgroup comes from a plugin when the program is
// loaded. simple_mul.c has it.
#x86_64 = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
#aarch64 = #hal.executable.target<"llvm-cpu", "embedded-elf-arm_64">
#riscv64 = #hal.executable.target<"llvm-cpu", "embedded-elf-riscv_64">
#cpu = #hal.device.target<"local", [#x86_64, #aarch64, #riscv64]> : !hal.device

module @plugin_example attributes {hal.device.targets = [#cpu]} {
  stream.executable private @executable {
    stream.executable.export public @simple_mul workgroups(%workload: index) -> (index, index, index) {
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%workload]
      %one = arith.constant 1 : index
      stream.return %x, %one, %one : index, index, index
    }
    builtin.module {
      func.func private @simple_mul_workgroup(memref<f32>, index, memref<f32>, index, memref<f32>, index, index, index)
          attributes {llvm.bareptr = true}
      func.func @simple_mul(%b0: !stream.binding, %b1: !stream.binding, %b2: !stream.binding, %size: index) {
        %zero = arith.constant 0 : index
        %id = stream.dispatch.workgroup.id[0] : index
        %first = affine.apply affine_map<()[s0] -> (s0 * 64)>()[%id]
        %lhs = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<?xf32>{%size}
        %rhs = stream.binding.subspan %b1[%zero] : !stream.binding -> memref<?xf32>{%size}
        %out = stream.binding.subspan %b2[%zero] : !stream.binding -> memref<?xf32>{%size}
        %p0, %o0, %n0, %s0 = iree_codegen.extract_strided_metadata %lhs : memref<?xf32> -> memref<f32>, index, index, index
        %p1, %o1, %n1, %s1 = iree_codegen.extract_strided_metadata %rhs : memref<?xf32> -> memref<f32>, index, index, index
        %p2, %o2, %n2, %s2 = iree_codegen.extract_strided_metadata %out : memref<?xf32> -> memref<f32>, index, index, index
        func.call @simple_mul_workgroup(%p0, %o0, %p1, %o1, %p2, %o2, %size, %first)
            : (memref<f32>, index, memref<f32>, index, memref<f32>, index, index, index) -> ()
        return
      }
    }
  }
  func.func public @multiply(%lhs: tensor<?xf32>, %rhs: tensor<?xf32>) -> tensor<?xf32> {
    %c0 = arith.constant 0 : index
    %dim = tensor.dim %lhs, %c0 : tensor<?xf32>
    %0 = flow.dispatch @executable::@simple_mul[%dim](%lhs, %rhs, %dim) : (tensor<?xf32>{%dim}, tensor<?xf32>{%dim}, index) -> tensor<?xf32>{%dim}
    return %0 : tensor<?xf32>
  }
}
