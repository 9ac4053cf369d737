"""Tensors while a program is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from pydispatch.frontends.graph.dtypes import DType
from pydispatch.frontends.graph.sizes import Expr, Shape, Size, is_static
from pydispatch.ir.core.syntax import DYNAMIC

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Weight:
    """A named array of a model. array: as in memory (`DType.numpy`), possibly a memory map; read when it is stored.
    is_own: not of the model but of its program, and in the artifact always."""

    name: str
    array: np.ndarray[Any, Any]
    is_own: bool = False


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor that a program computes, or whose elements are known while it is written.

    shape: one size for each axis. parts: its values in the program, one, or two for a complex tensor (real and
    imaginary part); empty while nothing needed them. known: the elements as an array of that shape: numbers of
    `dtype.numpy`, or objects that are ints and sizes. weight: the array that it is.
    """

    dtype: DType
    shape: Shape
    parts: tuple[SSAValue, ...] = ()
    known: np.ndarray[Any, Any] | None = None
    weight: Weight | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_symbolic(self) -> bool:
        """Whether elements are known as terms over the sizes of a call."""
        return self.known is not None and self.known.dtype == object

    @property
    def numbers(self) -> np.ndarray[Any, Any] | None:
        """The elements where all are known as numbers."""
        return None if self.is_symbolic else self.known

    def sizes(self) -> list[Size] | None:
        """Return the elements as a list of sizes, where an integer tensor is known."""
        if self.known is None:
            return None
        return [n if isinstance(n, Expr) else int(n) for n in self.known.reshape(-1).tolist()]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def tensor_type(element: Attribute, shape: Sequence[Size]) -> TensorType[Attribute]:
    """Return the MLIR type of a tensor from its element type and shape."""
    return _tensor_type(element, tuple(DYNAMIC if isinstance(n, Expr) else n for n in shape))


@lru_cache(4096)
def _tensor_type(element: Attribute, shape: tuple[int, ...]) -> TensorType[Attribute]:
    """Return the MLIR type. Types are cached: a model has few, and each new one is verified."""
    return TensorType(element, shape)


def has_static_shape(tensor: Tensor) -> bool:
    """Return whether all sizes are numbers."""
    return is_static(tensor.shape)
