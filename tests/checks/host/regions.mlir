// Dispatches by hand: regions and workgroups, ids, counts, slices and updates in place.

func.func @region() {
  %a = util.unfoldable_constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %r = flow.dispatch.region -> (tensor<4xf32>) {
    %s = arith.mulf %a, %a : tensor<4xf32>
    %t = math.sqrt %s : tensor<4xf32>
    flow.return %t : tensor<4xf32>
  }
  check.expect_almost_eq_const(%r, dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>) : tensor<4xf32>
  return
}

func.func @region_dynamic() {
  %a = flow.tensor.dynamic_constant dense<[1.0, 2.0, 3.0, 4.0, 5.0]> : tensor<5xf32> -> tensor<?xf32>
  %c0 = arith.constant 0 : index
  %d = tensor.dim %a, %c0 : tensor<?xf32>
  %r:2 = flow.dispatch.region -> (tensor<?xf32>{%d}, tensor<?xf32>{%d}) {
    %s = arith.mulf %a, %a : tensor<?xf32>
    %t = arith.addf %s, %a : tensor<?xf32>
    flow.return %s, %t : tensor<?xf32>, tensor<?xf32>
  }
  %s = tensor.cast %r#1 : tensor<?xf32> to tensor<5xf32>
  check.expect_almost_eq_const(%s, dense<[2.0, 6.0, 12.0, 20.0, 30.0]> : tensor<5xf32>) : tensor<5xf32>
  return
}

func.func @region_count() {
  %a = util.unfoldable_constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %c4 = arith.constant 4 : index
  %r = flow.dispatch.region[%c4] -> (tensor<4xi32>) {
    %s = arith.muli %a, %a : tensor<4xi32>
    flow.return %s : tensor<4xi32>
  } count(%w: index) -> (index, index, index) {
    %c1 = arith.constant 1 : index
    flow.return %w, %c1, %c1 : index, index, index
  }
  check.expect_eq_const(%r, dense<[1, 4, 9, 16]> : tensor<4xi32>) : tensor<4xi32>
  return
}

func.func @region_scalar_capture() {
  %a = util.unfoldable_constant dense<[1.0, 2.0]> : tensor<2xf32>
  %k = util.unfoldable_constant 3.0 : f32
  %e = tensor.empty() : tensor<2xf32>
  %r = flow.dispatch.region -> (tensor<2xf32>) {
    %g = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<2xf32>) outs(%e : tensor<2xf32>) {
    ^bb0(%x: f32, %o: f32):
      %y = arith.mulf %x, %k : f32
      linalg.yield %y : f32
    } -> tensor<2xf32>
    flow.return %g : tensor<2xf32>
  }
  check.expect_eq_const(%r, dense<[3.0, 6.0]> : tensor<2xf32>) : tensor<2xf32>
  return
}

func.func @workgroups() {
  %a = util.unfoldable_constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %c4 = arith.constant 4 : index
  %r = flow.dispatch.workgroups[%c4](%a) : (tensor<4xf32>) -> (tensor<4xf32>) =
      (%in: !flow.dispatch.tensor<readonly:tensor<4xf32>>, %out: !flow.dispatch.tensor<writeonly:tensor<4xf32>>) {
    %id = flow.dispatch.workgroup.id[0] : index
    %n = flow.dispatch.workgroup.count[0] : index
    %t = flow.dispatch.tensor.load %in, offsets = [%id], sizes = [1], strides = [1] : !flow.dispatch.tensor<readonly:tensor<4xf32>> -> tensor<1xf32>
    %i = arith.index_cast %id : index to i32
    %f = arith.sitofp %i : i32 to f32
    %ni = arith.index_cast %n : index to i32
    %nf = arith.sitofp %ni : i32 to f32
    %sp = tensor.splat %f : tensor<1xf32>
    %sn = tensor.splat %nf : tensor<1xf32>
    %m = arith.mulf %t, %sp : tensor<1xf32>
    %m2 = arith.addf %m, %sn : tensor<1xf32>
    flow.dispatch.tensor.store %m2, %out, offsets = [%id], sizes = [1], strides = [1] : tensor<1xf32> -> !flow.dispatch.tensor<writeonly:tensor<4xf32>>
    flow.return
  } count(%w: index) -> (index, index, index) {
    %c1 = arith.constant 1 : index
    flow.return %w, %c1, %c1 : index, index, index
  }
  check.expect_eq_const(%r, dense<[4.0, 6.0, 10.0, 16.0]> : tensor<4xf32>) : tensor<4xf32>
  return
}

