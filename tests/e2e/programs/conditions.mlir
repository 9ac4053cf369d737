// Variants that stand back on devices without what they ask for.
#target = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
#device = #hal.device.target<"local", [#target]> : !hal.device
#layout = #hal.pipeline.layout<constants = 1, bindings = [#hal.pipeline.binding<storage_buffer>]>
module attributes {hal.device.targets = [#device]} {
  hal.executable private @kernels {
    hal.executable.variant public @never target(#target) {
      hal.executable.condition(%device: !hal.device) -> i1 {
        %known, %value = hal.device.query<%device : !hal.device> key("hal.cpu" :: "no-such-feature") : i1, i1 = false
        hal.return %value : i1
      }
      hal.executable.export public @fill ordinal(0) layout(#layout) count(%device: !hal.device, %size: index) -> (index, index, index) {
        %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
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
      }
    }
    hal.executable.variant public @wrong target(#target) {
      hal.executable.condition(%device: !hal.device) -> i1 {
        %known, %value = hal.device.query<%device : !hal.device> key("hal.executable.format" :: "no-such-format") : i1, i1 = false
        hal.return %value : i1
      }
      hal.executable.export public @fill ordinal(0) layout(#layout) count(%device: !hal.device, %size: index) -> (index, index, index) {
        %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
        %one = arith.constant 1 : index
        hal.return %x, %one, %one : index, index, index
      }
      builtin.module {
        func.func @fill() {
          %zero = arith.constant 0 : index
          %one = arith.constant 1 : index
          %value = arith.constant 2 : i32
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
      }
    }
    hal.executable.variant public @here target(#target) {
      hal.executable.condition(%device: !hal.device) -> i1 {
        %known, %value = hal.device.query<%device : !hal.device> key("hal.executable.format" :: "embedded-elf-x86_64") : i1, i1 = false
        hal.return %value : i1
      }
      hal.executable.export public @fill ordinal(0) layout(#layout) count(%device: !hal.device, %size: index) -> (index, index, index) {
        %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
        %one = arith.constant 1 : index
        hal.return %x, %one, %one : index, index, index
      }
      builtin.module {
        func.func @fill() {
          %zero = arith.constant 0 : index
          %one = arith.constant 1 : index
          %value = arith.constant 3 : i32
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
      }
    }
    hal.executable.variant public @last target(#target) {
      hal.executable.export public @fill ordinal(0) layout(#layout) count(%device: !hal.device, %size: index) -> (index, index, index) {
        %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
        %one = arith.constant 1 : index
        hal.return %x, %one, %one : index, index, index
      }
      builtin.module {
        func.func @fill() {
          %zero = arith.constant 0 : index
          %one = arith.constant 1 : index
          %value = arith.constant 4 : i32
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
      }
    }
  }
  func.func @main(%size: i32) -> tensor<?xi32> {
    %n = arith.index_cast %size : i32 to index
    %0 = flow.dispatch {@kernels::@never::@fill, @kernels::@wrong::@fill, @kernels::@here::@fill, @kernels::@last::@fill}[%n](%size) : (i32) -> tensor<?xi32>{%n}
    return %0 : tensor<?xi32>
  }
}
