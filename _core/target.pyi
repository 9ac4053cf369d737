from collections.abc import Sequence

from pydispatch._core.public import PublicFunction

handler: object

class Target:
    number: int
    def __init__(self, function: PublicFunction) -> None: ...
    def close(self) -> None: ...
    def result_shapes(
        self, shapes: Sequence[tuple[int, ...]]
    ) -> list[tuple[int, ...] | None] | None: ...
