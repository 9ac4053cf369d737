"""Traced arrays: operations on them are recorded as a program."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from pydispatch._core.extended_types import BY_MLIR
from pydispatch.errors import CompileError
from pydispatch.graph.dtypes import DType
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.programs.trace import Trace

Handler = Callable[..., Any]
"""Function handler(trace, *arguments, **options) that records a NumPy function and returns its result."""


class Array(np.lib.mixins.NDArrayOperatorsMixin):
    """Array of a program while it is traced. It supports NumPy's functions and operators; its elements are unknown.

    Attributes:
        program_trace: The program that is traced.
        shape: Sizes: numbers, or symbolic sizes that support arithmetic.
        dtype: NumPy dtype.
    """

    UFUNCS: ClassVar[dict[str, Handler]] = {}
    FUNCTIONS: ClassVar[dict[str, Handler]] = {}
    """Handlers of NumPy's universal and other functions by name; the modules of `functions` add them. Those of x[index]
    and of x[index] = value are "<get>" and "<set>".
    """

    is_traced = True

    def __init__(self, trace: Trace, tensor: Tensor, scope: Any = None) -> None:
        """Create an array of a tensor.

        Args:
            trace: The program that is traced.
            tensor: The elements.
            scope: The branch, loop or function that may assign to the array; None for the one that is being traced.
        """
        self.program_trace, self._tensor = trace, tensor
        self._scope = trace.scope if scope is None else scope
        self._assignments = 0  # number of assignments to the array or its elements
        self._view: _View | None = None  # owner, and how to compute the view again; None if this is no view

    @property
    def tensor(self) -> Tensor:
        """Elements of the array at this point of the program. A view is computed again if its owner was assigned to."""
        view = self._view
        if view is not None and view.is_outdated:
            tensor = view.derive().tensor
            if self._scope is not self.program_trace.scope:
                return tensor  # not stored: it is a value of a branch or loop, undefined after that
            self._tensor = tensor
            view.mark_current()
        return self._tensor

    @tensor.setter
    def tensor(self, new: Tensor) -> None:
        """Replace the elements; those of a view are also replaced in its owner: `y = x[2:4]; y += 1` changes x, too.

        Raise CompileError for an array from outside of the branch or loop that is traced, and for a view that is no
        slice.
        """
        if self._scope is not self.program_trace.scope:
            raise self.fail(
                "an array from outside of a branch or a loop is assigned to in it",
                "give the new array back: y = pydispatch.cond(c, lambda: ..., lambda: y)",
            )
        view = self._view
        if view is not None:
            if view.index is None:
                raise self.fail(
                    "a view that is no slice is assigned to", "assign to the array that it shows, or to x.copy()"
                )
            # Assign to the owner by `owner[index] = new`. This view then shows its current elements.
            value = Array(self.program_trace, new)
            view.owner.tensor = self.FUNCTIONS["<set>"](self.program_trace, view.owner, view.index, value).tensor
            view.mark_current()
        self._tensor = new
        self._assignments += 1

    def as_view_of(self, owner: Array, derive: Callable[[], Array], index: Any = None) -> Array:
        """Mark this array as a view of `owner` and return it.

        Args:
            owner: Array whose elements the view shares.
            derive: Computes the view again from the current elements of the owner.
            index: Index of the view's elements in the owner, used by assignments to the view; None if there is none.
        """
        self._view = _View(owner, derive, index)
        return self

    # ---- shape and type

    @property
    def shape(self) -> tuple[Size, ...]:
        """Sizes of the array; dynamic ones are expressions."""
        return self.tensor.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.tensor.rank

    @property
    def size(self) -> Size:
        """Number of elements."""
        product: Size = 1
        for extent in self.shape:
            product = product * extent
        return product

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy type of the elements."""
        return numpy_dtype(self.tensor.dtype)

    def __repr__(self) -> str:
        return f"<traced array {self.tensor}>"

    def __len__(self) -> int:
        size = self.shape[0] if self.shape else None
        if not isinstance(size, int):
            raise self.fail(f"len of {self.tensor}", "use x.shape[0], with which one can compute")
        return size

    # ---- protocols by which NumPy and Python use arrays

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Record a universal function, which NumPy calls with traced arrays, and return its result.

        With `out`, the result is assigned to that array. Raise CompileError for a function, method or option that
        programs do not have; a reduction such as numpy.add.reduce has the options axis, dtype and keepdims.
        """
        # `method` is "__call__" for numpy.add(x, y), and "reduce" for numpy.add.reduce(x), whose key is "add.reduce".
        if method == "__call__":
            handler = self.UFUNCS.get(ufunc.__name__)
        else:
            handler = self.FUNCTIONS.get(f"{ufunc.__name__}.{method}")
        out = options.pop("out", None)
        allowed = {"axis", "dtype", "keepdims"} if method == "reduce" else set()
        if handler is None or options.keys() - allowed:
            shown = f"numpy.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
            with_options = f" with {', '.join(options)}" if handler is not None else ""
            raise self.fail(f"{shown}{with_options} is not a part of programs", _LIST_OF_FUNCTIONS)
        with self.program_trace.operation(f"numpy.{ufunc.__name__}"):
            result = handler(self.program_trace, *inputs, **options)
            return result if out is None else self._assign_result(out[0], result, ufunc.__name__)

    def _assign_result(self, out: Any, result: Array, name: str) -> Array:
        """Assign the result of an operation to the array `out`, as `x += 1` does, and return `out`.

        Raise CompileError for another shape, or a type that NumPy does not convert to that of `out`. `name` is the
        NumPy function.
        """
        fits = (
            isinstance(out, Array) and result.shape == out.shape and np.can_cast(result.dtype, out.dtype, "same_kind")
        )
        if not fits:
            raise self.program_trace.fail(
                f"numpy.{name} gives {result.tensor}, which {out!r} cannot take", "write y = x + ..."
            )
        out.tensor = self.FUNCTIONS["astype"](self.program_trace, result, out.dtype).tensor
        return out

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        """Record a call of a NumPy function that is no ufunc with traced arrays. `__array_ufunc__` records ufuncs."""
        # The key of numpy.linalg.outer is "linalg.outer", because "outer" is numpy.outer. That of linalg.qr is "qr".
        full_name = f"{function.__module__}.{function.__name__}".removeprefix("numpy.")
        name = full_name if full_name in self.FUNCTIONS else function.__name__
        if name not in self.FUNCTIONS:
            raise self.fail(f"numpy.{full_name} is not a part of programs", _LIST_OF_FUNCTIONS)
        with self.program_trace.operation(f"numpy.{name}"):
            return self._called(name, args, options)

    def _called(self, name: str, args: Sequence[Any], options: dict[str, Any]) -> Any:
        """Call the handler of a NumPy function, and return its result. Raise CompileError for arguments that it does
        not take.

        Options that request NumPy's default behavior, such as `out=None`, are dropped: handlers have no parameters for
        them. A result that shares elements with the first argument in NumPy becomes a view of it, unless `copy=True`
        requests a new array: after `y = x.T` and `x[0] = 1`, the next use of y transposes x again.

        Args:
            name: Key of the handler in FUNCTIONS.
            args: Positional arguments of the function.
            options: Its named arguments.
        """
        handler = self.FUNCTIONS[name]
        signature = inspect.signature(handler)
        options = {
            key: value
            for key, value in options.items()
            if not _is_default(key, value) or (key == "copy" and key in signature.parameters)
        }
        try:  # only checks the arguments: a TypeError of the handler itself is another error
            bound = signature.bind(self.program_trace, *args, **options)
        except TypeError as error:
            raise self.program_trace.fail(f"numpy.{name}: {error} in programs", _LIST_OF_FUNCTIONS) from None
        result = handler(self.program_trace, *args, **options)
        owner = bound.args[1] if len(bound.args) > 1 else None  # positional or by its name: numpy.transpose(a=x)
        if name in _VIEWS and isinstance(owner, Array) and not bound.arguments.get("copy"):
            if isinstance(result, Array):
                result.as_view_of(owner, lambda: self._recompute_view(name, handler, args, options))
            else:  # results of split: NumPy never copies them, so they need no check of `_recompute_view`
                for index, value in enumerate(result):
                    value.as_view_of(owner, lambda index=index: handler(self.program_trace, *args, **options)[index])
        return result

    def _recompute_view(self, name: str, handler: Handler, args: Sequence[Any], options: dict[str, Any]) -> Array:
        """Compute a view again after its owner was assigned to: call `handler`, the handler of the function `name`.

        Raise CompileError for `reshape` and `ravel`, whose result NumPy makes a view or a copy by the memory layout.
        """
        if name in ("reshape", "ravel"):
            raise self.fail(
                "a reshaped array is used after the array was assigned to; NumPy shares elements in some orders only",
                "reshape after the assignment, or x.reshape(...).copy()",
            )
        result: Array = handler(self.program_trace, *args, **options)
        return result

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        """Raise an error, since NumPy asks for the elements, which are not known."""
        raise self.fail(
            "the elements of a traced array are not known, and an array of NumPy or a function needs them",
            "index an array of NumPy as numpy.asarray(table, like=index)[index]",
        )

    def __bool__(self) -> NoReturn:
        raise self.fail(
            "a program cannot branch on a value of an array", "use pydispatch.cond, pydispatch.loop or numpy.where"
        )

    def __index__(self) -> NoReturn:
        raise self.fail("a program cannot use a value of an array as a number", "use it as an array: x[i] works")

    __int__ = __float__ = __index__

    def __pow__(self, exponent: Any) -> Any:
        """Record a power. As in NumPy, x ** 2 is numpy.square(x), which is i8 for conditions, unlike numpy.power."""
        return np.square(self) if type(exponent) is int and exponent == 2 else super().__pow__(exponent)

    def __iter__(self) -> Iterator[Array]:
        for index in range(len(self)):
            yield self[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        """Record an assignment to elements; the array has a new tensor afterwards."""
        with self.program_trace.operation("an assignment to elements"):
            self.tensor = self.FUNCTIONS["<set>"](self.program_trace, self, index, value).tensor

    def __getitem__(self, index: Any) -> Array:
        """Record a read of elements: a view or a copy, as in NumPy.

        An index with arrays or lists gives a copy, and so do numbers for all axes, which select one element.
        """
        with self.program_trace.operation("an index"):
            result: Array = self.FUNCTIONS["<get>"](self.program_trace, self, index)
            keys = index if isinstance(index, tuple) else (index,)
            is_element = len(keys) == self.ndim and all(map(is_size, keys))
            if is_element or any(isinstance(key, (Array, np.ndarray, list)) for key in keys):
                return result
            return result.as_view_of(self, lambda: self.FUNCTIONS["<get>"](self.program_trace, self, index), index)

    def fail(self, message: str, note: str | None = None) -> CompileError:
        """Return a CompileError at the line of the traced function that is running. `note` is the remedy."""
        with self.program_trace.here():
            return self.program_trace.fail(message, note)

    # ---- methods of arrays

    def _apply(self, name: str, *args: Any, **options: Any) -> Any:
        """Record the function `name` of this array and further arguments, and return its result."""
        with self.program_trace.operation(name):
            return self._called(name, (self, *args), options)

    @property
    def T(self) -> Array:  # noqa: N802
        """Array with its axes in reverse order."""
        return self._apply("transpose")

    @property
    def mT(self) -> Array:  # noqa: N802
        """Array with its last two axes exchanged."""
        return self._apply("matrix_transpose")

    @property
    def real(self) -> Array:
        """Real parts."""
        return self._apply("real")

    @property
    def imag(self) -> Array:
        """Imaginary parts."""
        return self._apply("imag")

    def astype(self, dtype: Any, **options: Any) -> Array:
        """Return the elements converted to a type."""
        return self._apply("astype", dtype, **options)

    def view(self, dtype: Any) -> Array:
        """Return the bits of the elements as elements of another type."""
        return self._apply("view", dtype)

    def reshape(self, *shape: Any, **options: Any) -> Array:
        """Return the elements in another shape, which is one tuple or several sizes."""
        return self._apply("reshape", shape[0] if len(shape) == 1 else shape, **options)

    def transpose(self, *axes: Any) -> Array:
        """Return the array with its axes in an order, which is one tuple or several axes; by default reversed."""
        return self._apply("transpose", axes[0] if len(axes) == 1 else axes or None)

    def flatten(self, **options: Any) -> Array:
        """Return the elements as a new vector."""
        return self._apply("reshape", (-1,), **options).copy()

    def ravel(self, **options: Any) -> Array:
        """Return the elements as a vector."""
        return self._apply("reshape", (-1,), **options)

    def copy(self) -> Array:
        """Return a new array with these elements, so that assignments to one do not change the other."""
        return Array(self.program_trace, self.tensor)


class _View:
    """Link of an array of a traced program, a view, to the array whose elements it shows.

    A traced tensor never changes: a view is computed again where NumPy would share memory. `Array.as_view_of`
    creates the link. `Array.tensor` computes the view again if `is_outdated`, and then calls `mark_current`; an
    assignment to the view is also made in the owner. For `y = x[2:4]`, the owner is x, and the index is `slice(2, 4)`.

    Attributes:
        owner: The array whose elements the view shares.
        derive: Computes the view again from the current elements of the owner.
        index: Index of the view's elements in the owner; None if they have no index, as in a transposed array, to
            which nothing can be assigned.
    """

    def __init__(self, owner: Array, derive: Callable[[], Array], index: Any) -> None:
        """Create the view, which is current. For the arguments see the attributes of the class."""
        self.owner, self.derive, self.index = owner, derive, index
        self.mark_current()

    @property
    def is_outdated(self) -> bool:
        """Whether the owner was assigned to since the elements of the view were computed or assigned."""
        return self._assignments_when_derived != self._count_owner_assignments()

    def mark_current(self) -> None:
        """Record that the view shows the owner's current elements, so that only later assignments make it outdated."""
        self._assignments_when_derived = self._count_owner_assignments()

    def _count_owner_assignments(self) -> int:
        """Return the number of assignments to the owner, and to the arrays that it is a view of."""
        view_of_owner = self.owner._view  # the owner may be a view itself
        return self.owner._assignments + (0 if view_of_owner is None else view_of_owner._count_owner_assignments())


