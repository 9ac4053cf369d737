from collections.abc import Callable, Iterable
from typing import Any

class KernelCall:
    def bind(
        self, function: Callable[..., Any], written: int | tuple[int, ...], count: int, views: Iterable[int]
    ) -> None: ...
    def __call__(self, *args: Any) -> None: ...
