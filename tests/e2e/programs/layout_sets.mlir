// A layout of descriptor sets, counts as a labelled block, targets and objects of a variant behind commas.
#target = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {native_vector_size = 32 : index}>
#device = #hal.device.target<"llvm-cpu", {executable_targets = [#target]}>
module attributes {hal.device.targets = [#device]} {
  hal.executable private @kernels {
    hal.executable.variant public @here, target = #target, objects = [#hal.executable.object<{path = "kernels.c"}>] {
      hal.executable.export public @mul ordinal(0) layout(#hal.pipeline.layout<push_constants = 1, sets = [
        <0, bindings = [<0, storage_buffer, ReadOnly>, <1, storage_buffer, ReadOnly>, <2, storage_buffer>]>
      ]>) attributes {workgroup_size = [64 : index, 1 : index, 1 : index]} {
      ^bb0(%device: !hal.device, %size: index):
        %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
        %one = arith.constant 1 : index
        hal.return %x, %one, %one : index, index, index
      }
      hal.executable.export public @scale ordinal(1) layout(#hal.pipeline.layout<push_constants = 1, sets = [
        #hal.descriptor_set.layout<0, bindings = [
          #hal.descriptor_set.binding<0, storage_buffer, ReadOnly>, #hal.descriptor_set.binding<1, storage_buffer>
        ]>
      ]>) {
      ^bb0(%device: !hal.device, %size: index):
        %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
        %one = arith.constant 1 : index
        hal.return %x, %one, %one : index, index, index
      }
      builtin.module {
        func.func private @mul_expanded(%a: memref<?xf32>, %b: memref<?xf32>, %c: memref<?xf32>, %n: index, %i: index)
            attributes {hal.import.static}
        func.func private @scale_bare(%a: memref<?xf32>, %b: memref<?xf32>, %n: index, %i: index)
            attributes {hal.import.static, llvm.bareptr = true}
        func.func @mul() {
          %zero = arith.constant 0 : index
          %word = hal.interface.constant.load[0] : i32
          %size = arith.index_castui %word : i32 to index
          %id = hal.interface.workgroup.id[0] : index
          %first = affine.apply affine_map<()[s0] -> (s0 * 64)>()[%id]
          %a = hal.interface.binding.subspan set(0) binding(0) type(storage_buffer) alignment(64) offset(%zero) : memref<?xf32>{%size}
          %b = hal.interface.binding.subspan set(0) binding(1) type(storage_buffer) alignment(64) offset(%zero) : memref<?xf32>{%size}
          %c = hal.interface.binding.subspan set(0) binding(2) type(storage_buffer) alignment(64) offset(%zero) : memref<?xf32>{%size}
          func.call @mul_expanded(%a, %b, %c, %size, %first) : (memref<?xf32>, memref<?xf32>, memref<?xf32>, index, index) -> ()
          return
        }
        func.func @scale() {
          %zero = arith.constant 0 : index
          %word = hal.interface.constant.load[0] : i32
          %size = arith.index_castui %word : i32 to index
          %id = hal.interface.workgroup.id[0] : index
          %first = affine.apply affine_map<()[s0] -> (s0 * 64)>()[%id]
          %a = hal.interface.binding.subspan set(0) binding(0) type(storage_buffer) offset(%zero) : memref<?xf32>{%size}
          %b = hal.interface.binding.subspan set(0) binding(1) type(storage_buffer) offset(%zero) : memref<?xf32>{%size}
          func.call @scale_bare(%a, %b, %size, %first) : (memref<?xf32>, memref<?xf32>, index, index) -> ()
          return
        }
      }
    }
  }
  func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
    %zero = arith.constant 0 : index
    %size = tensor.dim %a, %zero : tensor<?xf32>
    %word = arith.index_cast %size : index to i32
    %product = flow.dispatch @kernels::@here::@mul[%size](%word, %a, %b) {
      hal.interface.bindings = [#hal.interface.binding<0, 0>, #hal.interface.binding<0, 1>, #hal.interface.binding<0, 2>],
      hal.executable.ref = [@kernels]
    } : (i32, tensor<?xf32>{%size}, tensor<?xf32>{%size}) -> tensor<?xf32>{%size}
    %sum = arith.addf %product, %b : tensor<?xf32>
    %scaled = flow.dispatch @kernels::@here::@scale[%size](%word, %product, %sum)
        : (i32, tensor<?xf32>{%size}, tensor<?xf32>{%size}) -> %sum{%size}
    return %scaled : tensor<?xf32>
  }
}
