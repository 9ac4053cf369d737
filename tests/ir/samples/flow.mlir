// Dispatches and tensors of the `flow`, `stream`, `iree_tensor_ext` and `util` dialects.
flow.executable private @e attributes {kept} {
  flow.executable.export public @f workgroups(%w: index) -> (index, index, index) {
    flow.return %w, %w, %w : index, index, index
  } attributes {kept}
  flow.executable.export @g(@h)
  builtin.module {
    func.func @f(%a: !flow.dispatch.tensor<readonly:tensor<?x4xf32>>, %b: !iree_tensor_ext.dispatch.tensor<readwrite:tensor<?x4xf32>>, %n: index) {
      %0 = iree_tensor_ext.dispatch.workload.ordinal %n, 0 {kept} : index
      %1 = flow.dispatch.tie_shape %a : !flow.dispatch.tensor<readonly:tensor<?x4xf32>>{%0}
      %2 = flow.dispatch.tensor.load %1, offsets = [0, 0], sizes = [%n, 4], strides = [1, 1] {kept} : !iree_tensor_ext.dispatch.tensor<readonly:tensor<?x4xf32>>{%n} -> tensor<?x4xf32>
      iree_tensor_ext.dispatch.tensor.store %2, %b, offsets = [%n, 0], sizes = [%n, 4], strides = [1, 1] {kept} : tensor<?x4xf32> -> !iree_tensor_ext.dispatch.tensor<readwrite:tensor<?x4xf32>>{%n}
      %3 = flow.dispatch.workgroup.id[0] : index
      %4 = flow.dispatch.workgroup.count[1] : index
      %5 = flow.dispatch.workgroup.size[2] : index
      return
    }
  }
  flow.executable_end
}
stream.executable public @s {
  stream.executable.export private @f workgroups(%w: index, %v: index) -> (index, index, index) {
    %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice(%w, %v) {kept}
    %u, %v2, %w2 = iree_tensor_ext.dispatch.workgroup_count_from_dag_root()
    stream.return %x, %y, %z : index, index, index
  }
  stream.executable.export @inner as("outer")
  builtin.module {
    func.func @f(%a: !stream.binding, %n: index) {
      %0 = stream.binding.subspan %a[%n] {kept} : !stream.binding -> memref<?x4xf32>{%n}
      %1 = stream.dispatch.workgroup.id[0] : index
      %2 = stream.dispatch.workgroup.count[0] : index
      %3 = stream.dispatch.workgroup.size[0] upper_bound 4 : index
      return
    }
  }
  stream.executable.end
}
util.global private mutable @state attributes {kept} : tensor<4xf32> = #util.uninitialized : tensor<4xf32>
util.global public @named = #flow.parameter.named<"scope"::"key"> : tensor<4xf32>
util.global private @other : tensor<?xf32> = #stream.parameter.named<"key", {a}> : tensor<4xf32>
util.initializer attributes {kept} {
  util.return
}
util.func private @declared(%a: tensor<?xf32>, %b: i32 {kept}) -> (%a as tensor<4xf32> {kept}) attributes {kept}
util.func private @plain(tensor<4xf32>) -> tensor<4xf32>
util.func public @f(%a: tensor<?x4xf32>, %b: tensor<4xf32>, %n: index, %i: i32, %v: f32, %p: !util.buffer) -> (%a, f32) {
  %0 = flow.dispatch @e::@f[%n](%a, %i) {kept} : (tensor<?x4xf32>{%n}, i32) -> %a{%n}
  %1:2 = flow.dispatch {@e::@v::@f, @e::@v::@g}(%a, %b) : (tensor<?x4xf32>{%n}, tensor<4xf32>) -> (%a as tensor<4x?xf32>{%n}, tensor<4xf32>)
  flow.dispatch @e::@f() : () -> ()
  %2 = flow.dispatch.workgroups[%n, %n](%a, %n) : (tensor<?x4xf32>{%n}, index) -> tensor<?x4xf32>{%n} attributes {kept} =
      (%x: !flow.dispatch.tensor<readonly:tensor<?x4xf32>>, %m: index, %y: !flow.dispatch.tensor<writeonly:tensor<?x4xf32>>) {
    flow.return
  } count(%w: index, %u: index) -> (index, index, index) {
    flow.return %w, %u, %u : index, index, index
  }
  %3 = flow.dispatch.workgroups(%b) : (tensor<4xf32>) -> tensor<4xf32> = (%x: !flow.dispatch.tensor<readonly:tensor<4xf32>>, %y: !flow.dispatch.tensor<writeonly:tensor<4xf32>>) {
    flow.return
  }
  %4:2 = flow.dispatch.region[%n] -> (tensor<?x4xf32>{%n}, tensor<4xf32>) attributes {kept} {
    flow.return %a, %b : tensor<?x4xf32>, tensor<4xf32>
  } count(%w: index) -> (index, index, index) {
    flow.return %w, %w, %w : index, index, index
  }
  %5 = flow.dispatch.region -> (tensor<4xf32>) {
    flow.return %b : tensor<4xf32>
  }
  flow.dispatch.region {
    flow.return
  }
  %6 = flow.tensor.reshape %a {kept} : tensor<?x4xf32>{%n} -> tensor<4x?xf32>{%n}
  %7 = flow.tensor.bitcast %a : tensor<?x4xf32>{%n} -> tensor<?x4xi32>{%n}
  %8 = flow.tensor.tie_shape %a {kept} : tensor<?x4xf32>{%n}
  %9 = flow.tensor.clone %b : tensor<4xf32>
  %10 = flow.tensor.empty {kept} : tensor<?x4xf32>{%n}
  %11 = flow.tensor.alloca : tensor<4xf32>
  %12 = flow.tensor.splat %v {kept} : tensor<?x4xf32>{%n}
  %13 = flow.tensor.constant dense<1.0> : tensor<4xf32>
  %14 = flow.tensor.dynamic_constant {kept} dense<1.0> : tensor<4xf32> -> tensor<?xf32>
  %15 = flow.tensor.transfer %a {kept} : tensor<?x4xf32>{%n} to #hal.device.affinity<@device>
  flow.tensor.trace "key" = [%a : tensor<?x4xf32>{%n}, %b : tensor<4xf32>] {kept}
  %16 = flow.tensor.load %a[%n, %n] {kept} : tensor<?x4xf32>{%n}
  %17 = flow.tensor.store %v, %a[%n, %n] {kept} : tensor<?x4xf32>{%n}
  %18 = flow.tensor.slice %a[%n, %n for %n, %n] {kept} : tensor<?x4xf32>{%n} -> tensor<?x4xf32>{%n}
  %19 = flow.tensor.update %b, %a[%n, %n] {kept} : tensor<4xf32> -> %a as tensor<?x4xf32>{%n}
  %20 = iree_tensor_ext.compute_barrier.start %a {kept} : tensor<?x4xf32>{%n} -> tensor<?x4xf32>
  %21 = iree_tensor_ext.compute_barrier.end %b : tensor<4xf32> -> tensor<4xf32>
  %22 = iree_tensor_ext.bitcast %a {kept} : tensor<?x4xf32>{%n} -> tensor<?x4xi32>{%n}
  %23 = util.global.load @state {kept} : tensor<4xf32>
  %24 = util.global.load immutable @named : tensor<4xf32>
  util.global.store %23, @state {kept} : tensor<4xf32>
  %25 = util.call @plain(%b) {kept} : (tensor<4xf32>) -> tensor<4xf32>
  %26 = util.call @plain(%b) : (tensor<4xf32>) -> %b
  %27:2 = util.assume.int %n<umin = 0, umax = 64, udiv = 8>, %n[<umin = 1>, <>] {kept} : index, index
  %28:2 = util.optimization_barrier %n, %v {kept} : index, f32
  %29 = util.unfoldable_constant {kept} 4 : index
  %30 = util.align %n, %29 {kept} : index
  %31 = util.sizeof tensor<4xf32> {kept}
  %32 = util.null : !util.buffer
  %33 = util.cast %32 : !util.buffer to !util.buffer
  util.return %a, %v : tensor<?x4xf32>, f32
}
util.func public @stops() {
  util.unreachable "never"
}
util.func public @stops_without_a_word() {
  util.unreachable
}

flow.func private @center(%x: tensor<?xf32>) -> %x
flow.func private @pack(tensor<?xf32>, i32) -> (tensor<?xi8>, tensor<i64>)

func.func @host_commands(%x: tensor<?xf32>, %n: index, %level: i32) -> (tensor<?xi8>, tensor<i64>) {
  %centered = flow.call @center(%x) : (tensor<?xf32>{%n}) -> %x{%n}
  %packed:2 = flow.call @pack(%centered, %level) : (tensor<?xf32>{%n}, i32) -> (tensor<?xi8>{%n}, tensor<i64>)
  return %packed#0, %packed#1 : tensor<?xi8>, tensor<i64>
}
