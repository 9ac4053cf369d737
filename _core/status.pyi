class Error(Exception):
    location: object  # text "FILE:LINE:COLUMN" or None; a CompileError has a pydispatch.errors.Location
    causes: tuple[str, ...]

class ArtifactError(Error): ...

class MissingImportError(Error):
    symbols: tuple[str, ...]
    def __init__(self, message: str = "", symbols: tuple[str, ...] = ()) -> None: ...

class InvalidArgumentError(Error, ValueError): ...
class DeviceUnavailableError(Error): ...

class KernelError(Error):
    executable: str | None
    export: str | None
    workgroup: tuple[int, int, int] | None
    code: int | None
    def __init__(
        self,
        message: str = "",
        executable: str | None = None,
        export: str | None = None,
        workgroup: tuple[int, int, int] | None = None,
        code: int | None = None,
    ) -> None: ...

class CommandError(Error):
    command: str | None
    code: int | None
    def __init__(self, message: str = "", command: str | None = None, code: int | None = None) -> None: ...

class OutOfMemoryError(Error, MemoryError): ...
class SystemError_(Error, OSError): ...  # noqa: N801

class InternalError(Error):
    source: str | None

CODES: dict[int, type[Error]]
