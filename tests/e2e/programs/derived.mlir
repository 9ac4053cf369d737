// A layout that does not count constants gets them from the operands; 64-bit operands are two words; an `index` may be cut.
#target = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
#device = #hal.device.target<"local", [#target]> : !hal.device
#open = #hal.pipeline.layout<bindings = [#hal.pipeline.binding<storage_buffer>]>
#four = #hal.pipeline.layout<constants = 4, bindings = [#hal.pipeline.binding<storage_buffer>]>
#narrow = #hal.pipeline.layout<constants = 1, bindings = [#hal.pipeline.binding<storage_buffer>]>
module attributes {hal.device.targets = [#device]} {
  hal.executable private @kernels {
    hal.executable.variant public @here target(#target) {
      hal.executable.export public @open ordinal(0) layout(#open) count(%device: !hal.device) -> (index, index, index) {
        %one = arith.constant 1 : index
        hal.return %one, %one, %one : index, index, index
      }
      hal.executable.export public @words ordinal(1) layout(#four) count(%device: !hal.device) -> (index, index, index) {
        %one = arith.constant 1 : index
        hal.return %one, %one, %one : index, index, index
      }
      hal.executable.export public @narrow ordinal(2) layout(#narrow) count(%device: !hal.device, %n: index) -> (index, index, index) {
        %one = arith.constant 1 : index
        hal.return %one, %one, %one : index, index, index
      }
      builtin.module {
        func.func @open() {
          %zero = arith.constant 0 : index
          %one = arith.constant 1 : index
          %a = hal.interface.constant.load layout(#open) ordinal(0) : i32
          %b = hal.interface.constant.load layout(#open) ordinal(1) : i64
          %wide = arith.extsi %a : i32 to i64
          %out = hal.interface.binding.subspan layout(#open) binding(0) offset(%zero) : memref<2xi64>
          memref.store %wide, %out[%zero] : memref<2xi64>
          memref.store %b, %out[%one] : memref<2xi64>
          return
        }
        func.func @words() {
          %zero = arith.constant 0 : index
          %one = arith.constant 1 : index
          %a = hal.interface.constant.load layout(#four) ordinal(0) : i64
          %low = hal.interface.constant.load layout(#four) ordinal(2) : i32
          %high = hal.interface.constant.load layout(#four) ordinal(3) : i32
          %c32 = arith.constant 32 : i64
          %low64 = arith.extui %low : i32 to i64
          %high64 = arith.extui %high : i32 to i64
          %lifted = arith.shli %high64, %c32 : i64
          %b = arith.ori %low64, %lifted : i64
          %out = hal.interface.binding.subspan layout(#four) binding(0) offset(%zero) : memref<2xi64>
          memref.store %a, %out[%zero] : memref<2xi64>
          memref.store %b, %out[%one] : memref<2xi64>
          return
        }
        func.func @narrow() {
          %zero = arith.constant 0 : index
          %a = hal.interface.constant.load layout(#narrow) ordinal(0) : i32
          %wide = arith.extui %a : i32 to i64
          %out = hal.interface.binding.subspan layout(#narrow) binding(0) offset(%zero) : memref<1xi64>
          memref.store %wide, %out[%zero] : memref<1xi64>
          return
        }
      }
    }
  }
  func.func @open(%a: i32, %b: i64) -> tensor<2xi64> {
    %0 = flow.dispatch @kernels::@here::@open(%a, %b) : (i32, i64) -> tensor<2xi64>
    return %0 : tensor<2xi64>
  }
  func.func @words(%a: i64, %b: i64) -> tensor<2xi64> {
    %0 = flow.dispatch @kernels::@here::@words(%a, %b) : (i64, i64) -> tensor<2xi64>
    return %0 : tensor<2xi64>
  }
  func.func @narrow(%n: index) -> tensor<1xi64> {
    %0 = flow.dispatch @kernels::@here::@narrow[%n](%n) : (index) -> tensor<1xi64>
    return %0 : tensor<1xi64>
  }
}
