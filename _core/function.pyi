from collections.abc import Iterable, Iterator
from typing import Any

from pydispatch._core.future import Future
from pydispatch._core.items import OnError
from pydispatch._core.prepared import Prepared
from pydispatch._core.profile import Profile
from pydispatch._core.program import Module
from pydispatch._core.public import PublicFunction

class Function(PublicFunction):
    def __init__(self, module: Module, index: int) -> None: ...
    def __call__(self, *args: Any, out: Any = None, workers: Any = None, **named: Any) -> Any: ...
    def prepare(
        self, *args: Any, out: Any = None, workers: int | None = None, fresh: bool = False, **named: Any
    ) -> Prepared: ...
    def submit(
        self, *args: Any, out: Any = None, priority: str = "normal", workers: int | None = None, **named: Any
    ) -> Future: ...
    def submit_many(
        self, items: Iterable[Any], priority: str = "normal", workers: int | None = None, on_error: OnError = "raise"
    ) -> Future: ...
    def map(
        self,
        items: Iterable[Any],
        in_flight: int | None = None,
        workers: int | None = None,
        on_error: OnError = "raise",
    ) -> Iterator[Any]: ...
    def profile(self, *args: Any, runs: int = 5, cold: bool = False, **named: Any) -> Profile: ...
    def plan_of(self, *args: Any, **named: Any) -> list[str]: ...
    def close(self) -> None: ...
