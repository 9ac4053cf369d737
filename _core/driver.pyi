from collections.abc import Callable
from typing import Any

ERROR: int
LOST: int
OPENED: int
MAPPED: int
CALLBACKS: dict[str, int]

class Mailbox:
    @property
    def address(self) -> int: ...
    def __bool__(self) -> bool: ...
    def take(self) -> list[tuple[int, int, int, str]]: ...

def copy_mapped(
    functions: tuple[int, ...],
    device: int,
    buffer: int,
    is_read: bool,
    at: int,
    length: int,
    skip: int,
    host: int,
    size: int,
    box: Mailbox,
) -> int: ...
def submit_and_wait(
    lock: Any, prepare: Callable[[], tuple[int, int]], submit: int, queue: int, wait: int, device: int
) -> tuple[str, int] | None: ...
