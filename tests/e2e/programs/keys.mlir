// Objects by target: keys that state less, the same, or more than a target does.
#target = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "generic", target_triple = "x86_64-unknown-unknown-eabi-elf", native_vector_size = 16 : index}>
#other = #hal.executable.target<"llvm-cpu", "embedded-elf-arm_64">
#key = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
#bigger = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "x86-64-v4", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
#device = #hal.device.target<"local", [#target]> : !hal.device
module attributes {hal.device.targets = [#device]} {
  stream.executable private @kernels attributes {
    hal.executable.objects = #hal.executable.objects<{
      #other = [#hal.executable.object<{path = "not_there.o"}>],
      #bigger = [#hal.executable.object<{path = "not_there_either.o"}>],
      #key = [#hal.executable.object<{path = "kernels.c"}>]
    }>
  } {
    stream.executable.export public @next workgroups() -> (index, index, index) {
      %one = arith.constant 1 : index
      stream.return %one, %one, %one : index, index, index
    }
    builtin.module {
      func.func private @next_i32(i32) -> i32 attributes {hal.import.static}
      func.func @next(%b0: !stream.binding, %x: i32) {
        %zero = arith.constant 0 : index
        %out = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<i32>
        %y = func.call @next_i32(%x) : (i32) -> i32
        memref.store %y, %out[] : memref<i32>
        return
      }
    }
  }
  func.func @main(%x: i32) -> tensor<i32> {
    %0 = flow.dispatch @kernels::@next(%x) : (i32) -> tensor<i32>
    return %0 : tensor<i32>
  }
}
