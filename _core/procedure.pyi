from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pydispatch._core.future import Future, SubmissionOrder
from pydispatch._core.items import OnError
from pydispatch._core.prepared_procedure import PreparedProcedure
from pydispatch._core.profile import Profile
from pydispatch._core.program import Module
from pydispatch._core.public import PublicFunction
from pydispatch._core.state import State

class Procedure(PublicFunction):
    order: SubmissionOrder | None
    def __init__(
        self, module: Module, index: int, verify: Callable[[str, list[Any]], None], state: State | None = None
    ) -> None: ...
    def __call__(self, *args: Any, out: Any = None, workers: Any = None, **named: Any) -> Any: ...
    def on_device(self, args: tuple[Any, ...]) -> list[Any]: ...
    def check_prepared(self, args: tuple[Any, ...]) -> None: ...
    def prepare(
        self, *args: Any, out: Any = None, workers: int | None = None, fresh: bool = False, **named: Any
    ) -> PreparedProcedure: ...
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
    def profile(self, *args: Any, runs: int = 1, cold: bool = False, **named: Any) -> Profile: ...
    def close(self) -> None: ...
