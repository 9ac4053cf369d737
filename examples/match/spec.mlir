// The transform way: a matcher, an action, and what the action calls.
module attributes {transform.with_named_sequence} {
  stream.executable private @kernels attributes {
    hal.executable.objects = [#hal.executable.object<{path = "kernels.c"}>]
  } {
    stream.executable.export public @entry workgroups() -> (index, index, index) {
      %one = arith.constant 1 : index
      stream.return %one, %one, %one : index, index, index
    }
    builtin.module {
      func.func private @square_diff(memref<f32>, memref<f32>, memref<f32>, index)
          attributes {hal.import.static, llvm.bareptr}
      func.func @entry(%b0: !stream.binding, %b1: !stream.binding, %b2: !stream.binding, %n: index) {
        %zero = arith.constant 0 : index
        %a = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<f32>
        %b = stream.binding.subspan %b1[%zero] : !stream.binding -> memref<f32>
        %out = stream.binding.subspan %b2[%zero] : !stream.binding -> memref<f32>
        func.call @square_diff(%a, %b, %out, %n) : (memref<f32>, memref<f32>, memref<f32>, index) -> ()
        return
      }
    }
  }
  util.func private @call(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
    %zero = arith.constant 0 : index
    %n = tensor.dim %a, %zero : tensor<?xf32>
    %r = flow.dispatch @kernels::@entry(%a, %b, %n)
        : (tensor<?xf32>{%n}, tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}
    util.return %r : tensor<?xf32>
  }

  transform.named_sequence @match(%root: !transform.any_op {transform.readonly})
      -> (!transform.any_value, !transform.any_value) {
    %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %root {
      ^bb0(%a: tensor<?xf32>, %b: tensor<?xf32>):
        %d = arith.subf %a, %b : tensor<?xf32>
        %s = arith.mulf %d, %d : tensor<?xf32>
    } : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
    transform.yield %ins, %outs : !transform.any_value, !transform.any_value
  }
  transform.named_sequence @replace(%ins: !transform.any_value {transform.readonly},
                                    %out: !transform.any_value {transform.readonly}) {
    %root = transform.get_defining_op %out : (!transform.any_value) -> !transform.any_op
    %module = transform.util.get_nearest_symbol_table %root : (!transform.any_op) -> !transform.any_op
    %func = transform.util.import_symbol @call into %module if undefined : (!transform.any_op) -> !transform.any_op
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
