"""Symbolic sizes for functions that compute a grid: arithmetic emits operations, and comparisons emit branches.

A function that compares sizes is called once for each combination of results of its comparisons.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydispatch.errors import InvalidArgumentError
from pydispatch.kernels.source import Source
from pydispatch.kernels.writer import Writer

MAX_CASES = 64
"""Maximum number of combinations of comparison results of one grid function: the host's code has a branch for each."""


class _Undecided(BaseException):
    """Exception that ends a call of a grid function at a comparison for which the call assumes no result yet.

    condition: SSA name of the comparison's result, an i1. The base is BaseException, so that `except Exception` in
    functions of users does not catch it.
    """

    def __init__(self, condition: str) -> None:
        """Create the exception that ends a call at a comparison. condition: the SSA name of its result."""
        super().__init__(condition)
        self.condition = condition


@dataclass
class GridCall:
    """Emission state of one call of a function that computes a grid.

    Attributes:
        writer: Writer of the operations of this call.
        decided: Assumed results of the first comparisons that the function makes, in order. A comparison after these
            raises `_Undecided`.
        compared: Number of comparisons that the function has made so far.
    """

    writer: Writer
    decided: Sequence[bool] = ()
    compared: int = 0

    def compare(self, predicate: str, lhs: Size, rhs: Size) -> bool:
        """Return the result that this call of the grid function assumes of a comparison.

        If it assumes none yet, emit the comparison and raise _Undecided: the function is then called again for each of
        the two results. predicate: the predicate of arith.cmpi, such as "slt" (signed less than).
        """
        self.compared += 1
        if self.compared > len(self.decided):
            condition = self.writer.value(f"arith.cmpi {predicate}, {lhs.name}, {rhs.name} : index", "i1")
            raise _Undecided(condition.name)
        return self.decided[self.compared - 1]

    def constant(self, value: int) -> Size:
        """Return an integer constant as a size."""
        return Size(self, self.writer.constant(value, "index").name)


class Size:
    """Size of a view that is known in calls only, or result of arithmetic on sizes; arithmetic on it emits operations.

    call: the call of the grid function that it belongs to. name: its SSA name, a value of type index.
    """

    __hash__ = None  # type: ignore[assignment]  # == depends on the assumed results of comparisons

    def __init__(self, call: GridCall, name: str) -> None:
        """Take the call that the size belongs to, and the SSA name of the size."""
        self.call, self.name = call, name

    def __repr__(self) -> str:
        """Return the text for errors about grids: no number is known while the grid function is compiled."""
        return "a size"

    def _binary(self, operation: str, other: object, is_reversed: bool = False) -> Size:
        """Emit a binary operation with another size or int. With `is_reversed` the other operand is the first one."""
        if isinstance(other, int):
            other = self.call.constant(other)
        if not isinstance(other, Size):
            return NotImplemented
        a, b = (other, self) if is_reversed else (self, other)
        return Size(self.call, self.call.writer.value(f"{operation} {a.name}, {b.name} : index", "index").name)

    def _comparison(self, predicate: str, other: object) -> bool:
        """Return the result that this call assumes of a comparison with another size or whole number.

        Another call of the grid function assumes the other result: the emitted code has a branch for each. predicate:
        that of arith.cmpi, such as "slt" (signed less than).
        """
        if not isinstance(other, Size):
            if not hasattr(other, "__index__"):  # without an error, == of a float would compare identities
                raise TypeError(f"a size is compared with {other!r}, which is no whole number")
            other = self.call.constant(operator.index(other))
        return self.call.compare(predicate, self, other)

    def __add__(self, other: object) -> Size:
        return self._binary("arith.addi", other)

    def __radd__(self, other: object) -> Size:
        return self._binary("arith.addi", other, is_reversed=True)

    def __sub__(self, other: object) -> Size:
        return self._binary("arith.subi", other)

    def __rsub__(self, other: object) -> Size:
        return self._binary("arith.subi", other, is_reversed=True)

    def __mul__(self, other: object) -> Size:
        return self._binary("arith.muli", other)

    def __rmul__(self, other: object) -> Size:
        return self._binary("arith.muli", other, is_reversed=True)

    def __floordiv__(self, other: object) -> Size:
        return self._binary("arith.floordivsi", other)

    def __rfloordiv__(self, other: object) -> Size:
        return self._binary("arith.floordivsi", other, is_reversed=True)

    def __mod__(self, other: object) -> Size:
        return self - self // other * other

    def __rmod__(self, other: object) -> Size:
        return other - other // self * self

    def __neg__(self) -> Size:
        return self._binary("arith.subi", 0, is_reversed=True)

    def __lt__(self, other: object) -> bool:
        return self._comparison("slt", other)

    def __le__(self, other: object) -> bool:
        return self._comparison("sle", other)

    def __gt__(self, other: object) -> bool:
        return self._comparison("sgt", other)

    def __ge__(self, other: object) -> bool:
        return self._comparison("sge", other)

    def __eq__(self, other: object) -> bool:
        return self._comparison("eq", other)

    def __ne__(self, other: object) -> bool:
        return self._comparison("ne", other)

    def __bool__(self) -> bool:
        return self._comparison("ne", 0)


