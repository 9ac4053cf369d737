from collections.abc import Sequence
from typing import Any

from pydispatch._core.function import Function

class Prepared:
    def __init__(self, function: Function, args: Sequence[Any], out: Any) -> None: ...
    def __call__(self, *args: Any, **named: Any) -> Any: ...
    @property
    def commands(self) -> list[str]: ...
