"""The types of an artifact's functions as a module of Python, for type checkers and editors."""

from __future__ import annotations

import keyword
from collections.abc import Sequence

from pydispatch.errors import ArtifactError
from pydispatch.formats.artifact.artifact import Artifact
from pydispatch.formats.artifact.manifest import FunctionEntry, ValueEntry

ELEMENTS = {
    "f16": "np.float16", "f32": "np.float32", "f64": "np.float64", "i1": "np.bool_", "index": "np.int64",
    "complex<f32>": "np.complex64", "complex<f64>": "np.complex128",
    **{f"{prefix}{bits}": f"np.{name}{bits}"
       for prefix, name in (("i", "int"), ("si", "int"), ("ui", "uint")) for bits in (8, 16, 32, 64)},
}  # fmt: skip
"""Element type in MLIR → the NumPy type in a stub; arrays of other element types are `NDArray[Any]`."""

NUMBERS = {"f": "float", "b": "float", "i": "int", "s": "int", "u": "int", "c": "complex"}
"""First letter of the MLIR type of a number, such as b of bf16 → its type in Python; i1 is a bool instead."""

PROGRAM_ATTRIBUTES = ("close", "functions", "imports", "parameters", "session")
"""Public attributes of pydispatch.Program; a function with such a name is reached as `program["name"]` alone."""

TAKEN = ("self", "out", "workers", "fresh", "priority")
"""Parameters of stub methods in addition to the arguments; an argument with such a name is positional-only."""

HEAD = '''"""Types of the functions of {file}, written by `pydispatch stubgen`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import numpy as np
import numpy.typing as npt

import pydispatch

if TYPE_CHECKING:
    from pydispatch._core.batching import Batched
    from pydispatch._core.interface import ValueInfo
    from pydispatch._core.profile import Profile


class _Function(Protocol):
    """Members that every function has, whatever its arguments."""

    name: str
    signature: str

    @property
    def inputs(self) -> tuple[ValueInfo, ...]: ...
    @property
    def outputs(self) -> tuple[ValueInfo, ...]: ...
    def submit_many(
        self, items: Iterable[Any], priority: str = "normal", workers: int | None = None,
        on_error: Literal["raise", "return"] = "raise",
    ) -> pydispatch.Future: ...
    def map(
        self, items: Iterable[Any], in_flight: int | None = None, workers: int | None = None,
        on_error: Literal["raise", "return"] = "raise",
    ) -> Iterator[Any]: ...
    def batched(self, max_batch: int = 64, max_delay: float = 0.001, **options: Any) -> Batched: ...
    def profile(self, *arguments: Any, runs: int = ..., **named: Any) -> Profile: ...
    def plan_of(self, *arguments: Any, **named: Any) -> list[str]: ...
    def close(self) -> None: ...

'''
"""Template of the module's beginning; {file} is the name of the artifact."""
HEAD_NAMES = frozenset(
    ("Any", "Batched", "Iterable", "Iterator", "Literal", "Profile", "Program", "Protocol", "ValueInfo")
)
"""Names that the module itself uses and that a class of a function could have."""
FUNCTION = '''
class {class_name}(_Function, Protocol):
    """{text}"""

    def __call__(self, {arguments}*, out: Any = None, workers: int | None = None) -> {result}: ...
    def prepare(
        self, {arguments}*, out: Any = None, workers: int | None = None, fresh: bool = False
    ) -> {class_name}Prepared: ...
    def submit(
        self, {arguments}*, out: Any = None, priority: str = "normal", workers: int | None = None
    ) -> pydispatch.Future: ...


class {class_name}Prepared(Protocol):
    def __call__(self, *arguments: Any, **named: Any) -> {result}: ...

'''
"""Template of the classes for one function."""
PROGRAM = '''
class Program(pydispatch.Program):
    """{file} on a device."""

{members}

def load(path: str = {path!r}, device: str = "cpu") -> Program:
    """Loads the artifact on a device."""
    return cast(Program, pydispatch.device(device).load(path))
'''
"""Template of the module's end; {members} are the attributes for the functions."""


