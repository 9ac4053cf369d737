"""Shell commands that check one random program again, without the generator that made it."""

from __future__ import annotations

from typing import Any

import numpy as np
from graph_programs import Kind, Node, Program

COMMAND = """\
python - <<'END'
import sys
sys.path.insert(0, "tests/reliability/generated")
from numpy import array, inf, nan
from graph_programs import Node, Program, check
from {module} import {name}
program = {program}
print({check} or "right")
END"""


def reproducer(kind: Kind, program: Program, is_peer: bool = False) -> str:
    """Return a command for the root of the checkout that prints the finding of a program.

    Args:
        kind: The frontend of the program.
        program: The program, with its arguments.
        is_peer: Whether to compare the reference with onnxruntime, instead of pydispatch with the reference.
    """
    module, name = type(kind).__module__, type(kind).__name__
    check = f"{name}().peer(program)" if is_peer else f"check({name}(), program)"
    return COMMAND.format(module=module, name=name, program=literal(program), check=check)


def literal(value: Any) -> str:
    """Return a Python expression for a program or a part of one."""
    match value:
        case np.ndarray():
            return f"array({value.tolist()}, {value.dtype.name!r}).reshape({value.shape})"
        case Program():
            nodes = "".join(f"    {literal(node)},\n" for node in value.nodes)
            rest = ", ".join(map(literal, (value.sets, value.constants, value.open_axes)))
            return f"Program((\n{nodes}), {rest})"
        case Node():
            return f"Node({value.op!r}, {value.inputs}, {value.outputs}, {literal(value.attributes)})"
        case dict():
            return f"{{{', '.join(f'{key!r}: {literal(item)}' for key, item in value.items())}}}"
        case list():
            return f"[{', '.join(map(literal, value))}]"
        case tuple():
            return f"({''.join(f'{literal(item)}, ' for item in value)})"
    return repr(value)
