"""The types of an artifact's functions as a module of Python, for type checkers and editors."""

from __future__ import annotations

import keyword
from collections.abc import Sequence

from pydispatch.errors import ArtifactError
from pydispatch.formats.artifact.artifact import Artifact
from pydispatch.formats.artifact.manifest import FunctionEntry, ValueEntry

ELEMENTS = {
    "f16": "np.float16", "f32": "np.float32", "f64": "np.float64", "i1": "np.bool_", "i8": "np.int8", "i16": "np.int16",
    "i32": "np.int32", "i64": "np.int64", "index": "np.int64", "complex<f32>": "np.complex64",
    "complex<f64>": "np.complex128",
}  # fmt: skip
"""Element types that NumPy has; others are known at run time alone."""

NUMBERS = {"f": "float", "i1": "bool", "i": "int", "c": "complex"}
"""Types of numbers by the beginning of their names; the longest that fits."""

PROGRAM_ATTRIBUTES = ("close", "functions", "imports", "parameters", "session")
"""Public attributes of pydispatch.Program; functions with these names have no attribute."""

TAKEN = ("self", "out", "workers")
"""Names of parameters of every stub method, which no argument can have."""

HEAD = '''"""Types of the functions of {file}, written by `pydispatch stubgen`."""

from __future__ import annotations

from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

import pydispatch

'''
FUNCTION = '''
class {class_name}(Protocol):
    """{text}"""

    def __call__(self, {arguments}*, out: Any = None, workers: int | None = None) -> {result}: ...
    def prepare(self, {arguments}*, out: Any = None, workers: int | None = None) -> {class_name}Prepared: ...
    def submit(self, {arguments}*, out: Any = None, priority: str = "normal") -> pydispatch.Future: ...


class {class_name}Prepared(Protocol):
    def __call__(self, *arguments: Any, **named: Any) -> {result}: ...

'''
PROGRAM = '''
class Program(pydispatch.Program):
    """{file} on a device."""

{members}

def load(path: str = {path!r}, device: str = "cpu") -> Program:
    """Loads the artifact on a device."""
    return cast(Program, pydispatch.device(device).load(path))
'''


def module_of(artifact: Artifact, file: str, buffers: bool = False) -> str:
    """Return the text of a stub module (.pyi) for an artifact.

    Args:
        artifact: The artifact.
        file: Its path, which the stub mentions.
        buffers: Whether results are `pydispatch.Buffer`, as on devices other than CPUs.

    Raises:
        ArtifactError: The artifact does not describe the types of its functions.
    """
    parts, members, class_names = [], [], {"Any", "Program", "Protocol"}
    for entry in artifact.manifest.functions:
        if entry.inputs is None or entry.outputs is None:
            raise ArtifactError(f"{file}: it does not say what @{entry.name} takes; compile it again")
        if not _is_identifier(entry.name) or entry.name in PROGRAM_ATTRIBUTES:
            members.append(f"    # {entry.name!r}: program[{entry.name!r}]")
            continue
        class_name = "".join(part[:1].upper() + part[1:] for part in entry.name.split("_")) or entry.name
        while class_name in class_names or f"{class_name}Prepared" in class_names:
            class_name += "_"
        class_names |= {class_name, f"{class_name}Prepared"}
        parts.append(_function(class_name, entry, entry.inputs, entry.outputs, buffers))
        members.append(f"    {entry.name}: {class_name}")
    body = "\n".join(members) or "    pass"
    file_text = _docstring_text(file)
    return HEAD.format(file=file_text) + "".join(parts) + PROGRAM.format(file=file_text, members=body + "\n", path=file)


def _docstring_text(text: str) -> str:
    """Return a text in a form that cannot end a docstring: escaped as by repr(), without double quotes."""
    return repr(text)[1:-1].replace('"', "'")


def _function(
    class_name: str, entry: FunctionEntry, inputs: Sequence[ValueEntry], outputs: Sequence[ValueEntry], buffers: bool
) -> str:
    """Return the two stub classes of one function: `class_name`, and the type of its prepared calls."""
    names = [value.name for value in inputs]
    unnameable = [
        i for i, name in enumerate(names) if not _is_identifier(name) or name in TAKEN or names.count(name) > 1
    ]
    last = max(unnameable, default=-1)
    words = []
    for index, value in enumerate(inputs):
        words.append(f"{f'_{index}' if index <= last else value.name}: {_type(value, 'argument', buffers)}")
        words += ["/"] if index == last else []
    results = [_type(value, "result", buffers) for value in outputs]
    result = "None" if not results else results[0] if len(results) == 1 else f"tuple[{', '.join(results)}]"
    signature = f"{entry.name}({', '.join(map(_shown, inputs))}) -> ({', '.join(map(_shown, outputs))})"
    return FUNCTION.format(
        class_name=class_name,
        text=_docstring_text(signature),
        arguments="".join(f"{w}, " for w in words),
        result=result,
    )


def _type(value: ValueEntry, side: str, buffers: bool) -> str:
    """Return the Python type of an argument or result."""
    if value.shape is None:
        matches = [name for start, name in NUMBERS.items() if value.type.startswith(start)]
        return matches[0] if matches else "Any"
    array = f"npt.NDArray[{ELEMENTS.get(value.type, 'Any')}]"
    if side == "argument":
        return f"{array} | pydispatch.Buffer"
    return "pydispatch.Buffer" if buffers else array


def _shown(value: ValueEntry) -> str:
    """Return an argument or result as text: "x: f32[2, 3]"."""
    shape = "" if value.shape is None else f"[{', '.join(map(str, value.shape))}]"
    return f"{value.name}: {value.type}{shape}" if value.name else f"{value.type}{shape}"


def _is_identifier(name: str) -> bool:
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")
