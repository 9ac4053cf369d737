"""A function of a loaded program → what is called, and what is known about a call."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pydispatch._core.profile import Profile
from pydispatch.bench.measure import Call
from pydispatch.errors import InvalidArgumentError
from pydispatch.runtime.buffer import Buffer, HostMemory

RUNS = 7
"""Number of calls that a profile measures."""


@dataclass(frozen=True)
class Work:
    """Repeatable call that a benchmark times: of a program, or of a peer.

    Attributes:
        call: The call.
        results: Results of a first call, as arrays in host memory.
        nbytes: Size of arguments and results in bytes.
        profile: Returns a Profile of a call; None if profiling is not supported.
    """

    call: Call
    results: list[Any]
    nbytes: int
    profile: Callable[[], Profile] | None = None


class Direct:
    """Function called without pydispatch, whose one result has the shape and type of its first argument.

    `bind` takes the arguments and an array for the result, and returns the call that is measured.
    """

    def __init__(self, bind: Callable[..., Call]) -> None:
        """Take `bind`, which returns the measured call on some arguments and memory for the result."""
        self._bind = bind

    def work(self, inputs: Sequence[Any]) -> Work:
        """Bind the arguments, call the function once, and return the bound call."""
        out = np.empty_like(inputs[0])
        call = self._bind(*inputs, out)
        call()  # Work has the results of a first call
        return Work(call, [out], nbytes=sum(array.nbytes for array in (*inputs, out)))


def work_of(device: Any, function: Any, inputs: Sequence[Any], named: Mapping[str, Any] | None = None) -> Work:
    """Return a repeatable call with fixed shapes and preallocated results; it waits until the device has completed it.

    Args:
        device: Device of the function.
        function: Function of a program; a Direct, which returns its own Work; or any callable, which is called with the
            arguments.
        inputs: Positional arguments.
        named: Arguments by name.

    Raises:
        InvalidArgumentError: An argument or result is a buffer of another accelerator.
    """
    if isinstance(function, Direct):
        return function.work(inputs)
    # Fix the shapes and memory of a program's function by prepare(); other callables are called with the arguments.
    prepare = getattr(function, "prepare", None)
    given_by_name = named or {}
    call = partial(function, *inputs, **given_by_name) if prepare is None else prepare(*inputs, **given_by_name)
    # The first call returns the results. Their bytes and those of the arguments are counted, for the bandwidth.
    returned = call()
    values = list(returned) if isinstance(returned, tuple | list) else [returned]
    _check_buffers(device, [*inputs, *given_by_name.values(), *values])
    results = [array_of(value) for value in values]
    arguments = [array_of(value) for value in (*inputs, *given_by_name.values())]
    arrays = [value for value in (*arguments, *results) if isinstance(value, np.ndarray)]
    nbytes = sum(array.nbytes for array in arrays if array.ndim > 0)  # numbers are passed in the call
    profile_of = getattr(function, "profile", None)
    profile = None if profile_of is None else lambda: profile_of(*inputs, runs=RUNS, **given_by_name)
    # A device without synchronize(), such as a CPU, has completed a call when it returns.
    wait = getattr(device, "synchronize", None)
    if wait is None:
        return Work(call, results, nbytes, profile)

    def complete() -> None:
        """Call the function, and wait until the device has completed the call."""
        call()
        wait()

    return Work(complete, results, nbytes, profile)


def _check_buffers(device: Any, values: Sequence[Any]) -> None:
    """Raise InvalidArgumentError for a buffer of another accelerator than `device`: calls wait for `device` alone."""
    for value in values:
        is_on_accelerator = isinstance(value, Buffer) and not isinstance(value.memory, HostMemory)
        if is_on_accelerator and value.device != getattr(device, "name", None):
            raise InvalidArgumentError(
                f"device: the call has a buffer of '{value.device}'; pass that device, so that each call waits for it"
            )


def array_of(value: Any) -> Any:
    """Return a value of any device as a NumPy array in host memory."""
    return np.array(value.numpy() if hasattr(value, "numpy") else value)


def difference(results: Sequence[Any], expected: Sequence[Any]) -> float:
    """Return the largest difference between elements, relative to the largest finite magnitude of the expected result.

    Of several results, the one with the largest relative difference counts. Equal infinities differ by 0. Different
    shapes or numbers of results, and NaN, give infinity.
    """
    if len(results) != len(expected):
        return float("inf")
    worst = 0.0
    for result, reference in zip(results, expected, strict=True):
        if result.shape != reference.shape:
            return float("inf")
        actual, exact = result.astype(np.float64), reference.astype(np.float64)
        magnitude = max(float(np.abs(exact[np.isfinite(exact)]).max(initial=0.0)), 1e-30)  # not 0 for zeros alone
        differs = actual != exact  # the difference of equal infinities would be NaN
        error = float(np.abs(actual[differs] - exact[differs]).max(initial=0.0)) / magnitude
        worst = max(worst, float("inf") if np.isnan(error) else error)
    return worst


def machine(device: Any) -> dict[str, Any]:
    """Return metadata about the machine and its software that influence measured times."""
    described = device.describe()
    facts = {"device": device.name, "system": f"{platform.system()} {platform.machine()}",
             "python": platform.python_version(), "numpy": np.__version__}  # fmt: skip
    facts.update({name: described[name] for name in ("model", "workers", "level") if described.get(name)})
    return facts
