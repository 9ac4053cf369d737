from typing import Any

from numpy.typing import NDArray

def open_capsule(capsule: object) -> NDArray[Any]: ...
def make_capsule(
    owner: object,
    address: int,
    shape: tuple[int, ...],
    code: int,
    bits: int,
    device_type: int,
    device_id: int,
    versioned: bool = False,
) -> object: ...
def read_only_text(array: NDArray[Any]) -> str: ...
