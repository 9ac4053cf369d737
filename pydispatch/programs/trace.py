"""Builder of the program that a traced function records, and the source lines of its operations."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np
from xdsl.ir import Operation, SSAValue

from pydispatch.errors import CompileError, InvalidArgumentError
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import DTYPES, DType, dtype_of_numpy
from pydispatch.graph.sizes import Expr, Shape, Size, symbols_of
from pydispatch.graph.values import Tensor
from pydispatch.ir.core.locations import CodeLoc

_NOT_THE_USERS = tuple(
    str(folder) for path in (Path(__file__).parents[1], Path(np.__file__).parent) for folder in (path, path.resolve())
)
"""Folders of this package and of NumPy, as frames name them: through links or not."""
LARGEST_CONSTANT = 64
"""Largest number of elements of an array that is a constant in the program; larger arrays are weights."""

MAX_OPERATIONS = 1 << 16
"""Operations on arrays of one program. More of them compile for minutes; fewer would refuse programs of long loops."""

_running: list[Trace] = []
"""Traces of the programs that are being recorded, innermost last."""


class Copied(NamedTuple):
    """Copy of an array of the user whose elements may change after their use in a program.

    Attributes:
        array: The array, which is referenced so that its id stays unique.
        copy: Its elements when it was used.
        previous: Copy from before the elements changed, if they did. It is referenced so that its id stays unique, too.
    """

    array: np.ndarray[Any, Any]
    copy: np.ndarray[Any, Any]
    previous: Copied | None


def is_frozen(array: np.ndarray[Any, Any]) -> bool:
    """Return whether the elements of an array cannot change.

    It and every array that it is a view of are read-only, and so is the object that owns the memory, such as bytes or a
    read-only mapping of a file. A read-only view of a bytearray is not frozen.
    """
    base: Any = array
    while isinstance(base, (np.ndarray, memoryview)):
        if isinstance(base, memoryview):
            base = base.obj  # whose memory may be writable although the view is read-only
        elif base.flags.writeable:
            return False
        else:
            base = base.base
    return base is None or _is_read_only_buffer(base)


def _is_read_only_buffer(owner: object) -> bool:
    """Return whether an object has a buffer that nothing can write to; False for an object without a buffer."""
    try:
        with memoryview(owner) as view:  # type: ignore[arg-type]
            return view.readonly
    except (TypeError, ValueError, BufferError):
        return False


def _has_numbers(array: np.ndarray[Any, Any]) -> bool:
    """Return whether all elements are numbers, of NumPy or ml_dtypes, or symbolic sizes of the program."""
    if array.dtype == object:  # without elements it may be of objects other than sizes
        return all(isinstance(element, (int, np.integer, Expr)) for element in array.flat) and array.size > 0
    is_of_ml_dtypes = array.dtype.kind == "V" and array.dtype.type is not np.void
    return array.dtype.kind in "biufc" or is_of_ml_dtypes


def _shown(value: Any) -> str:
    """Return the text of a value in a message, cut after 100 characters."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}... ({type(value).__name__})"


def _has_equal_bytes(copy: np.ndarray[Any, Any], array: np.ndarray[Any, Any]) -> bool:
    """Return whether an array still has the elements of its copy, compared as bytes, so that NaN equals itself."""
    if copy is array:
        return True
    if copy.shape != array.shape or copy.dtype != array.dtype:
        return False
    now = np.ascontiguousarray(array)
    return np.array_equal(copy.reshape(-1).view(np.uint8), now.reshape(-1).view(np.uint8))


