from collections.abc import Mapping, Sequence
from typing import Any

from pydispatch._core.arrays import ElementType
from pydispatch._core.batching import Batched
from pydispatch._core.interface import Interface, ValueInfo

class PublicFunction:
    name: str
    signature: str
    __name__: str
    @property
    def arguments(self) -> list[tuple[str, ElementType, tuple[int, ...] | None]]: ...
    @property
    def results(self) -> list[tuple[ElementType, int | None]]: ...
    @property
    def inputs(self) -> tuple[ValueInfo, ...]: ...
    @property
    def outputs(self) -> tuple[ValueInfo, ...]: ...
    def described(self) -> Interface: ...
    def help(self) -> str: ...
    def text(self) -> str: ...
    def usage(self) -> str: ...
    def arranged(self, args: Sequence[Any], named: dict[str, Any]) -> tuple[Any, ...]: ...
    def batched(
        self,
        max_batch: int = 64,
        max_delay: float = 0.001,
        *,
        constants: Mapping[str | int, Any] | None = None,
        example: Sequence[Any] | None = None,
        tolerance: float = 0.0,
        caller: Any = None,
    ) -> Batched: ...
