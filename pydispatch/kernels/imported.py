"""Functions that kernels call and that are linked by name when a program is loaded."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from pydispatch.errors import InvalidArgumentError
from pydispatch.kernels.annotations import type_of
from pydispatch.patterns.types import TensorType

_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Symbol that a C function may have, such as `lib_log2`."""


class ImportedSource:
    """Declaration of an imported function. Its Python body is the fallback, in NumPy, if nothing is linked.

    Attributes:
        function: The Python function.
        name: Its name, for errors.
        symbol: Name that it is linked by, a C identifier; the name of the Python function if "" is passed.
        parameters: MLIR type of each parameter, a number, such as "f32".
        result: MLIR type of the result, a number.

    Raises:
        InvalidArgumentError: A parameter or the result is no number, or the symbol is no C identifier.
    """

    def __init__(self, function: Callable[..., Any], symbol: str) -> None:
        """Read the types of parameters and result from the annotations of `function`."""
        if not inspect.isfunction(function):
            raise InvalidArgumentError(
                f"imported: expected a function, got {function!r}; write @pydispatch.imported over one"
            )
        self.function, self.name, self.symbol = function, function.__name__, symbol or function.__name__
        annotations = inspect.get_annotations(function, eval_str=True)
        self.__signature__ = inspect.signature(function)  # for messages and `help`
        names = list(self.__signature__.parameters)
        if not _SYMBOL.fullmatch(self.symbol):
            raise InvalidArgumentError(f"import '{self.name}': {self.symbol!r} is no name of a function of C")
        self.parameters = tuple(self._scalar_type(name, annotations.get(name)) for name in names)
        self.result = self._scalar_type("return", annotations.get("return"))

    def _scalar_type(self, name: str, annotation: object) -> str:
        """Return the scalar type that an annotation states. `name` is the parameter, or "return", for errors."""
        tensor_type = type_of(annotation)
        if not isinstance(tensor_type, TensorType) or tensor_type.shape is not None:
            what = "its result" if name == "return" else f"parameter '{name}'"
            raise InvalidArgumentError(
                f"import '{self.name}': {what} needs the type of a number, such as Annotated[float, pydispatch.f32]"
            )
        return tensor_type.dtype

    @property
    def local(self) -> str:
        """Symbol of the declaration in the kernel's module. No kernel has this name, since Python names have no dot."""
        return f"import.{self.symbol}"

    @property
    def declaration(self) -> str:
        """Declaration as MLIR text."""
        attributes = f'attributes {{hal.import.name = "{self.symbol}"}}'
        return f"func.func private @{self.local}({', '.join(self.parameters)}) -> {self.result} {attributes}"
