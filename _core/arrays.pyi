import numpy as np

class ElementType:
    word: int
    name: str
    dtype: np.dtype[np.generic]
    itemsize: int
    numerical: int
    bits: int
    packed: bool
    def __init__(self, word: int) -> None: ...
    def nbytes(self, count: int) -> int: ...

def type_of(word: int) -> ElementType: ...
def pack_elements(kind: ElementType, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> bytes: ...
def unpack_elements(
    kind: ElementType, data: bytes | memoryview, shape: tuple[int, ...]
) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]: ...
