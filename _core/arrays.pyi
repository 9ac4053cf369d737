import numpy as np

class ElementType:
    word: int
    name: str
    dtype: np.dtype[np.generic]
    itemsize: int
    numerical: int
    bits: int
    def __init__(self, word: int) -> None: ...

def type_of(word: int) -> ElementType: ...
