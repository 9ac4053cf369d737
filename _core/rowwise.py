"""Batching of requests into one call: arguments with one row per request, and the test that rows are independent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydispatch._core.interface import Interface
from pydispatch._core.status import InvalidArgumentError

if TYPE_CHECKING:
    from pydispatch._core.interface import ValueInfo

Row = tuple[Any, ...]
"""The arguments of a request in order, without constants: arrays, and numbers."""

Key = tuple[Any, ...]
"""Values that requests must have in common to share a call: the sizes that the function leaves open, and numbers."""

KINDS = 4096
"""Number of `Key` values for which the result of the independence check (do rows influence each other?) is cached.

A larger cache takes more memory; a smaller one repeats checks."""

ROWS = 8
"""Maximum number of different rows that an independence check uses."""


@dataclass(frozen=True)
class Argument:
    """An argument that each request supplies, in contrast to constants.

    position: index among the function's arguments, from 0. text: how errors name it, such as "@f: argument 0 'x'".
    name: "" if it has none. tail: all sizes but the first, None for a dynamic size; an argument that is a number has
    None in place of the tuple.
    """

    position: int
    text: str
    name: str
    dtype: np.dtype[Any]
    tail: tuple[int | None, ...] | None


class Stacking:
    """Caller of a function with the rows of several requests stacked along dimension 0.

    constants: values of the arguments that all requests share, by name or position. max_batch: maximum number of rows
    of a call. tolerance: largest accepted difference between a row in a stacked call and in a call of its own, relative
    to the largest element of the result. Raises InvalidArgumentError for a function whose arguments or results cannot
    be stacked.

    Before requests of several callers share a call for the first time, `refusal` checks that they may. Then `run` makes
    a call, or `submit` starts one whose results `result_of` returns.
    """

    def __init__(
        self, function: Any, constants: Mapping[str | int, Any], max_batch: int = 1, tolerance: float = 0.0
    ) -> None:
        """Determine which arguments are stacked, and check that rows can be. For the parameters, see the class."""
        self._function, self._tolerance = function, tolerance
        self._text = Interface(function.name, tuple(function.inputs), tuple(function.outputs)).text()
        self._checked: dict[Key, InvalidArgumentError | Literal[True]] = {}
        self.name: str = function.name
        self._constants = self._constants_by_position(constants)
        self.arguments = [
            self._argument(i, value) for i, value in enumerate(function.inputs) if i not in self._constants
        ]
        self.fixed: int | None = self._fixed_batch_size(function.inputs)
        """Number of rows of every call if the program was compiled for one; None if it takes any number."""
        if not function.outputs or any(value.shape is None for value in function.outputs):
            raise self._cannot_batch("every result must be a tensor with a row per request")
        self.max_batch = min(max_batch, self.fixed or max_batch)

    def _argument(self, position: int, value: ValueInfo) -> Argument:
        """Return the argument of requests at a position among the function's arguments."""
        text = f"@{self.name}: argument {position}" + (f" '{value.name}'" if value.name else "")
        tail = None if value.shape is None else _trailing_sizes(value.shape)
        return Argument(position, text, value.name, value.dtype, tail)

    def _fixed_batch_size(self, inputs: Sequence[ValueInfo]) -> int | None:
        """Return the size of dimension 0 of the arguments of requests if it is static; None if it is dynamic.

        inputs: the function's arguments. Raise InvalidArgumentError if they have no common dimension 0 for rows.
        """
        stacked = {a.position: inputs[a.position].shape or () for a in self.arguments if a.tail is not None}
        if not stacked:
            raise self._cannot_batch("no argument is a tensor that is given by requests")
        for position, shape in stacked.items():
            if not shape:
                raise self._cannot_batch(f"argument {position} has no dimension 0; give it in constants=")
        sizes = {shape[0] for shape in stacked.values()}
        fixed = {size for size in sizes if isinstance(size, int)}  # the static ones; the others are names
        if fixed and len(sizes) > 1:
            raise self._cannot_batch(
                f"dimension 0 of its arguments is {' and '.join(map(str, sorted(sizes, key=str)))}; "
                "give those that are the same for all requests in constants="
            )
        # If another dimension has the same symbolic size, stacking rows would change that dimension, too.
        others = {n for shape in stacked.values() for n in shape[1:]}
        others |= {n for i in self._constants for n in inputs[i].shape or ()}
        if not fixed and sizes & others:
            raise self._cannot_batch("its batch size is the size of another dimension, too, so rows cannot be stacked")
        if fixed == {1}:
            raise self._cannot_batch(
                "it was compiled for a batch of one; compile it with an open batch size (tensor<?x...>, a symbolic or "
                "dynamic dimension in the framework)"
            )
        return fixed.pop() if fixed else None

    def _constants_by_position(self, constants: Mapping[str | int, Any]) -> dict[int, Any]:
        """Return the constants by argument position.

        Raise InvalidArgumentError for a name or position that does not exist or is given twice, and for no mapping.
        """
        if not isinstance(constants, Mapping):
            raise InvalidArgumentError(
                f"@{self.name}: constants: expected a dict of values by the names or positions of arguments, got "
                f"{constants!r}: {self._text}"
            )
        names = [value.name for value in self._function.inputs]
        by_position: dict[int, Any] = {}
        for key, value in constants.items():
            # -1: no argument, or more than one, has the name.
            position = key if isinstance(key, int) else names.index(key) if names.count(key) == 1 else -1
            if not 0 <= position < len(names) or position in by_position:
                raise InvalidArgumentError(
                    f"@{self.name}: constants: expected the names or positions of different arguments, got {key!r}: "
                    f"{self._text}"
                )
            by_position[position] = value
        return by_position

    def _cannot_batch(self, why: str) -> InvalidArgumentError:
        """Return the error for a function that cannot be batched, with the reason."""
        return InvalidArgumentError(f"@{self.name} cannot be batched: {why}: {self._text}")

    def run(self, rows: Sequence[Row], count: int) -> tuple[np.ndarray, ...]:
        """Call the function once with the rows of several requests, and return its results.

        count: rows of all requests together; results have as many. A function of a fixed batch size, such as 8, gets
        `8 - count` copies of the first row in addition, whose results are dropped.
        """
        return self._check_results(self._function(*self._stacked(rows, count)), count)

    def submit(self, rows: Sequence[Row], count: int) -> Any:
        """Submit a call with the rows of several requests, `count` rows in all; return its future, for `result_of`."""
        return self._function.submit(*self._stacked(rows, count))

    def result_of(self, future: Any, count: int) -> tuple[np.ndarray, ...]:
        """Wait for the future of `submit`, and return the first `count` rows of each result, or raise its error.

        count: rows of all requests together, as passed to `submit`.
        """
        return self._check_results(future.result(), count)

    def _stacked(self, rows: Sequence[Row], count: int) -> list[Any]:
        """Return the arguments of a call: constants, numbers, and the concatenated rows of all requests.

        count: rows of all requests together. If the function was compiled for more rows, copies of the first row
        follow them.
        """
        arguments: list[Any] = [None] * (len(self.arguments) + len(self._constants))
        for position, value in self._constants.items():
            arguments[position] = value
        missing = self.fixed - count if self.fixed else 0  # rows to add up to the fixed batch size
        for i, argument in enumerate(self.arguments):
            value = rows[0][i]
            if argument.tail is None:
                pass  # a number: only requests with equal numbers are in one batch
            elif missing or len(rows) > 1:
                stacked = np.empty((count + missing, *value.shape[1:]), argument.dtype)
                np.concatenate([row[i] for row in rows], out=stacked[:count])
                stacked[count:] = value[0]  # copies of the first row, whose results are dropped
                value = stacked
            else:
                value = np.ascontiguousarray(value)
            arguments[argument.position] = value
        return arguments

    def _check_results(self, returned: Any, count: int) -> tuple[np.ndarray, ...]:
        """Return the first `count` rows of each result, which belong to requests.

        returned: what the function returned, one array or a tuple. Raise InvalidArgumentError for a result without one
        row per row of the arguments.
        """
        results = tuple(map(np.asarray, returned if isinstance(returned, tuple) else (returned,)))
        row_count = self.fixed or count
        for i, result in enumerate(results):
            if result.shape[:1] != (row_count,):
                raise InvalidArgumentError(
                    f"@{self.name} cannot be batched: result {i} has the shape {result.shape} for {row_count} "
                    f"rows; every result must have a row per request"
                )
        return tuple(result[:count] for result in results) if row_count > count else results

    def types(self) -> list[tuple[np.dtype[Any], tuple[int, ...]]] | None:
        """Return each argument's element type and trailing sizes (all after the first), if all of them are static.

        Return None if an argument is a number or has a dynamic trailing size.
        """
        tails = [tuple(n for n in a.tail or () if n is not None) for a in self.arguments]
        if any(a.tail != tail for a, tail in zip(self.arguments, tails, strict=True)):
            return None
        return [(a.dtype, tail) for a, tail in zip(self.arguments, tails, strict=True)]

    def examples(self) -> list[Row] | None:
        """Return ROWS requests of one row each, of random numbers, for an independence check.

        Return None if an argument has dynamic sizes or is not a float: random integers may be invalid, such as indices
        outside of a table.
        """
        types = self.types()
        if types is None or not all(_is_float(dtype) for dtype, _ in types):
            return None
        rng = np.random.default_rng(0)
        return [tuple(rng.standard_normal((1, *tail)).astype(dtype) for dtype, tail in types) for _ in range(ROWS)]

    def refusal(self, key: Key, rows: Sequence[Row]) -> InvalidArgumentError | None:
        """Check whether requests with `key` can share a call. Return the error to raise if they cannot, else None.

        rows: arguments of example requests, each with one row or more. The check calls the function with their rows one
        by one and together. The result is cached by key, except when all rows of the check are equal: such rows cannot
        show that rows influence each other. An error of a call with these rows is raised.
        """
        checked = self._checked.get(key)
        if checked is not None:
            return None if checked is True else checked
        example = self._split_rows(rows)
        refusal = self._check_independence(example)
        # Rows are compared by the bytes of all their arguments.
        is_alike = len({b"".join(np.asarray(value).tobytes() for value in row) for row in example}) < 2
        if refusal is not None or not is_alike:
            if len(self._checked) >= KINDS:
                self._checked = {}  # bounded: keys contain numbers that requests pass, so each request may add one
            self._checked[key] = refusal or True
        return refusal

    def is_accepted(self, key: Key) -> bool:
        """Return whether a check has shown that requests with `key` can share a call."""
        return self._checked.get(key) is True

    def rows_of(self, row: Row) -> int:
        """Return the number of rows of a request: the length of an array among its values; numbers have no `tail`."""
        return next(len(value) for value, a in zip(row, self.arguments, strict=True) if a.tail is not None)

    def _split_rows(self, rows: Sequence[Row]) -> list[Row]:
        """Split requests into requests of one row each, at most ROWS."""
        single = []
        for row in rows[:ROWS]:
            for k in range(min(self.rows_of(row), ROWS)):
                values = zip(row, self.arguments, strict=True)
                single.append(tuple(value if a.tail is None else value[k : k + 1] for value, a in values))
        return single[:ROWS]

    def _check_independence(self, rows: Sequence[Row]) -> InvalidArgumentError | None:
        """Compare the results of stacked calls with the results of one call per row.

        Return the error if they differ by more than the tolerance, else None. rows: requests of one row each; calls of
        more rows repeat them.
        """
        singles = [self.run([row], 1) for row in rows]  # for each row its results
        for count in _row_counts(self.max_batch):
            # Each repetition starts one row later, so that a row is tried at several positions.
            # For three rows: 0 1 2, 1 2 0, 2 0 1, ...
            order = [(i + i // len(rows)) % len(rows) for i in range(count)]
            actual = self.run([rows[j] for j in order], count)
            for i, result in enumerate(actual):
                wanted = np.concatenate([singles[j][i] for j in order])
                difference = _difference(result, wanted)
                if difference > self._tolerance:
                    return InvalidArgumentError(self._difference_text(i, count, difference))
        return None

    def _difference_text(self, result: int, count: int, difference: float) -> str:
        """Return the error text for rows that influence each other.

        result: its index. count: rows in the call. difference: relative to the largest element of the result.
        """
        tolerance = self._tolerance
        allowed = f"more than the tolerance of {tolerance:g}" if tolerance else "where the same bits were expected"
        remedy = (
            "rows influence each other; call the function itself"
            if difference > 1e-2  # too large for rounding: no tolerance is suggested
            else f"if that is accurate enough, pass tolerance={2 * difference:.0e}, else call the function itself"
        )
        return (
            f"@{self.name} cannot be batched: result {result} of {count} rows in one call differs from calls of one "
            f"row by {difference:.1e} of its largest element, {allowed}; {remedy}"
        )


def _trailing_sizes(shape: Sequence[int | str]) -> tuple[int | None, ...]:
    """Return the sizes of a shape without the first, None for dynamic sizes."""
    return tuple(size if isinstance(size, int) else None for size in shape[1:])


def _is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether an element type is floating-point or complex, so that `standard_normal` can supply its values."""
    return dtype.kind in "fc" or dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def _row_counts(max_rows: int) -> list[int]:
    """Return the row counts, at most `max_rows`, of the stacked calls of an independence check, in ascending order.

    Kernels may compute differently for few rows and for partial blocks: powers of two and one less reach both cases.
    """
    tried = {2, 3, max_rows}
    count = 8
    while count <= max_rows:
        tried |= {count - 1, count}
        count *= 2
    return sorted(n for n in tried if n <= max_rows)


def _difference(actual: np.ndarray, wanted: np.ndarray) -> float:
    """Return the largest difference of an element, relative to the largest finite element of `wanted`.

    It is 0 only for equal bits: equal values of other bits, such as 0.0 and -0.0, have the smallest positive
    difference, 5e-324. It is infinite if shapes differ or only one of two elements is a NaN.
    """
    if actual.shape != wanted.shape:
        return float("inf")
    if actual.tobytes() == wanted.tobytes():
        return 0.0
    wide = np.complex128 if actual.dtype.kind == "c" else np.float64
    a, b = actual.astype(wide), wanted.astype(wide)
    with np.errstate(invalid="ignore"):
        errors = np.abs(a - b)
    errors[(np.isnan(a) & np.isnan(b)) | (a == b)] = 0  # equal infinities too
    # At least 1e-30, as all elements of the result may be 0.
    worst = float(np.max(errors)) / max(float(np.abs(b[np.isfinite(b)]).max(initial=0.0)), 1e-30)
    return max(worst, 5e-324) if worst == worst else float("inf")  # worst != worst: it is NaN
