// Executable constants: computed on the host at load, from what the device says, and read in kernels.
#target = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
#device = #hal.device.target<"local", [#target]> : !hal.device
#layout = #hal.pipeline.layout<bindings = [#hal.pipeline.binding<storage_buffer>]>
module attributes {hal.device.targets = [#device]} {
  hal.executable private @kernels {
    hal.executable.variant public @here target(#target) {
      hal.executable.constant.block(%device: !hal.device) -> (i32, i32) as ("known", "format") {
        %ok0, %value0 = hal.device.query<%device : !hal.device> key("hal.cpu" :: "no-such-feature") : i1, i32 = 40 : i32
        %ok1, %value1 = hal.device.query<%device : !hal.device> key("hal.executable.format" :: "embedded-elf-x86_64") : i1, i1 = false
        %wide = arith.extui %value1 : i1 to i32
        %two = arith.constant 2 : i32
        %sum = arith.addi %value0, %two : i32
        hal.return %sum, %wide : i32, i32
      }
      hal.executable.constant.block() -> i32 as "fixed" {
        %c7 = arith.constant 7 : i32
        hal.return %c7 : i32
      }
      hal.executable.export public @read ordinal(0) layout(#layout) count(%device: !hal.device) -> (index, index, index) {
        %one = arith.constant 1 : index
        hal.return %one, %one, %one : index, index, index
      }
      builtin.module {
        func.func @read() {
          %zero = arith.constant 0 : index
          %one = arith.constant 1 : index
          %two = arith.constant 2 : index
          %out = hal.interface.binding.subspan layout(#layout) binding(0) alignment(64) offset(%zero) : memref<3xi32>
          %known = hal.executable.constant.load "known" : i32
          %format = hal.executable.constant.load "format" : i32
          %fixed = hal.executable.constant.load "fixed" : i32
          memref.store %known, %out[%zero] : memref<3xi32>
          memref.store %format, %out[%one] : memref<3xi32>
          memref.store %fixed, %out[%two] : memref<3xi32>
          return
        }
      }
    }
  }
  func.func @main() -> tensor<3xi32> {
    %0 = flow.dispatch @kernels::@here::@read() : () -> tensor<3xi32>
    return %0 : tensor<3xi32>
  }
}
