"""Registries of the functions that emit the operators of a framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Conversion = TypeVar("Conversion", bound=Callable[..., Any])


class Registry(dict[str, Callable[..., Any]]):
    """Conversions, the functions that emit an operator on a builder, by the names of their operators."""

    def register(self, conversions: Mapping[str, Callable[..., Any]]) -> None:
        """Add conversions by the names of their operators, none of which may have a conversion already."""
        duplicates = conversions.keys() & self.keys()
        assert not duplicates, f"two conversions of {sorted(duplicates)}"
        self.update(conversions)

    def converts(self, *operators: str) -> Callable[[Conversion], Conversion]:
        """Return a decorator that registers a function as the conversion of all these operators."""

        def registered(conversion: Conversion) -> Conversion:
            """Register the conversion, and return it."""
            self.register(dict.fromkeys(operators, conversion))
            return conversion

        return registered
