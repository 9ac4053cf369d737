"""Tensors as operator conversions see them while a program is built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ComplexType, IntegerType, Signedness, TensorType
from xdsl.ir import Attribute, SSAValue

from pydispatch.graph.dtypes import DType, Kind
from pydispatch.graph.sizes import Expr, Shape, Size, is_static
from pydispatch.ir.core.syntax import DYNAMIC

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Weight:
    """Named array of a model, such as the filter of a convolution.

    Attributes:
        name: Name in the artifact.
        array: Elements in the representation `DType.numpy`, possibly memory-mapped; they are read when the artifact is
            written.
        is_own: Whether the array belongs to the program, such as its random state or the elements of a constant node,
            not to the weights of the model; such an array is always embedded.
    """

    name: str
    array: np.ndarray[Any, Any]
    is_own: bool = False


@dataclass(frozen=True, eq=False)
class Tensor:
    """Tensor that a program computes, or whose elements are constant.

    Attributes:
        dtype: Element type.
        shape: One size per axis.
        parts: SSA values of a computed tensor: one, or the real and the imaginary part. () for a constant and a weight;
            `Builder.parts` returns their values.
        known: Elements of a constant in an array of its shape, as numbers of `dtype.numpy` or as objects, ints and
            expressions of sizes; None for other tensors.
        weight: The weight whose elements these are; None for other tensors.
    """

    dtype: DType
    shape: Shape
    parts: tuple[SSAValue, ...] = ()
    known: np.ndarray[Any, Any] | None = None
    weight: Weight | None = None

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def is_symbolic(self) -> bool:
        """Whether the tensor is a constant with elements that are expressions over the sizes of a call."""
        return self.known is not None and self.known.dtype == object

    @property
    def numbers(self) -> np.ndarray[Any, Any] | None:
        """Elements of a constant of numbers, as an array of `dtype.numpy`; None for other tensors."""
        return None if self.is_symbolic else self.known

    def known_integers(self) -> list[Size] | None:
        """Return the elements of a constant, ints or expressions of sizes, as a flat list in row-major order; None for
        other tensors.
        """
        if self.known is None:
            return None
        return [n if isinstance(n, Expr) else int(n) for n in self.known.reshape(-1).tolist()]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def tensor_type(element: Attribute, shape: Sequence[Size]) -> TensorType[Attribute]:
    """Return the MLIR type of a tensor with an MLIR element type and a shape; expressions become dynamic sizes."""
    return _tensor_type(element, tuple(DYNAMIC if isinstance(n, Expr) else n for n in shape))


@lru_cache(4096)
def _tensor_type(element: Attribute, shape: tuple[int, ...]) -> TensorType[Attribute]:
    """Return the MLIR type of a tensor; `shape` has DYNAMIC for dynamic sizes.

    Types are cached, because xDSL verifies each new one and a model has few.
    """
    return TensorType(element, shape)


def has_static_shape(tensor: Tensor) -> bool:
    """Return whether all sizes of a tensor are ints."""
    return is_static(tensor.shape)


def boundary_type(dtype: DType, shape: Sequence[int]) -> Attribute:
    """Return the MLIR type of an argument or result of a function: unlike types within the program, it has unsigned and
    complex elements. shape: sizes, DYNAMIC for a dynamic one.
    """
    element = dtype.element
    if dtype.is_complex:
        element = ComplexType(dtype.element)
    elif dtype.kind is Kind.UINT:
        element = IntegerType(dtype.bits, Signedness.UNSIGNED)
    return TensorType(element, shape)
