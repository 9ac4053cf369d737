from collections.abc import Callable

from pydispatch._core.artifact import ArtifactFile
from pydispatch._core.plugin import Resolution
from pydispatch._core.program import Module

class Manifest: ...

def read_manifest(file: ArtifactFile) -> Manifest | None: ...

class Machine:
    def __init__(self, format: str, features: frozenset[str], processor_data: tuple[int, ...]) -> None: ...

def link_directly(
    module: Module,
    file: ArtifactFile,
    manifest: Manifest,
    machine: Machine,
    missing: Callable[[int, int, tuple[str, ...]], Exception],
) -> list[tuple[int, ...]] | None: ...
def raise_exports(file: str, name: str, member: str, listed: int, count: int) -> None: ...
def map_executables(module: Module, codes: list[tuple[int, str, memoryview | bytes]]) -> None: ...
def load_executable(
    module: Module,
    index: int,
    elf: memoryview | bytes | None,
    name: str,
    constants: list[int],
    processor_data: tuple[int, ...],
    variant: int,
    alignment: int,
    resolution: Resolution | None = None,
    query: int = 0,
    owner: object = None,
) -> int: ...
