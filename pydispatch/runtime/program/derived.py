"""The memory of derived constants, which programs of equal artifacts share."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from pydispatch._core.derived import Derived

if TYPE_CHECKING:
    from pydispatch._core.artifact import ArtifactFile
    from pydispatch._core.program import Module
    from pydispatch.runtime.program.variants import Chosen


class Shared:
    """Derived constants of equal programs. file: the artifact of the first of them. memory: that of the process.
    blocks: by constant, memory of a device of its own; lock: of `blocks`."""

    def __init__(self, module: Module, file: ArtifactFile) -> None:
        self.file, self.memory = file, Derived(module)
        self.blocks: dict[int, Any] = {}
        self.lock = threading.Lock()


class Sharing:
    """The derived constants of the programs that are loaded on a device."""

    def __init__(self) -> None:
        self._known: weakref.WeakValueDictionary[Hashable, Shared] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()

    def find(self, module: Module, file: ArtifactFile, variants: Sequence[Chosen]) -> Shared:
        """Return the derived constants of a loaded program whose artifact has the same bytes and runs the same
        variants, else new ones.
        """
        key = (file.size, file.checksums(), *((v.number, *v.constants) for v in variants))
        with self._lock:
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = Shared(module, file)
                return known
        return known if known.file.is_equal(file) else Shared(module, file)


def attach(module: Module, file: ArtifactFile, variants: Sequence[Chosen], sharing: Sharing | None) -> None:
    """Give a linked program the memory of its derived constants.

    Nothing is shared by programs whose results may differ though their artifacts are equal: by parameters, by functions
    that they import, or by code that they only declare.
    """
    differs = module.parameters() or any(v.entry.get("imports") or v.entry.get("dynamic") for v in variants)
    shared = Shared(module, file) if sharing is None or differs else sharing.find(module, file, variants)
    module.use_derived(shared.memory, shared)
