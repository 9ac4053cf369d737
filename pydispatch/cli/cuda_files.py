"""Contents of a PTX text or a cubin, as `pydispatch inspect` prints them."""

from __future__ import annotations

from typing import Any

from pydispatch.formats.elf import cubin
from pydispatch.formats.ptx import interface, read
from pydispatch.formats.ptx.module import PtxFunction
from pydispatch.link.ptx import link


def describe(data: bytes, name: str) -> dict[str, Any]:
    """Return the kernels, functions and imports of a PTX text or cubin as JSON values.

    Parameters are sizes in bytes; `required` and `maximum` are block sizes in threads along x, y, z, or null.
    `functions` are those that other modules can link. name: of the file, for messages.

    Raises:
        ArtifactError: The file is broken.
    """
    return _describe_cubin(data, name) if cubin.is_cubin(data) else _describe_ptx(data, name)


def _describe_cubin(data: bytes, name: str) -> dict[str, Any]:
    """Return the kernels and functions of a cubin (CUDA machine code) as JSON values; a cubin has no imports.

    Each kernel has its name, the sizes of its "parameters" in bytes, and its "required" and "maximum" block size in
    threads along x, y and z, or null for one that it does not state.
    """
    facts = cubin.read(data, name)
    kernels = [
        {"name": e.name, "parameters": list(e.parameters), "required": e.required, "maximum": e.maximum}
        for e in facts.entries
    ]
    functions = [{"name": function} for function in cubin.functions(data, name)]
    kind = "relocatable cubin" if facts.relocatable else "cubin"
    return {"kind": kind, "target": facts.target, "kernels": kernels, "functions": functions, "imports": []}


def _describe_ptx(data: bytes, name: str) -> dict[str, Any]:
    """Return the kernels, functions and imports of a PTX text as JSON values.

    Each kernel has its name, the sizes of its "parameters" in bytes, its "required" and "maximum" block size in threads
    along x, y and z, or null for one that it does not state, and its "line" in the text. Each function that other
    modules can call has its name, parameters and line.
    """
    module = read.read(data, name)
    kernels = [
        {
            "name": function.name, "parameters": list(interface.parameter_sizes(function)),
            # `.reqntid x, y, z`: the block size that a launch must have; `.maxntid`: the largest one.
            "required": function.directives.get("reqntid"), "maximum": function.directives.get("maxntid"),
            "line": function.line,
        }
        for function in module.entries
    ]  # fmt: skip
    # Functions that other modules can call: with a body, unlike a declaration, and visible outside of the module.
    functions = [
        {"name": function.name, "parameters": [p.size for p in function.params], "line": function.line}
        for function in module.functions
        if not function.is_entry and function.body is not None and _is_linkable(function)
    ]
    return {
        "kind": f"PTX {module.version[0]}.{module.version[1]}", "target": module.target, "kernels": kernels,
        "functions": functions, "imports": list(link.imports_of(module)),
    }  # fmt: skip


def _is_linkable(function: PtxFunction) -> bool:
    """Return whether other modules can link a function, by its linkage."""
    return function.linkage in ("visible", "weak")


def rows_of(facts: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return table rows (kind, name, parameter sizes, block size) of the kernels and functions; "-" for none.

    facts: the result of `describe`.
    """
    rows = []
    for kind in ("kernels", "functions"):
        for function in facts[kind]:
            sizes = ", ".join(map(str, function.get("parameters", ()))) or "-"
            block = "x".join(map(str, function.get("required") or ())) or "-"
            if function.get("maximum"):
                block = f"at most {'x'.join(map(str, function['maximum']))}"
            rows.append((kind.removesuffix("s"), str(function["name"]), sizes, block))
    return rows
