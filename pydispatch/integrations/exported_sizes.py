"""Names of the dynamic sizes of an exported module: those of `torch.export.Dim`, which PyTorch drops at export."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_COMPOSED = re.compile(r".*_size\d+")
"""Names that the frontend composes for sizes that are expressions: `x_size0` for axis 0 of the argument x. `size_names`
leaves out sizes that the user named like that."""


def size_names(
    program: Any, model: Any, args: Sequence[Any], keywords: Mapping[str, Any], dynamic_shapes: Any
) -> dict[str, str]:
    """Return the names of sizes by their symbols in the exported program, such as {"s77": "batch"}.

    `torch.export` drops the names in `dynamic_shapes`. An axis with a name in `dynamic_shapes` has a symbol in the
    exported program; the example arguments say to which input of the program the axis belongs. Sizes without a name,
    derived sizes (`2 * batch`), and sizes with the name of an argument are left out.

    Example: the module has `forward(x, mask)`, and is exported with args=(x,), keywords={"mask": mask} and
    dynamic_shapes={"x": {0: Dim("batch")}, "mask": None}. Input 0 of the program belongs to x. Its shape in the program
    is [s77, 3], so the result is {"s77": "batch"}.

    Args:
        program: `torch.export.ExportedProgram` of the module.
        model: The module.
        args: Its example arguments.
        keywords: Its example arguments by name.
        dynamic_shapes: Sizes as `torch.export.export` accepts them.
    """
    import torch.utils._pytree as pytree

    leaves, structure = pytree.tree_flatten((tuple(args), dict(keywords)))
    inputs = program.graph_signature.user_inputs  # one for each leaf, in order: the name of an input, or a constant
    if len(inputs) != len(leaves):
        return {}
    # The arguments of `forward` by name, with the index of the program's input instead of each tensor:
    # {"x": 0, "mask": 1} in the example.
    positions_by_position, positions_by_name = pytree.tree_unflatten(list(range(len(leaves))), structure)
    positions = inspect.signature(model.forward).bind(*positions_by_position, **positions_by_name).arguments
    # Inputs of the program by name; the sizes of these tensors are numbers or symbols.
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    # `dynamic_shapes` has the structure of the positional arguments, or of the arguments by name.
    specification = tuple(positions.values()) if isinstance(dynamic_shapes, (tuple, list)) else positions
    names: dict[str, str] = {}
    for position, axis, name in _named_axes(specification, dynamic_shapes):
        shape = getattr(values.get(inputs[position]), "shape", ())
        size = shape[axis] if axis < len(shape) else None
        expression = getattr(getattr(size, "node", None), "expr", None)
        if getattr(expression, "is_Symbol", False) and name not in positions and not _COMPOSED.fullmatch(name):
            names.setdefault(str(expression), name)
    return names


def _named_axes(positions: Any, sizes: Any) -> Iterator[tuple[int, int, str]]:
    """Yield (position of a tensor among the leaves of the arguments, axis, name) for each size that has a name.

    positions: structure of the arguments, with the positions of the leaves. sizes: structure of `dynamic_shapes`.
    """
    # A leaf, which is a tensor: `sizes` maps its axes to sizes, or lists them. Then mappings, then sequences.
    if isinstance(positions, int):
        by_axis = sizes.items() if isinstance(sizes, Mapping) else enumerate(sizes or ())
        for axis, size in by_axis:
            name = getattr(size, "__name__", None)
            if isinstance(axis, int) and isinstance(name, str) and name.isidentifier():
                yield positions, axis, name
    elif isinstance(positions, Mapping) and isinstance(sizes, Mapping):
        for key, inner in positions.items():
            yield from _named_axes(inner, sizes.get(key))
    elif isinstance(positions, (tuple, list)) and isinstance(sizes, (tuple, list)):
        for inner, inner_sizes in zip(positions, sizes, strict=False):
            yield from _named_axes(inner, inner_sizes)
