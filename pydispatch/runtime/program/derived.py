"""Memory of derived constants (computed from other constants at load time), shared by programs of equal artifacts."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from pydispatch._core.derived import Derived
from pydispatch._core.process_lock import process_lock

if TYPE_CHECKING:
    from pydispatch._core.artifact import ArtifactFile
    from pydispatch._core.program import Module


class Shared:
    """Derived constants that all loaded copies of one program share. They are computed from other constants at load.

    Attributes:
        file: Artifact from which the first of these programs was loaded.
        memory: Host memory of the constants, each computed on first use.
        blocks: Index of a constant → its device memory, once computed on a device other than the CPU.
        lock: Guards `blocks`.
    """

    def __init__(self, module: Module, file: ArtifactFile) -> None:
        """Create the constants of a loaded program, none of which is computed yet."""
        self.file, self.memory = file, Derived(module)
        self.blocks: dict[int, Any] = {}
        self.lock = process_lock()


class Sharing:
    """Registry of the derived constants (computed from other constants at load) of one device's loaded programs.

    If an artifact is loaded twice with the same variants, `find` returns the same `Shared` for both programs, so that
    both use the same memory. The registry holds weak references: constants are freed with the last program that uses
    them.
    """

    def __init__(self) -> None:
        """Create an empty registry."""
        # (size and checksums of an artifact, its variants) → constants
        self._known: weakref.WeakValueDictionary[Hashable, Shared] = weakref.WeakValueDictionary()
        self._lock = process_lock()

    def find(self, module: Module, file: ArtifactFile, variants: Sequence[tuple[int, ...]]) -> Shared:
        """Return the derived constants of an artifact for certain variants.

        If a loaded program has an equal artifact and equal variants, its constants are returned, else new ones. A
        derived constant is a value that depends on constants alone and is computed once, such as packed weights.

        Args:
            module: The program.
            file: Its artifact.
            variants: For each executable the index of its variant, followed by its constants, such as (1, 64). Derived
                constants depend on both, because executables compute them.
        """
        key = (file.size, file.checksums(), *variants)
        with self._lock:
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = Shared(module, file)
                return known
        # Files of equal checksums may differ: compare the bytes, without the lock because that takes long. Constants of
        # such another file are not registered.
        return known if known.file.is_equal(file) else Shared(module, file)


def attach(module: Module, file: ArtifactFile, variants: Sequence[tuple[int, ...]], sharing: Sharing | None) -> None:
    """Assign a linked program the memory of its derived constants.

    Programs with parameters, imports or code supplied at load time share nothing, because their constants may differ
    even if their artifacts are equal.

    Args:
        module: The program.
        file: Its artifact.
        variants: For each executable the index of its variant, followed by its constants.
        sharing: Derived constants of the device's programs; None to share nothing, as for programs with imports or
            supplied code.
    """
    if sharing is None or module.parameters():
        shared = Shared(module, file)
    else:
        shared = sharing.find(module, file, variants)
    module.use_derived(shared.memory, shared)  # the module keeps `shared`, the owner of the memory, alive
