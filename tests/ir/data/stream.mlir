#arm = #hal.executable.target<"llvm-cpu", "embedded-elf-arm_64", {target_triple = "aarch64-unknown-unknown-eabi-elf"}>
#x86 = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
  native_vector_size = 32 : index,
  target_triple = "x86_64-unknown-unknown-eabi-elf"
}>
#cpu = #hal.device.target<"local", [#arm, #x86]> : !hal.device
module @prog attributes {hal.device.targets = [#cpu]} {
  stream.executable private @exe attributes {
    hal.executable.objects = #hal.executable.objects<{
      #arm = [#hal.executable.object<{path = "fa.o"}>],
      #x86 = [#hal.executable.object<{path = "fx.o"}>]
    }>
  } {
    stream.executable.export public @scale workgroups(%n: index) -> (index, index, index) {
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%n]
      %one = arith.constant 1 : index
      stream.return %x, %one, %one : index, index, index
    }
    stream.executable.export public @scale_inplace workgroups(%n: index) -> (index, index, index) {
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%n]
      %one = arith.constant 1 : index
      hal.return %x, %one, %one : index, index, index
    }
    builtin.module {
      func.func private @ext(memref<?xf32>, memref<?xf32>, index, index) attributes {hal.import.static}
      func.func @scale(%a: !stream.binding, %b: !stream.binding, %n: index) {
        %c0 = arith.constant 0 : index
        %id = stream.dispatch.workgroup.id[0] : index
        %tid = affine.apply affine_map<()[s0] -> (s0 * 64)>()[%id]
        %ma = stream.binding.subspan %a[%c0] : !stream.binding -> memref<?xf32>{%n}
        %mb = stream.binding.subspan %b[%c0] : !stream.binding -> memref<?xf32>{%n}
        func.call @ext(%ma, %mb, %n, %tid) : (memref<?xf32>, memref<?xf32>, index, index) -> ()
        return
      }
      func.func @scale_inplace(%a: !stream.binding, %n: index) {
        %c0 = arith.constant 0 : index
        %id = flow.dispatch.workgroup.id[0] : index
        %ma = stream.binding.subspan %a[%c0] : !stream.binding -> memref<?xf32>{%n}
        func.call @ext(%ma, %ma, %n, %id) : (memref<?xf32>, memref<?xf32>, index, index) -> ()
        return
      }
    }
  }
  func.func @main(%arg0: tensor<?xf32>, %arg1: tensor<?xf32>) -> tensor<?xf32> {
    %c0 = arith.constant 0 : index
    %d = tensor.dim %arg0, %c0 : tensor<?xf32>
    %0 = flow.dispatch @exe::@scale[%d](%arg0, %d) : (tensor<?xf32>{%d}, index) -> tensor<?xf32>{%d}
    %1 = arith.addf %0, %arg1 : tensor<?xf32>
    %2 = flow.dispatch @exe::@scale_inplace[%d](%1, %d) : (tensor<?xf32>{%d}, index) -> %1{%d}
    return %2 : tensor<?xf32>
  }
}
