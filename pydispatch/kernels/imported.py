"""Functions of numbers that kernels call and somebody else defines: linked by name when a program is loaded."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from pydispatch.errors import InvalidArgumentError
from pydispatch.kernels.annotations import type_of
from pydispatch.patterns.types import TensorType

_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ImportedSource:
    """A declaration. symbol: what it is linked by; parameters, result: types of numbers. The body of the function is
    what it computes where nothing is linked: in NumPy.

    InvalidArgumentError for parameters or a result that are no numbers.
    """

    def __init__(self, function: Callable[..., Any], symbol: str) -> None:
        if not inspect.isfunction(function):
            raise InvalidArgumentError(
                f"imported: expected a function, got {function!r}; write @pydispatch.imported over one"
            )
        self.function, self.name, self.symbol = function, function.__name__, symbol or function.__name__
        annotations = inspect.get_annotations(function, eval_str=True)
        names = list(inspect.signature(function).parameters)
        if not _SYMBOL.fullmatch(self.symbol):
            raise InvalidArgumentError(f"import '{self.name}': {self.symbol!r} is no name of a function of C")
        self.parameters = tuple(self._number(name, annotations.get(name)) for name in names)
        self.result = self._number("return", annotations.get("return"))

    def _number(self, name: str, annotation: object) -> str:
        tensor_type = type_of(annotation)
        if not isinstance(tensor_type, TensorType) or tensor_type.shape is not None:
            what = "its result" if name == "return" else f"parameter '{name}'"
            raise InvalidArgumentError(
                f"import '{self.name}': {what} needs the type of a number, such as Annotated[float, pydispatch.f32]"
            )
        return tensor_type.dtype

    @property
    def local(self) -> str:
        """What kernels call it, which is no name of a kernel."""
        return f"import.{self.symbol}"

    @property
    def declaration(self) -> str:
        """As MLIR text."""
        name = f'attributes {{hal.import.name = "{self.symbol}"}}'
        return f"func.func private @{self.local}({', '.join(self.parameters)}) -> {self.result} {name}"
