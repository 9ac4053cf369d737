"""Wrong twins of operations on tensors: a CompileError at the operation, with what was expected and what is there."""

# ruff: noqa: E501  (a case is one line of a program)

from __future__ import annotations

import pytest
from harness import refused

# A function with %a: 4xf32, %m: 2x6xf32, %i: 4xi32 and %ix: 3x1xi32, its line that is wrong, and what is said of it.
CASES: dict[str, tuple[str, int, str]] = {
    "pad_result": (
        """
        %c = arith.constant 0.0 : f32
        %r = tensor.pad %a low[1] high[1] {
        ^bb0(%i0: index):
         tensor.yield %c : f32
        } : tensor<4xf32> to tensor<7xf32>
        """,
        2,
        "'tensor.pad': the result is tensor<7xf32>, expected the shape 6",
    ),
    "pad_yields_i32": (
        """
        %c = arith.constant 0 : i32
        %r = tensor.pad %a low[1] high[1] {
        ^bb0(%i0: index):
         tensor.yield %c : i32
        } : tensor<4xf32> to tensor<6xf32>
        """,
        2,
        "'tensor.pad': the body yields (i32), expected (f32)",
    ),
    "pad_element_type": (
        """
        %c = arith.constant 0 : i32
        %r = tensor.pad %a low[1] high[1] {
        ^bb0(%i0: index):
         tensor.yield %c : i32
        } : tensor<4xf32> to tensor<6xi32>
        """,
        2,
        "'tensor.pad': tensor<4xf32> and tensor<6xi32> differ in their elements",
    ),
    "pad_negative": (
        """
        %c = arith.constant 0.0 : f32
        %r = tensor.pad %a low[-1] high[0] {
        ^bb0(%i0: index):
         tensor.yield %c : f32
        } : tensor<4xf32> to tensor<3xf32>
        """,
        2,
        "'tensor.pad': amounts of padding are not negative, got -1",
    ),
    "slice_result_size": (
        """
        %r = tensor.extract_slice %a[0] [2] [1] : tensor<4xf32> to tensor<3xf32>
        """,
        1,
        "'tensor.extract_slice': tensor<3xf32> does not have the sizes 2, of which only ones may be left out",
    ),
    "slice_out_of_bounds": (
        """
        %r = tensor.extract_slice %a[3] [2] [1] : tensor<4xf32> to tensor<2xf32>
        """,
        1,
        "'tensor.extract_slice': element 4 of dimension 0 is outside of its 4 element(s)",
    ),
    "slice_out_of_bounds_stride": (
        """
        %r = tensor.extract_slice %a[0] [3] [2] : tensor<4xf32> to tensor<3xf32>
        """,
        1,
        "'tensor.extract_slice': element 4 of dimension 0 is outside of its 4 element(s)",
    ),
    "slice_rank": (
        """
        %r = tensor.extract_slice %a[0, 0] [2, 2] [1, 1] : tensor<4xf32> to tensor<2x2xf32>
        """,
        1,
        "'tensor.extract_slice': 2 offset(s), 2 size(s) and 2 stride(s) for tensor<4xf32>, expected 1 of each",
    ),
    "slice_result_rank": (
        """
        %r = tensor.extract_slice %a[0] [2] [1] : tensor<4xf32> to tensor<2x1xf32>
        """,
        1,
        "'tensor.extract_slice': tensor<2x1xf32> does not have the sizes 2, of which only ones may be left out",
    ),
    "slice_element": (
        """
        %r = tensor.extract_slice %a[0] [2] [1] : tensor<4xf32> to tensor<2xi32>
        """,
        1,
        "'tensor.extract_slice': tensor<4xf32> and tensor<2xi32> differ in their elements",
    ),
    "slice_neg_size": (
        """
        %r = tensor.extract_slice %a[3] [-4] [1] : tensor<4xf32> to tensor<?xf32>
        """,
        1,
        "'tensor.extract_slice': the size -4 of dimension 0 is negative",
    ),
    "insert_slice_beyond": (
        """
        %r = tensor.insert_slice %a into %a[1] [4] [1] : tensor<4xf32> into tensor<4xf32>
        """,
        1,
        "'tensor.insert_slice': element 4 of dimension 0 is outside of its 4 element(s)",
    ),
    "insert_slice_size": (
        """
        %r = tensor.insert_slice %a into %m[0, 0] [1, 3] [1, 1] : tensor<4xf32> into tensor<2x6xf32>
        """,
        1,
        "'tensor.insert_slice': tensor<4xf32> does not have the sizes 1x3, of which only ones may be left out",
    ),
    "insert_slice_element": (
        """
        %r = tensor.insert_slice %i into %a[0] [4] [1] : tensor<4xi32> into tensor<4xf32>
        """,
        1,
        "'tensor.insert_slice': tensor<4xf32> and tensor<4xi32> differ in their elements",
    ),
    "expand_sizes": (
        """
        %r = tensor.expand_shape %a [[0, 1]] output_shape [2, 3] : tensor<4xf32> into tensor<2x3xf32>
        """,
        1,
        "'tensor.expand_shape': 2x3 and 4: the dimensions [0, 1] do not make 4",
    ),
    "expand_group": (
        """
        %r = tensor.expand_shape %a [[0], [1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
        """,
        1,
        "'tensor.expand_shape': 2 group(s) for the 1 dimension(s) of 4",
    ),
    "expand_output_shape_mismatch": (
        """
        %r = tensor.expand_shape %a [[0, 1]] output_shape [4, 1] : tensor<4xf32> into tensor<2x2xf32>
        """,
        1,
        "'tensor.expand_shape': output_shape is 4x1, but the result is tensor<2x2xf32>",
    ),
    "collapse_sizes": (
        """
        %r = tensor.collapse_shape %m [[0, 1]] : tensor<2x6xf32> into tensor<13xf32>
        """,
        1,
        "'tensor.collapse_shape': 2x6 and 13: the dimensions [0, 1] do not make 13",
    ),
    "collapse_missing": (
        """
        %r = tensor.collapse_shape %m [[0]] : tensor<2x6xf32> into tensor<2xf32>
        """,
        1,
        "'tensor.collapse_shape': [[0]] do not name the 2 dimension(s) of 2x6 in order",
    ),
    "collapse_order": (
        """
        %r = tensor.collapse_shape %m [[1, 0]] : tensor<2x6xf32> into tensor<12xf32>
        """,
        1,
        "All inner arrays must be contiguous: [[1 : i64, 0 : i64]]",
    ),
    "reshape_count": (
        """
        %s = arith.constant dense<[3, 5]> : tensor<2xindex>
        %r = tensor.reshape %m(%s) : (tensor<2x6xf32>, tensor<2xindex>) -> tensor<3x5xf32>
        """,
        2,
        "'tensor.reshape': tensor<2x6xf32> and tensor<3x5xf32> have different numbers of elements",
    ),
    "concat_dim": (
        """
        %r = tensor.concat dim(1) %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
        """,
        1,
        "'tensor.concat': concatenation dim must be less than the tensor rank",
    ),
    "concat_sizes": (
        """
        %r = tensor.concat dim(0) %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<9xf32>
        """,
        1,
        "'tensor.concat': result type tensor<9xf32> does not match inferred shape (8,) static sizes",
    ),
    "concat_element": (
        """
        %r = tensor.concat dim(0) %a, %i : (tensor<4xf32>, tensor<4xi32>) -> tensor<8xf32>
        """,
        1,
        "'tensor.concat': f32 is wanted where it has i32",
    ),
    "from_elements_count": (
        """
        %c = arith.constant 1.0 : f32
        %r = tensor.from_elements %c, %c : tensor<3xf32>
        """,
        2,
        "'tensor.from_elements': tensor<3xf32> has 3 element(s), got 2",
    ),
    "from_elements_element": (
        """
        %c = arith.constant 1 : i32
        %r = tensor.from_elements %c, %c, %c : tensor<3xf32>
        """,
        2,
        "%c has type i32, but is used here with type f32",
    ),
    "from_elements_dyn": (
        """
        %c = arith.constant 1.0 : f32
        %r = tensor.from_elements %c, %c : tensor<?xf32>
        """,
        2,
        "'tensor.from_elements': tensor<?xf32> needs static sizes",
    ),
    "splat_element": (
        """
        %c = arith.constant 1 : i32
        %r = tensor.splat %c : tensor<3xf32>
        """,
        2,
        "%c has type i32, but is used here with type f32",
    ),
    "splat_dims": (
        """
        %c = arith.constant 1.0 : f32
        %r = tensor.splat %c : tensor<?xf32>
        """,
        2,
        "'tensor.splat': number of dynamic sizes must equal number of unknown dimensions in result tensor",
    ),
    "empty_dims": (
        """
        %r = tensor.empty() : tensor<?xf32>
        """,
        1,
        "'tensor.empty': tensor<?xf32> has 1 dynamic size(s), got 0 value(s)",
    ),
    "extract_count": (
        """
        %c0 = arith.constant 0 : index
        %r = tensor.extract %m[%c0] : tensor<2x6xf32>
        """,
        2,
        "'tensor.extract': tensor<2x6xf32> has 2 dimension(s), got 1 index(es)",
    ),
    "insert_element": (
        """
        %c0 = arith.constant 0 : index
        %c = arith.constant 1 : i32
        %r = tensor.insert %c into %a[%c0] : tensor<4xf32>
        """,
        3,
        "%c has type i32, but is used here with type f32",
    ),
    "insert_beyond": (
        """
        %c9 = arith.constant 9 : index
        %c = arith.constant 1.0 : f32
        %r = tensor.insert %c into %a[%c9] : tensor<4xf32>
        """,
        3,
        "'tensor.insert': element 9 of dimension 0 is outside of its 4 element(s)",
    ),
    "cast_sizes": (
        """
        %r = tensor.cast %a : tensor<4xf32> to tensor<5xf32>
        """,
        1,
        "'tensor.cast': tensor<4xf32> cannot be tensor<5xf32>: their sizes differ",
    ),
    "cast_element": (
        """
        %r = tensor.cast %a : tensor<4xf32> to tensor<4xi32>
        """,
        1,
        "'tensor.cast': tensor<4xf32> and tensor<4xi32> differ in their elements",
    ),
    "dim_beyond": (
        """
        %c9 = arith.constant 9 : index
        %d = tensor.dim %a, %c9 : tensor<4xf32>
        %r = tensor.empty(%d) : tensor<?xf32>
        """,
        2,
        "'tensor.dim': tensor<4xf32> has no dimension 9",
    ),
    "generate_dims": (
        """
        %r = tensor.generate {
        ^bb0(%p: index):
         %c = arith.constant 1.0 : f32
         tensor.yield %c : f32
        } : tensor<?xf32>
        """,
        1,
        "'tensor.generate': tensor<?xf32> has 1 dynamic dimension(s), got 0 extent(s)",
    ),
    "generate_args": (
        """
        %r = tensor.generate {
        ^bb0(%p: index, %q: index):
         %c = arith.constant 1.0 : f32
         tensor.yield %c : f32
        } : tensor<3xf32>
        """,
        1,
        "'tensor.generate': the body takes 2 index(es), expected 1, one for each dimension",
    ),
    "generate_element": (
        """
        %r = tensor.generate {
        ^bb0(%p: index):
         %c = arith.constant 1 : i32
         tensor.yield %c : i32
        } : tensor<3xf32>
        """,
        1,
        "'tensor.generate': the body yields (i32), expected (f32)",
    ),
    "gather_float_idx": (
        """
        %r = tensor.gather %a[%a] gather_dims([0]) : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
        """,
        1,
        "'tensor.gather': the last dimension of tensor<4xf32> must be 1, one for each dimension",
    ),
    "gather_dims": (
        """
        %r = tensor.gather %m[%ix] gather_dims([2]) : (tensor<2x6xf32>, tensor<3x1xi32>) -> tensor<3x6xf32>
        """,
        1,
        "'tensor.gather': the dimensions [2] do not rise from 0 to at most 1",
    ),
    "gather_result": (
        """
        %r = tensor.gather %m[%ix] gather_dims([0]) : (tensor<2x6xf32>, tensor<3x1xi32>) -> tensor<3x5xf32>
        """,
        1,
        "'tensor.gather': the slices are tensor<3x5xf32>, expected the shape 3x6",
    ),
    "scatter_source": (
        """
        %r = tensor.scatter %m into %m[%ix] scatter_dims([0]) unique : (tensor<2x6xf32>, tensor<2x6xf32>, tensor<3x1xi32>) -> tensor<2x6xf32>
        """,
        1,
        "'tensor.scatter': the slices are tensor<2x6xf32>, expected the shape 3x6",
    ),
    "scatter_not_unique": (
        """
        %r = tensor.scatter %m into %m[%ix] scatter_dims([0]) : (tensor<2x6xf32>, tensor<2x6xf32>, tensor<3x1xi32>) -> tensor<2x6xf32>
        """,
        1,
        "'tensor.scatter': the slices are tensor<2x6xf32>, expected the shape 3x6",
    ),
    "bitcast_width": (
        """
        %r = tensor.bitcast %a : tensor<4xf32> to tensor<4xi16>
        """,
        1,
        "'tensor.bitcast': the elements of tensor<4xf32> and tensor<4xi16> differ in width",
    ),
    "rank": (
        """
        %r = tensor.rank %a : tensor<5xf32>
        """,
        1,
        "%a has type tensor<4xf32>, but is used here with type tensor<5xf32>",
    ),
    "matmul_k": (
        """
        %r = linalg.matmul ins(%m, %m : tensor<2x6xf32>, tensor<2x6xf32>) outs(%m : tensor<2x6xf32>) -> tensor<2x6xf32>
        """,
        1,
        "'linalg.matmul': input 1 has size 2 where input 0 has 6",
    ),
    "matmul_out": (
        """
        %t = tensor.empty() : tensor<6x3xf32>
        %o = tensor.empty() : tensor<2x4xf32>
        %r = linalg.matmul ins(%m, %t : tensor<2x6xf32>, tensor<6x3xf32>) outs(%o : tensor<2x4xf32>) -> tensor<2x4xf32>
        """,
        3,
        "'linalg.matmul': output 0 has size 4 where input 1 has 3",
    ),
    "matmul_result_type": (
        """
        %t = tensor.empty() : tensor<6x3xf32>
        %o = tensor.empty() : tensor<2x3xf32>
        %r = linalg.matmul ins(%m, %t : tensor<2x6xf32>, tensor<6x3xf32>) outs(%o : tensor<2x3xf32>) -> tensor<2x4xf32>
        """,
        3,
        "'linalg.matmul': the results are (tensor<2x4xf32>), expected (tensor<2x3xf32>) as the outputs",
    ),
    "matmul_rank": (
        """
        %r = linalg.matmul ins(%a, %m : tensor<4xf32>, tensor<2x6xf32>) outs(%m : tensor<2x6xf32>) -> tensor<2x6xf32>
        """,
        1,
        "'linalg.matmul': input 0 is tensor<4xf32> of rank 1, expected rank 2",
    ),
    "matmul_arity": (
        """
        %r = linalg.matmul ins(%m : tensor<2x6xf32>) outs(%m : tensor<2x6xf32>) -> tensor<2x6xf32>
        """,
        1,
        "'linalg.matmul': expected 2 input(s) and 1 output(s), got 1 and 1",
    ),
    "add_shape": (
        """
        %r = linalg.add ins(%a, %m : tensor<4xf32>, tensor<2x6xf32>) outs(%m : tensor<2x6xf32>) -> tensor<2x6xf32>
        """,
        1,
        "'linalg.add': input 0 is tensor<4xf32> of rank 1, expected rank 2",
    ),
    "exp_int": (
        """
        %r = linalg.exp ins(%i : tensor<4xi32>) outs(%i : tensor<4xi32>) -> tensor<4xi32>
        """,
        1,
        "'linalg.exp': exp of i32 is not supported, only floats are",
    ),
    "transpose_perm": (
        """
        %o = tensor.empty() : tensor<6x2xf32>
        %r = linalg.transpose ins(%m : tensor<2x6xf32>) outs(%o : tensor<6x2xf32>) permutation = [0, 0]
        """,
        2,
        "'linalg.transpose': permutation [0, 0] is not one of the 2 dimension(s) of the input",
    ),
    "transpose_shape": (
        """
        %r = linalg.transpose ins(%m : tensor<2x6xf32>) outs(%m : tensor<2x6xf32>) permutation = [1, 0]
        """,
        1,
        "'linalg.transpose': the output is tensor<2x6xf32>, expected the shape 6x2",
    ),
    "broadcast_dims": (
        """
        %r = linalg.broadcast ins(%a : tensor<4xf32>) outs(%m : tensor<2x6xf32>) dimensions = [0]
        """,
        1,
        "'linalg.broadcast': the output is tensor<2x6xf32>, expected the shape 2x4",
    ),
    "reduce_dims": (
        """
        %o = tensor.empty() : tensor<2xf32>
        %r = linalg.reduce { arith.addf } ins(%m : tensor<2x6xf32>) outs(%o : tensor<2xf32>) dimensions = [0]
        """,
        2,
        "'linalg.reduce': output 0 has size 2 where input 0 has 6",
    ),
    "reduce_dim_beyond": (
        """
        %o = tensor.empty() : tensor<2xf32>
        %r = linalg.reduce { arith.addf } ins(%m : tensor<2x6xf32>) outs(%o : tensor<2xf32>) dimensions = [3]
        """,
        2,
        "'linalg.reduce': the dimensions [3] do not rise from 0 to at most 1",
    ),
    "softmax_dim": (
        """
        %r = linalg.softmax dimension(2) ins(%m : tensor<2x6xf32>) outs(%m : tensor<2x6xf32>) -> tensor<2x6xf32>
        """,
        1,
        "'linalg.softmax': tensor<2x6xf32> has no dimension 2",
    ),
    "softmax_int": (
        """
        %r = linalg.softmax dimension(0) ins(%i : tensor<4xi32>) outs(%i : tensor<4xi32>) -> tensor<4xi32>
        """,
        1,
        "'linalg.softmax': softmax works on tensors of floats, got tensor<4xi32>",
    ),
    "map_arity": (
        """
        %r = linalg.map { arith.addf } ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>)
        """,
        1,
        "takes 2 elements, ins(...) has 1",
    ),
    "pack_tile": (
        """
        %o = tensor.empty() : tensor<2x3xf32>
        %r = linalg.pack %a inner_dims_pos = [0] inner_tiles = [3] into %o : tensor<4xf32> -> tensor<2x3xf32>
        """,
        2,
        "'linalg.pack': the tiles do not divide tensor<4xf32>: a padding_value is needed",
    ),
    "pack_pos": (
        """
        %o = tensor.empty() : tensor<2x2xf32>
        %r = linalg.pack %a inner_dims_pos = [1] inner_tiles = [2] into %o : tensor<4xf32> -> tensor<2x2xf32>
        """,
        2,
        "'linalg.pack': inner_dims_pos [1] are not dimensions of tensor<4xf32>",
    ),
    "pack_shape": (
        """
        %o = tensor.empty() : tensor<3x2xf32>
        %r = linalg.pack %a inner_dims_pos = [0] inner_tiles = [2] into %o : tensor<4xf32> -> tensor<3x2xf32>
        """,
        2,
        "'linalg.pack': the packed side is tensor<3x2xf32>, expected the shape 2x2",
    ),
    "generic_maps": (
        """
        %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) {
        ^bb0(%x: f32, %y: f32):
         linalg.yield %x : f32
        } -> tensor<4xf32>
        """,
        1,
        "'linalg.generic': 2 operand(s) need as many indexing maps, got 1",
    ),
    "generic_iters": (
        """
        %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) {
        ^bb0(%x: f32, %y: f32):
         linalg.yield %x : f32
        } -> tensor<4xf32>
        """,
        1,
        "'linalg.generic': the map of input 0 has 1 dimension(s), expected 2: (d0) -> (d0)",
    ),
    "generic_sizes": (
        """
        %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<4xf32>) outs(%m : tensor<2x6xf32>) {
        ^bb0(%x: f32, %y: f32):
         linalg.yield %x : f32
        } -> tensor<2x6xf32>
        """,
        1,
        "'linalg.generic': output 0 has size 2 where input 0 has 4",
    ),
    "generic_block_args": (
        """
        %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) {
        ^bb0(%x: i32, %y: f32):
         linalg.yield %y : f32
        } -> tensor<4xf32>
        """,
        1,
        "'linalg.generic': the body takes (i32, f32), expected the elements (f32, f32)",
    ),
    "generic_yield": (
        """
        %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) {
        ^bb0(%x: f32, %y: f32):
         linalg.yield %x, %y : f32, f32
        } -> tensor<4xf32>
        """,
        1,
        "'linalg.generic': the body yields (f32, f32), expected (f32)",
    ),
    "generic_bad_iterator": (
        """
        %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["sideways"]} ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) {
        ^bb0(%x: f32, %y: f32):
         linalg.yield %x : f32
        } -> tensor<4xf32>
        """,
        1,
        'expected the iterator types "parallel" and "reduction", got "sideways"',
    ),
    "generic_unbound_dim": (
        """
        %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) {
        ^bb0(%x: f32, %y: f32):
         linalg.yield %x : f32
        } -> tensor<4xf32>
        """,
        1,
        "'linalg.generic': no operand gives the size of iteration d1",
    ),
    "linalg.index_dim": (
        """
        %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) {
        ^bb0(%x: f32, %y: f32):
         %q = linalg.index 1 : index
         linalg.yield %x : f32
        } -> tensor<4xf32>
        """,
        3,
        "'linalg.index': 1 is not one of the 1 iteration(s)",
    ),
    "conv_sizes": (
        """
        %w = tensor.empty() : tensor<3xf32>
        %o = tensor.empty() : tensor<4xf32>
        %r = linalg.conv_1d ins(%a, %w : tensor<4xf32>, tensor<3xf32>) outs(%o : tensor<4xf32>) -> tensor<4xf32>
        """,
        3,
        "'linalg.conv_1d': input 0 has size 4, but (d0 + d1) reaches 5",
    ),
    "packed_bits_part_of_a_byte": (
        """
        %p = tensor.empty() : tensor<12xi1, #iree_encoding.packed_storage>
        %r = flow.tensor.bitcast %p : tensor<12xi1, #iree_encoding.packed_storage> -> tensor<2xi8>
        """,
        2,
        "'flow.tensor.bitcast': packed bits fill whole bytes and have static sizes here, got tensor<12xi1, #iree_encoding.packed_storage>",
    ),
    "packed_bits_in_a_kernel": (
        """
        %p = tensor.empty() : tensor<8xi1, #iree_encoding.packed_storage>
        %r = flow.dispatch @e::@f(%p) : (tensor<8xi1, #iree_encoding.packed_storage>) -> tensor<4xf32>
        """,
        2,
        "'flow.dispatch': a kernel does not get packed bits, tensor<8xi1, #iree_encoding.packed_storage>; give it bytes: flow.tensor.bitcast",
    ),
    "packed_bits_dynamic": (
        """
        %n = arith.constant 32 : index
        %r = flow.tensor.bitcast %i : tensor<4xi32> -> tensor<?xi1, #iree_encoding.packed_storage>{%n}
        """,
        2,
        "'flow.tensor.bitcast': packed bits fill whole bytes and have static sizes here, got tensor<?xi1, #iree_encoding.packed_storage>",
    ),
    "packed_bits_sizes": (
        """
        %r = flow.tensor.bitcast %a : tensor<4xf32> -> tensor<64xi1, #iree_encoding.packed_storage>
        """,
        1,
        "'flow.tensor.bitcast': tensor<4xf32> has 16 bytes, tensor<64xi1, #iree_encoding.packed_storage> has 8",
    ),
    "trace_dims": (
        """
        %q = tensor.cast %a : tensor<4xf32> to tensor<?xf32>
        flow.tensor.trace "q" = [%q : tensor<?xf32>]
        """,
        2,
        "tensor<?xf32> has 1 dynamic dimension(s), which must be given as {%dim, ...}",
    ),
    "export_config_sizes": (
        """
        %r = flow.dispatch.region -> (tensor<4xf32>) attributes {export_config = #iree_codegen.export_config<workgroup_size = [4, 1, 1, 1]>} {
         flow.return %a : tensor<4xf32>
        }
        """,
        1,
        "'flow.dispatch.region': the workgroup_size of an export_config is one to three positive integers, got [4, 1, 1, 1]",
    ),
    "set_encoding_shape": (
        """
        %r = iree_encoding.set_encoding %a : tensor<4xf32> -> tensor<5xf32, #iree_encoding.testing<>>
        """,
        1,
        "'iree_encoding.set_encoding': tensor<4xf32> and tensor<5xf32, #iree_encoding.testing> differ in more than their encoding",
    ),
    "sort_dimension": (
        """
        %r = iree_linalg_ext.sort dimension(1) outs(%a : tensor<4xf32>) {
        ^bb0(%x: f32, %y: f32):
         %c = arith.cmpf olt, %x, %y : f32
         iree_linalg_ext.yield %c : i1
        } -> tensor<4xf32>
        """,
        1,
        "'iree_linalg_ext.sort': dimension 1 is not one of the 1 of tensor<4xf32>",
    ),
    "sort_shapes": (
        """
        %r:2 = iree_linalg_ext.sort dimension(0) outs(%a, %m : tensor<4xf32>, tensor<2x6xf32>) {
        ^bb0(%x: f32, %y: f32, %z: f32, %w: f32):
         %c = arith.cmpf olt, %x, %y : f32
         iree_linalg_ext.yield %c : i1
        } -> tensor<4xf32>, tensor<2x6xf32>
        """,
        1,
        "'iree_linalg_ext.sort': output 1 is tensor<2x6xf32>, expected the shape 4",
    ),
    "sort_comparator": (
        """
        %r = iree_linalg_ext.sort dimension(0) outs(%a : tensor<4xf32>) {
        ^bb0(%x: f32, %y: f32):
         iree_linalg_ext.yield %x : f32
        } -> tensor<4xf32>
        """,
        1,
        "'iree_linalg_ext.sort': the body yields (f32), expected (i1)",
    ),
    "sort_result": (
        """
        %r = iree_linalg_ext.sort dimension(0) outs(%a : tensor<4xf32>) {
        ^bb0(%x: f32, %y: f32):
         %c = arith.cmpf olt, %x, %y : f32
         iree_linalg_ext.yield %c : i1
        } -> tensor<5xf32>
        """,
        1,
        "'iree_linalg_ext.sort': the results are (tensor<5xf32>), expected (tensor<4xf32>) as the outputs",
    ),
    "sort_of_memory": (
        """
        %p = memref.alloc() : memref<4xf32>
        iree_linalg_ext.sort dimension(0) outs(%p : memref<4xf32>) {
        ^bb0(%x: f32, %y: f32):
         %c = arith.cmpf olt, %x, %y : f32
         iree_linalg_ext.yield %c : i1
        }
        """,
        2,
        "'iree_linalg_ext.sort': only tensors are supported, got memref<4xf32>",
    ),
    "topk_count": (
        """
        %v = tensor.empty() : tensor<5xf32>
        %w = tensor.empty() : tensor<5xi32>
        %r:2 = iree_linalg_ext.topk dimension(0) ins(%a : tensor<4xf32>) outs(%v, %w : tensor<5xf32>, tensor<5xi32>) {
        ^bb0(%x: f32, %y: f32):
         %c = arith.cmpf ogt, %x, %y : f32
         iree_linalg_ext.yield %c : i1
        } -> tensor<5xf32>, tensor<5xi32>
        """,
        3,
        "'iree_linalg_ext.topk': 5 elements of 4 along dimension 0 are wanted",
    ),
    "topk_outputs": (
        """
        %v = tensor.empty() : tensor<2xf32>
        %r = iree_linalg_ext.topk dimension(0) ins(%a : tensor<4xf32>) outs(%v : tensor<2xf32>) {
        ^bb0(%x: f32, %y: f32):
         %c = arith.cmpf ogt, %x, %y : f32
         iree_linalg_ext.yield %c : i1
        } -> tensor<2xf32>
        """,
        2,
        "'iree_linalg_ext.topk': expected 2 output(s), got 1",
    ),
    "topk_v2_indices": (
        """
        %v = tensor.empty() : tensor<2xf32>
        %r:2 = iree_linalg_ext.topk_v2 dimension(0) ins(%a : tensor<4xf32>) outs(%v, %v : tensor<2xf32>, tensor<2xf32>) {
        ^bb0(%x: f32, %y: f32):
         %c = arith.cmpf ogt, %x, %y : f32
         iree_linalg_ext.yield %c : i1
        } -> tensor<2xf32>, tensor<2xf32>
        """,
        2,
        "'iree_linalg_ext.topk_v2': output 1 has integers or index for elements, got tensor<2xf32>",
    ),
    "arg_compare_base": (
        """
        %v = tensor.empty() : tensor<f32>
        %w = tensor.empty() : tensor<i32>
        %b = arith.constant 3 : index
        %r:2 = iree_linalg_ext.arg_compare dimension(0) ins(%a, %i : tensor<4xf32>, tensor<4xi32>) outs(%v, %w : tensor<f32>, tensor<i32>) index_base(%b : index) {
        ^bb0(%x: f32, %y: f32):
         %c = arith.cmpf ogt, %x, %y : f32
         iree_linalg_ext.yield %c : i1
        } -> tensor<f32>, tensor<i32>
        """,
        4,
        "'iree_linalg_ext.arg_compare': index_base is added to positions, and the indices are given here",
    ),
    "scan_start": (
        """
        %r:2 = iree_linalg_ext.scan dimension(1) inclusive(true) ins(%m : tensor<2x6xf32>) outs(%m, %a : tensor<2x6xf32>, tensor<4xf32>) {
        ^bb0(%x: f32, %y: f32):
         %c = arith.addf %x, %y : f32
         iree_linalg_ext.yield %c : f32
        } -> tensor<2x6xf32>, tensor<4xf32>
        """,
        1,
        "'iree_linalg_ext.scan': output 1 is tensor<4xf32>, expected the shape 2",
    ),
    "scan_body": (
        """
        %s = tensor.empty() : tensor<f32>
        %r:2 = iree_linalg_ext.scan dimension(0) inclusive(true) ins(%a : tensor<4xf32>) outs(%a, %s : tensor<4xf32>, tensor<f32>) {
        ^bb0(%x: f32):
         iree_linalg_ext.yield %x : f32
        } -> tensor<4xf32>, tensor<f32>
        """,
        2,
        "'iree_linalg_ext.scan': the body takes (f32), expected (f32, f32)",
    ),
    "scatter_map": (
        """
        %u = tensor.empty() : tensor<3xf32>
        %r = iree_linalg_ext.scatter dimension_map = [1] unique_indices(true) ins(%u, %ix : tensor<3xf32>, tensor<3x1xi32>) outs(%a : tensor<4xf32>) {
        ^bb0(%x: f32, %y: f32):
         iree_linalg_ext.yield %x : f32
        } -> tensor<4xf32>
        """,
        2,
        "'iree_linalg_ext.scatter': dimension_map [1] does not list different dimensions of tensor<4xf32>",
    ),
    "scatter_slices": (
        """
        %u = tensor.empty() : tensor<3x2x2x2xf32>
        %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%u, %ix : tensor<3x2x2x2xf32>, tensor<3x1xi32>) outs(%a : tensor<4xf32>) {
        ^bb0(%x: f32, %y: f32):
         iree_linalg_ext.yield %x : f32
        } -> tensor<4xf32>
        """,
        2,
        "'iree_linalg_ext.scatter': indices tensor<3x1xi32> and slices tensor<3x2x2x2xf32> do not fit tensor<4xf32>: indices have the dimensions that count the slices and then one of size 1",
    ),
    "scatter_width": (
        """
        %u = tensor.empty() : tensor<3x5xf32>
        %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%u, %ix : tensor<3x5xf32>, tensor<3x1xi32>) outs(%m : tensor<2x6xf32>) {
        ^bb0(%x: f32, %y: f32):
         iree_linalg_ext.yield %x : f32
        } -> tensor<2x6xf32>
        """,
        2,
        "'iree_linalg_ext.scatter': the tensor of slices is tensor<3x5xf32>, expected the shape 3x6",
    ),
    "scatter_mask": (
        """
        %u = tensor.empty() : tensor<3x6xf32>
        %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%u, %ix, %i : tensor<3x6xf32>, tensor<3x1xi32>, tensor<4xi32>) outs(%m : tensor<2x6xf32>) {
        ^bb0(%x: f32, %y: f32):
         iree_linalg_ext.yield %x : f32
        } -> tensor<2x6xf32>
        """,
        2,
        "'iree_linalg_ext.scatter': the mask has i1 for elements, got tensor<4xi32>",
    ),
    "linalg_ext_gather_indices": (
        """
        %o = tensor.empty() : tensor<4x6xf32>
        %r = iree_linalg_ext.gather dimension_map = [0] ins(%m, %a : tensor<2x6xf32>, tensor<4xf32>) outs(%o : tensor<4x6xf32>) -> tensor<4x6xf32>
        """,
        2,
        "'iree_linalg_ext.gather': the tensor of indices has integers or index for elements, got tensor<4xf32>",
    ),
    "map_store_yield": (
        """
        %r = iree_linalg_ext.map_store %a into %m {
        ^bb0(%x: index):
         iree_linalg_ext.yield %x, %x : index, index
        } : tensor<4xf32> into tensor<2x6xf32> -> tensor<2x6xf32>
        """,
        1,
        "'iree_linalg_ext.map_store': the body yields (index, index), expected (index, index, i1)",
    ),
    "map_load_result": (
        """
        %z = arith.constant 0.0 : f32
        %r = iree_linalg_ext.map_load %a into %m {
        ^bb0(%x: index, %y: index):
         iree_linalg_ext.yield %x, %z : index, f32
        } : tensor<4xf32> into tensor<2x6xf32> -> tensor<4xf32>
        """,
        2,
        "'iree_linalg_ext.map_load': the result is tensor<4xf32>, expected tensor<2x6xf32> as the output",
    ),
    "recurrence_carried": (
        """
        %z = arith.constant 0.0 : f32
        %r = pyd.recurrence () dimension(0) first {
         linalg.yield %z : f32
        } next {
        ^bb0(%x: index):
         linalg.yield %z, %z : f32, f32
        } : tensor<4xf32>
        """,
        2,
        "'pyd.recurrence': the region 'next' takes (index), expected (index, f32)",
    ),
    "top_k_count": (
        """
        %x = tensor.empty() : tensor<2x4xf32>
        %r:2 = pyd.top_k %x before {
        ^bb0(%p: f32, %q: f32):
         %c = arith.cmpf ogt, %p, %q : f32
         linalg.yield %c : i1
        } : tensor<2x4xf32> -> tensor<2x5xf32>, tensor<2x5xi32>
        """,
        2,
        "'pyd.top_k': 5 elements of each row of tensor<2x4xf32> are wanted",
    ),
    "top_k_comparator": (
        """
        %x = tensor.empty() : tensor<2x4xf32>
        %r:2 = pyd.top_k %x before {
        ^bb0(%p: f32):
         %c = arith.cmpf ogt, %p, %p : f32
         linalg.yield %c : i1
        } : tensor<2x4xf32> -> tensor<2x3xf32>, tensor<2x3xi32>
        """,
        2,
        "'pyd.top_k': the region 'before' takes (f32) and yields (i1), expected (f32, f32) and (i1)",
    ),
    "conv_strides": (
        """
        %w = tensor.empty() : tensor<3x2x5xf32>
        %x = tensor.empty() : tensor<1x9x2xf32>
        %o = tensor.empty() : tensor<1x4x5xf32>
        %r = linalg.conv_1d_nwc_wcf {strides = dense<[2, 2]> : tensor<2xi64>, dilations = dense<1> : tensor<1xi64>} ins(%x, %w : tensor<1x9x2xf32>, tensor<3x2x5xf32>) outs(%o : tensor<1x4x5xf32>) -> tensor<1x4x5xf32>
        """,
        4,
        "'linalg.conv_1d_nwc_wcf': expected 1 integer(s), got dense<2> : tensor<2xi64>",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused(name: str) -> None:
    body, line, message = CASES[name]
    head = "func.func @f(%a: tensor<4xf32>, %m: tensor<2x6xf32>, %i: tensor<4xi32>, %ix: tensor<3x1xi32>) {"
    said = refused(f"{head}{body.rstrip()}\n return\n}}").splitlines()[0]
    assert said.startswith(f"<text>:{line + 1}:"), said
    assert message in said