def module_of(artifact: Artifact, file: str, buffers: bool = False) -> str:
    """Return the text of a stub module (.pyi) for an artifact.

    Args:
        artifact: The artifact.
        file: Its path, which the stub mentions.
        buffers: Whether results are `pydispatch.Buffer`, as on devices other than CPUs.

    Raises:
        ArtifactError: The artifact does not describe the types of its functions.
    """
    class_texts, members = [], []
    class_names = set(HEAD_NAMES)
    for entry in artifact.manifest.functions:
        if entry.inputs is None or entry.outputs is None:
            raise ArtifactError(f"{file}: it does not say what @{entry.name} takes; compile it again")
        if not _is_identifier(entry.name) or entry.name in PROGRAM_ATTRIBUTES:
            # Python cannot access the function as an attribute: a comment says how it is accessed.
            members.append(f"    # {entry.name!r}: program[{entry.name!r}]")
            continue
        class_name = _class_name(entry.name, class_names)
        class_names |= {class_name, f"{class_name}Prepared"}
        class_texts.append(_function(class_name, entry, entry.inputs, entry.outputs, buffers))
        members.append(f"    {entry.name}: {class_name}")
    file_text = _docstring_text(file)
    program = PROGRAM.format(file=file_text, members="\n".join(members or ["    pass"]) + "\n", path=file)
    return HEAD.format(file=file_text) + "".join(class_texts) + program


def _class_name(function: str, taken: set[str]) -> str:
    """Return the name of the stub class of a function.

    `matmul_add` has the classes MatmulAdd and MatmulAddPrepared (the result of its method `prepare`), with underscores
    at the end if one of these names is taken.
    """
    name = "".join(part[:1].upper() + part[1:] for part in function.split("_"))
    while name in taken or f"{name}Prepared" in taken:
        name += "_"
    return name


def _docstring_text(text: str) -> str:
    """Return a text in a form that cannot end a docstring: escaped as by repr(), without double quotes."""
    return repr(text)[1:-1].replace('"', "'")


def _function(
    class_name: str, entry: FunctionEntry, inputs: Sequence[ValueEntry], outputs: Sequence[ValueEntry], buffers: bool
) -> str:
    """Return the two stub classes of one function: `class_name`, and the type of its prepared calls.

    For `add(x: f32[4], n: i32) -> (f32[4])` these are, without `prepare` and `submit`, which have the same arguments,

        class Add(_Function, Protocol):
            def __call__(
                self, x: npt.NDArray[np.float32] | pydispatch.Buffer, n: int, *, out: Any = None, ...
            ) -> npt.NDArray[np.float32]: ...

        class AddPrepared(Protocol):
            def __call__(self, *arguments: Any, **named: Any) -> npt.NDArray[np.float32]: ...

    Arguments whose names Python code cannot use as keywords, and those before them, are positional-only: the names
    ("x", "self", "y") give `_0: ..., _1: ..., /, y: ...`.

    Args:
        class_name: Name of the first class; the second one is `{class_name}Prepared`.
        entry: Entry of the function in the manifest.
        inputs, outputs: Arguments and results of `entry`, which are not None.
        buffers: Whether results are `pydispatch.Buffer`, as on devices other than CPUs.
    """
    results = [_type(value, is_argument=False, buffers=buffers) for value in outputs]
    result = f"tuple[{', '.join(results)}]" if len(results) > 1 else "".join(results) or "None"
    signature = f"{entry.name}({', '.join(map(str, inputs))}) -> ({', '.join(map(str, outputs))})"
    return FUNCTION.format(
        class_name=class_name,
        text=_docstring_text(signature),
        arguments="".join(f"{parameter}, " for parameter in _parameters(inputs, buffers)),
        result=result,
    )


def _parameters(inputs: Sequence[ValueEntry], buffers: bool) -> list[str]:
    """Return the parameters of a stub method for the arguments `inputs`: `name: type`, and "/" after positional ones.

    Python cannot name an argument without a name, with one that is no identifier or that a stub method has itself, or
    with the name of another argument. All parameters up to the last such argument are positional-only.
    """
    names = [value.name for value in inputs]
    unnameable = [
        i for i, name in enumerate(names) if not _is_identifier(name) or name in TAKEN or names.count(name) > 1
    ]
    last_positional = max(unnameable, default=-1)
    parameters = []
    for index, value in enumerate(inputs):
        name = f"_{index}" if index <= last_positional else value.name
        parameters.append(f"{name}: {_type(value, is_argument=True, buffers=buffers)}")
        if index == last_positional:
            parameters.append("/")
    return parameters


def _type(value: ValueEntry, is_argument: bool, buffers: bool) -> str:
    """Return the Python type of an argument or result. buffers: whether results are `pydispatch.Buffer`."""
    if value.shape is None:
        return "bool" if value.type == "i1" else NUMBERS.get(value.type[0], "Any")
    array = f"npt.NDArray[{ELEMENTS.get(value.type, 'Any')}]"
    if is_argument:
        return f"{array} | pydispatch.Buffer"
    return "pydispatch.Buffer" if buffers else array


def _is_identifier(name: str) -> bool:
    """Return whether Python code can use a name without escapes, and it is not private (`_` at the beginning)."""
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")
