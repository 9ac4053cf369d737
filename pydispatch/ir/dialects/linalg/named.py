"""The named `linalg` operations: one class for each name of the tables in `table.py`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar

from xdsl.dialects.builtin import ShapedType
from xdsl.ir import Operation
from xdsl.ir.affine import AffineMap
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.dialects.linalg import table
from pydispatch.ir.dialects.linalg.base import (
    BinaryFnAttr,
    ElementwiseKindAttr,
    StructuredOp,
    UnaryFnAttr,
    check_counts,
    integers,
    maps_of,
)
from pydispatch.ir.dialects.linalg.structure import (
    Structure,
    elementwise_structure,
    shape_of,
    structure_of_maps,
    structure_of_named,
)
from pydispatch.ir.dialects.linalg.table import Meaning


class NamedOp(StructuredOp):
    """Base of contractions, convolutions and poolings, which `table.meaning` defines by subscripts as in an einsum.

    `linalg.matmul` has the subscripts `m k, k n -> m n`: parallel loops m and n, a reduction over k, and the maps
    (m, n, k) -> (m, k), (m, n, k) -> (k, n) and (m, n, k) -> (m, n).
    """

    @property
    def meaning(self) -> Meaning:
        """Return the definition of the operation: subscripts of its operands, and the kind of its body."""
        return table.meaning(self.name.partition(".")[2])

    def structure(self) -> Structure:
        """Return the loops and maps: those stated in `indexing_maps`, else those of the operation's definition."""
        meaning = self.meaning
        check_counts(self, len(meaning.inputs))
        if self.indexing_maps is not None:
            return structure_of_maps(maps_of(self.indexing_maps))
        # Number of dimensions along which a window slides, those with an index such as `oh+kh`.
        window_count = sum("+" in word for word in meaning.inputs[0])
        if self.name in ("linalg.conv_1d", "linalg.conv_2d", "linalg.conv_3d"):  # defined without strides and dilations
            strides = dilations = [1] * window_count
        else:
            strides, dilations = integers(self.strides, window_count), integers(self.dilations, window_count)
        return structure_of_named(meaning, strides, dilations)


class ElementwiseOp(StructuredOp):
    """Base of elementwise operations such as `linalg.add`, which apply one scalar function to each element.

    Inputs have the shape of the output, or are scalars, unless `indexing_maps` is present. The sum of a matrix and a
    scalar has two parallel loops, and the maps (d0, d1) -> (d0, d1), (d0, d1) -> () and, for the output,
    (d0, d1) -> (d0, d1).
    """

    def function(self) -> str:
        """Return the name of the scalar function: a key of `table.ELEMENTWISE_KINDS`, or `copy`."""
        return self.name.partition(".")[2]

    def structure(self) -> Structure:
        """Return the loops and maps: those stated in `indexing_maps`, else identities, with scalars broadcast."""
        function = self.function()
        # Function -> number of inputs: the kinds of linalg.elementwise, and `copy`, the only named operation besides.
        input_counts = {**table.ELEMENTWISE_KINDS, **table.ELEMENTWISE}
        if function not in input_counts:
            raise VerifyException(f"'{function}' is not known, expected one of {', '.join(table.ELEMENTWISE_KINDS)}")
        check_counts(self, input_counts[function])
        if self.indexing_maps is not None:
            return structure_of_maps(maps_of(self.indexing_maps))
        is_scalar = [*(not isinstance(i.type, ShapedType) for i in self.inputs), False]  # the output is no scalar
        structure = elementwise_structure(len(shape_of(self.outputs[0].type)), len(self.operands))
        pairs = zip(structure.maps, is_scalar, strict=True)
        return structure._replace(maps=tuple(_scalar_map(m.num_dims) if scalar else m for m, scalar in pairs))


def _scalar_map(loop_count: int) -> AffineMap:
    """Return the indexing map of a scalar, which no loop indexes: `(d0, ...) -> ()`."""
    return AffineMap(loop_count, 0, ())


