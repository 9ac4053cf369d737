"""Remedies in errors about names of other kernel languages and of NumPy: the equivalents in kernels here."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from pydispatch.suggestions import nearest

OTHER_LANGUAGES: dict[str, str] = {
    "program_id": "pydispatch.group_id", "num_programs": "pydispatch.grid_size", "blockIdx": "pydispatch.group_id",
    "threadIdx": "pydispatch.local_id", "blockDim": "pydispatch.group_size", "gridDim": "pydispatch.grid_size",
    "thread_id": "pydispatch.local_id", "block_id": "pydispatch.group_id", "syncthreads": "pydispatch.barrier",
    "sync_threads": "pydispatch.barrier", "debug_barrier": "pydispatch.barrier", "constexpr": "pydispatch.static",
    "shfl_sync": "pydispatch.subgroup_shuffle", "subgroup_broadcast": "pydispatch.subgroup_shuffle",
    "ballot_sync": "pydispatch.subgroup_ballot", "static_range": "range", "static_assert": "assert",
    "device_assert": "assert", "device_print": "print", "printf": "print", "dot": "a @ b", "matmul": "a @ b",
    "trans": "t.T", "store": "y[i:i + 16] = t", "associative_scan": "pydispatch.scan",
    "local_array": "pydispatch.private", "atomic_xchg": "pydispatch.atomic_exchange",
}  # fmt: skip
"""Names in Triton, CUDA, Numba and shaders → what to write here instead."""

_METHODS = ("sum", "max", "min", "argmax", "argmin", "cumsum", "reshape")
"""Methods of NumPy arrays that are functions of the same name here, for tiles."""


def missing_name(name: str, names: Iterable[str]) -> str:
    """Return the remedy for a name that a module lacks.

    names: all names of the module, among which a similar one is looked up.
    """
    if name in OTHER_LANGUAGES:
        return f"here it is {OTHER_LANGUAGES[name]}"
    public = [other for other in names if not other.startswith("_")]
    return nearest(name, public) or "look for the name in its documentation"


def missing_attribute(node: ast.Attribute, attributes: Sequence[str]) -> str:
    """Return the remedy for an attribute that a tile or a number lacks.

    attributes: those that the value has; () for a number.
    """
    value = ast.unparse(node.value)
    if node.attr in ("astype", "to"):
        return f"write the type as a function: pydispatch.f32({value})"
    if attributes and node.attr in _METHODS:
        return f"write pydispatch.{node.attr}({value})"
    if not attributes:
        return "numbers in kernels have no attributes"
    return f"there are {', '.join(attributes[:-1])} and {attributes[-1]}"


def foreign_function(function: object, own: Iterable[object]) -> str:
    """Return the remedy for a call of a function of another library: the function of the same name that kernels have,
    or "" if there is none.

    own: the functions that kernels may call.
    """
    name = getattr(function, "__name__", "")
    packages = {_package_of(other) for other in own if getattr(other, "__name__", None) == name}
    preferred = next((package for package in ("pydispatch", "math", "builtins") if package in packages), "")
    if not name or not preferred:
        return ""
    return f"write {name}" if preferred == "builtins" else f"write {preferred}.{name}"


def _package_of(function: object) -> str:
    """Return the name of the top-level package that defines a function."""
    return (getattr(function, "__module__", None) or "").partition(".")[0]
