// Dispatches with their tensors in place, and calls of microkernels.
func.func @r(%lhs: tensor<?x?xf32>, %M: index, %K: index, %v: tensor<?xf32>, %out: tensor<4xf32>) -> tensor<?x?xf32> {
  %c1 = arith.constant 1 : index
  %0 = flow.dispatch.region[%M, %K] -> (tensor<?x?xf32>{%M, %K}) {
    flow.return %lhs : tensor<?x?xf32>
  } count(%w0: index, %w1: index) -> (index, index, index) {
    %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice(%w0, %w1)
    flow.return %x, %y, %z : index, index, index
  }
  %1 = flow.dispatch.region[] -> (tensor<?xf32>{%M}) attributes {stream.affinity = 1 : i32} {
    flow.return %v : tensor<?xf32>
  }
  %2 = flow.dispatch.region -> (tensor<?xf32>{%M}) {
    flow.return %v : tensor<?xf32>
  } count() -> (index, index, index) {
    %one = arith.constant 1 : index
    flow.return %one, %one, %one : index, index, index
  }
  flow.dispatch.region {
    flow.return
  }
  %w:2 = flow.dispatch.workgroups[%M](%v, %M, %out) : (tensor<?xf32>{%M}, index, tensor<4xf32>) -> (tensor<?xf32>{%M}, %out) attributes {a = 1 : i32} =
      (%arg: !iree_tensor_ext.dispatch.tensor<readonly:tensor<?xf32>>, %n: index, %o: !iree_tensor_ext.dispatch.tensor<readwrite:tensor<4xf32>>, %res: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<?xf32>>) {
    %id = flow.dispatch.workgroup.id[0] : index
    flow.return
  } count(%x: index) -> (index, index, index) {
    %c1_0 = arith.constant 1 : index
    flow.return %x, %c1_0, %c1_0 : index, index, index
  }
  %u = flow.dispatch.workgroups(%out) : (tensor<4xf32>) -> tensor<4xf32> = (%a: !iree_tensor_ext.dispatch.tensor<readonly:tensor<4xf32>>, %b: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4xf32>>) {
    flow.return
  }
  return %0 : tensor<?x?xf32>
}

func.func @w(%a: tensor<?xf32>, %b: tensor<?xf32>, %d: tensor<?xf32>, %n: index, %m: memref<?x?xf32>, %i: i64) -> tensor<?xf32> {
  %4 = iree_codegen.ukernel.generic "simple_mul_workgroup" ins(%a, %b : tensor<?xf32>, tensor<?xf32>) outs(%d : tensor<?xf32>) (%n, %n : index, index)
    // comment
    fn_def_attrs {hal.import.fields = ["processor_id", "processor_data"]}
    strided_dims([[], [], []]) -> tensor<?xf32>
  %5:2 = iree_codegen.ukernel.generic "two" ins(%a : tensor<?xf32>) outs(%d, %d : tensor<?xf32>, tensor<?xf32>) (%i : i64) fn_def_attrs {hal.import.bitcode = true, hal.import.cconv = 1 : i32} strided_dims([[0], [], [0]]) -> tensor<?xf32>, tensor<?xf32>
  iree_codegen.ukernel.generic "mem" ins(%m : memref<?x?xf32>) outs(%m : memref<?x?xf32>) (%n : index) fn_def_attrs {link_with = "x.o"} strided_dims([[0, 1], [0]])
  iree_codegen.ukernel.generic "none" outs(%m : memref<?x?xf32>)
  return %4 : tensor<?xf32>
}
