"""`linalg` operations that move elements: `transpose`, `broadcast`, `pack`, `unpack`; and `softmax`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, ShapedType, TensorType, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.irdl.declarative_assembly_format import CustomDirective, ParsingState, PrintingState, TypeDirective
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import directive, parsed_types
from pydispatch.ir.core.elements import element_type
from pydispatch.ir.core.syntax import DYNAMIC, mixed
from pydispatch.ir.dialects.linalg.base import (
    ImpliedTypes,
    NoRegions,
    Numbers,
    ResultTypes,
    check_results,
)
from pydispatch.ir.dialects.linalg.structure import shape_of


class _MoveOp(IRDLOperation):
    """Base of operations `ins(%a : T) outs(%b : U) keyword = [1, 0]`, whose only property is a list of dimensions.

    Attributes:
        input: The operand %a.
        init: The operand %b, the output: a memref that is written, or a tensor of the result's type.
        res: The result; none if the output is a memref.
        hidden: Region of MLIR's generic form, which is neither parsed nor printed.
    """

    input = operand_def(ShapedType)
    init = operand_def(ShapedType)
    res = var_result_def(TensorType)
    hidden = var_region_def()
    custom_directives = (ImpliedTypes, NoRegions, Numbers)

    @classmethod
    def keyword(cls) -> str:
        """Return the name of the only property, which is a keyword in the syntax."""
        return next(iter(cls.get_irdl_definition().properties))

    def dimension_numbers(self) -> list[int]:
        """Return the dimensions that the property lists."""
        value = self.properties[self.keyword()]
        assert isinstance(value, DenseArrayBase)
        return [int(v) for v in value.get_values()]

    def check_output(self, expected: Sequence[int]) -> None:
        """Check that the output has the shape `expected` and the element type of the input; dynamic sizes match any
        size."""
        check_results([self.init], [r.type for r in self.res])
        source, target = self.input.type, self.init.type  # `init` is the output operand
        if element_type(source) != element_type(target):
            raise VerifyException(f"the elements of {source} and {target} differ")
        shape = shape_of(target)
        fits = len(shape) == len(expected) and all(
            size == wanted_size or DYNAMIC in (size, wanted_size)
            for size, wanted_size in zip(shape, expected, strict=True)
        )
        if not fits:
            wanted = "x".join("?" if s == DYNAMIC else str(s) for s in expected)
            raise VerifyException(f"the output is {target}, expected the shape {wanted or 'of a scalar'}")


_MOVE = (
    "`ins` `(` $input `:` type($input) `)` `outs` `(` $init `:` type($init) `)` `{0}` `=` custom<Numbers>(${0}) "
    "attr-dict custom<ImpliedTypes>(type($res), ref(type($init))) custom<NoRegions>($hidden)"
)
"""Assembly format of a transpose or broadcast; `{0}` is replaced by its property: `permutation` or `dimensions`."""


@op_definition
class TransposeOp(_MoveOp):
    """Transpose: dimension i of the output is dimension permutation[i] of the input."""

    name = "linalg.transpose"
    permutation = prop_def(DenseArrayBase)
    assembly_format = _MOVE.format("permutation")

    def verify_(self) -> None:
        """Check that `permutation` lists each dimension of the input once, and that the output has this order."""
        shape, permutation = shape_of(self.input.type), self.dimension_numbers()
        if sorted(permutation) != list(range(len(shape))):
            raise VerifyException(f"permutation {permutation} is not one of the {len(shape)} dimension(s) of the input")
        self.check_output([shape[d] for d in permutation])


@op_definition
class BroadcastOp(_MoveOp):
    """Broadcast of the input along `dimensions` of the output, whose other dimensions are the input's, in order."""

    name = "linalg.broadcast"
    dimensions = prop_def(DenseArrayBase)
    assembly_format = _MOVE.format("dimensions")

    def verify_(self) -> None:
        """Check that the output has the dimensions of the input, in order, and new ones at the indices `dimensions`."""
        added, shape, target = self.dimension_numbers(), shape_of(self.input.type), shape_of(self.init.type)
        if len(set(added)) != len(added) or any(not 0 <= d < len(target) for d in added):
            raise VerifyException(f"dimensions {added} are not different dimensions of the output {self.init.type}")
        if len(shape) + len(added) != len(target):
            raise VerifyException(
                f"the output has rank {len(target)}, expected {len(shape)} of the input and {len(added)} new"
            )
        input_sizes = iter(shape)  # for the dimensions of the output that are not new, in order
        self.check_output([target[d] if d in added else next(input_sizes) for d in range(len(target))])


