"""Registries of the functions that emit the operators of a framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Conversion = TypeVar("Conversion", bound=Callable[..., Any])


class Registry(dict[str, Callable[..., Any]]):
    """Conversions by the names of their operators."""

    def register(self, conversions: Mapping[str, Callable[..., Any]]) -> None:
        """Add conversions by the names of their operators, none of which has one already."""
        both = conversions.keys() & self.keys()
        assert not both, f"two conversions of {sorted(both)}"
        self.update(conversions)

    def converts(self, *operators: str) -> Callable[[Conversion], Conversion]:
        """Register the decorated function as the conversion of operators."""

        def registered(conversion: Conversion) -> Conversion:
            """Register the conversion, and return it."""
            self.register(dict.fromkeys(operators, conversion))
            return conversion

        return registered
