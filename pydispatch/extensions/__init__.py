"""What can be added to pydispatch: dialects, operations, passes, patterns, targets, devices, frontends,
subcommands.

A package names a function in the entry point group `pydispatch.extensions`. It is called once with an `Extensions`, and
says what the package has by places, "module:object" or "module", that are imported when they are first used. The parts
of pydispatch itself register in the same way (`extensions/builtin.py`).
"""

from pydispatch.extensions.parts import ExtensionError, Extensions, Part
from pydispatch.extensions.registry import others, part, parts

__all__ = ["ExtensionError", "Extensions", "Part", "others", "part", "parts"]
