"""Parameter types of kernels: views of arrays, scalars, and values that are known at compile time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydispatch.patterns.types import DType, Size, TensorType


class View:
    """A view of an array in a kernel: elements are read and written by their indices.

    Written `x: Annotated[View, f32["n", 4]]` for type checkers, or `x: View[f32, "n", 4]`, or `x: f32["n", 4]`: a name
    stands for a size that the call decides, equal names for equal sizes. `x.shape` has the sizes, of type index.
    """

    shape: tuple[int, ...]

    def __class_getitem__(cls, items: Any) -> TensorType:
        """Return the type of a view: `View[f32, "n", 4]` is `f32["n", 4]`."""
        dtype, *shape = items if isinstance(items, tuple) else (items,)  # View[f32] is a view of rank 0
        if not isinstance(dtype, DType):
            raise TypeError(f"View[...] begins with an element type, got {dtype!r}: write View[f32, 'n']")
        return dtype[tuple(shape)]

    def __getitem__(self, index: Any) -> Any:
        """Raise TypeError: a view has elements only while a kernel runs."""
        raise TypeError("a View is read inside a kernel only; pydispatch.kernel makes one of a function")

    def __setitem__(self, index: Any, value: Any) -> None:
        """Raise TypeError: a view has elements only while a kernel runs."""
        raise TypeError("a View is written inside a kernel only; pydispatch.kernel makes one of a function")


class Static:
    """Annotation of a parameter whose value, a number or a type, is known at compile time: `tile: Static`."""


class Partial:
    """Mark in the annotation of a view that the kernel writes only in part: the other elements stay unchanged."""


@dataclass(frozen=True)
class Parameter:
    """Parameter of a Python kernel, as its annotation declares it: a view, a number or a static value.

    `x: Annotated[View, f32["n", 4]]` is a view, `k: i32` a number that each call passes, and `tile: Static` a value
    that is known at compile time. A tuple of views, `xs: Annotated[tuple[View, ...], f32["n"], 2]`, gives a parameter
    for each view, "xs.0" and "xs.1", both with the tuple name "xs".

    Attributes:
        name: Name in the source; for an item of a tuple of views followed by its index.
        type: Type of a view, or of a number, whose `shape` is None; None for a static parameter.
        default: Default value of a static parameter, if `has_default`.
        is_partial: Whether a view is marked `Partial`: the kernel writes only some elements, and the others stay.
        tuple_name: Name of the tuple of views that this view is an item of; "" for a view by itself.
    """

    name: str
    type: TensorType | None
    default: Any = None
    has_default: bool = False
    is_partial: bool = False
    tuple_name: str = ""

    @property
    def is_static(self) -> bool:
        """Whether the value of the parameter is known when the kernel is compiled."""
        return self.type is None

    @property
    def is_view(self) -> bool:
        """Whether the parameter is an array, which a kernel gets as a view; otherwise it is a number."""
        return self.type is not None and self.type.shape is not None


def type_of(annotation: object) -> TensorType | type[Static] | None:
    """Return the type that an annotation denotes: `Static` for a static parameter, None if it is no type of kernels."""
    if annotation is Static or annotation is static:
        return Static
    if isinstance(annotation, DType):
        return TensorType(annotation.name, None)
    if isinstance(annotation, TensorType):
        return annotation
    if get_origin(annotation) is None:
        return None
    for detail in get_args(annotation)[1:]:  # Annotated[View, f32["n"]] has the details (f32["n"],)
        type_ = type_of(detail)
        if type_ is not None:
            return type_
    return None


def is_partial(annotation: object) -> bool:
    """Return whether the annotation of a view has the mark `Partial`: the kernel writes only a part of its elements."""
    return any(detail is Partial for detail in get_args(annotation)[1:])


def count_of(annotation: object) -> int | None:
    """Return 3 for `Annotated[tuple[View, ...], f32["n"], 3]`, a tuple of 3 views; None for a single view."""
    return next((detail for detail in get_args(annotation)[1:] if type(detail) is int), None)


static = Static
"""Public name of `Static`: `tile: pd.static` annotates a parameter whose value is known at compile time."""
partial = Partial
"""Public name of `Partial`: `y: Annotated[pd.View, pd.f32["n"], pd.partial]` is a view written only in part."""

__all__ = ["Parameter", "Partial", "Size", "Static", "View", "count_of", "is_partial", "partial", "static", "type_of"]
