"""Binding of parameters: constants whose bytes are not in the artifact (docs/artifact.md)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydispatch import logs
from pydispatch._core.artifact import MAX_ALIGNMENT
from pydispatch._core.extended_types import BY_NAME, EXTENDED_TYPES
from pydispatch.errors import InvalidArgumentError
from pydispatch.formats.arrays.parameters import ParameterFile, Tensor
from pydispatch.formats.program.opcodes import Numerical
from pydispatch.suggestions import close_matches

if TYPE_CHECKING:
    from pydispatch._core.program import Module


@dataclass(frozen=True)
class BoundParameter:
    """Parameter (array that is not in the artifact) that a program uses, bound to its bytes.

    Attributes:
        scope: Namespace of its name, "" for the unnamed one; the caller supplies files or arrays by scope.
        key: Name in the scope.
        type: Shape and element type as in MLIR, such as "4x8xf32".
        source: Path of the file that has it, or "arrays" if the caller passed arrays.
        copied: Whether it was copied because its address in the file or array was not aligned.
    """

    scope: str
    key: str
    type: str
    source: str
    copied: bool


class _Arrays(dict[str, Tensor]):
    """Parameters that are passed as Python arrays: name in their scope → tensor, as in a `ParameterFile`."""

    path = "arrays"  # in place of the path of a ParameterFile, for messages

    def __init__(self, scope: str, arrays: Mapping[str, Any]) -> None:
        """Store each array under its name, as a tensor over its bytes without a copy.

        Raise InvalidArgumentError for an array that is not contiguous.

        scope: namespace of the parameters, for messages. arrays: by the names in it.
        """
        import numpy as np

        super().__init__()
        for key, value in arrays.items():
            array = np.asarray(value)
            if not array.flags.c_contiguous:
                raise InvalidArgumentError(
                    f"parameters: '{scope}': '{key}' is not contiguous; pass np.ascontiguousarray(x)"
                )
            kind, bits = _kind_of(array.dtype)
            flat = array.reshape(-1)  # an array of rank 0 cannot be viewed as bytes
            raw = _view(flat.view(np.uint8)) if array.nbytes else memoryview(b"")
            self[key] = Tensor(kind, bits, array.shape, raw)


def bind(module: Module, parameters: Mapping[str, Any] | None) -> list[BoundParameter]:
    """Bind all parameters of a program, and return them.

    Args:
        module: The program.
        parameters: Scope → a parameter file, a mapping from keys to arrays, or a list of these; None for none.

    Raises:
        InvalidArgumentError: A parameter is missing, or has another type, or the program has no parameters of a scope.
            The message names scope, key and file.
    """
    needed = module.parameters()  # (scope, key, dtype word, shape) of each
    sources = _open(parameters)
    alignments = module.constant_alignments()
    bound = []
    for constant_index, constant in enumerate(module.constants()):
        if constant is None:  # derived from other constants
            continue
        _member, _offset, _length, parameter_index = constant
        if parameter_index is not None:
            record, alignment = needed[parameter_index], alignments[constant_index]
            bound.append(_bind_one(module, constant_index, alignment, record, sources, all_needed=needed))
    scopes = dict.fromkeys(scope for scope, *_ in needed)
    for scope in sources:
        if scope not in scopes:
            raise InvalidArgumentError(_unknown_scope(scope, scopes))
    return bound


Sources = Mapping[str, Sequence[Any]]
"""Scope → its opened files and arrays (`ParameterFile` or `_Arrays`); a key is looked up in them in this order."""


def _open(parameters: Mapping[str, Any] | None) -> dict[str, list[Any]]:
    """Return the opened sources of each scope.

    parameters: scope → a file, a mapping from keys to arrays, or a list of these; None for none.
    """
    if parameters is not None and not isinstance(parameters, Mapping):
        raise InvalidArgumentError(
            f"parameters: expected a mapping from scopes to files or arrays, got {type(parameters).__name__}; "
            "the scope of a parameter without one is ''"
        )
    return {
        scope: [_open_source(scope, source) for source in _list(sources)]
        for scope, sources in (parameters or {}).items()
    }


def _list(sources: Any) -> Iterable[Any]:
    """Return the sources as a sequence; a single source becomes a list of one."""
    return sources if isinstance(sources, (list, tuple)) else [sources]


def _open_source(scope: str, source: Any) -> Any:
    """Open a parameter file, or check a mapping from keys to arrays. scope: for messages."""
    if isinstance(source, (str, os.PathLike)):
        return ParameterFile(source)
    if isinstance(source, Mapping):
        return _Arrays(scope, source)
    raise InvalidArgumentError(
        f"parameters: '{scope}': expected a .safetensors, .npz or .npy file or a mapping from keys to arrays, "
        f"got {type(source).__name__}"
    )


def _bind_one(
    module: Module, constant_index: int, alignment: int, record: tuple[str, str, int, tuple[int, ...]],
    supplied: Sources, all_needed: Sequence[Any],
) -> BoundParameter:  # fmt: skip
    """Bind one parameter to a constant: find its tensor in the sources of its scope, check it, and align it.

    Args:
        module: The program.
        constant_index: Index of the constant.
        alignment: Bytes that the address of the constant must be a multiple of; other data is copied.
        record: (scope, key, dtype word, shape) of the parameter. The word has the numerical kind of the element type in
            its high byte, and its bits below.
        supplied: The opened sources of each scope.
        all_needed: Records of all parameters, for messages.
    """
    from pydispatch._core.arrays import type_of

    scope, key, dtype, shape = record
    wanted = "x".join([*map(str, shape), type_of(dtype).name])  # such as "4x8xf32"
    sources = supplied.get(scope)
    if sources is None:
        raise InvalidArgumentError(_no_scope(scope, supplied, all_needed))
    source = next((source for source in sources if key in source), None)
    if source is None:
        raise InvalidArgumentError(_no_key(scope, key, wanted, sources))
    tensor: Tensor = source[key]
    subject = f"parameter '{key}' of scope '{scope}' in '{source.path}'"
    if tensor.shape != shape or not _is_kind(tensor, dtype):
        raise InvalidArgumentError(f"{subject}: expected {wanted}, got {tensor}")
    copied = False
    data = tensor.data
    if data.nbytes and _address(data) % alignment:
        data, copied = _aligned(data), True
        logs.runtime.info("%s is not aligned as the executables need it, and was copied", subject)
    # The pages of a mapped file may be dropped from memory, because the file still has them.
    is_mapped = isinstance(source, ParameterFile) and not copied
    module.bind_constant(constant_index, data, is_mapped=is_mapped)
    module.hold(data)  # keeps the bytes alive, to which the constant refers without a copy
    return BoundParameter(scope, key, wanted, str(source.path), copied)


def _no_scope(scope: str, supplied: Sources, needed: Sequence[Any]) -> str:
    """Return the message for a scope without files or arrays.

    supplied: the sources of other scopes. needed: (scope, key, dtype word, shape) of each parameter of the program.
    """
    keys = [key for other, key, _, _ in needed if other == scope]
    shown = ", ".join(f"'{key}'" for key in keys[:4])  # a few, to keep the message short
    if len(keys) > 4:
        shown += f" and {len(keys) - 4} more"
    matches = close_matches(scope, supplied)
    hint = f"; did you mean '{scope}' by '{matches[0]}'?" if matches else ""
    option = f"--parameters={scope}=FILE" if scope else "--parameters=FILE"
    return (
        f"the program needs parameters of scope '{scope}' ({shown}){hint}; supply them with "
        f"device.load(..., parameters={{'{scope}': 'model.safetensors'}}) or {option}"
    )


def _unknown_scope(scope: str, known: Iterable[str]) -> str:
    """Return the message for a scope of which the program has no parameters. known: the scopes of its parameters."""
    shown = " and ".join(f"'{name}'" for name in known)
    has = f"the program has parameters of {shown} only" if shown else "the program has no parameters"
    return (
        f"parameters: '{scope}': {has}; leave it out, or compile the model with weights=\"external\", which leaves its "
        "weights to be supplied"
    )


def _no_key(scope: str, key: str, wanted: str, sources: Sequence[Any]) -> str:
    """Return the message for a parameter that no source of its scope has. wanted: its type, such as "4x8xf32"."""
    keys = [known for source in sources for known in source]
    matches = close_matches(key, keys, most=3, cutoff=0.4) or sorted(keys)[:3]  # cutoff 0.4: 40 % alike
    files = ", ".join(f"'{source.path}'" for source in sources)
    has = f"nearest: {', '.join(map(repr, matches))}" if matches else "it is empty"
    return f"parameter '{key}' of scope '{scope}' ({wanted}) is not in {files} of {len(keys)} arrays; {has}"


_INTEGER_KINDS: dict[int, str] = {
    Numerical.INTEGER: "iub",
    Numerical.SIGNED: "i",
    Numerical.UNSIGNED: "u",
    Numerical.BOOLEAN: "b",
}
"""Numerical kind of a parameter's element type → the NumPy kinds, one letter each, of tensors that may supply it."""

