"""The compiled core. Other extensions may cimport from here.

All modules are in one shared library, so that the C core is in the process once.
"""

from __future__ import annotations

import sys
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from types import ModuleType

MODULES = (
    "arrays", "artifact", "binding", "bound", "capi", "condition", "derived", "device", "dlpack", "driver", "elf",
    "function", "handles", "host_command", "kernel_call", "linking", "memory", "peak", "plan", "plan_data",
    "planned", "plugin", "prepared", "prepared_procedure", "procedure", "program", "public", "sched", "signals",
    "state", "status", "submit", "submit_procedure", "target", "task", "timing", "timing_procedure", "trace",
)  # fmt: skip
"""Modules of this package that are compiled into one extension file."""


def _library() -> str:
    """Return the path of the shared library `core` with all modules. Raise ImportError if it is not built."""
    spec = PathFinder.find_spec(f"{__name__}.core", __path__)
    if spec is None or spec.origin is None:
        raise ImportError(
            f"the library of {__name__} is not built for this Python; run: python setup.py build_ext --inplace"
        )
    return spec.origin


class _Loader(ExtensionFileLoader):
    """Loader that explains why the modules cannot be imported in a subinterpreter."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Load the extension module. Raise ImportError with a clear text in a subinterpreter, which cannot load it."""
        try:
            return super().create_module(spec)
        except ImportError as error:
            if "interpreter" not in str(error):
                raise
            raise ImportError(
                "pydispatch is there for one interpreter of a process, the main one: it cannot be imported in a "
                "subinterpreter. Share a program between threads instead, or start another process",
                name=__name__.partition(".")[0],
            ) from error


class _Finder:
    """Meta path finder for the modules of the shared library (PEP 489, "Multiple modules in one library")."""

    path = _library()

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of a module of this package that is compiled into the shared library; None for others.

        name: full dotted name of the module. path, target: unused; the protocol of meta path finders passes them.
        """
        package, _, module = name.rpartition(".")
        if package != __name__ or module not in MODULES:
            return None
        return spec_from_file_location(name, cls.path, loader=_Loader(name, cls.path))


sys.meta_path.append(_Finder)