@op_definition
class SoftmaxOp(IRDLOperation):
    """Softmax along `dimension`: exp(x - max) divided by its sum. The output only determines the result's type."""

    name = "linalg.softmax"
    input = operand_def(ShapedType)
    output = operand_def(ShapedType)
    dimension = prop_def(IntegerAttr.constr(i64))
    res = var_result_def(TensorType)
    custom_directives = (ResultTypes,)
    assembly_format = (
        "attr-dict `dimension` `(` $dimension `)` `ins` `(` $input `:` type($input) `)` `outs` `(` $output `:` "
        "type($output) `)` custom<ResultTypes>(type($res), ref(type($output)))"
    )

    def verify_(self) -> None:
        """Check that result and output have the shape of the input, and that `dimension` is one of its dimensions."""
        check_results([self.output], [r.type for r in self.res])
        rank = len(shape_of(self.input.type))
        if shape_of(self.input.type) != shape_of(self.output.type):
            raise VerifyException(f"the output is {self.output.type}, expected the shape of {self.input.type}")
        if not 0 <= self.dimension.value.data < rank:
            raise VerifyException(f"{self.input.type} has no dimension {self.dimension.value.data}")


@directive
class PackedType(CustomDirective):
    """Directive for `-> T`, the type of the destination and the result; if omitted, it is the type of the source.

    Attributes:
        dest: Receives the type of the destination.
        source: The type of the source, which was parsed before.
        results: Receives the type of the result; none for a memref.
    """

    dest: TypeDirective
    source: TypeDirective
    results: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse an optional `-> type`, by default the type of the source."""
        has_type = parser.parse_optional_punctuation("->") is not None
        type = parser.parse_type() if has_type else parsed_types(self.source, state)[0]
        self.dest.set(state, (type,))
        self.results.set(state, (type,) if isinstance(type, TensorType) else ())

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `-> T`."""
        printer.print_string(" ->")
        self.dest.print(printer, state, op)


