"""Interfaces of functions (names, types and sizes), for users and tools."""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydispatch._core.status import ArtifactError

if TYPE_CHECKING:
    import inspect

    import numpy as np
    from pydispatch._core.arrays import ElementType

Shape = tuple[int | str, ...]
"""Sizes of a tensor, one per dimension; a dynamic size is given by a name, such as in `("batch", 4)`."""


class _UnquotedText(str):
    """Text whose repr has no quotes: the annotation of an argument or result in `inspect.signature`.

    `str(signature)` and `help` show the repr of annotations, and so show `float32[n]` instead of `'float32[n]'`.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class ValueInfo:
    """An argument or result of a function.

    name: "" for a result without a name. dtype: the NumPy type of an element, or of the number. shape: the sizes of a
    tensor, None for a number. A dynamic size is given by a name; sizes with the same name are equal.
    """

    name: str
    dtype: np.dtype[Any]
    shape: Shape | None

    @property
    def type(self) -> str:
        """Text of the type, such as `float32[batch, 4]`, or `float32` for a number. Signatures show it unquoted."""
        shape = "" if self.shape is None else f"[{', '.join(map(str, self.shape))}]"
        return _UnquotedText(f"{self.dtype.name}{shape}")

    def __repr__(self) -> str:
        return f"{self.name}: {self.type}" if self.name else self.type


@dataclass(frozen=True)
class Interface:
    """Name of a function, and its arguments (`inputs`) and results (`outputs`) in order."""

    name: str
    inputs: tuple[ValueInfo, ...]
    outputs: tuple[ValueInfo, ...]

    @classmethod
    def of(
        cls,
        name: str,
        arguments: Sequence[tuple[str, ElementType, tuple[int, ...] | None]],
        result_names: Sequence[str],
        results: Sequence[tuple[ElementType, int | None]],
        entry: Mapping[str, Any] | None,
    ) -> Interface:
        """Build the interface of a function of a program.

        arguments: name, element type and sizes of each argument; -1 for a dynamic size, None instead of the sizes for a
        number. results: element type and rank of each result, None instead of the rank for a number. entry: the
        function's entry in the manifest, which names dynamic sizes; without one they are named d0, d1 and so on. Raises
        ArtifactError if the entry contradicts the program.
        """
        shapes = _Shapes(name, entry)
        inputs = [
            ValueInfo(argument, kind.dtype, shapes.shape("inputs", i, dims))
            for i, (argument, kind, dims) in enumerate(arguments)
        ]
        outputs = [
            # The program states only the rank of a result: all sizes are dynamic.
            ValueInfo(result, kind.dtype, shapes.shape("outputs", i, None if rank is None else (-1,) * rank))
            for i, (result, (kind, rank)) in enumerate(zip(result_names, results, strict=True))
        ]
        return cls(name, tuple(inputs), tuple(outputs))

    @cached_property
    def _returns(self) -> str | None:
        """Text of the result types, such as `float32[n]` or `(float32[n], int32)`; None without results.

        It is the return annotation of the signature. Its repr has no quotes, as `help` shows the repr of annotations.
        """
        if not self.outputs:
            return None
        texts = [repr(value) for value in self.outputs]
        return _UnquotedText(texts[0] if len(texts) == 1 else f"({', '.join(texts)})")

    def text(self) -> str:
        """Return the function as one line, such as `f(x: float32[n, 4], k: int32) -> float32[n]`."""
        return f"{self.name}({', '.join(map(repr, self.inputs))}) -> {self._returns}"

    def help(self) -> str:
        """Return the help text of the function: its signature, and one line for each argument and result."""
        lines = [self.text(), ""]
        for title, values in (("Arguments", self.inputs), ("Results", self.outputs)):
            if values:
                lines += [f"{title}:", *(f"    {value!r}" for value in values), ""]
        lines.append("out= takes an array for each result. prepare(...) binds arguments for many calls.")
        return "\n".join(lines)

    def signature(self) -> inspect.Signature:
        """Return the signature that `inspect.signature` shows.

        An argument that callers cannot pass as `name=` is shown as positional-only, and so are all arguments before it.
        """
        from inspect import Parameter, Signature

        names = [value.name for value in self.inputs]
        # An argument whose name is not plain is positional-only. Python requires the same of all arguments before it.
        last = max((i for i, name in enumerate(names) if not _is_plain(name, names)), default=-1)
        taken = set(names)
        parameters = []
        for i, value in enumerate(self.inputs):
            name = value.name
            if not _is_plain(name, names):  # Parameter requires distinct identifiers
                name = _unused_name(f"arg{i}", taken)
            kind = Parameter.POSITIONAL_ONLY if i <= last else Parameter.POSITIONAL_OR_KEYWORD
            parameters.append(Parameter(name, kind, annotation=value.type))
        parameters.append(Parameter("out", Parameter.KEYWORD_ONLY, default=None))
        return Signature(parameters, return_annotation=self._returns)


def _is_plain(name: str, names: Sequence[str]) -> bool:
    """Return whether callers can pass an argument as `name=`. It may not be `out`, the parameter for results.

    names: the names of all arguments, which may repeat.
    """
    return name.isidentifier() and not keyword.iskeyword(name) and name != "out" and names.count(name) == 1


def _unused_name(name: str, taken: set[str]) -> str:
    """Return `name` with underscores before it until it is not in `taken`, and add it there."""
    while name in taken:
        name = f"_{name}"
    taken.add(name)
    return name


class _Shapes:
    """Source of names for dynamic sizes: the manifest's entry of the function, or d0, d1 and so on without one."""

    def __init__(self, function: str, entry: Mapping[str, Any] | None) -> None:
        """Create the source of names for one function. Call `shape` once for each argument, then for each result.

        function: its name, for messages. entry: its entry in the manifest; ignored if it lists no inputs and outputs.
        """
        self._function = function
        self._entry = entry if entry and ("inputs" in entry or "outputs" in entry) else None
        self._count = 0  # number of axes of all values so far, static ones included; only counted without an entry

    def shape(self, side: str, index: int, dims: tuple[int, ...] | None) -> Shape | None:
        """Return the shape of a value, with names for dynamic sizes; None for a number.

        side: "inputs" for an argument, "outputs" for a result. index: number of the value on its side. dims: its sizes
        in the program, -1 for dynamic sizes, or None for a number. Raises ArtifactError if the
        manifest states another shape.
        """
        if dims is None:
            return None
        if self._entry is None:
            # Axes are numbered over all values: after 2 axes, sizes (-1, 4, -1) become ("d2", 4, "d4").
            first, self._count = self._count, self._count + len(dims)
            return tuple(size if size >= 0 else f"d{first + axis}" for axis, size in enumerate(dims))
        try:
            stated = self._entry[side][index]["shape"]
            fits = len(stated) == len(dims) and all(map(_fits, stated, dims))
        except (TypeError, KeyError, IndexError):
            fits = False
        if not fits:
            raise ArtifactError(
                f"@{self._function}: manifest.json: {side}[{index}] does not fit the program, which has the shape "
                f"{dims} there (-1: any size)"
            )
        return tuple(stated)


def _fits(stated: object, size: int) -> bool:
    """Return whether a size of the manifest agrees with the size in the program.

    A stated int agrees with an equal size and with a dynamic size; a stated name agrees with a dynamic size only.

    stated: an int, or the name of a dynamic size. Any other type, as the manifest may be malformed, agrees with none.
    size: -1 for a dynamic size.
    """
    return (type(stated) is int and stated >= 0 and size in (-1, stated)) or (type(stated) is str and size < 0)
