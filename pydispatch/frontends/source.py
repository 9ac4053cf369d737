"""What a frontend is: which sources it reads, and how a source becomes a program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from pydispatch import extensions


@dataclass(frozen=True)
class ReadOptions:
    """What the caller said about a model.

    weights: "embed" keeps its arrays in the artifact, "external" leaves them out: `device.load(artifact,
    parameters=...)` gives them then, by name in the scope "model". kernels: names of custom operations → kernels that
    compute them. bound: leading arguments of the public function that are weights: a name and an array for each.
    inputs: shapes of arguments in place of those that the model states, by name; a name among the sizes stands for one
    that a call decides. constants: elements of inputs that are no arguments then. assumes_types: results of custom
    operations whose types nothing states have that of the first operand, instead of being an error.
    """

    weights: str = "embed"
    kernels: Mapping[str, Any] = field(default_factory=dict)
    bound: Sequence[tuple[str, Any]] = ()
    inputs: Mapping[str, Sequence[int | str]] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    assumes_types: bool = False


HEAD = 4096
"""Bytes of a file that frontends are shown."""


class Frontend:
    """A way in for programs that are not in pydispatch's own language. Registered with `extensions.frontend`.

    `read` begins a public function on a `Builder` (`frontends/graph`), calls functions of `frontends/ops` for each node
    of the model in order, and finishes the function; `examples/extending/toy/frontend.py` is a small one.
    Every compilation asks all frontends: what reads a model is imported by `read`. suffixes: of its files; dialects:
    a parsed program with operations of these is still one for this frontend.
    """

    suffixes: tuple[str, ...] = ()
    dialects: frozenset[str] = frozenset()

    def reads_file(self, path: Path, head: bytes) -> bool:
        """Whether a file is one for this frontend. head: its first bytes, up to `HEAD`."""
        return path.suffix.lower() in self.suffixes

    def reads_object(self, source: object) -> bool:
        """Whether an object of a framework is a source for this frontend. Does not import the framework."""
        return False

    def read(self, source: Path | object, options: ReadOptions) -> ModuleOp:
        """The program of a file, an object or a module: one public function, `main` unless the source names it.
        CompileError, which names the layer, for a model that cannot be compiled."""
        raise NotImplementedError

    def operators(self) -> Mapping[str, Iterable[str]]:
        """The names of all operators that it reads, under headings, for docs/models.md."""
        return {}


def frontends() -> list[Frontend]:
    """All frontends, the built-in ones first."""
    return [part.load() for part in extensions.parts("frontend")]
