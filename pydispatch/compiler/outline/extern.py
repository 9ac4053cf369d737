"""Conversion of `hal.dispatch.extern` to an executable with one variant for each target, and a `flow.dispatch` of
it.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Block, Operation, Region

from pydispatch.compiler.target.backend import backend_of
from pydispatch.compiler.target.select import canonical
from pydispatch.ir.core.locations import set_location
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.flow import dialect as flow
from pydispatch.ir.dialects.hal import dialect as hal
from pydispatch.ir.dialects.hal.flops import FLOPS
from pydispatch.ir.dialects.hal.parameters import PARAMETERS
from pydispatch.ir.dialects.hal.tiles import TILES
from pydispatch.ir.functions import FUNCTIONS

EXPORT_ATTRIBUTES = (TILES, FLOPS, PARAMETERS)
"""Attributes of the dispatch that are moved to the export."""


def outline_externs(module: ModuleOp) -> None:
    """Convert the external dispatches of the functions of `module` in place. Dispatches of the same kernel share an
    executable.
    """
    taken = {_symbol(op) for op in module.body.block.ops}
    executable_of_kernel: dict[tuple[object, ...], str] = {}  # key of a kernel → name of its executable
    for function in list(module.body.block.ops):
        if function.name not in FUNCTIONS:
            continue
        for op in [op for op in walk(function) if isinstance(op, hal.DispatchExternOp)]:
            key = _key(op)
            name = executable_of_kernel.get(key)
            if name is None:
                name = executable_of_kernel[key] = _name(op, taken)
                executable = _executable(op, name)
                module.body.block.insert_op_before(executable, function)
            _replace(op, name)


def _symbol(op: Operation) -> str:
    """Return the name of the symbol that an operation defines; "" for none."""
    name = op.properties.get("sym_name")
    return name.data if isinstance(name, StringAttr) else ""


def _name(op: hal.DispatchExternOp, taken: set[str]) -> str:
    """Return a new symbol for the executable of an external dispatch, and add it to `taken`."""
    base = "".join(c if c.isalnum() else "_" for c in f"extern_{op.export_name.data}")
    name, n = base, 1
    while name in taken:
        name, n = f"{base}_{n}", n + 1
    taken.add(name)
    return name


def _key(op: hal.DispatchExternOp) -> tuple[object, ...]:
    """Return a key that is equal for dispatches of the same kernel: same objects, layout and grid region."""
    from io import StringIO

    from xdsl.printer import Printer

    out = StringIO()
    Printer(out, print_generic_format=True).print_region(op.count)
    # Two properties belong to the dispatch, not to the kernel: how its operands are grouped, and which of its operands
    # the results overwrite.
    kept = [(k, v) for k, v in sorted(op.properties.items()) if k not in ("operandSegmentSizes", "tied_operands")]
    return (*kept, *map(op.attributes.get, EXPORT_ATTRIBUTES), out.getvalue())


def _executable(op: hal.DispatchExternOp, name: str) -> hal.ExecutableOp:
    """Return the executable `name` of an external dispatch, with a variant for each of its targets.

    A variant is named after the format of its target, such as @embedded_elf_x86_64; a number is appended if an earlier
    one has this name. Its export has the name of the dispatch's kernel, and its objects are those of the target.
    """
    variants: list[Operation] = []
    names: list[str] = []
    for target, ordinal, objects in _targets_to_compile(op):
        base = "".join(c if c.isalnum() else "_" for c in target.format.data)
        names.append(base if base not in names else f"{base}_{len(names)}")
        properties: dict[str, Attribute | None] = {
            "sym_name": StringAttr(names[-1]), "sym_visibility": StringAttr("public"), "target": target,
            "objects": objects,
        }  # fmt: skip
        variants.append(hal.ExecutableVariantOp(properties=properties, regions=[Region(Block([_export(op, ordinal)]))]))
    executable = hal.ExecutableOp(
        properties={"sym_name": StringAttr(name), "sym_visibility": StringAttr("private")},
        regions=[Region(Block(variants))],
    )
    for inner in walk(executable):
        set_location(inner, op)
    return executable


def _targets_to_compile(op: hal.DispatchExternOp) -> list[tuple[Any, Any, Any]]:
    """Return (target, ordinal of the export in its objects, the objects) of each target of an external dispatch.

    Targets that no backend of this build knows are left out, unless all are unknown: a later error then names them.
    """
    targets = [canonical(t) if isinstance(t, hal.ExecutableTargetAttr) else t for t in op.targets.data]
    stated = list(zip(targets, op.target_ordinals.data, op.target_objects.data, strict=True))
    known = [
        entry for entry in stated
        if isinstance(entry[0], hal.ExecutableTargetAttr) and backend_of(entry[0]) is not None
    ]  # fmt: skip
    return known or stated


def _export(op: hal.DispatchExternOp, ordinal: Attribute) -> Operation:
    """Return an export with the name, layout, sizes and grid that an external dispatch states, for one variant.

    ordinal: index of the kernel in the objects of the variant's target.
    """
    properties: dict[str, Attribute | None] = {
        "sym_name": op.export_name, "sym_visibility": StringAttr("public"), "ordinal": ordinal,
        "layout": op.layout, "workgroup_size": op.workgroup_size, "subgroup_size": op.subgroup_size,
        "workgroup_local_memory": op.workgroup_local_memory,
    }  # fmt: skip
    stated = {name: op.attributes[name] for name in EXPORT_ATTRIBUTES if name in op.attributes}
    return hal.ExecutableExportOp(properties=properties, attributes=stated, regions=[Region(), op.count.clone()])


def _replace(op: hal.DispatchExternOp, name: str) -> None:
    """Replace an external dispatch by a `flow.dispatch` of its export in the executable `name`."""
    dispatch = flow.DispatchOp(
        operands=[list(op.workload), list(op.arguments), list(op.argument_dims), list(op.result_dims)],
        result_types=[[r.type for r in op.results]],
        properties={
            "entry_points": ArrayAttr([SymbolRefAttr(name, [op.export_name.data])]), "tied_operands": op.tied_operands,
        },
        attributes=dict(op.attributes),
    )  # fmt: skip
    set_location(dispatch, op)
    block = op.parent
    assert block is not None
    block.insert_op_before(dispatch, op)
    for old, new in zip(op.results, dispatch.results, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    block.detach_op(op)
    op.erase(safe_erase=False)
