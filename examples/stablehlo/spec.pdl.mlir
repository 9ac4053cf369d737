// A PDL spec that names operations of StableHLO: (a - b)² becomes a call of @squared_difference, which a plugin supplies.
pdl.pattern @squared_difference : benefit(1) {
  %type = pdl.type
  %f32 = pdl.type : f32
  %i32 = pdl.type : i32
  %a = pdl.operand : %type
  %b = pdl.operand : %type
  pdl.apply_native_constraint "checkTensorElementType"(%type, %f32 : !pdl.type, !pdl.type)
  %difference_op = pdl.operation "stablehlo.subtract" (%a, %b : !pdl.value, !pdl.value) -> (%type : !pdl.type)
  %difference = pdl.result 0 of %difference_op
  %root = pdl.operation "stablehlo.multiply" (%difference, %difference : !pdl.value, !pdl.value) -> (%type : !pdl.type)
  pdl.rewrite %root {
    // The sizes of the result, and with them the number of its elements.
    %zero_value = pdl.attribute = 0 : index
    %zero_op = pdl.operation "arith.constant" {"value" = %zero_value}
    %zero = pdl.result 0 of %zero_op
    %one_value = pdl.attribute = 1 : index
    %one_op = pdl.operation "arith.constant" {"value" = %one_value}
    %one = pdl.result 0 of %one_op
    %rows_op = pdl.operation "tensor.dim" (%a, %zero : !pdl.value, !pdl.value)
    %rows = pdl.result 0 of %rows_op
    %columns_op = pdl.operation "tensor.dim" (%a, %one : !pdl.value, !pdl.value)
    %columns = pdl.result 0 of %columns_op
    %count_op = pdl.operation "arith.muli" (%rows, %columns : !pdl.value, !pdl.value)
    %count = pdl.result 0 of %count_op
    %count_i32_op = pdl.operation "arith.index_cast" (%count : !pdl.value) -> (%i32 : !pdl.type)
    %count_i32 = pdl.result 0 of %count_i32_op
    %out = pdl.result 0 of %root
    %name = pdl.attribute = "squared_difference"
    %inputs = pdl.range %a, %b : !pdl.value, !pdl.value
    %replaced = pdl.range %out : !pdl.value
    %sizes = pdl.range %rows, %columns : !pdl.value, !pdl.value
    %others = pdl.range %count_i32 : !pdl.value
    pdl.apply_native_rewrite "rewriteAsFlowDispatch"(%root, %name, %inputs, %replaced, %sizes, %others
        : !pdl.operation, !pdl.attribute, !pdl.range<value>, !pdl.range<value>, !pdl.range<value>, !pdl.range<value>)
  }
}
