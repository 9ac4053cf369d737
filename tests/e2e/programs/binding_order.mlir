// A binding order that the dispatch gives, and one that the export gives.
#target = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
#device = #hal.device.target<"local", [#target]> : !hal.device
#layout = #hal.pipeline.layout<constants = 1, bindings = [
  #hal.pipeline.binding<storage_buffer, ReadOnly>,
  #hal.pipeline.binding<storage_buffer, ReadOnly>,
  #hal.pipeline.binding<storage_buffer>
]>
module attributes {hal.device.targets = [#device]} {
  hal.executable private @kernels {
    hal.executable.variant public @here target(#target) {
      hal.executable.export public @sub ordinal(0) layout(#layout) count(%device: !hal.device, %size: index) -> (index, index, index) {
        %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
        %one = arith.constant 1 : index
        hal.return %x, %one, %one : index, index, index
      }
      hal.executable.export public @turned ordinal(1) layout(#layout) count(%device: !hal.device, %size: index) -> (index, index, index) {
        %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
        %one = arith.constant 1 : index
        hal.return %x, %one, %one : index, index, index
      } attributes {hal.interface.bindings = [#hal.interface.binding<0, 1>, #hal.interface.binding<0, 0>, #hal.interface.binding<0, 2>]}
      builtin.module {
        func.func @sub() {
          %zero = arith.constant 0 : index
          %c64 = arith.constant 64 : index
          %one = arith.constant 1 : index
          %word = hal.interface.constant.load layout(#layout) ordinal(0) : i32
          %size = arith.index_castui %word : i32 to index
          %id = hal.interface.workgroup.id[0] : index
          %first = arith.muli %id, %c64 : index
          %past = arith.addi %first, %c64 : index
          %end = arith.minui %past, %size : index
          %a = hal.interface.binding.subspan layout(#layout) binding(0) alignment(64) offset(%zero) flags(ReadOnly) : memref<?xf32>{%size}
          %b = hal.interface.binding.subspan layout(#layout) binding(1) alignment(64) offset(%zero) flags(ReadOnly) : memref<?xf32>{%size}
          %c = hal.interface.binding.subspan layout(#layout) binding(2) alignment(64) offset(%zero) : memref<?xf32>{%size}
          scf.for %i = %first to %end step %one {
            %x = memref.load %a[%i] : memref<?xf32>
            %y = memref.load %b[%i] : memref<?xf32>
            %d = arith.subf %x, %y : f32
            memref.store %d, %c[%i] : memref<?xf32>
          }
          return
        }
        func.func @turned() {
          %zero = arith.constant 0 : index
          %c64 = arith.constant 64 : index
          %one = arith.constant 1 : index
          %word = hal.interface.constant.load layout(#layout) ordinal(0) : i32
          %size = arith.index_castui %word : i32 to index
          %id = hal.interface.workgroup.id[0] : index
          %first = arith.muli %id, %c64 : index
          %past = arith.addi %first, %c64 : index
          %end = arith.minui %past, %size : index
          %a = hal.interface.binding.subspan layout(#layout) binding(0) alignment(64) offset(%zero) flags(ReadOnly) : memref<?xf32>{%size}
          %b = hal.interface.binding.subspan layout(#layout) binding(1) alignment(64) offset(%zero) flags(ReadOnly) : memref<?xf32>{%size}
          %c = hal.interface.binding.subspan layout(#layout) binding(2) alignment(64) offset(%zero) : memref<?xf32>{%size}
          scf.for %i = %first to %end step %one {
            %x = memref.load %a[%i] : memref<?xf32>
            %y = memref.load %b[%i] : memref<?xf32>
            %d = arith.subf %x, %y : f32
            memref.store %d, %c[%i] : memref<?xf32>
          }
          return
        }
      }
    }
  }
  func.func @swapped(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
    %zero = arith.constant 0 : index
    %size = tensor.dim %a, %zero : tensor<?xf32>
    %word = arith.index_cast %size : index to i32
    %difference = flow.dispatch @kernels::@here::@sub[%size](%word, %a, %b) {
      hal.interface.bindings = [#hal.interface.binding<1>, #hal.interface.binding<0>, #hal.interface.binding<2>]
    } : (i32, tensor<?xf32>{%size}, tensor<?xf32>{%size}) -> tensor<?xf32>{%size}
    return %difference : tensor<?xf32>
  }
  func.func @by_export(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
    %zero = arith.constant 0 : index
    %size = tensor.dim %a, %zero : tensor<?xf32>
    %word = arith.index_cast %size : index to i32
    %difference = flow.dispatch @kernels::@here::@turned[%size](%word, %a, %b) : (i32, tensor<?xf32>{%size}, tensor<?xf32>{%size}) -> tensor<?xf32>{%size}
    return %difference : tensor<?xf32>
  }
  func.func @by_name(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
    %zero = arith.constant 0 : index
    %size = tensor.dim %a, %zero : tensor<?xf32>
    %word = arith.index_cast %size : index to i32
    %difference = flow.dispatch @kernels::@sub[%size](%word, %a, %b) : (i32, tensor<?xf32>{%size}, tensor<?xf32>{%size}) -> tensor<?xf32>{%size}
    return %difference : tensor<?xf32>
  }
}
