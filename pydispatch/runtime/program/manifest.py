"""Fast reading of the parts of a manifest that loading needs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydispatch._core.artifact import MAX_ALIGNMENT, ArtifactFile
from pydispatch.errors import ArtifactError

if TYPE_CHECKING:
    from pydispatch._core.program import Details

MANIFEST = "manifest.json"  # descriptions of the executables and functions, as JSON
PROGRAM = "program.bin"  # the commands of functions, which the C core reads
CONTRACTS = "contracts.bin"
"""Members of an artifact, which messages name too."""

_TEXT = frozenset((str,))
"""Types that the elements of a list of strings in the manifest may have."""
_NUMBERS_OR_NULL = frozenset((int, type(None)))  # types in a list of integers and nulls
_LISTS_OR_NULL = frozenset((list, type(None)))  # types in a list of lists and nulls


def read(file: ArtifactFile) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return the entries of executables, validated as far as loading needs, and the entries of functions by name.

    Raises:
        ArtifactError: The manifest is malformed.
    """
    text = bytes(file.find(MANIFEST, verify=True))
    # The checks are fast: they find that a manifest is malformed, by an exception or a result of None, but not where.
    try:
        manifest = json.loads(text.decode())
        executables, functions = _executables(manifest), _functions(manifest)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise _error(file.name, text) from None
    if executables is None or functions is None:
        raise _error(file.name, text)
    return executables, functions


def details(file: ArtifactFile, keys: Sequence[tuple[int, ...]]) -> Details:
    """Return the parts of a manifest that only profiles and descriptions of functions need.

    These are (index of an executable → operations of each of its exports, name of a function → its entry).

    keys: for each executable a tuple that begins with the index of its variant.
    """
    executables, functions = read(file)
    variants = [
        executable["variants"][variant_index] for executable, (variant_index, *_) in zip(executables, keys, strict=True)
    ]
    flops = {index: variant["flops"] for index, variant in enumerate(variants) if "flops" in variant}
    return flops, functions


def _functions(manifest: dict[str, Any]) -> dict[str, dict[str, Any]] | None:
    """Return the entries of functions in a manifest by name.

    Return None if entries of functions or constants are malformed, or if two functions have one name.
    """
    functions, constants = manifest["functions"], manifest["constants"]
    if type(functions) is not list or type(constants) is not list:
        return None
    for entry in constants:
        if not (type(entry["member"]) is type(entry["dtype"]) is str and type(entry["shape"]) is list):
            return None
        if not all(map(_is_number, entry["shape"])):
            return None
    entries = {entry["name"]: entry for entry in functions if type(entry["signature"]) is str and _is_interface(entry)}
    # Malformed functions have no entry, and functions of one name share an entry.
    is_complete = len(entries) == len(functions)
    return entries if is_complete and _are_texts([*entries]) else None


def _is_interface(function: dict[str, Any]) -> bool:
    """Return whether the arguments and results of a function, if listed, are well-formed."""
    sides = function.get("inputs", []), function.get("outputs", [])
    return type(sides[0]) is type(sides[1]) is list and all(map(_is_value, [*sides[0], *sides[1]]))


def _is_value(value: dict[str, Any]) -> bool:
    """Return whether an argument or result has a name and a type, and its shape, if it has one, is a list of sizes."""
    shape = value.get("shape", [])
    return (
        type(value["name"]) is type(value["type"]) is str and value["type"] != ""
        and type(shape) is list and all(map(_is_size, shape))
    )  # fmt: skip


def _is_size(size: object) -> bool:
    """Return whether a size of a shape is a number, or the name of a dynamic size."""
    return (type(size) is str and size != "") or _is_number(size)


def _is_number(size: object) -> bool:
    """Return whether a manifest value is an integer that the reader in C accepts as a size."""
    return type(size) is int and 0 <= size < 2**63


def _are_texts(value: object) -> bool:
    """Return whether a manifest value is a list of strings, which may be empty."""
    return type(value) is list and _TEXT.issuperset(map(type, value))


def _are_numbers(value: object) -> bool:
    """Return whether a manifest value lists, for each export, the index of its contract in `contracts.bin`, or null."""
    if type(value) is not list or not _NUMBERS_OR_NULL.issuperset(map(type, value)):
        return False
    numbers = [n for n in value if n is not None]
    return not numbers or (min(numbers) >= 0 and max(numbers) < 2**32 - 1)  # 2**32 - 1 stands for null in the C core


def _are_counts(value: object) -> bool:
    """Return whether a manifest value lists, for each export, its operation counts (a list), or null.

    The contents of these lists are checked when a profile reads them.
    """
    return type(value) is list and _LISTS_OR_NULL.issuperset(map(type, value))


def _executables(manifest: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the entries of executables in a manifest; None if they or the header are malformed.

    Only what loading reads is checked. A missing key raises KeyError.
    """
    header = manifest["pydispatch"]
    if type(header["format"]) is not int or header["format"] != 1 or type(header["version"]) is not str:
        return None
    executables: list[dict[str, Any]] = manifest["executables"]
    if type(executables) is not list:
        return None
    for executable in executables:
        if type(executable["name"]) is not str or not _are_texts(executable["exports"]):
            return None
        if type(executable["variants"]) is not list or not all(map(_is_variant, executable["variants"])):
            return None
    return executables


def _is_variant(variant: dict[str, Any]) -> bool:
    """Return whether the keys of a variant have values of their types, and its alignment is a power of two up to
    `MAX_ALIGNMENT`."""
    alignment = variant["alignment"]
    if type(alignment) is not int or not 0 < alignment <= MAX_ALIGNMENT or alignment.bit_count() != 1:
        return False
    return (
        type(variant["member"]) is type(variant["name"]) is type(variant["format"]) is str
        and _are_texts(variant["requires"]) and _are_texts(variant["imports"])
        and type(variant.get("dynamic", False)) is bool
        and _are_counts(variant.get("flops", []))
        and type(variant.get("calls", [])) is type(variant.get("warnings", [])) is list
        and _are_numbers(variant.get("contracts", []))
        and type(variant.get("ptx", {})) is type(variant.get("spirv", {})) is type(variant.get("wgsl", {})) is dict
    )  # fmt: skip


def _error(name: str, text: bytes) -> ArtifactError:
    """Return the error for a malformed manifest, whose text is `text`, in the artifact `name`.

    Read the manifest again with the strict reader, which is slower and says what is wrong.
    """
    from pydispatch.formats.artifact.manifest import Manifest

    try:
        Manifest.from_bytes(text)
    except ArtifactError as error:
        return ArtifactError(f"{name}: {error}")
    return ArtifactError(f"{name}: {MANIFEST} cannot be read")
