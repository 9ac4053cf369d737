"""Adapts shaders that were written for other hosts: their resources move to the binding points that programs use.

The text keeps its lines, so that messages of drivers name lines of the user's file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydispatch.formats.wgsl.access import written
from pydispatch.formats.wgsl.interface import CONSTANTS
from pydispatch.formats.wgsl.module import Declaration, WgslModule
from pydispatch.formats.wgsl.read import read

Edits = dict[int, str]
"""New texts of tokens, by index."""


def adapted(module: WgslModule, read_only: Mapping[str, Sequence[bool]]) -> WgslModule:
    """Return a module whose resources have the binding points that programs use; the same module if nothing changes.

    - The uniform block, of any group and binding, moves to the binding point of the constants; storage buffers of its
      group with larger bindings move down by one.
    - A storage buffer declared read_write becomes read if no entry point writes it and the program binds it as
      ReadOnly.

    Args:
        module: The module.
        read_only: Entry point → for each binding, whether the program binds it as ReadOnly.
    """
    module = _edited(module, _move_block(module))
    return _edited(module, _narrow_access(module, read_only))


def _edited(module: WgslModule, edits: Edits) -> WgslModule:
    """Return the module with replaced tokens, parsed again; the same module if there are no edits.

    `edits` maps the index of a token to its new text.
    """
    if not edits:
        return module
    parts, at = [], 0  # pieces of the new text, and the offset in the old text up to which they reach
    for i, text in sorted(edits.items()):
        token = module.tokens[i]
        parts += [module.text[at : token.start], text]
        at = token.end
    return read("".join([*parts, module.text[at:]]).encode(), module.where)


def _move_block(module: WgslModule) -> Edits:
    """Return the edits that move the uniform blocks to CONSTANTS, the binding point of a program's constants.

    A shader for another host often numbers its uniform block among its buffers. In a program, the block is not a
    binding of the layout, so that the buffers after it move down by one:

        @group(0) @binding(0) var<storage> a: array<f32>;        stays
        @group(0) @binding(1) var<uniform> constants: Constants; becomes @group(3) @binding(0)
        @group(0) @binding(2) var<storage> b: array<f32>;        becomes @group(0) @binding(1)

    All blocks must share one binding point, which WGSL allows if no entry point uses two of them. There are no edits
    if the blocks have several binding points or an unknown one, or if they already have CONSTANTS.
    """
    blocks = [variable for variable in module.declarations if variable.kind == "var" and variable.space == "uniform"]
    points = {_binding_point(module, variable) for variable in blocks}
    if len(points) != 1 or None in points or points == {CONSTANTS}:
        return {}
    (point,) = points
    assert point is not None
    block_group, block_binding = point
    edits: Edits = {}
    for block in blocks:
        for key, value in zip(("group", "binding"), CONSTANTS, strict=True):
            edits |= _with_number(module, block, key, value)
    for variable in module.declarations:
        is_buffer = variable.kind == "var" and variable.space == "storage"
        buffer_point = _binding_point(module, variable) if is_buffer else None
        if buffer_point is None:
            continue
        group, binding = buffer_point
        if group == block_group and binding > block_binding:  # closes the gap that the block leaves
            edits |= _with_number(module, variable, "binding", binding - 1)
    return edits


def _binding_point(module: WgslModule, variable: Declaration) -> tuple[int, int] | None:
    """Return the group and the binding of a variable; None unless both are known."""
    group, binding = module.number(variable, "group"), module.number(variable, "binding")
    return None if group is None or binding is None else (group, binding)


def _with_number(module: WgslModule, variable: Declaration, key: str, value: int) -> Edits:
    """Return the edits that replace the expression in the attribute `key`, "group" or "binding", with a number."""
    tokens = module.tokens
    key_index = next(
        i for i in range(variable.first, variable.end) if tokens[i].text == key and tokens[i - 1].text == "@"
    )
    first = end = key_index + 2  # after the key and its parenthesis
    depth = 1  # of parentheses; at 0, `end` is after the closing one
    while depth:
        depth += (tokens[end].text == "(") - (tokens[end].text == ")")
        end += 1
    closing = end - 1
    return {first: str(value), **dict.fromkeys(range(first + 1, closing), "")}  # the other tokens of it become empty


def _narrow_access(module: WgslModule, read_only: Mapping[str, Sequence[bool]]) -> Edits:
    """Return the edits that declare unwritten storage buffers as read, if the program binds them as ReadOnly.

    A program may not bind a buffer as ReadOnly that a shader declares as read_write. Shaders for other hosts often
    declare every buffer as read_write. A variable keeps its access if any entry point that uses it writes it. An edit
    maps the index of a token, here of `read_write`, to its new text.

    Args:
        module: The module.
        read_only: Entry point → for each binding, whether the program binds it as ReadOnly.
    """
    # The bindings that each entry point writes, and the names of the declarations that it uses.
    writes = {entry.name: written(module, entry) for entry in module.entry_points}
    reached = {
        entry.name: set(declaration.name for declaration in module.reached([entry])) for entry in module.entry_points
    }
    edits: Edits = {}
    for variable in module.declarations:
        point = _binding_point(module, variable) if variable.kind == "var" and variable.space == "storage" else None
        if point is None or variable.access != "read_write" or "atomic<" in variable.type:
            continue  # WGSL requires read_write for atomics, even if they are only loaded
        _, binding = point
        users = [name for name, names in reached.items() if variable.name in names]
        flags_of_users = [read_only.get(name, ()) for name in users]
        is_read_only = any(binding < len(flags) and flags[binding] for flags in flags_of_users)
        if is_read_only and not any(binding in writes[name] for name in users):
            access = next(i for i in range(variable.first, variable.end) if module.tokens[i].text == "read_write")
            edits[access] = "read"
    return edits
