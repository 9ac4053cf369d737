// The PDL way: operations and what connects them; the replacement calls a function that a plugin brings.
pdl.pattern @square_of_difference : benefit(1) {
  %type = pdl.type
  %f32 = pdl.type : f32
  %a = pdl.operand : %type
  %b = pdl.operand : %type
  pdl.apply_native_constraint "checkTensorElementType"(%type, %f32 : !pdl.type, !pdl.type)
  %difference_op = pdl.operation "arith.subf" (%a, %b : !pdl.value, !pdl.value) -> (%type : !pdl.type)
  %difference = pdl.result 0 of %difference_op
  %root = pdl.operation "arith.mulf" (%difference, %difference : !pdl.value, !pdl.value) -> (%type : !pdl.type)
  pdl.rewrite %root {
    %zero_value = pdl.attribute = 0 : index
    %i32 = pdl.type : i32
    %zero_op = pdl.operation "arith.constant" {"value" = %zero_value}
    %zero = pdl.result 0 of %zero_op
    %n_op = pdl.operation "tensor.dim" (%a, %zero : !pdl.value, !pdl.value)
    %n = pdl.result 0 of %n_op
    %n32_op = pdl.operation "arith.index_cast" (%n : !pdl.value) -> (%i32 : !pdl.type)
    %n32 = pdl.result 0 of %n32_op
    %out = pdl.result 0 of %root
    %name = pdl.attribute = "square_diff_external"
    %inputs = pdl.range %a, %b : !pdl.value, !pdl.value
    %replaced = pdl.range %out : !pdl.value
    %sizes = pdl.range %n : !pdl.value
    %others = pdl.range %n32 : !pdl.value
    pdl.apply_native_rewrite "rewriteAsFlowDispatch"(%root, %name, %inputs, %replaced, %sizes, %others
        : !pdl.operation, !pdl.attribute, !pdl.range<value>, !pdl.range<value>, !pdl.range<value>, !pdl.range<value>)
  }
}
