"""Interface of frontends: the sources that a frontend reads, and the translation of a source into a program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from pydispatch import extensions


@dataclass(frozen=True)
class ReadOptions:
    """Options of the frontends for reading a model, a part of the options of a compilation.

    Attributes:
        weights: "embed" stores the arrays in the artifact. "external" omits them; `device.load(artifact,
            parameters=...)` then supplies them by name in the scope "model".
        kernels: Kernels of the user by the names of the operations of the model that they compute.
        bound: Leading arguments of the public function that are weights rather than arguments of the program, in
            order, as pairs of name and array.
        inputs: Shapes that replace those in the model, by argument name; a string as a size names a dynamic size.
        constants: Elements of inputs by name, which thereby become constants instead of arguments.
        assumes_types: Whether the result of a custom operation without a stated type has the type of the first operand;
            otherwise a missing type is an error.
        state_names: Name of each `pydispatch.State` in the programs that were read, so that programs of one artifact
            that use a state share it.
    """

    weights: str = "embed"
    kernels: Mapping[str, Any] = field(default_factory=dict)
    bound: Sequence[tuple[str, Any]] = ()
    inputs: Mapping[str, Sequence[int | str]] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    assumes_types: bool = False
    state_names: dict[Any, str] = field(default_factory=dict)


HEAD = 4096
"""Number of bytes from the start of a file that frontends are passed to recognize its format."""


class Frontend:
    """Reader of programs in another format than MLIR text of pydispatch's dialects. Registered with
    `extensions.frontend`.

    `read` begins a public function on a `Builder` (`graph`), calls functions of `operations` for each node of the model
    in order, and finishes the function. `examples/extending/toy/frontend.py` is a small example.

    Every compilation queries all frontends, so modules that only `read` needs are imported in `read`.

    Attributes:
        suffixes: File name suffixes of the format.
        dialects: MLIR dialects; a parsed module that has operations of one of them is read by this frontend.
        takes_inputs: Whether `inputs` and `constants` of `ReadOptions` apply to its models.
    """

    suffixes: tuple[str, ...] = ()
    dialects: frozenset[str] = frozenset()
    takes_inputs: bool = False

    def reads_file(self, path: Path, head: bytes) -> bool:
        """Return whether this frontend reads a file. `head` has its first bytes, at most `HEAD` of them."""
        return path.suffix.lower() in self.suffixes

    def reads_object(self, source: object) -> bool:
        """Return whether this frontend reads an object of a framework. Must not import the framework."""
        return False

    def read(self, source: Path | object, options: ReadOptions) -> ModuleOp:
        """Return the program of a file, an object or a module: one public function, named `main` unless the source
        names it.

        Raise CompileError, which names the layer, if the model cannot be compiled.
        """
        raise NotImplementedError

    def operators(self) -> Mapping[str, Iterable[str]]:
        """Return the names of all operators that this frontend reads, by heading of the list in docs/models.md."""
        return {}


def frontends() -> list[Frontend]:
    """Return all frontends; the built-in ones are first."""
    return [part.load() for part in extensions.parts("frontend")]
