"""Patterns that replace custom operations by the kernels that the caller passes for their names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydispatch.errors import InvalidArgumentError
from pydispatch.ir.dialects.pyd.custom import CustomOp
from pydispatch.patterns import Pattern, Replacement
from pydispatch.patterns.kernels import CustomOperation, kernel_of


def custom_operation_patterns(kernels: Mapping[str, Any]) -> list[Pattern]:
    """Build a pattern for each custom operation in `kernels`.

    kernels: name of a custom operation, such as `mylib::swish` -> its kernel, such as a CFunction or a CustomOperation.

    Raises:
        InvalidArgumentError: `kernels` is not such a mapping.
    """
    if not isinstance(kernels, Mapping) or not all(isinstance(name, str) and name for name in kernels):
        raise InvalidArgumentError(
            f'kernels: expected a mapping such as {{"mylib::swish": pydispatch.CFunction(...)}}, got {kernels!r}'
        )
    return [_pattern_for_operation(name, kernel) for name, kernel in kernels.items()]


def _pattern_for_operation(name: str, kernel: Any) -> Pattern:
    """Build a pattern that matches the custom operation `name` and replaces it by a kernel."""

    def match(operation: Any) -> Any:
        """Return (operands, results) of an operation if it calls the custom operation `name`, else None.

        operation: a `MatchedOpInfo`.
        """
        op = operation.op
        if not isinstance(op, CustomOp) or op.callee.data != name:
            return None
        return list(op.arguments), list(op.results_)

    kernel = kernel.kernel if isinstance(kernel, CustomOperation) else kernel
    replacement = Replacement(kernel_of(kernel, name))
    return Pattern(_symbol_of(name), (), outputs=(), match_op=match, replacements=[replacement])


def kernel_hints(reasons: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return `Report.hints` of kernels. reasons: the name of each kernel → why it matches nothing."""
    return {_symbol_of(name): (name, reason) for name, reason in reasons.items()}


def _symbol_of(name: str) -> str:
    """Return the pattern's name for a custom operation, an identifier: `mylib__swish` for `mylib::swish`."""
    symbol = re.sub(r"\W", "_", name)
    return symbol if symbol.isidentifier() else f"op_{symbol}"
