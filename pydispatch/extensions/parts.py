"""Registration of a package's extensions: one method for each kind of extension."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from pydispatch.errors import Error


class ExtensionError(Error):
    """Error of a package that extends pydispatch. The message names the package, and how to do without it."""


@dataclass(frozen=True)
class Part:
    """Extension that a package registered.

    Attributes:
        kind: Kind of the extension, such as "dialect" or "tensor operations": one for each method of `Extensions`.
        name: Name of the extension, unique in its kind; for a pass, the phase. "" for kinds without names.
        place: Reference "module:object" or "module" to the implementation.
        owner: Name of the package in messages.
        dialects: For conversions, the dialects of the operations that they replace; empty for all.
    """

    kind: str
    name: str
    place: str
    owner: str
    dialects: tuple[str, ...] = ()

    def load(self) -> Any:
        """Import the object that `place` names, and return it. ExtensionError when it cannot be imported."""
        module, _, name = self.place.partition(":")
        try:
            loaded: Any = importlib.import_module(module)
            for part in filter(None, name.split(".")):
                loaded = getattr(loaded, part)
        except Exception as error:  # whatever the module does at import
            if self.owner == BUILT_IN:  # a defect of pydispatch: no other package is to blame
                raise
            what = f"{self.kind} '{self.name}'" if self.name else self.kind
            said = f"{type(error).__name__}: {error}"
            raise ExtensionError(f"{what} of {self.owner} cannot be imported from '{self.place}': {said}; "
                                 f"{advice_to_do_without(self.owner)}") from error  # fmt: skip
        return loaded


BUILT_IN = "pydispatch"
"""Owner of the parts that this package registers itself."""


def advice_to_do_without(owner: str) -> str:
    """Return the end of an error message: how to work without the extensions of a broken package."""
    return f"mend or uninstall {owner}, or set PYDISPATCH_EXTENSIONS=0 to do without extensions"


class Extensions:
    """Registry of the extensions of one package, the owner. Every method may be called several times.

    The argument `place` of a method is a reference, "module:object" or "module", which is imported on first use.
    """

    def __init__(self, owner: str, parts: dict[str, list[Part]]) -> None:
        """Initialize the registry.

        Args:
            owner: Name of the package in messages.
            parts: Parts of all packages by kind. The methods append to it.
        """
        self._owner, self._parts = owner, parts

    def dialect(self, name: str, place: str) -> None:
        """Register a dialect that programs may use.

        Args:
            name: The prefix of its operations, before the dot.
            place: Reference "module:object" to an `xdsl.ir.Dialect`.
        """
        self._add("dialect", name, place)

    def conversions(self, place: str, dialects: tuple[str, ...] = ()) -> None:
        """Register rewrites of operations into others, which run before dispatches are formed.

        Args:
            place: Reference "module:object" to a mapping from operation names to `function(op, build)`, which replaces
                `op` by operations that `build` inserts (`pydispatch.compiler.normalize.build`).
            dialects: The dialects of these operations. The reference is imported only for programs that use one of
                them; if empty, for every program.
        """
        self._add("conversions", "", place, dialects)

    def tensor_operations(self, place: str) -> None:
        """Register operations on tensors that generated kernels compute.

        Args:
            place: Reference "module:object" to a sequence of subclasses of `TensorOp`, one for each operation
                (`pydispatch.compiler.tensor_ops.rule`).
        """
        self._add("tensor operations", "", place)

    def compiler_pass(self, phase: str, place: str) -> None:
        """Register a pass that runs on every program at the end of a phase.

        Args:
            phase: One of `compiler.driver.phases.PHASES`, except "program".
            place: Reference "module:object" to `function(module)`, which changes the module or raises CompileError.
        """
        self._add("pass", phase, place)

    def patterns(self, place: str) -> None:
        """Register patterns in Python that every program is matched against.

        Args:
            place: Reference "module:object" to a sequence of functions with the decorator `@pydispatch.pattern`.
        """
        self._add("patterns", "", place)

    def target(self, name: str, place: str) -> None:
        """Register a compiler backend.

        Args:
            name: Its name in target attributes and in `targets=`.
            place: Reference "module:object" to its `Backend`.
        """
        self._add("target", name, place)

    def device(self, scheme: str, place: str) -> None:
        """Register a kind of device that programs run on.

        Args:
            scheme: The prefix of its device names.
            place: Name of a module with the functions `open` and `available` (`pydispatch.runtime.device.Scheme`).
        """
        self._add("device", scheme, place)

    def frontend(self, name: str, place: str) -> None:
        """Register a frontend, a reader of models.

        Args:
            name: Its name in messages.
            place: Reference "module:object" to a `Frontend` (`pydispatch.frontends.source`).
        """
        self._add("frontend", name, place)

    def command(self, name: str, place: str) -> None:
        """Register the default implementation of a host command, for devices without one of that name.

        Args:
            name: The name of the command in programs.
            place: Reference "module:object" to a function as for `device.add_command`. It is called after all earlier
                commands are complete.
        """
        self._add("command", name, place)

    def subcommand(self, name: str, place: str) -> None:
        """Register a subcommand of the `pydispatch` command.

        Args:
            name: The name of the subcommand.
            place: Name of a module with a docstring and the functions `add_arguments` and `run`.
        """
        self._add("subcommand", name, place)

    def _add(self, kind: str, name: str, place: str, dialects: tuple[str, ...] = ()) -> None:
        """Append a part. Raise ExtensionError if another part of the kind has the same name.

        Names need not be unique for kinds whose parts have no name (""), and for passes: their name is the phase in
        which they run.
        """
        for other in self._parts.get(kind, []) if name and kind != "pass" else []:
            if other.name == name:
                raise ExtensionError(f"{kind} '{name}' is both in {other.owner} ({other.place}) and in {self._owner} "
                                     f"({place}); {advice_to_do_without(self._owner)}")  # fmt: skip
        self._parts.setdefault(kind, []).append(Part(kind, name, place, self._owner, dialects))
