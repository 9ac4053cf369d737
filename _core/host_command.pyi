from collections.abc import Callable
from typing import Any

PREFIX: str

class Context:
    kind: str
    name: str
    stream: int | None
    command_buffer: int | None
    handle: int | None
    def __init__(
        self,
        kind: str,
        name: str,
        stream: int | None = None,
        command_buffer: int | None = None,
        handle: int | None = None,
    ) -> None: ...
    def parallel_for(self, count: int, body: Callable[[int, int], object]) -> None: ...
    def end(self) -> None: ...

class PythonCommand:
    address: int
    def __init__(self, function: Callable[..., Any]) -> None: ...