_FLOAT_KINDS: dict[int, str] = {
    Numerical.FLOAT: "f",
    Numerical.COMPLEX: "c",
    **{row.numerical: row.mlir for row in EXTENDED_TYPES},
}
"""Numerical kind of a float or complex element type → `Tensor.kind` of tensors that may supply it.

This is NumPy's letter, such as "f" for FLOAT. Types that NumPy lacks have their MLIR name, such as "bf16".
"""


def _is_kind(tensor: Tensor, dtype: int) -> bool:
    """Return whether the elements of a tensor are of an element type of programs.

    dtype: the word of the type, its numerical kind in the high byte, its bits below.
    """
    numerical, bits = dtype >> 24, dtype & 0xFFFFFF
    if tensor.bits != bits:
        return False
    if numerical in _INTEGER_KINDS:
        return tensor.kind in _INTEGER_KINDS[numerical]
    if tensor.kind == _FLOAT_KINDS.get(numerical):
        return True
    # Elements of types that NumPy lacks may also be stored as raw bits (V) or unsigned integers (u).
    is_unknown_to_numpy = numerical > Numerical.COMPLEX
    if tensor.kind == "u":
        return is_unknown_to_numpy
    return tensor.kind == "V" and numerical != Numerical.FLOAT


def _kind_of(dtype: Any) -> tuple[str, int]:
    """Return (kind, bits) of the elements of an array: the MLIR name of a small float, or NumPy's letter, such as "f"
    or "i". Raise InvalidArgumentError for objects, texts and swapped bytes."""
    if dtype.name in BY_NAME:
        return BY_NAME[dtype.name].mlir, 8 * dtype.itemsize
    if dtype.kind not in "biufcV" or not dtype.isnative:
        raise InvalidArgumentError(f"parameters: arrays of {dtype} cannot be used")
    return dtype.kind, 8 * dtype.itemsize


def _view(array: Any) -> memoryview:
    """Return a view of the memory of a NumPy array, without a copy; the view keeps the array alive."""
    return memoryview(array)


def _address(data: memoryview) -> int:
    """Return the address of the first byte of data that is not empty."""
    import numpy as np

    return int(np.frombuffer(data, np.uint8).__array_interface__["data"][0])


def _aligned(data: memoryview) -> memoryview:
    """Return a copy of the data at an address that is a multiple of the largest alignment of bindings."""
    import numpy as np

    padded = np.empty(data.nbytes + MAX_ALIGNMENT, np.uint8)
    start = -_address(_view(padded)) % MAX_ALIGNMENT  # bytes up to the next multiple: 24 for the address 1000 and 64
    copy = padded[start : start + data.nbytes]
    copy[:] = np.frombuffer(data, np.uint8)
    return _view(copy)
