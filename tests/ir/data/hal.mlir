#x86 = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
  native_vector_size = 32 : index,
  target_triple = "x86_64-unknown-unknown-eabi-elf"
}>
#cpu = #hal.device.target<"local", [#x86]> : !hal.device
#l = #hal.pipeline.layout<constants = 1, bindings = [#hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer>]>
module @prog attributes {hal.device.targets = [#cpu]} {
  hal.executable private @exe {
    hal.executable.variant public @x86 target(#x86) objects([#hal.executable.object<{path = "fx.o"}>]) {
      hal.executable.condition(%device: !hal.device) -> i1 {
        %ok, %v = hal.device.query<%device : !hal.device> key("hal.cpu" :: "avx2") : i1, i1 = false
        hal.return %v : i1
      }
      hal.executable.constant.block(%device: !hal.device) -> (i32, i32) as ("a", "b") {
        %c = arith.constant 3 : i32
        %ok, %v = hal.device.query<%device : !hal.device> key("hal.device" :: "concurrency") : i1, i32
        hal.return %c, %v : i32, i32
      }
      hal.executable.export public @scale ordinal(0) layout(#l) count(%device: !hal.device, %n: index) -> (index, index, index) {
        %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%n]
        %one = arith.constant 1 : index
        hal.return %x, %one, %one : index, index, index
      } <workgroup_size = [64 : index, 1 : index, 1 : index]>
      builtin.module {
        func.func private @ext(memref<?xf32>, memref<?xf32>, index, index) attributes {hal.import.static}
        func.func @scale() {
          %c0 = arith.constant 0 : index
          %n32 = hal.interface.constant.load layout(#l) ordinal(0) : i32
          %n = arith.index_castui %n32 : i32 to index
          %k = hal.executable.constant.load "a" : i32
          %id = hal.interface.workgroup.id[0] : index
          %count = hal.interface.workgroup.count[0] : index
          %size = hal.interface.workgroup.size[0] : index
          %tid = affine.apply affine_map<()[s0] -> (s0 * 64)>()[%id]
          %ma = hal.interface.binding.subspan layout(#l) binding(0) alignment(64) offset(%c0) flags(ReadOnly) : memref<?xf32>{%n}
          %mb = hal.interface.binding.subspan layout(#l) binding(1) alignment(64) offset(%c0) : memref<?xf32>{%n}
          func.call @ext(%ma, %mb, %n, %tid) : (memref<?xf32>, memref<?xf32>, index, index) -> ()
          return
        }
      }
    }
  }
  util.func public @main(%arg0: tensor<?xf32>, %arg1: tensor<?xf32>) -> tensor<?xf32> {
    %c0 = arith.constant 0 : index
    %d = tensor.dim %arg0, %c0 : tensor<?xf32>
    %d32 = arith.index_cast %d : index to i32
    %0 = flow.dispatch @exe::@x86::@scale[%d](%d32, %arg0) : (i32, tensor<?xf32>{%d}) -> tensor<?xf32>{%d}
    %1 = arith.addf %0, %arg1 : tensor<?xf32>
    util.return %1 : tensor<?xf32>
  }
}
