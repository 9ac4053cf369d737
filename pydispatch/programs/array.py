"""Arrays that write down what is done to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from pydispatch.errors import CompileError
from pydispatch.frontends.graph.dtypes import DType
from pydispatch.frontends.graph.sizes import Expr, Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.programs.trace import Trace

Handler = Callable[..., Any]


class Array(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of a program while it is traced. NumPy's functions and operators take it; its elements are not known.

    shape: numbers, and sizes that calls decide, with which one can compute. dtype: NumPy's.
    """

    UFUNCS: ClassVar[dict[str, Handler]] = {}
    FUNCTIONS: ClassVar[dict[str, Handler]] = {}
    """What functions of NumPy do, by name; `functions.py` fills them."""

    is_traced = True

    def __init__(self, trace: Trace, tensor: Tensor) -> None:
        self.trace, self.tensor = trace, tensor

    # ---- what it is

    @property
    def shape(self) -> tuple[Size, ...]:
        return self.tensor.shape

    @property
    def ndim(self) -> int:
        return self.tensor.rank

    @property
    def size(self) -> Size:
        made: Size = 1
        for each in self.shape:
            made = made * each
        return made

    @property
    def dtype(self) -> np.dtype[Any]:
        return numpy_dtype(self.tensor.dtype)

    def __repr__(self) -> str:
        return f"<traced array {self.tensor}>"

    def __len__(self) -> int:
        size = self.shape[0] if self.shape else None
        if not isinstance(size, int):
            raise self.fail(f"len of {self.tensor}", "use x.shape[0], with which one can compute")
        return size

    # ---- what NumPy does with it

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        handler = (
            self.UFUNCS.get(ufunc.__name__)
            if method == "__call__"
            else self.FUNCTIONS.get(f"{ufunc.__name__}.{method}")
        )
        if handler is None or options.keys() - {"dtype", "axis", "keepdims"}:
            shown = f"numpy.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
            with_options = f" with {', '.join(options)}" if handler is not None else ""
            raise self.fail(f"{shown}{with_options} is not a part of programs", _NAMES)
        with self.trace.here():
            return handler(self.trace, *inputs, **options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        handler = self.FUNCTIONS.get(function.__name__)
        if handler is None:
            raise self.fail(f"numpy.{function.__name__} is not a part of programs", _NAMES)
        with self.trace.here():
            return handler(self.trace, *args, **options)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise self.fail(
            "the elements of a traced array are not known", "the function that was called takes arrays of NumPy only"
        )

    def __bool__(self) -> NoReturn:
        raise self.fail(
            "a program cannot branch on a value of an array", "use pydispatch.cond, pydispatch.loop or numpy.where"
        )

    def __index__(self) -> NoReturn:
        raise self.fail("a program cannot use a value of an array as a number", "use it as an array: x[i] works")

    __int__ = __float__ = __index__

    def __iter__(self) -> Iterator[Array]:
        for number in range(len(self)):
            yield self[number]

    def __setitem__(self, index: Any, value: Any) -> None:
        with self.trace.here():
            self.tensor = self.FUNCTIONS["<set>"](self.trace, self, index, value).tensor

    def __getitem__(self, index: Any) -> Array:
        with self.trace.here():
            return self.FUNCTIONS["<get>"](self.trace, self, index)

    def fail(self, message: str, note: str | None = None) -> CompileError:
        with self.trace.here():
            return self.trace.fail(message, note)

    # ---- methods of arrays

    def _do(self, name: str, *args: Any, **options: Any) -> Any:
        with self.trace.here():
            return self.FUNCTIONS[name](self.trace, self, *args, **options)

    @property
    def T(self) -> Array:  # noqa: N802
        return self._do("transpose")

    @property
    def mT(self) -> Array:  # noqa: N802
        return self._do("matrix_transpose")

    def astype(self, dtype: Any, **_: Any) -> Array:
        return self._do("astype", dtype)

    def reshape(self, *shape: Any, **_: Any) -> Array:
        return self._do("reshape", shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: Any) -> Array:
        return self._do("transpose", axes[0] if len(axes) == 1 else axes or None)

    def flatten(self) -> Array:
        return self._do("reshape", (-1,))

    ravel = flatten

    def copy(self) -> Array:
        return Array(self.trace, self.tensor)


def _method(name: str) -> Callable[..., Any]:
    def method(self: Array, *args: Any, **options: Any) -> Any:
        return self._do(name, *args, **options)

    method.__name__ = name
    return method


METHODS = ("sum", "prod", "mean", "std", "var", "max", "min", "argmax", "argmin", "all", "any", "cumsum", "cumprod",
           "clip", "squeeze", "swapaxes", "erf", "take", "repeat", "round", "dot")  # fmt: skip
for _each in METHODS:
    setattr(Array, _each, _method(_each))

_NAMES = "docs/python-programs.md lists the functions that are"


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """NumPy's type of elements; ml_dtypes has those that NumPy lacks."""
    if dtype.has_numpy_values:
        return dtype.numpy
    import ml_dtypes

    names = {"bf16": "bfloat16", "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2"}
    return np.dtype(getattr(ml_dtypes, names.get(dtype.name, "bfloat16")))


def arrays_of(trace: Trace, tensors: Iterable[Tensor]) -> list[Array]:
    return [Array(trace, each) for each in tensors]


def is_size(value: Any) -> bool:
    return isinstance(value, (int, np.integer, Expr)) and not isinstance(value, bool)


def shape_of(value: Any) -> Sequence[Any]:
    return [value] if is_size(value) else list(value)
