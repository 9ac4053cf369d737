"""Sharing of one executable by the dispatches of a program: a single file to link, load and relocate."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region

from pydispatch.compiler.kernel_ir.types import alignment
from pydispatch.compiler.outline.explain import FusionReport
from pydispatch.compiler.target.backend import require_backend
from pydispatch.ir.core.locations import set_location
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.symbols import renamed
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.flow import dialect as flow
from pydispatch.ir.dialects.hal.device import ExecutableTargetAttr
from pydispatch.ir.functions import symbol_name

SHARED = "dispatches"
"""Name of the shared executable. A number is appended if the program uses it itself."""


def share_executables(
    module: ModuleOp, reports: Sequence[FusionReport], targets: Sequence[ExecutableTargetAttr]
) -> None:
    """Merge the executables of the dispatches that `reports` list if all `targets` support that; else do nothing.

    The merged executable has the exports of all. Dispatches, and the entries of `reports`, then name it instead.

    The alignment of bindings is per executable, so that executables for 4-byte and 8-byte elements are not merged.
    """
    if not all(require_backend(target).shares_executables for target in targets):
        return
    # The executables that dispatch formation has created, by the alignment of their bindings in bytes.
    formed = {entry.executable for report in reports for entry in report.dispatches}
    by_alignment: dict[int, list[flow.ExecutableOp]] = {}
    for op in module.body.block.ops:
        if isinstance(op, flow.ExecutableOp) and op.sym_name.data in formed:
            by_alignment.setdefault(_alignment(op), []).append(op)
    # Merge those of each alignment, under a name that no other symbol of the module has.
    names = {symbol_name(op) for op in module.body.block.ops if "sym_name" in op.properties}
    new_names: dict[str, str] = {}
    for executables in by_alignment.values():
        if len(executables) > 1:
            name = _unused(names)
            names.add(name)
            new_names.update({op.sym_name.data: name for op in executables})
            _join(executables, name)
    if new_names:
        _rename(module, reports, new_names)


def _alignment(executable: flow.ExecutableOp) -> int:
    """Return the alignment in bytes of the largest element among the tensors of an executable's functions."""
    functions = (op for op in walk(executable) if isinstance(op, FuncOp))
    types = (t for f in functions for t in (*f.function_type.inputs, *f.function_type.outputs))
    return max((alignment(t.element_type) for t in types if isinstance(t, TensorType)), default=1)


def _unused(names: Collection[str]) -> str:
    """Return the name of a shared executable: SHARED, with a number if `names` has it."""
    return next(name for name in (SHARED, *(f"{SHARED}_{n}" for n in range(1, len(names) + 2))) if name not in names)


def _join(executables: Sequence[flow.ExecutableOp], name: str) -> None:
    """Merge executables into one with the exports and functions of all, at the position of the first one."""
    first = executables[0]
    # An executable consists of exports and a module with their functions.
    inner_ops = [op for executable in executables for op in executable.body.block.ops]
    modules = [op for op in inner_ops if isinstance(op, ModuleOp)]
    functions: list[Operation] = [function for module in modules for function in module.body.block.ops]
    exports: list[Operation] = [op for op in inner_ops if not isinstance(op, ModuleOp)]
    for op in (*functions, *exports):
        op.detach()
    inner = ModuleOp(functions)
    joined = flow.ExecutableOp.create(
        properties={**first.properties, "sym_name": StringAttr(name)}, regions=[Region(Block([*exports, inner]))]
    )
    for op in (joined, inner):
        set_location(op, first)
    block = first.parent
    assert block is not None
    block.insert_op_before(joined, first)
    for executable in executables:
        erase_op(executable)


def _rename(module: ModuleOp, reports: Sequence[FusionReport], names: Mapping[str, str]) -> None:
    """Use new names of executables in dispatches and reports. names: old name → new name."""
    for op in walk(module):
        if isinstance(op, flow.DispatchOp):
            op.properties["entry_points"] = renamed(op.entry_points, names)
    for report in reports:
        report.dispatches = [
            replace(entry, executable=names.get(entry.executable, entry.executable)) for entry in report.dispatches
        ]