class PackingOp(IRDLOperation):
    """Base of pack and unpack.

    A packed tensor has one outer dimension per dimension of the unpacked one, which counts tiles, then one inner
    dimension for each that is tiled. Syntax: `%source padding_value(%p : T) outer_dims_perm = […] inner_dims_pos = […]
    inner_tiles = […] into %dest : T -> U`.

    Attributes:
        padding_value: Element of incomplete tiles beyond the end of the unpacked tensor; for pack only.
        outer_dims_perm: Dimension of the unpacked tensor for each outer dimension; ascending if absent or empty.
        inner_dims_pos: Dimension of the unpacked tensor for each inner dimension.
        static_inner_tiles: Size of each inner dimension, DYNAMIC for those whose sizes are `inner_tiles`, in order.
    """

    source = operand_def(ShapedType)
    dest = operand_def(ShapedType)
    padding_value = opt_operand_def()
    inner_tiles = var_operand_def(IndexType)
    outer_dims_perm = opt_prop_def(DenseArrayBase)
    inner_dims_pos = prop_def(DenseArrayBase)
    static_inner_tiles = prop_def(DenseArrayBase)
    res = var_result_def(TensorType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    custom_directives: ClassVar[tuple[type[CustomDirective], ...]] = (Numbers, PackedType)
    assembly_format = (
        "$source (`padding_value` `(` $padding_value^ `:` type($padding_value) `)`)? (`outer_dims_perm` `=` "
        "custom<Numbers>($outer_dims_perm)^)? `inner_dims_pos` `=` custom<Numbers>($inner_dims_pos) `inner_tiles` "
        "`=` custom<Mixed>($inner_tiles, $static_inner_tiles) `into` $dest attr-dict `:` type($source) "
        "custom<PackedType>(type($dest), ref(type($source)), type($res))"
    )

    def tiles(self) -> list[int | SSAValue]:
        """Return the size of each inner dimension, in the order of `inner_dims_pos`."""
        return mixed(self.static_inner_tiles, self.inner_tiles)

    def outer_permutation(self, rank: int) -> list[int]:
        """Return the dimension of the unpacked tensor whose tiles each outer dimension of the packed tensor counts.

        `rank` is the rank of the unpacked tensor. Without `outer_dims_perm` the result is [0, 1, ..., rank - 1].
        """
        return numbers(self.outer_dims_perm) or list(range(rank))

    def check_packing(self, unpacked: SSAValue, packed: SSAValue) -> None:
        """Check that the shape of `packed` is that of `unpacked` divided into tiles.

        An unpacked 8x10 with inner_dims_pos = [1, 0] and inner_tiles = [4, 2] has tiles of 4 columns and 2 rows: 4 of
        them along dimension 0, and 3 along dimension 1, of which the last is incomplete. The packed shape is 4x3x4x2,
        or 3x4x4x2 with outer_dims_perm = [1, 0].
        """
        check_results([self.dest], [r.type for r in self.res])
        shape, target = shape_of(unpacked.type), shape_of(packed.type)
        positions, tiles = numbers(self.inner_dims_pos), numbers(self.static_inner_tiles)
        if element_type(unpacked.type) != element_type(packed.type):
            raise VerifyException(f"the elements of {unpacked.type} and {packed.type} differ")
        _check_tiling(unpacked, positions, tiles)
        outer = self.outer_permutation(len(shape))
        if sorted(outer) != list(range(len(shape))):
            raise VerifyException(f"outer_dims_perm {outer} is not a permutation of the dimensions of {unpacked.type}")
        # The packed shape: the numbers of tiles, in the order of the outer dimensions, and then the sizes of a tile.
        tile_counts = list(shape)  # a dimension that is not tiled has tiles of one element
        for d, t in zip(positions, tiles, strict=True):
            tile_counts[d] = DYNAMIC if DYNAMIC in (shape[d], t) else -(-shape[d] // t)  # rounded up
        expected = [*(tile_counts[d] for d in outer), *tiles]
        fits = len(expected) == len(target) and all(
            wanted_size == size or DYNAMIC in (wanted_size, size)
            for wanted_size, size in zip(expected, target, strict=True)
        )
        if not fits:
            wanted = "x".join("?" if s == DYNAMIC else str(s) for s in expected)
            raise VerifyException(f"the packed side is {packed.type}, expected the shape {wanted}")


def _check_tiling(unpacked: SSAValue, positions: list[int], tiles: list[int]) -> None:
    """Check that `positions` are different dimensions of `unpacked`, with a tile size each, positive or DYNAMIC."""
    if len(positions) != len(tiles) or len(set(positions)) != len(positions):
        raise VerifyException(f"inner_dims_pos {positions} and inner_tiles do not fit each other")
    if any(not 0 <= d < len(shape_of(unpacked.type)) for d in positions):
        raise VerifyException(f"inner_dims_pos {positions} are not dimensions of {unpacked.type}")
    if any(t <= 0 and t != DYNAMIC for t in tiles):
        raise VerifyException(f"inner_tiles are positive, got {tiles}")


def numbers(value: DenseArrayBase[Any] | None) -> list[int]:
    """Return the integers of a property; [] if it is absent."""
    return [] if value is None else [int(v) for v in value.get_values()]


class Pack(PackingOp):
    """Pack: the source divided into tiles. Dimensions that count tiles are followed by the dimensions of a tile."""

    def verify_(self) -> None:
        """Check the packed shape, and that a padding value has the element type; it is required if a tile does not
        divide its dimension.
        """
        self.check_packing(unpacked=self.source, packed=self.dest)
        tiles = dict(zip(numbers(self.inner_dims_pos), numbers(self.static_inner_tiles), strict=True))
        shape = shape_of(self.source.type)
        if self.padding_value is not None:
            if self.padding_value.type != element_type(self.source.type):
                type = self.padding_value.type
                raise VerifyException(f"the padding is {type}, expected an element of {self.source.type}")
        elif any(DYNAMIC not in (shape[d], t) and shape[d] % t for d, t in tiles.items()):
            raise VerifyException(f"the tiles do not divide {self.source.type}: a padding_value is needed")


class Unpack(PackingOp):
    """Unpack: the tensor whose tiles the source contains."""

    def verify_(self) -> None:
        """Check the packed shape, and that there is no padding value."""
        self.check_packing(unpacked=self.dest, packed=self.source)
        if self.padding_value is not None:
            raise VerifyException("unpacking has no padding_value")


def _define_packing(base: type[PackingOp], name: str) -> type[PackingOp]:
    """Define the operation `name`, such as "linalg.pack", as a subclass of `base`: dialects and releases of MLIR have
    different names for it."""
    title = "".join(part.capitalize() for part in name.split("."))
    op_class = type(f"{title}Op", (base,), {"name": name, "__doc__": base.__doc__, "__module__": __name__})
    return op_definition(op_class)


LinalgPackOp = _define_packing(Pack, "linalg.pack")
LinalgUnpackOp = _define_packing(Unpack, "linalg.unpack")
TensorPackOp = _define_packing(Pack, "tensor.pack")
TensorUnpackOp = _define_packing(Unpack, "tensor.unpack")

OPERATIONS: list[type[Operation]] = [TransposeOp, BroadcastOp, SoftmaxOp, LinalgPackOp, LinalgUnpackOp]
TENSOR_OPERATIONS: list[type[Operation]] = [TensorPackOp, TensorUnpackOp]
"""Packing operations of the `tensor` dialect: older programs have these instead of those of `linalg`."""
