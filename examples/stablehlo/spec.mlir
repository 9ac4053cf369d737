// A transform spec that names an operation of StableHLO: it is applied before StableHLO is lowered. Products of two matrices
// become calls of @call_dot, whose kernel calls dot_row of cpu/functions.c and its like, a row for each workgroup.
#x86_64 = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
#aarch64 = #hal.executable.target<"llvm-cpu", "embedded-elf-arm_64">
#cuda = #hal.executable.target<"cuda", "cuda-nvptx-fb", {target_arch = "sm_75"}>
#vulkan = #hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">
#webgpu = #hal.executable.target<"webgpu-wgsl", "webgpu-wgsl-fb">

module attributes {transform.with_named_sequence} {
  stream.executable private @products attributes {
    hal.executable.objects = #hal.executable.objects<{
      #x86_64 = [#hal.executable.object<{path = "cpu/functions.c"}>],
      #aarch64 = [#hal.executable.object<{path = "cpu/functions.c"}>],
      #cuda = [#hal.executable.object<{path = "cuda/functions.ptx"}>],
      #vulkan = [#hal.executable.object<{path = "vulkan/dot_row.glsl"}>],
      #webgpu = [#hal.executable.object<{path = "webgpu/dot_row.wgsl"}>]
    }>
  } {
    stream.executable.export public @dot workgroups(%rows: index) -> (index, index, index) {
      %one = arith.constant 1 : index
      stream.return %rows, %one, %one : index, index, index
    }
    builtin.module {
      func.func private @dot_row(memref<f32>, index, memref<f32>, index, memref<f32>, index, index, index, index)
          attributes {hal.import.static, llvm.bareptr = true}
      func.func @dot(%b0: !stream.binding, %b1: !stream.binding, %b2: !stream.binding, %depth: index, %columns: index) {
        %zero = arith.constant 0 : index
        %row = stream.dispatch.workgroup.id[0] : index
        %a = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<f32>
        %b = stream.binding.subspan %b1[%zero] : !stream.binding -> memref<f32>
        %out = stream.binding.subspan %b2[%zero] : !stream.binding -> memref<f32>
        func.call @dot_row(%a, %zero, %b, %zero, %out, %zero, %depth, %columns, %row)
            : (memref<f32>, index, memref<f32>, index, memref<f32>, index, index, index, index) -> ()
        return
      }
    }
  }
  util.func private @call_dot(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %rows = tensor.dim %a, %zero : tensor<?x?xf32>
    %depth = tensor.dim %a, %one : tensor<?x?xf32>
    %columns = tensor.dim %b, %one : tensor<?x?xf32>
    %r = flow.dispatch @products::@dot[%rows](%a, %b, %depth, %columns)
        : (tensor<?x?xf32>{%rows, %depth}, tensor<?x?xf32>{%depth, %columns}, index, index)
        -> tensor<?x?xf32>{%rows, %columns}
    util.return %r : tensor<?x?xf32>
  }

  transform.named_sequence @match(%root: !transform.any_op {transform.readonly})
      -> (!transform.any_value, !transform.any_value) {
    %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %root {
      ^bb0(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>):
        %product = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
            : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
    } : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
    transform.yield %ins, %outs : !transform.any_value, !transform.any_value
  }
  transform.named_sequence @replace(%ins: !transform.any_value {transform.readonly},
                                    %out: !transform.any_value {transform.readonly}) {
    %root = transform.get_defining_op %out : (!transform.any_value) -> !transform.any_op
    %module = transform.util.get_nearest_symbol_table %root : (!transform.any_op) -> !transform.any_op
    %func = transform.util.import_symbol @call_dot into %module if undefined : (!transform.any_op) -> !transform.any_op
    transform.util.cast_and_call %func(%ins) -> %out after %root {
      transform.type_conversion.tensor.cast_shape_dynamic_dims
    } : (!transform.any_op, !transform.any_value, !transform.any_value, !transform.any_op) -> !transform.any_op
    transform.yield
  }
  transform.named_sequence @__transform_main(%module: !transform.any_op) {
    %funcs = transform.structured.match ops{["func.func"]} in %module : (!transform.any_op) -> !transform.any_op
    transform.foreach %funcs : !transform.any_op {
    ^bb1(%func: !transform.any_op):
      transform.foreach_match in %func @match -> @replace : (!transform.any_op) -> (!transform.any_op)
    }
    transform.apply_dce to %module : !transform.any_op
    transform.yield
  }
}