class ContractOp(StructuredOp):
    """Product of two operands, summed over the loops that do not index the output."""

    name = "linalg.contract"
    MEANING: ClassVar[Meaning] = Meaning(inputs=((), ()), output=(), body="mac")  # `indexing_maps` has the subscripts

    @property
    def meaning(self) -> Meaning:
        """Return the definition of the body, multiply-accumulate; `indexing_maps` states the loops of the operands."""
        return self.MEANING

    def structure(self) -> Structure:
        """Return the loops and maps stated in `indexing_maps`, which are required."""
        check_counts(self, 2)
        if self.indexing_maps is None:
            raise VerifyException("expected indexing_maps = [#a, #b, #c]")
        return structure_of_maps(maps_of(self.indexing_maps))


class KindedOp(ElementwiseOp):
    """Elementwise operation whose scalar function is the property `kind = #linalg.elementwise_kind<add>`."""

    name = "linalg.elementwise"

    def function(self) -> str:
        """Return the name of the scalar function; raise VerifyException if none is stated."""
        if not isinstance(self.kind, ElementwiseKindAttr):
            raise VerifyException("expected kind = #linalg.elementwise_kind<…>")
        return self.kind.data


class ElemwiseUnaryOp(ElementwiseOp):
    """Unary elementwise operation as older releases write it, `{fun = #linalg.unary_fn<exp>}`."""

    name = "linalg.elemwise_unary"

    def function(self) -> str:
        """Return the name of the scalar function; MLIR's default is exp."""
        return self.fun.data if isinstance(self.fun, UnaryFnAttr) else "exp"


class ElemwiseBinaryOp(ElementwiseOp):
    """Binary elementwise operation as older releases write it, `{fun = #linalg.binary_fn<add>}`."""

    name = "linalg.elemwise_binary"

    def function(self) -> str:
        """Return the name of the scalar function; MLIR's default is add."""
        return self.fun.data if isinstance(self.fun, BinaryFnAttr) else "add"


class FillOp(StructuredOp):
    """Fill of the output with a scalar."""

    name = "linalg.fill"

    def structure(self) -> Structure:
        """Return a parallel loop for each dimension of the output, over which a scalar is broadcast."""
        check_counts(self, 1)
        if isinstance(self.inputs[0].type, ShapedType) and shape_of(self.inputs[0].type):
            raise VerifyException(f"expected a scalar to fill with, got {self.inputs[0].type}")
        rank = len(shape_of(self.outputs[0].type))
        return Structure(maps=(_scalar_map(rank), AffineMap.identity(rank)), parallel=(True,) * rank)


def _named_classes(base: type[StructuredOp], names: Iterable[str]) -> list[type[Operation]]:
    """Create the classes of named operations that differ in their names alone.

    All inherit accessors, checks and syntax from one subclass of `base`, the template, which is defined first. Defining
    each class by itself would take 5 % of the time that importing the compiler takes.

    Args:
        base: Base class of the operations.
        names: Their names, without `linalg.`.
    """
    template: Any = op_definition(type(base.__name__, (base,), {"name": "linalg.named", "__doc__": base.__doc__}))
    classes = []
    for name in names:
        title = "".join(part.capitalize() for part in name.split("_"))
        definition = replace(template.get_irdl_definition(), name=f"linalg.{name}")
        attributes = {
            "name": definition.name,
            # The default argument binds the definition of this iteration of the loop.
            "get_irdl_definition": staticmethod(lambda definition=definition: definition),
            "__doc__": base.__doc__,
            "__module__": __name__,
        }
        classes.append(type(f"{title}Op", (template,), attributes))
    return classes


OPERATIONS: list[type[Operation]] = [
    *_named_classes(NamedOp, (*table.CONTRACTIONS, *table.CONVOLUTIONS, *table.POOLINGS)),
    *_named_classes(ElementwiseOp, table.ELEMENTWISE),
    *(op_definition(op) for op in (ContractOp, KindedOp, ElemwiseUnaryOp, ElemwiseBinaryOp, FillOp)),
]
