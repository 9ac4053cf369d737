from collections.abc import Callable, Iterable, Sequence
from typing import Any

class KernelCall:
    def bind(
        self, function: Callable[..., Any], written: int | Sequence[int], count: int, views: Iterable[int]
    ) -> None: ...
    def __call__(self, *args: Any, **named: Any) -> None: ...
