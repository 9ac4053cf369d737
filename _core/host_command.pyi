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

def check_result(result: object, operands: list[Any]) -> None: ...
def scalar_of(dtype: int, word: int) -> Any: ...

class Native:
    def __init__(
        self,
        kind: str,
        name: str,
        stream: int | None = None,
        command_buffer: int | None = None,
        handle: int | None = None,
    ) -> None: ...
    def add_scalar(self, dtype: int, value: Any) -> None: ...
    def add_tensor(
        self, dtype: int, sizes: tuple[int, ...], access: int, nbytes: int, data: int, offset: int
    ) -> None: ...
    def call(self, address: int, context: int) -> None: ...
