// Several devices with several targets each, `hal.executable.source`, attributes that are read and ignored.
#x86 = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {native_vector_size = 32 : index, ukernels = "none"}>
#arm = #hal.executable.target<"llvm-cpu", "embedded-elf-arm_64">
#riscv = #hal.executable.target<"llvm-cpu", "embedded-elf-riscv_64">
#first = #hal.device.target<"local", {ordinal = 0 : index}, [#x86, #arm]> : !hal.device
#second = #hal.device.target<"local", {ordinal = 1 : index}, [#riscv, #x86]> : !hal.device
#layout = #hal.pipeline.layout<constants = 1, bindings = [#hal.pipeline.binding<storage_buffer, Indirect>], flags = Indirect>
module @several attributes {hal.device.targets = [#first, #second], vendor.note = "kept", vendor.flag} {
  hal.executable.source private @kernels attributes {
    hal.executable.objects = #hal.executable.objects<{
      #x86 = [#hal.executable.object<{path = "kernels.c"}>],
      #arm = [#hal.executable.object<{path = "kernels.c"}>],
      #riscv = [#hal.executable.object<{path = "kernels.c"}>]
    }>
  } {
    hal.executable.export public @twice ordinal(0) layout(#layout) count(%device: !hal.device) -> (index, index, index) {
      %one = arith.constant 1 : index
      hal.return %one, %one, %one : index, index, index
    }
    builtin.module attributes {vendor.note = #vendor.anything<"in", [1, 2]>} {
      func.func private @twice_of(index) -> index attributes {hal.import.static, hal.import.name = "twice"}
      func.func private @double(%x: index) -> index {
        %y = func.call @twice_of(%x) : (index) -> index
        return %y : index
      }
      func.func @twice() attributes {translation_info = #iree_codegen.translation_info<pipeline = None>} {
        %zero = arith.constant 0 : index
        %word = hal.interface.constant.load layout(#layout) ordinal(0) : i32
        %x = arith.index_cast %word : i32 to index
        %y = func.call @double(%x) : (index) -> index
        %z = arith.index_cast %y : index to i32
        %out = hal.interface.binding.subspan layout(#layout) binding(0) offset(%zero) flags(Indirect) : memref<i32>
        memref.store %z, %out[] : memref<i32>
        return
      }
    }
  }
  func.func @main(%x: i32 {iree.identifier = "x"}) -> (tensor<i32> {iree.identifier = "y"}) attributes {vendor.note = "kept"} {
    %0 = flow.dispatch @kernels::@twice(%x) {vendor.flag} : (i32) -> tensor<i32>
    return %0 : tensor<i32>
  }
}
