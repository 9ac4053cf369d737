"""Operators whose results share the memory of their argument only for some types or strides of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydispatch.frontends.torch.memory import TensorMemory
from pydispatch.frontends.torch.nodes.strided import is_contiguous
from pydispatch.frontends.torch.registry import SHARING
from pydispatch.frontends.torch.trace import Tracer
from pydispatch.graph.values import Tensor


def _shares_unless_converted(
    tracer: Tracer, memory: TensorMemory, result: Tensor, arguments: Mapping[str, Any]
) -> bool | None:
    """Return whether the result of `to` shares the memory of its first argument; None if that is not known.

    The result has memory of its own if the element type changes or a copy is requested. With a memory format it is not
    known, since only some strides need a copy. arguments: those of the call, by name.
    """
    if arguments.get("copy") or result.dtype != memory.tensor.dtype:
        return False
    return True if arguments.get("memory_format") is None else None


def _shares_if_contiguous(
    tracer: Tracer, memory: TensorMemory, result: Tensor, arguments: Mapping[str, Any]
) -> bool | None:
    """Return whether the result of `contiguous` shares the memory of its argument, which it does if that is row-major;
    else it is a copy.

    Return None if that is not known, such as for a memory format.
    """
    return None if arguments.get("memory_format") is not None else is_contiguous(tracer, memory)


def _shares_if_reshaped(
    tracer: Tracer, memory: TensorMemory, result: Tensor, arguments: Mapping[str, Any]
) -> bool | None:
    """Return True if the result of `reshape` is a view because the argument is row-major; else None, as PyTorch may
    return a view or a copy.
    """
    return is_contiguous(tracer, memory) or None


SHARING.update({
    "aten.to": _shares_unless_converted, "aten.reshape": _shares_if_reshaped, "aten.flatten": _shares_if_reshaped,
    "aten.contiguous": _shares_if_contiguous,
})  # fmt: skip