def emit_grid(
    source: Source, first_call: GridCall, counts_of: Callable[[GridCall], list[Size | int]]
) -> list[Size | int]:
    """Emit the computation of a grid function, and return the number of workgroups along the three axes.

    The function runs in Python with symbolic sizes, whose arithmetic emits operations. A comparison needs a result,
    which is not known yet: the function is called again for each of the two, and both computations become branches.
    `lambda x: x.shape[0] // 4 if x.shape[0] > 100 else 1` becomes, without the constants:

        %2 = arith.cmpi sgt, %n, %c100 : index
        %4:3 = scf.if %2 -> (index, index, index) {
          %3 = arith.floordivsi %n, %c4 : index
          scf.yield %3, %c1, %c1 : index, index, index
        } else {
          scf.yield %c1, %c1, %c1 : index, index, index
        }

    Args:
        source: Source of the kernel, for errors.
        first_call: State of the first call, without assumed results of comparisons.
        counts_of: Calls the grid function with the symbolic sizes of a state.

    Raises:
        InvalidArgumentError: The grid function raises, or has more than `MAX_CASES` combinations of comparisons.
    """
    try:
        return _GridCases(source, counts_of).emit(first_call)
    except InvalidArgumentError:
        raise
    except Exception as error:
        raise grid_error(source, error) from error


def grid_error(source: Source, error: Exception) -> InvalidArgumentError:
    """Return the error for a grid function that has raised `error`."""
    names = ", ".join(source.parameter_names)
    return InvalidArgumentError(
        f"kernel '{source.name}': grid: {error}; it is called with the kernel's parameters ({names}) and computes "
        f"with + - * // % and comparisons of their sizes; parameters that are numbers are None"
    )


class _GridCases:
    """Emitter of the cases of a grid function: one for each combination of results of its comparisons of sizes.

    Attributes:
        source: Source of the kernel, for errors.
        counts_of: Calls the grid function with the symbolic sizes of a state.
        count: Number of cases so far.
    """

    def __init__(self, source: Source, counts_of: Callable[[GridCall], list[Size | int]]) -> None:
        """Begin with one case. For the parameters, see the class."""
        self.source, self.counts_of, self.count = source, counts_of, 1

    def emit(self, call: GridCall) -> list[Size | int]:
        """Return the number of workgroups along each axis if the first comparisons have the results `call.decided`.

        The grid function is called with symbolic sizes; a comparison of two takes its result from `call.decided`, in
        order. If the function makes one more comparison, an scf.if on it is emitted, with a branch for either result.

        Raises:
            InvalidArgumentError: There are more than `MAX_CASES` cases.
        """
        try:
            return self.counts_of(call)
        except _Undecided as undecided:  # the operations that the call has emitted so far compute the condition
            condition = undecided.condition
        self.count += 1
        if self.count > MAX_CASES:
            raise InvalidArgumentError(
                f"kernel '{self.source.name}': grid: comparisons of sizes have more than {MAX_CASES} cases; compute "
                "with + - * // instead, or give the grid in the call, kernel[x, y]"
            )
        branches = [self._branch(call, is_true=True), self._branch(call, is_true=False)]
        assignment, results = call.writer.results(["index"] * 3)  # `%5:3 = `, and the three names
        call.writer.branches(f"{assignment}scf.if {condition} -> (index, index, index)", *branches)
        return [Size(call, result.name) for result in results]

    def _branch(self, call: GridCall, is_true: bool) -> Writer:
        """Emit a branch that yields the numbers if the next comparison is true, or false; return its writer."""
        writer = call.writer.nested()
        counts = self.emit(GridCall(writer, [*call.decided, is_true]))
        names = [count.name if isinstance(count, Size) else writer.constant(count, "index").name for count in counts]
        writer.line(f"scf.yield {', '.join(names)} : index, index, index")
        return writer