func.func @workgroups_tensor_ext() {
  %a = util.unfoldable_constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %c4 = arith.constant 4 : index
  %r = flow.dispatch.workgroups[%c4](%a) : (tensor<4xf32>) -> (tensor<4xf32>) =
      (%in: !iree_tensor_ext.dispatch.tensor<readonly:tensor<4xf32>>, %out: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4xf32>>) {
    %t = iree_tensor_ext.dispatch.tensor.load %in, offsets = [0], sizes = [4], strides = [1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<4xf32>> -> tensor<4xf32>
    %m = arith.mulf %t, %t : tensor<4xf32>
    iree_tensor_ext.dispatch.tensor.store %m, %out, offsets = [0], sizes = [4], strides = [1] : tensor<4xf32> -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<4xf32>>
    flow.return
  } count(%w: index) -> (index, index, index) {
    %c1 = arith.constant 1 : index
    flow.return %c1, %c1, %c1 : index, index, index
  }
  check.expect_eq_const(%r, dense<[1.0, 4.0, 9.0, 16.0]> : tensor<4xf32>) : tensor<4xf32>
  return
}

func.func @inplace() {
  %a = util.unfoldable_constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %c4 = arith.constant 4 : index
  %r = flow.dispatch.workgroups[%c4](%a) : (tensor<4xf32>) -> (%a) =
      (%io: !flow.dispatch.tensor<readwrite:tensor<4xf32>>) {
    %t = flow.dispatch.tensor.load %io, offsets = [1], sizes = [2], strides = [1] : !flow.dispatch.tensor<readwrite:tensor<4xf32>> -> tensor<2xf32>
    %m2 = arith.addf %t, %t : tensor<2xf32>
    flow.dispatch.tensor.store %m2, %io, offsets = [1], sizes = [2], strides = [1] : tensor<2xf32> -> !flow.dispatch.tensor<readwrite:tensor<4xf32>>
    flow.return
  } count(%w: index) -> (index, index, index) {
    %c1 = arith.constant 1 : index
    flow.return %c1, %c1, %c1 : index, index, index
  }
  check.expect_eq_const(%r, dense<[1.0, 4.0, 6.0, 4.0]> : tensor<4xf32>) : tensor<4xf32>
  check.expect_eq_const(%a, dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>) : tensor<4xf32>
  return
}

func.func @workgroups_size() {
  %c4 = arith.constant 4 : index
  %r = flow.dispatch.workgroups[%c4]() : () -> tensor<4xi32> attributes {export_config = #iree_codegen.export_config<workgroup_size = [8, 2]>} =
      (%out: !flow.dispatch.tensor<writeonly:tensor<4xi32>>) {
    %id = flow.dispatch.workgroup.id[0] : index
    %x = flow.dispatch.workgroup.size[0] : index
    %y = flow.dispatch.workgroup.size[1] : index
    %z = flow.dispatch.workgroup.size[2] : index
    %xy = arith.subi %x, %y : index
    %xyz = arith.addi %xy, %z : index
    %v = arith.index_cast %xyz : index to i32
    %t = tensor.from_elements %v : tensor<1xi32>
    flow.dispatch.tensor.store %t, %out, offsets = [%id], sizes = [1], strides = [1] : tensor<1xi32> -> !flow.dispatch.tensor<writeonly:tensor<4xi32>>
    flow.return
  } count(%w: index) -> (index, index, index) {
    %c1 = arith.constant 1 : index
    flow.return %w, %c1, %c1 : index, index, index
  }
  check.expect_eq_const(%r, dense<7> : tensor<4xi32>) : tensor<4xi32>
  return
}

func.func @region_size_not_stated() {
  %c4 = arith.constant 4 : index
  %r = flow.dispatch.region[%c4] -> (tensor<4xi32>) {
    %id = flow.dispatch.workgroup.id[0] : index
    %x = flow.dispatch.workgroup.size[0] : index
    %v = arith.index_cast %x : index to i32
    %t = tensor.from_elements %v : tensor<1xi32>
    %e = tensor.empty() : tensor<4xi32>
    %y = tensor.insert_slice %t into %e[%id] [1] [1] : tensor<1xi32> into tensor<4xi32>
    flow.return %y : tensor<4xi32>
  } count(%w: index) -> (index, index, index) {
    %c1 = arith.constant 1 : index
    flow.return %w, %c1, %c1 : index, index, index
  }
  check.expect_eq_const(%r, dense<1> : tensor<4xi32>) : tensor<4xi32>
  return
}
