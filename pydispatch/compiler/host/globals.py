"""`util.global`: constants where nothing writes them, else state of a loaded program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, ModuleOp, TensorType
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.host.constants import PARAMETER, Constants
from pydispatch.compiler.host.scalar_table import constant_bits
from pydispatch.compiler.host.types import dtype_of, packed_bytes
from pydispatch.errors import CompileError
from pydispatch.formats.program.program import NONE
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.dialects.flow import tensors
from pydispatch.ir.dialects.util import dialect as util


def globals_of(module: ModuleOp) -> dict[str, util.GlobalOp]:
    return {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, util.GlobalOp)}


def name_of(op: Operation) -> str:
    """The global that a load or store names."""
    return cast(str, cast(Any, op.properties["global"]).root_reference.data)


def fold_globals(module: ModuleOp) -> None:
    """Loads of globals that nothing stores to become constants."""
    known = globals_of(module)
    if not known:
        return
    stored = {name_of(op) for op in module.walk() if isinstance(op, util.GlobalStoreOp)}
    loads: list[Operation] = [op for op in module.walk() if isinstance(op, util.GlobalLoadOp)]
    for op in loads:
        source = known.get(name_of(op))
        if source is None:
            raise _missing(op, list(known))
        value = source.initial_value
        if value is None or name_of(op) in stored or source.type != op.results[0].type:
            continue
        if isinstance(value, DenseIntOrFPElementsAttr | IntegerAttr | FloatAttr):
            new: Operation = arith.ConstantOp(value)
        elif value.name == PARAMETER:
            new = tensors.TensorConstantOp(result_types=[source.type], properties={"value": value})
        else:
            continue
        set_location(new, op)
        new.results[0].name_hint = op.results[0].name_hint
        block = op.parent
        assert block is not None
        block.insert_op_before(new, op)
        op.results[0].replace_all_uses_with(new.results[0])
        op.detach()
        op.erase()


def _missing(op: Operation, known: list[str]) -> CompileError:
    return CompileError(f"there is no global '@{name_of(op)}'", location_of(op),
                        f"globals: {', '.join('@' + n for n in known) or 'none'}")  # fmt: skip


@dataclass
class Globals:
    """The globals that functions load and store, each added to the program when it is first met."""

    module: ModuleOp
    constants: Constants
    _numbers: dict[str, int] = field(default_factory=dict)

    def number(self, op: Operation) -> int:
        """The number of the global of a load or store. CompileError at `op` when it may not be used so."""
        name = name_of(op)
        known = globals_of(self.module)
        source = known.get(name)
        if source is None:
            raise _missing(op, list(known))
        value = op.results[0] if op.results else op.operands[0]
        if value.type != source.type:
            raise CompileError(f"global '@{name}' is {source.type}, here it is {value.type}", location_of(op))
        if isinstance(op, util.GlobalStoreOp) and source.is_mutable is None and not _in_initializer(op):
            raise CompileError(f"global '@{name}' is not mutable", location_of(op),
                               "write util.global mutable, or store in an initializer")  # fmt: skip
        if name not in self._numbers:
            self._numbers[name] = self._add(source)
        return self._numbers[name]

    def _add(self, source: util.GlobalOp) -> int:
        program, name, initial = self.constants.program, source.sym_name.data, source.initial_value
        is_mutable = source.is_mutable is not None
        type = source.type
        if not isinstance(type, TensorType):
            dtype = dtype_of(type, location_of(source))
            bits = 0 if initial is None else constant_bits(initial, source)
            return program.add_global(name, dtype, None, NONE, bits, is_mutable)
        dtype = dtype_of(type.element_type, location_of(source))
        dims = tuple(d if d >= 0 else -1 for d in type.get_shape())
        constant = NONE if initial is None else self._constant(initial, type, dtype, source)
        return program.add_global(name, dtype, dims, constant, 0, is_mutable)

    def _constant(self, initial: Attribute, type: TensorType[Attribute], dtype: int, source: util.GlobalOp) -> int:
        if initial.name.startswith("util.uninitialized"):
            import math

            import numpy as np

            return self.constants.add(np.zeros(packed_bytes(math.prod(type.get_shape()), dtype), np.uint8))
        return self.constants.number(initial, type, source)


def _in_initializer(op: Operation) -> bool:
    parent = op.parent_op()
    return parent is not None and "pyd.initializer" in parent.attributes
