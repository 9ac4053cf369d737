"""Folding of globals that are never stored to into constants."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, ModuleOp
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.tensor_ops.rules.fills import SMALL_CONSTANT
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.flow import tensors
from pydispatch.ir.dialects.pyd.array import NumPyArrayAttr
from pydispatch.ir.dialects.util import dialect as util

PARAMETER = "flow.parameter.named"
"""Name of the attribute that is the initial value of a global whose bytes are not in the program.

The attribute has a scope and a key, by which the bytes are passed.
"""


def globals_of(module: ModuleOp) -> dict[str, util.GlobalOp]:
    """Return the globals of a module by name."""
    return {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, util.GlobalOp)}


def name_of(op: Operation) -> str:
    """Return the name of the global that a load or store accesses."""
    return cast(str, cast(Any, op.properties["global"]).root_reference.data)


def fold_globals(module: ModuleOp) -> None:
    """Replace loads of globals that are never stored to by constants. Raise CompileError for a load of an undefined
    global.

    A small value becomes an arith.constant, which kernels contain. A larger array, or a parameter of a file, becomes a
    flow.tensor.constant, which kernels read from memory. A load stays if its global has no initial value or another
    kind of value, such as a function call, or if the load has another type than the global.
    """
    known = globals_of(module)
    if not known:
        return
    stored = {name_of(op) for op in walk(module) if isinstance(op, util.GlobalStoreOp)}
    # All loads are listed before the first one is erased.
    loads: list[Operation] = [op for op in walk(module) if isinstance(op, util.GlobalLoadOp)]
    for op in loads:
        source = known.get(name_of(op))
        if source is None:
            raise undefined_global(op, list(known))
        value = source.initial_value
        is_stored_to = name_of(op) in stored
        if value is None or is_stored_to or source.type != op.results[0].type:
            continue
        # None for an initial value that is neither a number, an array of numbers nor a parameter.
        new = _constant_of(value, source.type)
        if new is None:
            continue
        set_location(new, op)
        new.results[0].name_hint = op.results[0].name_hint
        block = op.parent
        assert block is not None
        block.insert_op_before(new, op)
        op.results[0].replace_all_uses_with(new.results[0])
        erase_op(op)


def _constant_of(value: Attribute, type: Attribute) -> Operation | None:
    """Return a constant operation with the initial value of a global.

    Return None for other values than numbers, arrays of numbers, and parameters of files.
    """
    if isinstance(value, DenseIntOrFPElementsAttr | IntegerAttr | FloatAttr):
        return arith.ConstantOp(value)
    if isinstance(value, NumPyArrayAttr) and value.count <= SMALL_CONSTANT:
        return arith.ConstantOp(value.dense())
    if value.name == PARAMETER or isinstance(value, NumPyArrayAttr):
        return tensors.TensorConstantOp(result_types=[type], properties={"value": value})
    return None


def undefined_global(op: Operation, known: list[str]) -> CompileError:
    """Return the error for a global variable that the program does not define."""
    return CompileError(f"there is no global '@{name_of(op)}'", location_of(op),
                        f"globals: {', '.join('@' + n for n in known) or 'none'}")  # fmt: skip
