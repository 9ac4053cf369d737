"""Extension points of pydispatch: dialects, operations, passes, patterns, targets, devices, frontends, subcommands.

A package names a function in the entry point group `pydispatch.extensions`. The function is called once with an
`Extensions` and registers the parts of the package as references, "module:object" or "module", which are imported on
first use. The parts of pydispatch itself are registered in the same way (`extensions/builtin.py`).
"""

from pydispatch.extensions.parts import ExtensionError, Extensions, Part
from pydispatch.extensions.registry import has_installed_parts, part, parts

__all__ = ["ExtensionError", "Extensions", "Part", "has_installed_parts", "part", "parts"]
