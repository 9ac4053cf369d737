"""Emission state that all functions of a SPIR-V module share: the module, and the symbols of the kernel IR."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from pydispatch.compiler.emit.shaders.definitions import Definitions
from pydispatch.compiler.emit.spirv.module import Id, Module
from pydispatch.compiler.emit.spirv.words import BUILTIN


class Kernels(Definitions):
    """State of the emission of one SPIR-V module, which the emitters of its functions share; not for several threads.

    Attributes:
        m: The SPIR-V module.
        table: Operation name -> its lowering, a function of the emitter of a function and the operation.
        constant_keys: The key of each word of the executable constants.
    """

    def __init__(
        self,
        module: ModuleOp,
        table: Mapping[str, Callable[[Any, Operation], None]],
        constant_keys: Sequence[str],
    ) -> None:
        """Create an empty SPIR-V module, whose functions may call the functions and read the globals of `module`.

        table, constant_keys: the attributes of the class.
        """
        super().__init__(module)
        self.m = Module()
        self.table, self.constant_keys = table, tuple(constant_keys)

    def builtin(self, name: str, type_: Id) -> Id:
        """Return the input variable, of type `type_`, of a built-in such as "WorkgroupId"; it is declared once."""

        def make() -> Id:
            """Declare the input variable of the built-in `name`."""
            variable = self.m.variable("Input", type_)
            self.m.decorate(variable, "BuiltIn", BUILTIN[name])
            return variable

        return self.m.once(("builtin", name), make)
