// One executable in two variants of different grids; a dispatch lists them all.
#plain = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "generic", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
#level = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu_features = "+sse3,+ssse3", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
#other = #hal.executable.target<"llvm-cpu", "embedded-elf-riscv_64", {target_triple = "riscv64-unknown-unknown-eabi-elf"}>
#device = #hal.device.target<"local", [#plain, #level, #other]> : !hal.device
#layout = #hal.pipeline.layout<constants = 1, bindings = [#hal.pipeline.binding<storage_buffer>]>
module attributes {hal.device.targets = [#device]} {
  hal.executable private @kernels {
    hal.executable.variant public @other target(#other) {
      hal.executable.export public @fill ordinal(0) layout(#layout) count(%device: !hal.device, %size: index) -> (index, index, index) {
        %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 8)>()[%size]
        %one = arith.constant 1 : index
        hal.return %x, %one, %one : index, index, index
      }
      hal.executable.export public @unused ordinal(1) layout(#layout) count(%device: !hal.device, %size: index) -> (index, index, index) {
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
          %first = affine.apply affine_map<()[s0] -> (s0 * 8)>()[%id]
          %end = affine.min affine_map<(d0)[s0] -> (d0 + 8, s0)>(%first)[%size]
          %out = hal.interface.binding.subspan layout(#layout) binding(0) alignment(64) offset(%zero) : memref<?xi32>{%size}
          scf.for %i = %first to %end step %one {
            memref.store %value, %out[%i] : memref<?xi32>
          }
          return
        }
        func.func @unused() {
          %zero = arith.constant 0 : index
          %one = arith.constant 1 : index
          %value = arith.constant 7 : i32
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
    hal.executable.variant public @plain target(#plain) {
      hal.executable.export public @fill ordinal(0) layout(#layout) count(%device: !hal.device, %size: index) -> (index, index, index) {
        %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 16)>()[%size]
        %one = arith.constant 1 : index
        hal.return %x, %one, %one : index, index, index
      }
      hal.executable.export public @unused ordinal(1) layout(#layout) count(%device: !hal.device, %size: index) -> (index, index, index) {
        %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
        %one = arith.constant 1 : index
        hal.return %x, %one, %one : index, index, index
      }
      builtin.module {
        func.func @fill() {
          %zero = arith.constant 0 : index
          %one = arith.constant 1 : index
          %value = arith.constant 5 : i32
          %word = hal.interface.constant.load layout(#layout) ordinal(0) : i32
          %size = arith.index_castui %word : i32 to index
          %id = hal.interface.workgroup.id[0] : index
          %first = affine.apply affine_map<()[s0] -> (s0 * 16)>()[%id]
          %end = affine.min affine_map<(d0)[s0] -> (d0 + 16, s0)>(%first)[%size]
          %out = hal.interface.binding.subspan layout(#layout) binding(0) alignment(64) offset(%zero) : memref<?xi32>{%size}
          scf.for %i = %first to %end step %one {
            memref.store %value, %out[%i] : memref<?xi32>
          }
          return
        }
        func.func @unused() {
          %zero = arith.constant 0 : index
          %one = arith.constant 1 : index
          %value = arith.constant 7 : i32
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
    hal.executable.variant public @level target(#level) {
      hal.executable.export public @fill ordinal(0) layout(#layout) count(%device: !hal.device, %size: index) -> (index, index, index) {
        %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 32)>()[%size]
        %one = arith.constant 1 : index
        hal.return %x, %one, %one : index, index, index
      }
      hal.executable.export public @unused ordinal(1) layout(#layout) count(%device: !hal.device, %size: index) -> (index, index, index) {
        %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
        %one = arith.constant 1 : index
        hal.return %x, %one, %one : index, index, index
      }
      builtin.module {
        func.func @fill() {
          %zero = arith.constant 0 : index
          %one = arith.constant 1 : index
          %value = arith.constant 5 : i32
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
        func.func @unused() {
          %zero = arith.constant 0 : index
          %one = arith.constant 1 : index
          %value = arith.constant 7 : i32
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
    %0 = flow.dispatch {@kernels::@other::@fill, @kernels::@plain::@fill, @kernels::@level::@fill}[%n](%size) : (i32) -> tensor<?xi32>{%n}
    return %0 : tensor<?xi32>
  }
}
