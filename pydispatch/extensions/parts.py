"""What a package registers: one method for each kind of thing that pydispatch can be extended by."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from pydispatch.errors import Error


class ExtensionError(Error):
    """A package that adds to pydispatch is wrong: which one, and how to do without it."""


@dataclass(frozen=True)
class Part:
    """One thing that a package has. owner: the package, as messages call it; name: "" for kinds without names;
    dialects: those that it is for, empty for all."""

    kind: str
    name: str
    place: str
    owner: str
    dialects: tuple[str, ...] = ()

    def load(self) -> Any:
        """What is at the place. ExtensionError when it cannot be imported."""
        module, _, name = self.place.partition(":")
        try:
            found: Any = importlib.import_module(module)
            for part in filter(None, name.split(".")):
                found = getattr(found, part)
        except Exception as error:  # whatever the module does at import
            if self.owner == BUILT_IN:
                raise
            what = f"{self.kind} '{self.name}'" if self.name else self.kind
            said = f"{type(error).__name__}: {error}"
            raise ExtensionError(f"{what} of {self.owner} cannot be imported from '{self.place}': {said}; "
                                 f"{without(self.owner)}") from error  # fmt: skip
        return found


BUILT_IN = "pydispatch"


def without(owner: str) -> str:
    """What to do about a package that is wrong."""
    return f"mend or uninstall {owner}, or set PYDISPATCH_EXTENSIONS=0 to do without extensions"


class Extensions:
    """What one package has. Every method may be called several times."""

    def __init__(self, owner: str, parts: dict[str, list[Part]]) -> None:
        self._owner, self._parts = owner, parts

    def dialect(self, name: str, place: str) -> None:
        """A dialect that programs may use. name: what stands before the dot of its operations; place: an
        `xdsl.ir.Dialect`."""
        self._add("dialect", name, place)

    def conversions(self, place: str, dialects: tuple[str, ...] = ()) -> None:
        """Operations that others replace, before dispatches are formed. place: a mapping from the name of an operation
        to `function(op, build)` (`pydispatch.compiler.normalize.build`). dialects: of these operations, so that the
        place is imported for programs that have some; without them for every program."""
        self._add("conversions", "", place, dialects)

    def tensor_operations(self, place: str) -> None:
        """Operations on tensors that kernels compute. place: a sequence of subclasses of `TensorOp`, one for each
        operation (`pydispatch.compiler.tensor_ops.rule`)."""
        self._add("tensor operations", "", place)

    def compiler_pass(self, phase: str, place: str) -> None:
        """A rewrite of every program at the end of a phase. phase: one of `compiler.driver.phases.PHASES` but
        "program"; place: `function(module)`, which changes the module or raises CompileError."""
        self._add("pass", phase, place)

    def patterns(self, place: str) -> None:
        """Python patterns that every program is matched against. place: a sequence of what `@pydispatch.pattern`
        made."""
        self._add("patterns", "", place)

    def target(self, name: str, place: str) -> None:
        """A backend of the compiler. name: as target attributes and `targets=` call it; place: its `Backend`."""
        self._add("target", name, place)

    def device(self, scheme: str, place: str) -> None:
        """A device that programs run on. scheme: what its names begin with; place: a module with `open` and `available`
        (`pydispatch.runtime.device.Scheme`)."""
        self._add("device", scheme, place)

    def frontend(self, name: str, place: str) -> None:
        """A way in for models. name: what messages call it; place: a `Frontend` (`pydispatch.frontends.source`)."""
        self._add("frontend", name, place)

    def command(self, name: str, place: str) -> None:
        """A host command for programs that name it, on devices that were given no other. place: a function, as
        `device.add_command` takes it; it is called when everything before it is complete."""
        self._add("command", name, place)

    def subcommand(self, name: str, place: str) -> None:
        """A subcommand of the command `pydispatch`. place: a module with a docstring, `add_arguments` and `run`."""
        self._add("subcommand", name, place)

    def _add(self, kind: str, name: str, place: str, dialects: tuple[str, ...] = ()) -> None:
        for other in self._parts.get(kind, []) if name and kind != "pass" else []:
            if other.name == name:
                raise ExtensionError(f"{kind} '{name}' is both in {other.owner} ({other.place}) and in {self._owner} "
                                     f"({place}); {without(self._owner)}")  # fmt: skip
        self._parts.setdefault(kind, []).append(Part(kind, name, place, self._owner, dialects))