class Trace(Builder):
    """Builder of the program of one traced function: the operations on traced arrays are recorded in it.

    Operations are recorded inside `with trace.running()`. Handlers of NumPy's functions get tensors by `tensor_of`, add
    operations to the program, and wrap the results. An error of an operation gets the user's line inside
    `with trace.operation(...)`.

    Args:
        filename: File of the function, for the locations of errors.
        weights: "embed" stores large constants in the artifact, "external" does not.
        copies: Copies of arrays of an earlier trace of the function; None for its first trace.
        state_names: Names that states (`state.State`) have already in the module; None for none.
    """

    def __init__(
        self, filename: str, weights: str = "embed", copies: dict[int, Copied] | None = None,
        state_names: dict[Any, str] | None = None,
    ) -> None:  # fmt: skip
        """Begin with an empty program. For the parameters, see the class."""
        super().__init__(filename, weights)
        self.copies: dict[int, Copied] = {} if copies is None else copies
        """Arrays of the user by their id: several traces of one function share the copies."""
        self._traced_constants: dict[int, Tensor] = {}  # id of the copy of an array of the user → its tensor
        self.shapes: dict[SSAValue, Shape] = {}
        """Shapes of the SSA values of the program. A size that is known only in a call is a symbolic expression."""
        self.results: dict[str, Tensor] = {}  # results of the finished program, by name
        self.differentiations = 0  # nesting depth of the functions that are being recorded for their derivatives
        self.stated_calls: list[Any] = []
        """Calls of programs that state their own derivative (`derivatives.stated.StatedCall`), recorded while a
        function is differentiated. The marker operation of each call has its index in this list."""
        self._replacements: dict[SSAValue, SSAValue] = {}  # results of erased operations → values in their place
        self.state_names: dict[Any, str] = {} if state_names is None else state_names
        """Name of each state (`state.State`) in the module; programs that share states share this mapping."""
        self.states: Any = None
        """State variables of the program (`state.States`); None without any."""
        self._operations_of: Counter[CodeType] = Counter()  # number of array operations of each calling function
        self._operation_count = 0

    def wrap(self, dtype: DType, shape: Sequence[Size], *parts: SSAValue) -> Tensor:
        """Return a tensor of SSA values, and record its shape for each of them."""
        self.shapes |= dict.fromkeys(parts, tuple(shape))
        return super().wrap(dtype, shape, *parts)

    def parts(self, of: Tensor) -> tuple[SSAValue, ...]:
        """Return the SSA values of a tensor as `Builder.parts` does, but replace results of erased operations."""
        return tuple(map(self._present, super().parts(of))) if self._replacements else super().parts(of)

    def _present(self, value: SSAValue) -> SSAValue:
        """Return the value in place of one whose operation was erased; other values are returned unchanged."""
        while value in self._replacements:
            value = self._replacements[value]
        return value

    def replace(self, op: Operation, values: Sequence[SSAValue]) -> None:
        """Erase an operation, and use values in place of its results, also in tensors that were wrapped before."""
        for result, value in zip(op.results, values, strict=True):
            result.replace_all_uses_with(value)
            self._replacements[result] = value
        op.detach()
        op.erase()

    def has_sizes_outside(self, shape: Sequence[Size], op: Operation) -> bool:
        """Return whether the values of all symbols in a shape are computed outside of an operation with regions.

        Only then can the sizes be used after the operation.
        """
        symbols = {name for size in shape for name in symbols_of(size)}
        owners = [self._symbols[name].owner for name in symbols]
        return not any(op.is_ancestor(owner) for owner in owners)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Record operations on traced arrays in this program within the `with` block."""
        _running.append(self)
        try:
            yield
        finally:
            _running.pop()

    @contextmanager
    def here(self) -> Iterator[None]:
        """Attribute operations in the `with` block to the line of the user's source that is running.

        Raise CompileError for arrays of another program, whose trace is not running.
        """
        frame = _users_frame()
        with self.at(_location(frame)):
            if self not in _running:  # the arrays belong to this program, but another one is being traced
                raise self._foreign_array_error()
            self._count_operation(frame)
            yield

    def _count_operation(self, frame: FrameType | None) -> None:
        """Count an operation of the function that is running. Raise CompileError if there are more than
        MAX_OPERATIONS.
        """
        self._operation_count += 1
        if frame is not None:
            self._operations_of[frame.f_code] += 1
        if self._operation_count > MAX_OPERATIONS:
            code, count = self._operations_of.most_common(1)[0]
            raise self.fail(
                f"more than {MAX_OPERATIONS:,} operations on arrays, {count:,} of them in calls of '{code.co_name}' "
                f"({Path(code.co_filename).name}, line {code.co_firstlineno})",
                "repeat with pydispatch.loop, or pass on the result of one call; each call of a function adds its "
                "operations to the program once more",
            )

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Translate exceptions of an operation on arrays into CompileError at the line that is running.

        The operation must not call functions of the user, whose exceptions would be translated too.
        """
        with self.here():
            try:
                yield
            except (CompileError, InvalidArgumentError, RecursionError, MemoryError):
                raise
            except Exception as error:
                text = f"{name}: its operands do not fit each other: {type(error).__name__}: {error}"
                raise self.fail(text, "docs/python-programs.md says what programs take") from error

    def _foreign_array_error(self) -> CompileError:
        """Return the error for an array of another trace, at the line that uses it."""
        running = _running[-1] if _running else self
        with running.at(_location(_users_frame())):
            return self.fail(
                "an array of another program, or of an earlier trace, is used",
                "arrays of a trace end with it: pass the value as an argument, or compute it here",
            )

    @property
    def scope(self) -> Any:
        """Scope of the block that operations are added to, of the program or of a branch or loop; None without a block.

        A new array belongs to this scope, and can be assigned to only in it.
        """
        return self._scopes[-1] if self._scopes else None

    @property
    def outermost_scope(self) -> Any:
        """Scope of the block of the program, outside of all branches and loops."""
        return self._scopes[0]

    def tensor_of(self, value: Any, dtype: DType | None = None) -> Tensor:
        """Return a traced array, an array of NumPy, a number, or a size, as a tensor.

        dtype: type of a number or a size; None for NumPy's choice, and i64 for a size. Arrays keep their own types.
        """
        traced = getattr(value, "tensor", None)
        if isinstance(traced, Tensor):
            if getattr(value, "program_trace", self) is not self:
                raise self._foreign_array_error()
            return traced
        if isinstance(value, Expr):
            return self.constant(value, dtype if dtype is not None and dtype.is_integer else DTYPES["i64"])
        if isinstance(value, (bool, int, float, complex, np.generic)):
            return self.constant(value, dtype or dtype_of_numpy(np.asarray(value)))
        # Anything else that NumPy takes, such as lists of numbers or of sizes.
        try:
            array = np.asarray(value)
        except CompileError:
            raise
        except Exception as error:
            raise self.fail(f"expected an array or a number, got {_shown(value)}: {error}") from None
        if not _has_numbers(array):
            raise self.fail(
                f"expected an array or a number, got {_shown(value)}",
                "programs compute with numbers: no texts, dates, generators and other objects",
            )
        return self._shared_constant(array)

    def _shared_constant(self, array: np.ndarray[Any, Any]) -> Tensor:
        """Return an array of NumPy as a tensor: a constant in the program, or, if it has more than LARGEST_CONSTANT
        elements, a weight, a named array that is stored next to the program.

        An array that is used again has the tensor of its first use, unless its elements were changed since. An array of
        objects holds sizes of the program, and is a constant.
        """
        if array.dtype == object:
            return self.constant(array)
        # The tensors are found by the copies, not by the arrays: an array whose elements have changed has a new copy.
        copy = self._shared_copy(array)
        tensor = self._traced_constants.get(id(copy))
        if tensor is None:
            dtype = dtype_of_numpy(array)
            if array.size <= LARGEST_CONSTANT:
                tensor = self.constant(copy, dtype)
            else:
                tensor = self.weight(f"constant{len(self._traced_constants)}", copy, dtype)
            self._traced_constants[id(copy)] = tensor
        return tensor

    def _shared_copy(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the elements of an array as they are now, in C order: a copy, or the array itself if it cannot change.

        An array that is used again, unchanged, has the copy of its first use.
        """
        known = self.copies.get(id(array))
        if known is None or not _has_equal_bytes(known.copy, array):
            copy = np.ascontiguousarray(array) if is_frozen(array) else np.array(array, order="C")
            copy = copy.reshape(array.shape)  # ascontiguousarray returns an array of rank 0 with an axis
            # The array and all of its copies stay alive, so that no other object gets their ids.
            known = self.copies[id(array)] = Copied(array, copy, previous=known)
        return known.copy


def current() -> Trace | None:
    """Return the trace of the innermost program that is being recorded; None outside of tracing."""
    return _running[-1] if _running else None


def _users_frame() -> FrameType | None:
    """Return the innermost frame of the user's functions; None without one.

    Frames of this package, of NumPy and of contextlib are inside of it, and are skipped.
    """
    frame: FrameType | None = sys._getframe(2)  # without this function and its caller
    while frame is not None and (
        frame.f_code.co_filename.startswith(_NOT_THE_USERS) or "contextlib" in frame.f_code.co_filename
    ):
        frame = frame.f_back
    return frame


def _location(frame: FrameType | None) -> CodeLoc | str:
    """Return the location of the expression that a frame runs; without a frame, the location of the whole program."""
    return "" if frame is None else CodeLoc(frame.f_code, frame.f_lasti, frame.f_lineno)
