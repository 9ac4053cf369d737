// Grid functions and export conditions that ask the device; an export with a fallback.
#target = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
#device = #hal.device.target<"local", [#target]> : !hal.device
#layout = #hal.pipeline.layout<constants = 1, bindings = [#hal.pipeline.binding<storage_buffer>]>
module attributes {hal.device.targets = [#device]} {
  hal.executable private @kernels {
    hal.executable.variant public @here target(#target) {
      hal.executable.export public @fill ordinal(0) layout(#layout) count(%device: !hal.device, %size: index) -> (index, index, index) {
        %known, %tile = hal.device.query<%device : !hal.device> key("vendor" :: "tile") : i1, i32 = 64 : i32
        %wide = arith.index_cast %tile : i32 to index
        %x = arith.ceildivui %size, %wide : index
        %one = arith.constant 1 : index
        hal.return %x, %one, %one : index, index, index
      }
      hal.executable.export public @special ordinal(1) layout(#layout) condition(%device: !hal.device) -> i1 {
        %known, %value = hal.device.query<%device : !hal.device> key("hal.cpu" :: "no-such-feature") : i1, i1 = false
        hal.return %value : i1
      } fallback(@fill) count(%device: !hal.device, %size: index) -> (index, index, index) {
        %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 32)>()[%size]
        %one = arith.constant 1 : index
        hal.return %x, %one, %one : index, index, index
      }
      hal.executable.export public @usual ordinal(2) layout(#layout) condition(%device: !hal.device) -> i1 {
        %known, %value = hal.device.query<%device : !hal.device> key("hal.executable.format" :: "embedded-elf-x86_64") : i1, i1 = false
        hal.return %value : i1
      } fallback(@fill) count(%device: !hal.device, %size: index) -> (index, index, index) {
        %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 32)>()[%size]
        %one = arith.constant 1 : index
        hal.return %x, %one, %one : index, index, index
      }
      builtin.module {
        func.func @fill() {
          %zero = arith.constant 0 : index
          %one = arith.constant 1 : index
          %value = arith.constant 1 : i32
          %word = hal.interface.constant.load layout(#layout) ordinal(0) : i32
          %size = arith.index_castui %word : i32 to index
          %id = hal.interface.workgroup.id[0] : index
          %first = affine.apply affine_map<()[s0] -> (s0 * 64)>()[%id]
          %end = affine.min affine_map<(d0)[s0] -> (d0 + 64, s0)>(%first)[%size]
          %out = hal.interface.binding.subspan layout(#layout) binding(0) alignment(64) offset(%zero) : memref<?xi32>{%size}
          scf.for %i = %first to %end step %one {
            memref.store %value, %out[%i] : memref<?xi32>
          }
          return
        }
        func.func @special() {
          %zero = arith.constant 0 : index
          %one = arith.constant 1 : index
          %value = arith.constant 2 : i32
          %word = hal.interface.constant.load layout(#layout) ordinal(0) : i32
          %size = arith.index_castui %word : i32 to index
          %id = hal.interface.workgroup.id[0] : index
          %first = affine.apply affine_map<()[s0] -> (s0 * 32)>()[%id]
          %end = affine.min affine_map<(d0)[s0] -> (d0 + 32, s0)>(%first)[%size]
          %out = hal.interface.binding.subspan layout(#layout) binding(0) alignment(64) offset(%zero) : memref<?xi32>{%size}
          scf.for %i = %first to %end step %one {
            memref.store %value, %out[%i] : memref<?xi32>
          }
          return
        }
        func.func @usual() {
          %zero = arith.constant 0 : index
          %one = arith.constant 1 : index
          %value = arith.constant 3 : i32
          %word = hal.interface.constant.load layout(#layout) ordinal(0) : i32
          %size = arith.index_castui %word : i32 to index
          %id = hal.interface.workgroup.id[0] : index
          %first = affine.apply affine_map<()[s0] -> (s0 * 32)>()[%id]
          %end = affine.min affine_map<(d0)[s0] -> (d0 + 32, s0)>(%first)[%size]
          %out = hal.interface.binding.subspan layout(#layout) binding(0) alignment(64) offset(%zero) : memref<?xi32>{%size}
          scf.for %i = %first to %end step %one {
            memref.store %value, %out[%i] : memref<?xi32>
          }
          return
        }
      }
    }
  }
  func.func @main(%size: i32) -> tensor<?xi32> {
    %n = arith.index_cast %size : i32 to index
    %0 = flow.dispatch @kernels::@here::@fill[%n](%size) : (i32) -> tensor<?xi32>{%n}
    return %0 : tensor<?xi32>
  }
  func.func @special(%size: i32) -> tensor<?xi32> {
    %n = arith.index_cast %size : i32 to index
    %0 = flow.dispatch @kernels::@here::@special[%n](%size) : (i32) -> tensor<?xi32>{%n}
    return %0 : tensor<?xi32>
  }
  func.func @usual(%size: i32) -> tensor<?xi32> {
    %n = arith.index_cast %size : i32 to index
    %0 = flow.dispatch @kernels::@here::@usual[%n](%size) : (i32) -> tensor<?xi32>{%n}
    return %0 : tensor<?xi32>
  }
}
