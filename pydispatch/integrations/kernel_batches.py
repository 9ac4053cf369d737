"""Kernels in Python over a batch, in one call: what `jax.vmap` and `torch.vmap` use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydispatch._core.process_lock import process_lock
from pydispatch._core.public import PublicFunction
from pydispatch.integrations.called_kernels import Kernel
from pydispatch.integrations.interface import public_function


class KernelBatches:
    """Operators of a framework that compute a batch by one call of a kernel, created on first use.

    There is one operator for each set of arguments that have a leading dimension, which counts the elements of the
    batch. The other arguments are shared by all elements.

    Example: the kernel `scale(x, w, y)` writes y, which is in `allocated`: as an operator it takes x of the shape (8,)
    and w of the shape (3,), and returns y of the shape (8,). For a batch of 32 values of x, `operator((True, False),
    ...)` returns an operator that takes x as (32, 8) and w as (3,), and returns y as (32, 8).

    `gradients.loaded` creates one object for each kernel. `JaxFunction` and `TorchFunction` call `operator` in their
    rules for `vmap`, and `close` when they are closed.
    """

    def __init__(self, kernel: Kernel, allocated: Sequence[str]) -> None:
        """Create a set of operators for batches of `kernel`, which is empty until `operator` creates one.

        `allocated`: names of the views that the kernel writes and that operators do not take: each call allocates and
        returns them.
        """
        self._kernel, self._allocated = kernel, tuple(allocated)
        self._lock = process_lock()
        self._operators: dict[tuple[bool, ...], Any] = {}  # whether each argument has the batch axis → the operator

    def operator(self, batched: Sequence[bool], create: Callable[[PublicFunction], Any]) -> Any:
        """Return the operator for a batch, whose results all have a leading dimension.

        Args:
            batched: Whether each argument of the operator has a leading dimension, in order. `allocated` views are no
                arguments.
            create: Creates the framework's operator for the compiled kernel, a function of a program.

        Returns:
            The operator; None where each element of the batch needs a call of its own: a batched argument is a number,
            or the kernel writes into an array that has no leading dimension.
        """
        # The operator takes the parameters of the kernel without the views that each call allocates.
        arguments = [parameter for parameter in self._kernel.passed if parameter.name not in self._allocated]
        batched_arguments = [argument for argument, is_batched in zip(arguments, batched, strict=True) if is_batched]
        written = {self._kernel.passed[position].name for position in self._kernel.written}
        batched_views = {*self._allocated, *(argument.name for argument in batched_arguments)}
        has_batched_number = not all(argument.is_view for argument in batched_arguments)
        has_shared_result = not written <= batched_views  # elements of the batch would overwrite each other's values
        if has_batched_number or has_shared_result:
            return None
        # Compile a version whose batched views have one more axis, once for each set of batched arguments.
        key = tuple(batched)
        with self._lock:
            if key not in self._operators:
                lowered = self._kernel.lowered(allocated=self._allocated, batched=sorted(batched_views))
                self._operators[key] = create(load(lowered.text, self._kernel.name))
            return self._operators[key]

    def close(self) -> None:
        """Close all operators."""
        with self._lock:
            operators, self._operators = self._operators, {}
        for operator in operators.values():
            operator.close()


def load(source: Any, name: str) -> PublicFunction:
    """Compile a program for this CPU, and return its function `name`. `source` is one for `pydispatch.compile`."""
    import pydispatch

    artifact = pydispatch.compile(source, targets="cpu", cpu="native")
    return public_function(pydispatch.device("cpu").load(artifact).functions[name])