_VIEWS = {"reshape", "ravel", "transpose", "permute_dims", "matrix_transpose", "swapaxes", "moveaxis", "expand_dims",
          "squeeze", "broadcast_to", "split", "flip", "view", "real", "imag"}  # fmt: skip
"""Functions whose results share elements with their first argument in NumPy. After an assignment to it, the results are
computed again; uses of reshaped ones are refused."""

_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "out": (None,), "where": (True, np._NoValue), "initial": (np._NoValue,), "order": ("C", "K", None),
    "mode": ("raise",), "dtype": (None,), "casting": ("unsafe", "same_kind"), "like": (None,), "device": (None,),
}  # fmt: skip
"""Options of NumPy functions with the values that request the default behavior, which handlers need not take."""


def _is_default(option: str, value: Any) -> bool:
    """Return whether a value of a NumPy option requests the default behavior, so that handlers need not take it."""
    if option in ("kind", "stable", "copy", "subok", "optimize"):
        return True  # they say how to compute a result, not which; every sort is stable
    return any(
        value is default or (isinstance(value, str) and value == default) for default in _DEFAULTS.get(option, ())
    )


def _method(name: str) -> Callable[..., Any]:
    """Return an array method that calls the NumPy function with the same name."""

    def method(self: Array, *args: Any, **options: Any) -> Any:
        """Record a call of the NumPy function `name` with this array and further arguments."""
        return self._apply(name, *args, **options)

    method.__name__ = name
    return method


