"""Functions that a generating program exports, and their sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from pydispatch.errors import InvalidArgumentError

ARGUMENTS = (
    ("tokens", np.dtype(np.int32), 2),
    ("starts", np.dtype(np.int32), 1),
    ("counts", np.dtype(np.int32), 1),
    ("pages", np.dtype(np.int32), 2),
    ("temperature", np.dtype(np.float32), 1),
    ("top_k", np.dtype(np.int32), 1),
    ("top_p", np.dtype(np.float32), 1),
    ("seeds", np.dtype(np.int32), 1),
)
"""Name, element type and rank of each argument of `prefill` and `decode`; `CallArrays` says what they hold.

The first size of each is the number of rows, sequences of the call.
"""


class Exports(Protocol):
    """The functions of a program by name, as `pydispatch.Program` has them."""

    def __contains__(self, name: object, /) -> bool: ...
    def __getitem__(self, name: str, /) -> Any:
        """Return the function of this name."""


class StepArgument(Protocol):
    """An argument of a function: element type, and sizes. A str in the sizes names a dynamic size; a scalar has None
    instead of sizes.
    """

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy type of the elements."""

    @property
    def shape(self) -> tuple[int | str, ...] | None:
        """Size of each axis: an int, or the name of a dynamic size, such as ("rows", 1). None for a scalar."""


class StepFunction(Protocol):
    """A function `prefill` or `decode`, which computes a step of the generation: one call of the program."""

    @property
    def inputs(self) -> Sequence[StepArgument]:
        """The arguments, in order."""

    def prepare(self, *args: Any, out: Any) -> Callable[[], Any]:
        """Bind the arrays `args` as arguments and `out` as result, and return a function without arguments.

        A call of it runs the step on the contents that the arrays have at that time, and writes the result to `out`.
        """


class GeneratingProgram:
    """A program that generates tokens, with its sizes.

    Attributes:
        program: The program itself.
        prefill: Function that takes several tokens of one sequence.
        decode: Function that takes one token of each of several sequences.
        chunk: Tokens of a call of `prefill`, at most.
        rows: Sequences of a call of `decode`, at most.
        table_pages: Pages of one sequence, at most.
        page_count: Pages of the cache, with the scrap page, to which keys and values of padding tokens are written.
        page_size: Tokens of a page.
    """

    def __init__(self, program: Exports) -> None:
        """Read the sizes of the program: from the parameters of `decode`, `rows`, the sequences of a call; from those
        of `prefill`, `chunk`, the prompt tokens of a call, and `table_pages`, the pages of a sequence at most; from the
        result of `cache_shape`, `page_count` and `page_size`, the pages of the cache and the tokens of a page.

        Raises:
            InvalidArgumentError: The program lacks a function, or a function has other arguments.
        """
        for name in ("prefill", "decode", "cache_shape"):
            if name not in program:
                raise InvalidArgumentError(
                    f"the program has no function '{name}'; an engine needs prefill, decode and cache_shape"
                )
        self.program = program
        self.prefill: StepFunction = program["prefill"]
        self.decode: StepFunction = program["decode"]
        prompts, self.chunk, self.table_pages = _sizes("prefill", self.prefill)  # prompts: rows, which must be 1
        self.rows, width, decode_pages = _sizes("decode", self.decode)
        if prompts != 1 or width != 1 or self.table_pages != decode_pages:
            raise InvalidArgumentError(
                "expected prefill with tokens[1, T], decode with tokens[S, 1], and page tables of equal width; got "
                f"prefill with tokens[{prompts}, {self.chunk}] and {self.table_pages} pages, and decode with "
                f"tokens[{self.rows}, {width}] and {decode_pages} pages"
            )
        self.page_count, self.page_size = _cache_shape(program["cache_shape"]())

    @property
    def max_tokens(self) -> int:
        """Tokens of one sequence, at most: what its page table and the cache can hold."""
        return min(self.table_pages, self.page_count - 1) * self.page_size  # - 1: the scrap page holds no tokens


def _sizes(name: str, function: StepFunction) -> tuple[int, int, int]:
    """Return (rows, tokens of a row, entries of a row's page table) of a step function; a row is one sequence.

    name: the function's name for errors. Raise InvalidArgumentError unless its arguments are those of ARGUMENTS, with
    static sizes of at least 1 and an equal number of rows.
    """
    inputs = function.inputs
    shapes: dict[str, tuple[int, ...]] = {}
    if len(inputs) != len(ARGUMENTS):
        raise InvalidArgumentError(f"@{name}: expected {len(ARGUMENTS)} arguments: {_signature()}; got {len(inputs)}")
    for value, (argument, dtype, rank) in zip(inputs, ARGUMENTS, strict=True):
        # Names of dynamic sizes are left out, so that the shape differs and is refused.
        shape = tuple(size for size in value.shape or () if isinstance(size, int))
        is_static = value.shape == shape and 0 not in shape
        if value.dtype != dtype or len(shape) != rank or not is_static:
            raise InvalidArgumentError(
                f"@{name}: {argument}: expected {dtype} of rank {rank} with static sizes from 1, got {value.dtype}"
                f"{list(value.shape or ())}; the arguments are {_signature()}"
            )
        shapes[argument] = shape
    rows = {shape[0] for shape in shapes.values()}  # axis 0 of every argument counts the sequences
    if len(rows) != 1:
        listed = list(shapes.values())
        raise InvalidArgumentError(f"@{name}: expected an equal number of rows in all arguments, got {listed}")
    row_count, tokens = shapes["tokens"]
    _, pages = shapes["pages"]
    return row_count, tokens, pages


def _signature() -> str:
    """Return the arguments of `prefill` and `decode` as text for errors."""
    return ", ".join(f"{name}: {dtype}[{'rows' if rank == 1 else 'rows, n'}]" for name, dtype, rank in ARGUMENTS)


def _cache_shape(value: Any) -> tuple[int, int]:
    """Return (number of pages, tokens of a page) from the result of `cache_shape`.

    The pages include the scrap page, to which padding tokens are written. Raise InvalidArgumentError unless the result
    has two integers, at least 2 and at least 1.
    """
    shape = np.asarray(value)
    are_two_integers = shape.shape == (2,) and np.issubdtype(shape.dtype, np.integer)
    if not are_two_integers or shape[0] < 2 or shape[1] < 1:
        raise InvalidArgumentError(
            "@cache_shape: expected two integers: the number of pages, at least 2 with the scrap page, and the tokens "
            f"of a page; got {shape.dtype}{shape.tolist()}"
        )
    return int(shape[0]), int(shape[1])
