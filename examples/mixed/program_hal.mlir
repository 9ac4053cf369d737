// The program of program.mlir one level lower: the layouts of the kernels are written out, and so are their variants.
#x86_64 = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
#cpu = #hal.device.target<"local", [#x86_64]> : !hal.device

#mul_layout = #hal.pipeline.layout<constants = 1, bindings = [
  #hal.pipeline.binding<storage_buffer, ReadOnly>,
  #hal.pipeline.binding<storage_buffer, ReadOnly>,
  #hal.pipeline.binding<storage_buffer>
]>
#scale_layout = #hal.pipeline.layout<constants = 1, bindings = [
  #hal.pipeline.binding<storage_buffer, ReadOnly>,
  #hal.pipeline.binding<storage_buffer>
]>

module @mixed attributes {hal.device.targets = [#cpu]} {
  hal.executable private @kernels {
    hal.executable.variant public @x86_64 target(#x86_64) objects([
      #hal.executable.object<{path = "functions.c"}>
    ]) {
      hal.executable.export public @mul ordinal(0) layout(#mul_layout)
          count(%device: !hal.device, %size: index) -> (index, index, index) {
        %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
        %one = arith.constant 1 : index
        hal.return %x, %one, %one : index, index, index
      }
      hal.executable.export public @scale ordinal(1) layout(#scale_layout)
          count(%device: !hal.device, %size: index) -> (index, index, index) {
        %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
        %one = arith.constant 1 : index
        hal.return %x, %one, %one : index, index, index
      }
      builtin.module {
        func.func private @mul_workgroup(memref<f32>, index, memref<f32>, index, memref<f32>, index, index, index)
            attributes {hal.import.static, llvm.bareptr = true}
        func.func private @scale_workgroup(memref<f32>, index, memref<f32>, index, index, index)
            attributes {hal.import.static, llvm.bareptr = true}

        func.func @mul() {
          %zero = arith.constant 0 : index
          %size_i32 = hal.interface.constant.load layout(#mul_layout) ordinal(0) : i32
          %size = arith.index_castui %size_i32 : i32 to index
          %id = hal.interface.workgroup.id[0] : index
          %first = affine.apply affine_map<()[s0] -> (s0 * 64)>()[%id]
          %lhs = hal.interface.binding.subspan layout(#mul_layout) binding(0) alignment(64) offset(%zero) flags(ReadOnly) : memref<?xf32>{%size}
          %rhs = hal.interface.binding.subspan layout(#mul_layout) binding(1) alignment(64) offset(%zero) flags(ReadOnly) : memref<?xf32>{%size}
          %out = hal.interface.binding.subspan layout(#mul_layout) binding(2) alignment(64) offset(%zero) : memref<?xf32>{%size}
          %p0, %o0, %n0, %s0 = iree_codegen.extract_strided_metadata %lhs : memref<?xf32> -> memref<f32>, index, index, index
          %p1, %o1, %n1, %s1 = iree_codegen.extract_strided_metadata %rhs : memref<?xf32> -> memref<f32>, index, index, index
          %p2, %o2, %n2, %s2 = iree_codegen.extract_strided_metadata %out : memref<?xf32> -> memref<f32>, index, index, index
          func.call @mul_workgroup(%p0, %o0, %p1, %o1, %p2, %o2, %size, %first)
              : (memref<f32>, index, memref<f32>, index, memref<f32>, index, index, index) -> ()
          return
        }
        func.func @scale() {
          %zero = arith.constant 0 : index
          %size_i32 = hal.interface.constant.load layout(#scale_layout) ordinal(0) : i32
          %size = arith.index_castui %size_i32 : i32 to index
          %id = hal.interface.workgroup.id[0] : index
          %first = affine.apply affine_map<()[s0] -> (s0 * 64)>()[%id]
          %lhs = hal.interface.binding.subspan layout(#scale_layout) binding(0) alignment(64) offset(%zero) flags(ReadOnly) : memref<?xf32>{%size}
          %rhs = hal.interface.binding.subspan layout(#scale_layout) binding(1) alignment(64) offset(%zero) : memref<?xf32>{%size}
          %p0, %o0, %n0, %s0 = iree_codegen.extract_strided_metadata %lhs : memref<?xf32> -> memref<f32>, index, index, index
          %p1, %o1, %n1, %s1 = iree_codegen.extract_strided_metadata %rhs : memref<?xf32> -> memref<f32>, index, index, index
          func.call @scale_workgroup(%p0, %o0, %p1, %o1, %size, %first)
              : (memref<f32>, index, memref<f32>, index, index, index) -> ()
          return
        }
      }
    }
  }

  func.func @mixed_invocation(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
    %zero = arith.constant 0 : index
    %size = tensor.dim %a, %zero : tensor<?xf32>
    %size_i32 = arith.index_cast %size : index to i32
    // The short form chooses the variant at load; the long one names the layout of a variant and runs the same.
    %product = flow.dispatch @kernels::@mul[%size](%size_i32, %a, %b)
        : (i32, tensor<?xf32>{%size}, tensor<?xf32>{%size}) -> tensor<?xf32>{%size}
    %sum = arith.addf %product, %b : tensor<?xf32>
    %scaled = flow.dispatch @kernels::@x86_64::@scale[%size](%size_i32, %product, %sum)
        : (i32, tensor<?xf32>{%size}, tensor<?xf32>{%size}) -> %sum{%size}
    return %scaled : tensor<?xf32>
  }
}
