// Boundaries, fences, views and executables of the `hal` dialect.
#target = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "generic"}>
#layout = #hal.pipeline.layout<constants = 1, bindings = [#hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer, "ReadOnly|Indirect">, #hal.pipeline.binding<storage_buffer>], flags = Indirect>
module attributes {
  devices = [#hal.device.target<"local", {a = 1 : index}, [#target]> : !hal.device, #hal.device.select<[#hal.device.alias<"x"[1], {b}> : !hal.device]>],
  place = #hal.device.affinity<@device, [0]>, anywhere = #hal.device.affinity<@device>, binding = #hal.interface.binding<2>
} {
util.global private @device = #hal.device.select<[#hal.device.target<"local"> : !hal.device]> : !hal.device
hal.executable private @binaries {
  hal.executable.binary public @b attributes {data = dense<1> : vector<4xi8>, format = "elf"}
  hal.executable_end
}
hal.executable.source public @sources objects(#hal.executable.objects<{#target = [#hal.executable.object<{path = "f.o"}>]}>) attributes {kept} {
  hal.executable.source_end
}
hal.executable.source @bare {
  builtin.module {
  }
}
hal.executable private @all attributes {kept = 1 : i32} {
  hal.executable.variant public @v target(#target) objects([#hal.executable.object<{path = "f.o"}>]) sources({a = "b"}) attributes {kept} {
    hal.executable.condition(%device: !hal.device) -> i1 {
      %ok, %value = hal.device.query<%device : !hal.device> key("hal.cpu" :: "avx2") {kept} : i1, i1 = false
      %ok2, %value2 = hal.device.query<%device : !hal.device> key("hal.device" :: "count") : i1, i32
      hal.return %value : i1
    } attributes {kept}
    hal.executable.constant.block(%device: !hal.device) -> (i32, i64) as ("a", "b") attributes {kept} {
      %a = arith.constant 1 : i32
      %b = arith.constant 2 : i64
      hal.return %a, %b : i32, i64
    }
    hal.executable.constant.block() -> i32 as "c" {
      %a = arith.constant 1 : i32
      hal.return %a : i32
    }
    hal.executable.export public @f ordinal(0) layout(#layout) condition(%device: !hal.device) -> i1 {
      %ok = arith.constant true
      hal.return %ok : i1
    } fallback(@g) count(%device: !hal.device, %w: index) -> (index, index, index) {
      hal.return %w, %w, %w : index, index, index
    } <workgroup_size = [64 : index, 1 : index, 1 : index], subgroup_size = 32 : index, workgroup_local_memory = 16 : index> attributes {kept}
    hal.executable.export @g layout(#layout)
    builtin.module {
      func.func @f(%n: index) {
        %c0 = arith.constant 0 : index
        %0 = hal.executable.constant.load "a" : i32
        %1 = hal.interface.constant.load layout(#layout) ordinal(0) alignment(4) values([1 : i32]) {kept} : i32
        %2 = hal.interface.constant.load[3] : i32
        %3 = hal.interface.binding.subspan layout(#layout) binding(0) alignment(64) offset(%c0) flags("ReadOnly|Indirect") {kept} : memref<?x?xf32>{%n, %n}
        %4 = hal.interface.binding.subspan binding(1) type(storage_buffer) flags(ReadOnly) : memref<4xf32>
        %5 = hal.interface.workgroup.id[0] upper_bound 64 {kept} : index
        %6 = hal.interface.workgroup.count[1] : index
        %7 = hal.interface.workgroup.size[2] : index
        return
      }
    }
    hal.executable.variant_end
  }
}
util.func public @views(%v: !hal.buffer_view, %f: !hal.fence, %device: !hal.device) -> (!hal.buffer_view, !hal.buffer_view) {
  %rank = hal.buffer_view.rank<%v : !hal.buffer_view> : index
  %n = hal.buffer_view.dim<%v : !hal.buffer_view>[0] {kept} : index
  %element = hal.buffer_view.element_type<%v : !hal.buffer_view> : i32
  %encoding = hal.buffer_view.encoding_type<%v : !hal.buffer_view> : i32
  %buffer = hal.buffer_view.buffer<%v : !hal.buffer_view> : !hal.buffer
  %f32 = hal.element_type<f32> {kept} : i32
  %dense = hal.encoding_type<dense_row_major> {kept} : i32
  hal.buffer_view.assert<%v : !hal.buffer_view> message("x") shape([%n, %n]) type(%f32) encoding(%dense)
  %0 = hal.tensor.import on(#hal.device.affinity<@device>) wait(%f) => consume %v "x" {kept} : !hal.buffer_view -> tensor<?x4xf32> as tensor<?xf32>{%n}
  %1 = hal.tensor.import %v : !hal.buffer_view -> tensor<4xf32>
  %fence = hal.fence.create device(%device : !hal.device) flags("None") : !hal.fence
  %both = hal.fence.join at([%f, %fence]) -> !hal.fence
  %2:2 = hal.tensor.barrier join(%0, %1 : tensor<?xf32>, tensor<4xf32>) => %fence : !hal.fence {kept}
  %ms = arith.constant 5 : i32
  %status = hal.fence.await until([%f, %both]) timeout_millis(%ms) {kept} : i32
  %status2 = hal.fence.await until([%f]) timeout_millis(%ms) flags("None") : i32
  %every = hal.fence.join at([%f]) flags("None") -> !hal.fence {kept}
  %status3 = hal.fence.query<%every : !hal.fence> : i32
  hal.fence.signal<%f : !hal.fence>
  %first = hal.devices.get %n : !hal.device
  %5 = hal.tensor.alias on(#hal.device.affinity<@device>) wait(%f) => %0 : tensor<?xf32>{%n} to %v : !hal.buffer_view {kept}
  %6 = hal.tensor.alias %1 : tensor<4xf32> to %buffer : !hal.buffer
  %3 = hal.tensor.export on(#hal.device.affinity<@device>) %2#0 "y" {kept} : tensor<?x4xf32> as tensor<?xf32>{%n} -> !hal.buffer_view
  %4 = hal.tensor.export %2#1 : tensor<4xf32> -> !hal.buffer_view
  util.return %3, %4 : !hal.buffer_view, !hal.buffer_view
}
util.func public @extern(%a: tensor<?xf32>, %b: tensor<4xf32>, %d: index, %n: i32) -> tensor<?xf32> {
  %0 = hal.dispatch.extern "f"[%d](%n, %a, %b) : (i32, tensor<?xf32>{%d}, tensor<4xf32>) -> tensor<?xf32>{%d}
    count(%device: !hal.device, %w: index) -> (index, index, index) {
      hal.return %w, %w, %w : index, index, index
    }
    layout(#layout)
    objects({
      #target ordinal(0) = [#hal.executable.object<{path = "f.o"}>],
      #target ordinal(1) = [#hal.executable.object<{path = "g.o"}>]
    })
    attributes {subgroup_size = 32 : index, kept}
  %1 = hal.dispatch.extern "g"(%n, %0, %b, %0) : (i32, tensor<?xf32>{%d}, tensor<4xf32>, tensor<?xf32>{%d}) -> %0{%d}
    layout(#layout) objects({#target = [#hal.executable.object<{path = "f.o"}>]})
  util.return %1 : tensor<?xf32>
}
}
