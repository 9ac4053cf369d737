"""Lowering of `util.global`: constants where they are never stored to, otherwise state of a loaded program."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation

from pydispatch.compiler.analysis.types import dtype_of
from pydispatch.compiler.flatten.globals import globals_of, name_of, undefined_global
from pydispatch.compiler.flatten.inline import INITIALIZER
from pydispatch.compiler.host.constants import Constants
from pydispatch.compiler.host.scalar_table import constant_bits
from pydispatch.errors import CompileError
from pydispatch.formats.program.program import NONE
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.dialects.util import dialect as util


@dataclass
class Globals:
    """Table of the globals of one host program while it is lowered; a global is added to the program on first use.

    Attributes:
        module: The module that defines them.
        constants: The constants of the program, among them initial values.
        _indices: Name of a global → its index in the program's table.
    """

    module: ModuleOp
    constants: Constants
    _indices: dict[str, int] = field(default_factory=dict)

    def index_of(self, op: Operation) -> int:
        """Return the index of the global that a load or store accesses; add it on first use. Raises CompileError at
        `op` if the global is undefined or has another type than the value, or if `op` stores to an immutable global
        outside of an initializer.
        """
        name = name_of(op)
        known = globals_of(self.module)
        source = known.get(name)
        if source is None:
            raise undefined_global(op, list(known))
        value = op.results[0] if op.results else op.operands[0]  # that is loaded, or stored
        if value.type != source.type:
            raise CompileError(f"global '@{name}' is {source.type}, here it is {value.type}", location_of(op))
        # `is_mutable` is a unit attribute: None for an immutable global.
        may_be_stored_to = source.is_mutable is not None or _in_initializer(op)
        if isinstance(op, util.GlobalStoreOp) and not may_be_stored_to:
            raise CompileError(f"global '@{name}' is not mutable", location_of(op),
                               "write util.global mutable, or store in an initializer")  # fmt: skip
        if name not in self._indices:
            self._indices[name] = self._add(source)
        return self._indices[name]

    def _add(self, source: util.GlobalOp) -> int:
        """Add a global to the program, and return its index."""
        program, name, initial = self.constants.program, source.sym_name.data, source.initial_value
        is_mutable = source.is_mutable is not None
        type = source.type
        if not isinstance(type, TensorType):
            dtype = dtype_of(type, location_of(source))
            bits = 0 if initial is None else constant_bits(initial, source)
            return program.add_global(name, dtype, dims=None, constant=NONE, value=bits, is_mutable=is_mutable)
        dtype = dtype_of(type.element_type, location_of(source))
        dims = tuple(d if d >= 0 else -1 for d in type.get_shape())  # programs encode dynamic sizes as -1
        constant = NONE if initial is None else self.constants.index_of(initial, type, source)
        return program.add_global(name, dtype, dims=dims, constant=constant, is_mutable=is_mutable)


def _in_initializer(op: Operation) -> bool:
    """Return whether an operation is in a function that initializes globals."""
    parent = op.parent_op()
    return parent is not None and INITIALIZER in parent.attributes
