"""`linalg.map`, `reduce`, `transpose`, `broadcast`, `pack` and `unpack`: rules that replace them by `linalg.generic`.

A pack cuts dimensions of a tensor into tiles: the result has the tile's index in the place of the index (in another
order of dimensions, if the operation states one), and the index inside of the tile as an additional last dimension.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IndexType, TensorType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.compiler.normalize.bodies import BodyBuilder, elementwise
from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.compiler.normalize.generics import generic
from pydispatch.ir.core.elements import element_type
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.linalg.regions import IndexOp, MapOp, ReduceOp
from pydispatch.ir.dialects.linalg.shape import BroadcastOp, PackingOp, TransposeOp, numbers
from pydispatch.ir.dialects.linalg.structure import Structure, shape_of


def _map(op: Operation, build: Build) -> None:
    """Replace `linalg.map` by a generic, whose body takes the output's element, too: a body without it gets an unused
    argument.
    """
    assert isinstance(op, MapOp)
    body = op.detach_region(op.body)
    if len(body.block.args) == len(op.inputs):
        body.block.insert_arg(element_type(op.outputs[0].type), len(op.inputs))
    build.replace(*generic(build, op.structure(), list(op.inputs), list(op.outputs), body, op.attributes))


def _reduce(op: Operation, build: Build) -> None:
    """Replace `linalg.reduce` by a generic."""
    assert isinstance(op, ReduceOp)
    structure = op.structure()
    body = op.detach_region(op.body)
    build.replace(*generic(build, structure, list(op.inputs), list(op.outputs), body, op.attributes))


def moved(build: Build, source: SSAValue, target: SSAValue, map: AffineMap) -> list[SSAValue]:
    """Emit a copy, target[i] = source[map(i)] for each index i of `target`, and return the result."""
    types = [element_type(source.type), element_type(target.type)]
    rank = len(shape_of(target.type))
    structure = Structure((map, AffineMap.identity(rank)), parallel=(True,) * rank)
    body = elementwise(types, "copy", cast=False, unsigned=False)
    return generic(build, structure, [source], [target], body)


def projection(rank: int, results: Sequence[int]) -> AffineMap:
    """Return the map from `rank` dimensions to those in `results`: `(d0, d1, d2) -> (d0, d2)` for 3 and [0, 2]."""
    return AffineMap(rank, 0, tuple(AffineExpr.dimension(d) for d in results))


def _transpose(op: Operation, build: Build) -> None:
    """Replace `linalg.transpose` by a generic that copies."""
    assert isinstance(op, TransposeOp)
    permutation = op.dimension_numbers()  # the dimension of the input for each dimension of the result
    # Index of the result -> index of the input: the inverse of the permutation.
    map = projection(len(permutation), [permutation.index(d) for d in range(len(permutation))])
    build.replace(*moved(build, op.input, op.init, map))


def _broadcast(op: Operation, build: Build) -> None:
    """Replace `linalg.broadcast` by a generic that copies."""
    assert isinstance(op, BroadcastOp)
    rank = len(shape_of(op.init.type))
    added_dims = op.dimension_numbers()
    map = projection(rank, [d for d in range(rank) if d not in added_dims])
    build.replace(*moved(build, op.input, op.init, map))


def _pack(op: Operation, build: Build) -> None:
    """Replace a pack by a padding to full tiles and one generic that reads at tile * size + offset.

    If a tile has a dynamic size, the replacement is a generic without an affine map. A pack of 4x5 with inner_dims_pos
    = [1] and inner_tiles = [3] pads to 4x6; the result of 4x2x3 is result[i, j, k] = padded[i, j * 3 + k]. With
    outer_dims_perm = [1, 0], result[j, i, k] is that element, of 2x4x3.
    """
    assert isinstance(op, PackingOp)
    rank = len(shape_of(op.source.type))
    outer = op.outer_permutation(rank)  # dimension of the source for each outer dimension of the result
    positions = numbers(op.inner_dims_pos)
    tiles = dict(zip(positions, op.tiles(), strict=True))  # dimension of the source → size of its tiles
    if not all(isinstance(t, int) for t in tiles.values()):
        _pack_dynamic(op, build, outer, tiles)
        return
    source = op.source
    if op.padding_value is not None:
        source = _pad(op, build, tiles)
    # The index of each dimension of the source, from the indices of the result.
    expressions = []
    for d in range(rank):
        expression: AffineExpr = AffineExpr.dimension(outer.index(d))
        if d in tiles:
            expression = expression * int(tiles[d]) + AffineExpr.dimension(rank + positions.index(d))  # type: ignore[arg-type]
        expressions.append(expression)
    map = AffineMap(rank + len(positions), 0, tuple(expressions))
    build.replace(*moved(build, source, op.dest, map))


def _pad(op: PackingOp, build: Build, tiles: dict[int, int | SSAValue]) -> SSAValue:
    """Pad the source of a pack to whole tiles, and return it; unchanged if it has whole tiles already.

    tiles: by dimension of the source, the size of a tile, static here. Numbers of tiles may be dynamic.
    """
    shape = shape_of(op.source.type)
    outer = op.outer_permutation(len(shape))  # outer.index(dim) is the dimension of the result that counts tiles of dim
    tile_counts = shape_of(op.dest.type)
    padding = [0] * len(shape)  # number of elements after each dimension, or DYNAMIC
    dynamic_padding: dict[int, SSAValue] = {}  # by dimension, the number that is DYNAMIC in `padding`
    padded_shape = list(shape)
    # The padding after each dimension: static if its size and its number of tiles are, else computed.
    for dim, tile in tiles.items():
        assert isinstance(tile, int)
        count = tile_counts[outer.index(dim)]
        padded_shape[dim] = DYNAMIC if count == DYNAMIC else count * tile
        if DYNAMIC not in (count, shape[dim]):
            padding[dim] = count * tile - shape[dim]
            continue
        total = build.add(arith.MuliOp(build.dim(op.dest, outer.index(dim)), build.index(tile))).result
        padding[dim] = DYNAMIC
        dynamic_padding[dim] = build.add(arith.SubiOp(total, build.dim(op.source, dim))).result
    if not any(padding):
        return op.source
    assert op.padding_value is not None
    dynamic_operands = [dynamic_padding[dim] for dim in sorted(dynamic_padding)]
    return build.add(padded_after(op.source, op.padding_value, padding, dynamic_operands, padded_shape)).result


def padded_after(
    source: SSAValue, value: SSAValue, padding: Sequence[int], dynamic: Sequence[SSAValue], shape: Sequence[int]
) -> tensor.PadOp:
    """Return an operation that appends elements to a tensor.

    Args:
        source: The tensor.
        value: The value of the appended elements.
        padding: Number of elements to append along each dimension, or DYNAMIC.
        dynamic: The numbers that are DYNAMIC in `padding`.
        shape: Shape of the result.
    """
    body = Block(arg_types=[IndexType()] * len(shape))
    body.add_op(tensor.YieldOp(value))
    no_padding = [0] * len(shape)  # before each dimension
    type = TensorType(element_type(source.type), shape)
    return tensor.PadOp(source, [], list(dynamic), Region(body), no_padding, list(padding), type)


def _unpack(op: Operation, build: Build) -> None:
    """Replace an unpack by one generic that reads at (index floordiv tile size, index mod tile size).

    With tiles of 3 columns, result[i, j] = packed[i, j floordiv 3, j mod 3]. If a tile has a dynamic size, the
    replacement is a generic without an affine map.
    """
    assert isinstance(op, PackingOp)
    rank = len(shape_of(op.dest.type))
    outer = op.outer_permutation(rank)  # dimension of the result for each outer dimension of the packed tensor
    positions = numbers(op.inner_dims_pos)
    tiles = dict(zip(positions, op.tiles(), strict=True))  # dimension of the result → size of its tiles
    if not all(isinstance(t, int) for t in tiles.values()):
        _unpack_dynamic(op, build, outer, tiles)
        return
    tile_index = [
        AffineExpr.dimension(d) // int(tiles[d]) if d in tiles else AffineExpr.dimension(d)  # type: ignore[arg-type]
        for d in outer
    ]
    index_in_tile = [AffineExpr.dimension(d) % int(tiles[d]) for d in positions]  # type: ignore[arg-type]
    build.replace(*moved(build, op.source, op.dest, AffineMap(rank, 0, tuple(tile_index + index_in_tile))))


def _replace_by_generic(build: Build, op: PackingOp, body: BodyBuilder) -> None:
    """Replace the operation by a generic without inputs whose body computes the index and extracts the element."""
    rank = len(shape_of(op.dest.type))
    structure = Structure((AffineMap.identity(rank),), parallel=(True,) * rank)
    build.replace(*generic(build, structure, inputs=[], outputs=[op.dest], body=body.block))


def _pack_dynamic(op: PackingOp, build: Build, outer: list[int], tiles: dict[int, int | SSAValue]) -> None:
    """Replace a pack with dynamic tile sizes: the body computes the index of its element, or selects the padding.

    An affine map cannot have a dynamic factor, so the generic has no input: for a matrix with tiles of %t columns, its
    body at (i, j, k) computes the column c = j * %t + k, reads source[i, min(c, columns - 1)], and yields the padding
    if c >= columns. Without a padding value, it reads source[i, c].

    Args:
        op: The pack.
        build: Builder.
        outer: Permutation of the dimensions of the source. Dimension i of the result counts the tiles of dimension
            outer[i] of the source, or its elements if it is not tiled. outer.index(d) is the i for dimension d.
        tiles: Size of a tile by dimension of the source, in the order of the result's last dimensions.
    """
    # Sizes of the source, its last indices, and sizes of tiles, computed before the generic.
    rank = len(outer)
    element = element_type(op.dest.type)
    sizes = {d: build.dim(op.source, d) for d in tiles}
    last_indices = {d: build.add(arith.SubiOp(size, build.index(1))).result for d, size in sizes.items()}
    tile_sizes = {d: build.index(t) if isinstance(t, int) else t for d, t in tiles.items()}
    body = BodyBuilder([element])
    indices: list[SSAValue] = []  # of the element in the source
    is_inside: SSAValue | None = None  # whether it is inside the source; None without a padding value
    for d in range(rank):
        index = body.add(IndexOp(outer.index(d)))
        if d in tiles:
            offset = body.add(IndexOp(rank + list(tiles).index(d)))
            index = body.add(arith.AddiOp(body.add(arith.MuliOp(index, tile_sizes[d])), offset))
            if op.padding_value is not None:
                is_inside_dim = body.add(arith.CmpiOp(index, sizes[d], "slt"))
                is_inside = is_inside_dim if is_inside is None else body.add(arith.AndIOp(is_inside, is_inside_dim))
                index = body.add(arith.MinSIOp(index, last_indices[d]))  # an element is read also where padding is
        indices.append(index)
    value = body.add(tensor.ExtractOp(op.source, indices, element))
    if is_inside is not None and op.padding_value is not None:
        value = body.add(arith.SelectOp(is_inside, value, op.padding_value))
    body.finish(value)
    _replace_by_generic(build, op, body)


def _unpack_dynamic(op: PackingOp, build: Build, outer: list[int], tiles: dict[int, int | SSAValue]) -> None:
    """Replace an unpack with dynamic tile sizes by a generic whose body computes the index in the packed tensor.

    For a matrix with tiles of %t columns, the body at (i, j) reads packed[i, j / %t, j mod %t].

    Args:
        op: The unpack.
        build: Builder.
        outer: Permutation of the dimensions of the result. Dimension i of the packed tensor counts the tiles of
            dimension outer[i] of the result, or its elements if it is not tiled.
        tiles: Size of a tile by dimension of the result, in the order of the packed tensor's last dimensions.
    """
    element = element_type(op.dest.type)
    tile_sizes = {d: build.index(t) if isinstance(t, int) else t for d, t in tiles.items()}
    body = BodyBuilder([element])
    indices = [body.add(IndexOp(d)) for d in range(len(outer))]
    tile_indices = [body.add(arith.DivUIOp(indices[d], tile_sizes[d])) if d in tiles else indices[d] for d in outer]
    indices_in_tile = [body.add(arith.RemUIOp(indices[d], tile_sizes[d])) for d in tiles]
    body.finish(body.add(tensor.ExtractOp(op.source, [*tile_indices, *indices_in_tile], element)))
    _replace_by_generic(build, op, body)


ROWS: dict[str, Row] = {
    "linalg.map": _map,
    "linalg.reduce": _reduce,
    "linalg.transpose": _transpose,
    "linalg.broadcast": _broadcast,
    **dict.fromkeys(("linalg.pack", "tensor.pack", "iree_linalg_ext.pack"), _pack),
    **dict.fromkeys(("linalg.unpack", "tensor.unpack", "iree_linalg_ext.unpack"), _unpack),
}
"""Name of an operation → function that replaces it."""
