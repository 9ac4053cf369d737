"""Checks of the compiler's arguments: an InvalidArgumentError names the parameter, which is passed as `what`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import BFloat16Type, Float16Type, bf16, f16

from pydispatch.errors import InvalidArgumentError
from pydispatch.files import path_of, writing
from pydispatch.frontends.source import ReadOptions


def names(what: str, value: object, example: str) -> tuple[str, ...] | None:
    """Check a parameter of `compile` that is one name or several, and return the names; None for None.

    what, example: the name of the parameter, and a valid value in quotes, for messages.
    """
    if value is None:
        return None
    listed = _listed(what, value, f"a name such as {example}, or a list of such")
    for name in listed:
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError(f"{what}: expected names such as {example}, got {name!r}")
    if not listed:
        raise InvalidArgumentError(f"{what}: expected at least one name, such as {example}; leave it out for none")
    return listed


def text(what: str, value: object, example: str) -> str:
    """Check that a parameter is a string, which may be empty, and return it. example: a valid value, for messages."""
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{what}: expected text such as {example}, got {value!r}")
    return value


def flag(what: str, value: object) -> bool:
    """Check that a parameter is True or False, and return it as a bool."""
    if type(value) is bool or type(value).__name__ in ("bool_", "bool"):  # NumPy's too
        return bool(value)
    raise InvalidArgumentError(f"{what}: expected True or False, got {value!r}")


def one_of(what: str, value: object, choices: Sequence[int]) -> int:
    """Check that a parameter is an int of `choices`, and return it. True is no int here."""
    if type(value) is int and value in choices:
        return value
    raise InvalidArgumentError(f"{what}: expected {', '.join(map(str, choices[:-1]))} or {choices[-1]}, got {value!r}")


def half_type(what: str, value: object) -> BFloat16Type | Float16Type | None:
    """Check that a parameter is "bf16", "f16" or None, and return the type."""
    if value is None:
        return None
    if isinstance(value, str) and value in ("bf16", "f16"):
        return bf16 if value == "bf16" else f16
    raise InvalidArgumentError(f"{what}: expected 'bf16', 'f16' or None, got {value!r}")


def precision(what: str, value: object) -> BFloat16Type | None:
    """Check that a parameter is "f32" or "bf16", and return the type that factors are rounded to; None for f32."""
    if isinstance(value, str) and value in ("f32", "bf16"):
        return bf16 if value == "bf16" else None
    raise InvalidArgumentError(f"{what}: expected 'f32' or 'bf16', got {value!r}")


def function_or_none(what: str, value: object) -> Callable[[Any], object] | None:
    """Check that a parameter is a function or None, and return it."""
    if value is None or callable(value):
        return value
    raise InvalidArgumentError(f"{what}: expected a function that takes what is reported, got {value!r}")


def folders(what: str, value: object) -> list[str]:
    """Check a parameter that is one path or several, and return the paths.

    Whether the folders exist is not checked: like compilers, searches ignore missing ones.
    """
    return [path_of(what, path, "the path of a folder") for path in _listed(what, value, "a list of folders")]


def dump_folder(what: str, value: object) -> Path:
    """Create the folder that a parameter names, and return its path. SystemError when it cannot be created."""
    folder = Path(path_of(what, value, "the path of a folder"))
    if folder.exists() and not folder.is_dir():
        raise InvalidArgumentError(f"{what}: '{folder}' is no folder; intermediates are written as files into one")
    with writing(what, folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def read_options(kernels: object, weights: object, inputs: object = None, constants: object = None) -> ReadOptions:
    """Check the parameters of `compile` that frontends take, and return them as ReadOptions.

    Args:
        kernels: Name of a custom operation -> kernel; None for none.
        weights: "embed" or "external".
        inputs: Name of an argument of a model -> its shape; None if the shapes in the model hold.
        constants: Name of an input -> the elements that it is fixed to; None for none.
    """
    if weights not in ("embed", "external"):
        raise InvalidArgumentError(f"weights: expected 'embed' or 'external', got {weights!r}")
    if kernels is not None and not isinstance(kernels, Mapping):
        raise InvalidArgumentError(f"kernels: expected a mapping from names to kernels, got {kernels!r}")
    for what, value in (("inputs", inputs), ("constants", constants)):
        if value is not None and not isinstance(value, Mapping):
            raise InvalidArgumentError(f"{what}: expected a mapping from names of inputs, got {value!r}")
    stated_shapes: Any = inputs or {}
    fixed_inputs: Any = dict(constants or {})  # type: ignore[call-overload]
    shapes = {name: _shape(name, shape) for name, shape in stated_shapes.items()}
    return ReadOptions(str(weights), dict(kernels or {}), inputs=shapes, constants=fixed_inputs)


def _shape(name: str, shape: object) -> tuple[int | str, ...]:
    """Return the sizes that `inputs` states for the input `name`: ints, and names of dynamic sizes.

    Raises InvalidArgumentError for other values.
    """
    if not isinstance(shape, (tuple, list)) or not all(map(_is_size, shape)):
        raise InvalidArgumentError(f"inputs: expected the sizes of '{name}', such as (1, 3, 'h', 'w'), got {shape!r}")
    return tuple(shape)


def _is_size(size: object) -> bool:
    """Return whether `size` is a number of elements, or the name of a dynamic size."""
    if isinstance(size, str):
        return size != ""
    return type(size) is int and 0 <= size < 1 << 40  # not bool, and no more elements than any memory has


def _listed(what: str, value: object, expected: str) -> tuple[Any, ...]:
    """Return the value of a parameter as a tuple: a string or path alone, or the items of another iterable.

    what, expected: the name of the parameter, and what it may be, for the InvalidArgumentError about other values.
    """
    if isinstance(value, (str, os.PathLike)):
        return (value,)
    if not isinstance(value, Iterable) or isinstance(value, (bytes, bytearray, memoryview)):
        raise InvalidArgumentError(f"{what}: expected {expected}, got {value!r}")
    try:
        return tuple(value)
    except TypeError:  # an array of rank 0
        raise InvalidArgumentError(f"{what}: expected {expected}, got {value!r}") from None
