"""Rewrites entry points for grids with more workgroups in one dimension than a device supports.

The rewritten entry point is dispatched over a grid of other sizes, with at least as many workgroups. It computes the
linear index of its workgroup, x fastest, and runs as the workgroup with this index of the requested grid, whose sizes
are in a uniform buffer. Workgroups beyond the requested ones return at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
    """Return a grid with at least as many workgroups as `grid` and no size above `most`.

    Return None if such a grid has 2^32 workgroups or more, or if the largest one, most x most x most, has too few.
    100,000 x 1 x 1 becomes 65,535 x 2 x 1 for a limit of 65,535.

    Args:
        grid: Requested numbers of workgroups in x, y and z, of which none is 0.
        most: Largest number of workgroups in one dimension.
    """
    total = grid[0] * grid[1] * grid[2]
    x = min(total, most)
    rows = -(-total // x)  # rows of x workgroups, rounded up
    y = min(rows, most)
    z = -(-total // (x * y))  # layers of x * y workgroups, rounded up
    if z > most or x * y * z >= _WORKGROUP_LIMIT:
        return None
    return x, y, z


def why_not(module: WgslModule, entry: Declaration) -> str | None:
    """Return why `with_grid` cannot change an entry point; None if it can."""
    for parameter in _parameters(module, entry):
        # Parameters of an entry point for compute are built-in values: one without @builtin is a structure of them.
        if "builtin" not in (words := [token.text for token in parameter]):
            return (
                f"its entry point '{entry.name}' cannot be made to run over another grid, since '{_name(words)}' is a "
                "structure of built-in values: make each a parameter like @builtin(workgroup_id) group: vec3u, or use "
                "more dimensions"
            )
    return None


def with_grid(module: WgslModule, entry: Declaration) -> str:
    """Return the module's text with an entry point for a requested grid that exceeds the device's limit per dimension.

    The caller dispatches this entry point over the grid that `form_of` returns, and binds the requested grid as the
    uniform buffer GRID. The workgroup id, the number of workgroups and the global invocation id are no parameters any
    more: `_prologue` computes those of the requested grid at the beginning of the body. An entry point

        fn f(@builtin(workgroup_id) id: vec3u) { a[id.x] = 0.0; }

    becomes, with the long expressions left out,

        fn f(@builtin(workgroup_id) asked_group: vec3<u32>, @builtin(num_workgroups) asked_groups: vec3<u32>) {
          let asked_number = ...; if (asked_number >= asked_grid.w) { return; } let id = ...; a[id.x] = 0.0; }
        @group(2) @binding(0) var<uniform> asked_grid: vec4<u32>;

    The prologue follows the `{` on the same line, and the declaration is at the end: lines outside of the parameter
    list keep their numbers. `why_not` must have returned None for the entry point.
    """
    names = _Names.of(module)
    built_ins: dict[str, str] = {}  # built-in value → the parameter that has it
    parameters: list[str] = []  # texts of the parameters that stay
    for parameter in _parameters(module, entry):
        words = [token.text for token in parameter]
        built_in = words[words.index("builtin") + 2]  # of `@builtin(name)`
        built_ins[built_in] = _name(words)
        if built_in not in (_ID, _COUNT, _GLOBAL):
            parameters.append(module.text[parameter[0].start : parameter[-1].end])
    # Parameters that the prologue needs.
    parameters += [f"@builtin({_ID}) {names.group}: {_VECTOR}", f"@builtin({_COUNT}) {names.groups}: {_VECTOR}"]
    if _GLOBAL in built_ins and _LOCAL not in built_ins:
        parameters.append(f"@builtin({_LOCAL}) {names.local}: {_VECTOR}")
    # The text is cut after the `(` of the parameters, before their `)`, and after the `{` of the body.
    text = module.text
    start, closing = module.tokens[_opening(module, entry)].end, module.tokens[entry.body - 1].start
    end = module.tokens[entry.body].end
    line_breaks = "\n" * text.count("\n", start, closing)  # as many as the parameter list had
    head = f"{text[:start]}{', '.join(parameters)}{line_breaks}{text[closing:end]}"
    prologue = " ".join(_prologue(entry, names, built_ins))
    declaration = f"@group({GRID.group}) @binding({GRID.binding}) var<uniform> {names.grid}: vec4<u32>;"
    return f"{head} {prologue}{text[end:].rstrip()}\n{declaration}\n"


@dataclass(frozen=True)
class _Names:
    """Names that a rewritten module declares, such as `asked_group`; no name of the original module has their prefix.

    The dispatched grid is the one that the device runs, with at least as many workgroups as the requested grid.
    """

    group: str  # parameter: id of the workgroup in the dispatched grid
    groups: str  # parameter: sizes of the dispatched grid, in workgroups
    grid: str  # uniform buffer: sizes of the requested grid in .xyz, their product in .w
    linear: str  # variable: linear index of the workgroup, x fastest, which is the same in both grids
    local: str  # parameter: id of the thread in its workgroup; declared only if no original parameter has it

    @classmethod
    def of(cls, module: WgslModule) -> _Names:
        """Return names with a prefix that no name of the module has."""
        prefix = module.unused_prefix("asked")
        return cls(
            group=f"{prefix}group",
            groups=f"{prefix}groups",
            grid=f"{prefix}grid",
            linear=f"{prefix}number",
            local=f"{prefix}local",
        )


def _prologue(entry: Declaration, names: _Names, built_ins: Mapping[str, str]) -> list[str]:
    """Return the statements that define the built-in values of the requested grid, as variables.

    The device runs another grid, with at least as many workgroups. A workgroup runs as that with the same linear index
    in the requested grid, and returns if the index is not below grid.w, the number of requested workgroups. For a
    requested grid of 100,000 x 1 x 1, which the device runs as 65,535 x 2 x 1, workgroup (5, 1, 0) has the linear
    index 65,540 and becomes (65540, 0, 0). Without the prefix of the names, the statements for the workgroup id are

        let number = group.x + groups.x * (group.y + groups.y * group.z);
        if (number >= grid.w) { return; }
        let id = vec3<u32>(number % grid.x, number / grid.x % grid.y, number / (grid.x * grid.y));

    Args:
        entry: The original entry point.
        names: Names of the rewritten module.
        built_ins: Built-in value → name of the original parameter that had it, which becomes the variable's name.
    """
    group, groups, grid, linear = names.group, names.groups, names.grid, names.linear
    lines = [
        f"let {linear} = {group}.x + {groups}.x * ({group}.y + {groups}.y * {group}.z);",
        f"if ({linear} >= {grid}.w) {{ return; }}",
    ]
    group_id = f"{_VECTOR}({linear} % {grid}.x, {linear} / {grid}.x % {grid}.y, {linear} / ({grid}.x * {grid}.y))"
    if _ID in built_ins:
        lines.append(f"let {built_ins[_ID]} = {group_id};")
    if _COUNT in built_ins:
        lines.append(f"let {built_ins[_COUNT]} = {grid}.xyz;")
    if _GLOBAL in built_ins:
        # Global invocation id = workgroup id * workgroup size + local id. Sizes that are not stated are 1.
        stated = entry.attribute("workgroup_size")
        sizes = [f"u32({size})" for size in (stated.arguments if stated is not None else ())]
        size = f"{_VECTOR}({', '.join([*sizes, '1u', '1u'][:3])})"
        local = built_ins.get(_LOCAL, names.local)
        lines.append(f"let {built_ins[_GLOBAL]} = {built_ins.get(_ID) or group_id} * {size} + {local};")
    return lines


def _opening(module: WgslModule, entry: Declaration) -> int:
    """Return the index of the token that opens the parameter list: after `fn` and the name."""
    return next(i for i in range(entry.first, entry.body) if module.tokens[i].text == "fn") + 2


def _parameters(module: WgslModule, entry: Declaration) -> list[list[WgslToken]]:
    """Return the tokens of each parameter of an entry point, with its attributes and without commas."""
    parameters: list[list[WgslToken]] = [[]]
    depth = 0  # number of open brackets
    closing = entry.body - 1  # body: index of the `{`, which follows the `)` of an entry point for compute
    for token in module.tokens[_opening(module, entry) + 1 : closing]:
        if token.text in ("(", "<", "["):
            depth += 1
        elif token.text in (")", ">", "]"):
            depth -= 1
        if token.text == "," and depth == 0:
            parameters.append([])
        else:
            parameters[-1].append(token)
    return [tokens for tokens in parameters if tokens]


def _name(words: Sequence[str]) -> str:
    """Return the name of a parameter, the word before the colon."""
    return words[words.index(":") - 1]
