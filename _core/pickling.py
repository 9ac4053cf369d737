"""Errors for pickling objects that cannot leave their process."""

from __future__ import annotations

from typing import NoReturn

from pydispatch._core.status import InvalidArgumentError

INSTEAD = {
    "prepared call": "pickle the function, and prepare the call in the other process",
    "batched function": "pickle the function, and call its method batched() in the other process",
    "device": "pickle its name, and open it with pydispatch.device() in the other process",
    "future": "pickle its result()",
}
"""Kind of an object that cannot be pickled → what to do instead."""


def refuse(kind: str) -> NoReturn:
    """Raise InvalidArgumentError for pickling an object of a kind, a key of INSTEAD."""
    raise InvalidArgumentError(f"a {kind} cannot be pickled: {INSTEAD[kind]}")
