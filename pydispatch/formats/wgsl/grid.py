"""Rewrites entry points for grids with more workgroups in one dimension than a device supports.

The rewritten entry point is dispatched over a grid of other sizes, with at least as many workgroups. It computes the
linear index of its workgroup, x fastest, and runs as the workgroup with this index of the requested grid, whose sizes
are in a uniform buffer. Workgroups beyond the requested ones return at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.formats.wgsl.lex import WgslToken
from pydispatch.formats.wgsl.module import Declaration, UniformBinding, WgslModule

GRID = UniformBinding(group=2, binding=0)
"""Uniform buffer of the requested grid: `vec4<u32>` of its sizes and their product."""

_WORKGROUP_LIMIT = 1 << 32
"""Bound of the number of workgroups, whose linear index is a u32."""
_ID, _COUNT, _LOCAL, _GLOBAL = "workgroup_id", "num_workgroups", "local_invocation_id", "global_invocation_id"
_VECTOR = "vec3<u32>"
"""WGSL type of built-in ids and counts."""


def form_of(grid: Sequence[int], most: int) -> tuple[int, int, int] | None:
    """Return a grid with at least as many workgroups and no size above `most`; None if that takes 2^32 workgroups.

    100,000 x 1 x 1 becomes 65,535 x 2 x 1 for a limit of 65,535.

    Args:
        grid: Requested numbers of workgroups in x, y and z, of which none is 0.
        most: Largest number of workgroups in one dimension.
    """
    total = grid[0] * grid[1] * grid[2]
    x = min(total, most)
    y = min(-(-total // x), most)
    z = -(-total // (x * y))
    return None if x * y * z >= _WORKGROUP_LIMIT or z > most else (x, y, z)


def why_not(module: WgslModule, entry: Declaration) -> str | None:
    """Return why `with_grid` cannot change an entry point; None if it can."""
    for parameter in _parameters(module, entry):
        if "builtin" not in (words := [token.text for token in parameter]):
            return (
                f"its entry point '{entry.name}' cannot be made to run over another grid, since '{_name(words)}' is a "
                "structure of built-in values: make each a parameter like @builtin(workgroup_id) group: vec3u, or use "
                "more dimensions"
            )
    return None


def with_grid(module: WgslModule, entry: Declaration) -> str:
    """Return the module's text with an entry point that is dispatched over the grid that `form_of` returns.

    Its workgroup id, number of workgroups and global invocation id are computed, from the linear index of the workgroup
    and the requested grid in the uniform buffer GRID. Lines outside of its parameter list keep their numbers.
    `why_not` must have returned None for the entry point.
    """
    tokens, prefix, attempt = module.tokens, "asked_", 0
    while any(token.text.startswith(prefix) for token in tokens):  # a prefix that no name of the module has
        prefix, attempt = f"asked{attempt}_", attempt + 1
    opening = _opening(module, entry)
    parameters: dict[str, str] = {}
    other_parameters: list[str] = []
    for parameter in _parameters(module, entry):
        words = [token.text for token in parameter]
        built_in = words[words.index("builtin") + 2]  # of `@builtin(name)`
        parameters[built_in] = _name(words)
        if built_in not in (_ID, _COUNT, _GLOBAL):
            other_parameters.append(module.text[parameter[0].start : parameter[-1].end])
    # Names in the text: id and count of the started workgroups, the program's grid (sizes in .xyz, their product in
    # .w), and the linear index of this workgroup.
    group, groups, grid, this = (f"{prefix}{suffix}" for suffix in ("group", "groups", "grid", "number"))
    other_parameters += [f"@builtin({_ID}) {group}: {_VECTOR}", f"@builtin({_COUNT}) {groups}: {_VECTOR}"]
    local = parameters.get(_LOCAL, f"{prefix}local")
    if _GLOBAL in parameters and _LOCAL not in parameters:
        other_parameters.append(f"@builtin({_LOCAL}) {local}: {_VECTOR}")
    lines = [
        f"let {this} = {group}.x + {groups}.x * ({group}.y + {groups}.y * {group}.z);",
        f"if ({this} >= {grid}.w) {{ return; }}",
    ]
    group_id = f"{_VECTOR}({this} % {grid}.x, {this} / {grid}.x % {grid}.y, {this} / ({grid}.x * {grid}.y))"
    if _ID in parameters:
        lines.append(f"let {parameters[_ID]} = {group_id};")
    if _COUNT in parameters:
        lines.append(f"let {parameters[_COUNT]} = {grid}.xyz;")
    if _GLOBAL in parameters:
        stated = entry.attribute("workgroup_size")
        sizes = [f"u32({size})" for size in (stated.arguments if stated is not None else ())]
        size = f"{_VECTOR}({', '.join([*sizes, '1u', '1u'][:3])})"
        lines.append(f"let {parameters[_GLOBAL]} = {parameters.get(_ID) or group_id} * {size} + {local};")
    # The body begins with its `{`.
    text, start, end = module.text, tokens[opening].end, tokens[entry.body].end
    closing = tokens[entry.body - 1].start
    breaks = "\n" * text.count("\n", start, closing)  # as many as the parameter list had
    declaration = f"@group({GRID.group}) @binding({GRID.binding}) var<uniform> {grid}: vec4<u32>;"
    head = f"{text[:start]}{', '.join(other_parameters)}{breaks}{text[closing:end]}"
    return f"{head} {' '.join(lines)}{text[end:].rstrip()}\n{declaration}\n"


def _opening(module: WgslModule, entry: Declaration) -> int:
    """Return the index of the token that opens the parameter list: after `fn` and the name."""
    return next(i for i in range(entry.first, entry.body) if module.tokens[i].text == "fn") + 2


def _parameters(module: WgslModule, entry: Declaration) -> list[list[WgslToken]]:
    """Return the tokens of each parameter of an entry point, with its attributes and without commas."""
    parameters: list[list[WgslToken]] = [[]]
    depth = 0
    closing = entry.body - 1  # body: index of the `{`, which follows the `)` of an entry point for compute
    for token in module.tokens[_opening(module, entry) + 1 : closing]:
        depth += (token.text in "(<[") - (token.text in ")>]")
        if token.text == "," and depth == 0:
            parameters.append([])
        else:
            parameters[-1].append(token)
    return [tokens for tokens in parameters if tokens]


def _name(words: Sequence[str]) -> str:
    """Return the name of a parameter, the word before the colon."""
    return words[words.index(":") - 1]