METHODS = ("sum", "prod", "mean", "std", "var", "max", "min", "argmax", "argmin", "all", "any", "cumsum", "cumprod",
           "clip", "squeeze", "swapaxes", "erf", "take", "repeat", "round", "dot", "conj", "trace")  # fmt: skip
"""Methods of an array that call the NumPy function of the same name."""
for _each in METHODS:
    setattr(Array, _each, _method(_each))

_LIST_OF_FUNCTIONS = "docs/python-programs.md lists the functions that are"
"""Note of errors about functions that programs lack."""


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """Return the NumPy dtype of an element type, from ml_dtypes if NumPy has none."""
    if dtype.has_numpy_values:
        return dtype.numpy
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, BY_MLIR[dtype.name].name))


def arrays_of(trace: Trace, tensors: Iterable[Tensor]) -> list[Array]:
    """Return traced arrays of tensors."""
    return [Array(trace, tensor) for tensor in tensors]


def is_size(value: Any) -> bool:
    """Return whether a value is an integer or a symbolic size."""
    return isinstance(value, (int, np.integer, Expr)) and not isinstance(value, bool)


def as_size(value: Any) -> Size:
    """Return an integer of Python or NumPy as an int, and a symbolic size unchanged. Raise TypeError for others."""
    return value if isinstance(value, Expr) else operator.index(value)


def shape_of(value: Any) -> Sequence[Any]:
    """Return a shape as a list; a single size is a shape of one dimension."""
    return [as_size(size) for size in ([value] if is_size(value) else value)]
