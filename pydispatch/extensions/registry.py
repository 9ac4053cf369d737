"""Every part that this installation has: the built-in ones, then those of installed packages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache

from pydispatch.distributions import may_have_entry_points
from pydispatch.errors import SystemError_
from pydispatch.extensions import builtin
from pydispatch.extensions.parts import BUILT_IN, ExtensionError, Extensions, Part, advice_to_do_without

GROUP = "pydispatch.extensions"
"""Group of entry points by which other packages register their parts."""


def parts(kind: str) -> list[Part]:
    """Return all parts of a kind (`Part.kind`): the built-in ones, then those of installed packages.

    Raises ExtensionError for a package whose registration fails.
    """
    return _everything().get(kind, [])


def part(kind: str, name: str) -> Part | None:
    """Return the part of a kind with this name, None if there is none.

    Extensions of installed packages are loaded only if no built-in part has the name, since that takes time.
    """
    for known in (_built_in, _everything):
        for candidate in known().get(kind, []):
            if candidate.name == name:
                return candidate
    return None


def has_installed_parts() -> bool:
    """Return whether any installed package has registered a part."""
    return any(part_.owner != BUILT_IN for listed in _everything().values() for part_ in listed)


@cache
def _built_in() -> dict[str, list[Part]]:
    """Return the parts of pydispatch itself by kind."""
    parts: dict[str, list[Part]] = {}
    builtin.register(Extensions(BUILT_IN, parts))
    return parts


@cache
def _everything() -> dict[str, list[Part]]:
    """Return the parts of pydispatch and of all installed packages by kind."""
    parts = {kind: list(listed) for kind, listed in _built_in().items()}
    for owner, load in _packages():
        try:
            load()(Extensions(owner, parts))
        except ExtensionError:
            raise
        except Exception as error:  # any fault of the package's code
            said = f"cannot register what it adds to pydispatch: {type(error).__name__}: {error}"
            raise ExtensionError(f"{owner} {said}; {advice_to_do_without(owner)}") from error
    return parts


def _packages() -> Iterator[tuple[str, Callable[[], Callable[[Extensions], object]]]]:
    """Yield the packages that register extensions, in order of name.

    Each is a pair: the name for messages, and a function that imports and returns the package's registration function.
    There are none if the environment variable PYDISPATCH_EXTENSIONS is 0. Raises SystemError if the metadata of the
    installed packages cannot be read.
    """
    if os.environ.get("PYDISPATCH_EXTENSIONS") == "0":
        return
    if not may_have_entry_points(GROUP):  # spares the import of `importlib.metadata`
        return
    try:
        from importlib import metadata

        points = metadata.entry_points(group=GROUP)
    except OSError as error:
        raise SystemError_(f"the packages that add to pydispatch cannot be listed: {error}") from error
    for point in sorted(points, key=lambda point: (point.name, point.value)):
        package = f"{point.dist.name} {point.dist.version}" if point.dist else point.name
        yield f"package {package}", point.load
