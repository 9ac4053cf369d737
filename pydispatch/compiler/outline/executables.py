"""Expansion of every executable to a `hal.executable` with one variant for each target.

`stream.executable` (functions over bindings), `flow.executable` (functions over tensors) and `hal.executable.source`
are expanded for the targets of the program. A `hal.executable` keeps its variants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.utils.exceptions import VerifyException

from pydispatch.compiler.kernel_ir.kernel import Layout
from pydispatch.compiler.kernels.lower import lower
from pydispatch.compiler.kernels.subgroups import lower_subgroups
from pydispatch.compiler.kernels.tiles.lower import lower_tiles
from pydispatch.compiler.outline.contracts import contract_of
from pydispatch.compiler.outline.dispatches import check_variants, derive_constants, written_bindings
from pydispatch.compiler.outline.flops import count_flops
from pydispatch.compiler.outline.interface import lower_common, lower_interface
from pydispatch.compiler.target.architectures import chosen_targets, objects_for, stated_objects
from pydispatch.compiler.target.backend import architecture, config_string, require_backend
from pydispatch.compiler.target.select import apply_levels, canonical
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects import stream
from pydispatch.ir.dialects.flow import dialect as flow
from pydispatch.ir.dialects.hal import dialect as hal
from pydispatch.ir.dialects.hal.flops import FLOPS
from pydispatch.ir.dialects.hal.tiles import TILES, check_tiles
from pydispatch.ir.functions import symbol_name

EXECUTABLES = ("stream.executable", "flow.executable", "hal.executable", "hal.executable.source")
"""Operations that hold kernels and are expanded."""


@dataclass
class Selection:
    """The targets to compile for, and the CPU levels for hand-written variants.

    Attributes:
        targets: The targets.
        explicit: Whether the caller named the targets, rather than the compiler. Hand-written variants of other targets
            are then left out.
        levels: CPU levels that hand-written variants for CPUs are compiled for.
        features: Further CPU features, as `cpu_features` of `compile`.
        written: (executable, export) → indices of the bindings that a dispatch writes.
    """

    targets: Sequence[hal.ExecutableTargetAttr]
    explicit: bool = False
    levels: Sequence[str] = ()
    features: str = ""
    written: dict[tuple[str, str], set[int]] = field(default_factory=dict)


def expand_executables(module: ModuleOp, selection: Selection) -> None:
    """Replace each executable of `module` by a `hal.executable` with one variant per target, in place.

    A variant has the exports, the kernels in kernel IR, and the objects for one target. A `hal.executable` of the
    program has variants already: those for the selected targets remain.

    Example: for an x86-64 CPU and Vulkan, `flow.executable @e { flow.executable.export @k; module { ... } }` becomes
    `hal.executable private @e { hal.executable.variant @embedded_elf_x86_64 ...; hal.executable.variant @vulkan_... }`,
    whose variants both have an export @k, with code of their own.

    Args:
        module: The module.
        selection: The targets; its `written` is set here.

    Raises:
        CompileError: An executable has no variant for the targets, or a dispatch names a variant that does not exist.
    """
    # Facts that dispatches determine.
    check_variants(module)
    derive_constants(module)
    selection.written = written_bindings(module)
    for op in list(module.body.block.ops):
        if op.name not in EXECUTABLES:
            continue
        if isinstance(op, hal.ExecutableOp):
            variants = _selected_variants(op, selection)
        else:
            variants = _expand_for_targets(op, selection.targets, selection)
        new = hal.ExecutableOp(
            properties={"sym_name": StringAttr(symbol_name(op)), "sym_visibility": StringAttr("private")},
            regions=[Region(Block(variants))],
        )
        set_location(new, op)
        module.body.block.insert_op_before(new, op)
        erase_op(op, safe_erase=False)


def variant_name(target: hal.ExecutableTargetAttr) -> str:
    """Return a symbol for a target, such as "embedded_elf_x86_64_znver4".

    It has the format, then the CPU or architecture, or for a generic CPU its additional features.
    """
    name = target.format.data
    cpu = config_string(target, "cpu", architecture(target) or "generic")
    features = config_string(target, "cpu_features")
    if cpu != "generic":
        name += f"_{cpu}"
    elif features:
        name += f"_{features}"
    return "".join(c if c.isalnum() else "_" for c in name)


def _unique(name: str, taken: Iterable[str]) -> str:
    """Return the name, or, if it is taken, the first of name_1, name_2, ... that is not."""
    used = set(taken)
    candidate, n = name, 1
    while candidate in used:
        candidate, n = f"{name}_{n}", n + 1
    return candidate


def _expand_for_targets(
    op: Operation, targets: Sequence[hal.ExecutableTargetAttr], selection: Selection
) -> list[Operation]:
    """Return a variant of an executable for each of `targets`.

    `chosen_targets` first adapts the architectures of the targets to those that the executable has objects for.

    selection: states which bindings the dispatches of hand-written kernels write.
    """
    names: list[str] = []
    variants: list[Operation] = []
    for target in chosen_targets(op, targets):
        names.append(_unique(variant_name(target), names))
        objects = matching_objects(op, target)
        if isinstance(op, flow.ExecutableOp):  # of dispatch formation
            body = _generated(op, target)
        else:
            body = _hand_written(op, selection, target)
        variants.append(_variant(op, names[-1], target, objects, body))
    return variants


def _variant(
    source: Operation, name: str, target: Attribute, objects: Sequence[Attribute], body: list[Operation]
) -> Operation:
    """Return a `hal.executable.variant` for `target` with the operations `body` and the user's `objects`."""
    variant = hal.ExecutableVariantOp(
        properties={
            "sym_name": StringAttr(name), "sym_visibility": StringAttr("public"), "target": target,
            "objects": ArrayAttr(objects) if objects else None,
        },
        regions=[Region(Block(body))],
    )  # fmt: skip
    set_location(variant, source)
    return variant


def matching_objects(op: Operation, target: hal.ExecutableTargetAttr) -> list[Attribute]:
    """Return the objects that an executable states for a target, in order.

    An object is a compiled file or a source that the user supplies (`#hal.executable.object`): kernels of the
    executable call its functions, or it has the kernels itself. An executable has one list of objects for every target,
    or one for each of several keys, which are targets, or both. Objects of a key precede those for every target.

    If no key matches a target with `cpu = "native"`, the objects for any CPU are returned. Raises CompileError if there
    are no objects at all and the executable needs them: it calls functions without a fallback, or has no kernels of its
    own.
    """
    shared, by_target = stated_objects(op)
    if by_target is None:
        return shared
    objects = objects_for(by_target, target) or objects_for(by_target, _without_native_cpu(target))
    objects = list(dict.fromkeys([*objects, *shared]))
    has_kernels = any(isinstance(o, ModuleOp) for o in op.regions[0].block.ops)
    if not objects and (calls_static(op) or not has_kernels):
        listed = [k for k in by_target.targets.data if isinstance(k, hal.ExecutableTargetAttr)]
        # The keys are the targets under which the executable lists objects.
        note = f"keys: {', '.join(str(k) for k in by_target.targets.data)}"
        backends = [key.backend.data for key in listed]
        if backends and target.backend.data not in backends:
            note += f"; for them compile with targets='{backends[0]}', --target={backends[0]}"
        raise CompileError(f"no objects of '{symbol_name(op)}' match the target {target}", location_of(op), note)
    return objects


def _without_native_cpu(target: hal.ExecutableTargetAttr) -> hal.ExecutableTargetAttr:
    """Return the target without `cpu = "native"`; other targets unchanged.

    Objects that are stated for the target without this entry have code for any CPU, which this machine also runs.
    """
    config = target.configuration.data
    if config.get("cpu") != StringAttr("native"):
        return target
    rest = DictionaryAttr({key: value for key, value in config.items() if key != "cpu"})
    return hal.ExecutableTargetAttr(target.backend, target.format, rest)


def calls_static(op: Operation) -> bool:
    """Return whether kernels of an executable call functions without a fallback, which its objects must define."""
    required = {
        symbol_name(f)
        for f in walk(op)
        if isinstance(f, func.FuncOp)
        and {"hal.import.static", "hal.import.bitcode"} & f.attributes.keys()
        and "hal.import.fallback" not in f.attributes
    }
    return any(c.callee.root_reference.data in required for c in walk(op) if isinstance(c, func.CallOp))


def _selected_variants(op: hal.ExecutableOp, selection: Selection) -> list[Operation]:
    """Return copies of the variants of a hand-written executable to compile, with one for each CPU level.

    A CPU level is a set of CPU features. With the levels "x86-64-v3" and "x86-64-v4", a variant for x86-64 becomes two
    with the same code, one for each level; a variant for a GPU becomes one. Raises CompileError if the executable has
    no variant for the targets that the caller named.
    """
    selected: list[Operation] = []
    names: list[str] = []  # targets of all variants, for the message
    formats = {(t.backend, t.format) for t in selection.targets}
    for variant in op.body.block.ops:
        if not isinstance(variant, hal.ExecutableVariantOp):
            continue
        target = canonical(variant.target)
        names.append(str(target))
        # Only the targets that the caller named are compiled; those that the compiler chose restrict nothing.
        if selection.explicit and (target.backend, target.format) not in formats:
            continue
        require_backend(target, f"variant '@{variant.sym_name.data}': ", location_of(variant))
        levels = [target]  # the target for each CPU level
        if selection.levels or selection.features:
            levels = apply_levels(target, selection.levels, selection.features)
        selected += [_variant_for(variant, target, level) for level in levels]
    if not selected:
        raise CompileError(
            f"executable '@{op.sym_name.data}' has no variant for the chosen targets",
            location_of(op),
            f"wanted {', '.join(str(t) for t in selection.targets)}; it has {', '.join(names) or 'none'}",
        )
    return selected


def _variant_for(
    variant: hal.ExecutableVariantOp, target: hal.ExecutableTargetAttr, level: hal.ExecutableTargetAttr
) -> Operation:
    """Return a copy of a hand-written variant, in kernel IR, for `level`: its own `target`, or a CPU level of that."""
    copy = variant.clone()
    copy.properties["target"] = level
    if level != target:
        copy.properties["sym_name"] = StringAttr(f"{variant.sym_name.data}_{variant_name(level)}")
    for inner in copy.body.block.ops:
        if isinstance(inner, ModuleOp):
            lower_common(inner)
            lower_tiles(inner, level)
            lower_subgroups(inner, level)
    return copy


def _hand_written(op: Operation, selection: Selection, target: hal.ExecutableTargetAttr) -> list[Operation]:
    """Return the exports and the modules of a `stream.executable` or `hal.executable.source`, in kernel IR.

    Each `stream.executable.export @k workgroups(%n: index) -> ...` becomes a `hal.executable.export @k` with an
    ordinal, and with the layout of the bindings and push constants that were arguments of its function, @k. Exports of
    a `hal.executable.source`, which state their layouts, are copied.

    Args:
        op: The executable.
        selection: States which bindings the dispatches of each export write.
        target: The target, for which operations on tiles and subgroups are lowered.
    """
    # The exports, with the interfaces of their functions.
    body: list[Operation] = []
    modules = [inner.clone() for inner in op.regions[0].block.ops if isinstance(inner, ModuleOp)]
    functions = {symbol_name(f): f for m in modules for f in m.body.block.ops if isinstance(f, func.FuncOp)}
    executable = symbol_name(op)
    ordinal = 0
    exports = [export for export in op.regions[0].block.ops if isinstance(export, stream.ExecutableExportOp)]
    uses = Counter(map(_function_name, exports))  # function → exports of it that are still to be built
    for export in op.regions[0].block.ops:
        if isinstance(export, stream.ExecutableExportOp):
            function = _entry(export, functions, uses)
            layout = lower_interface(function, selection.written.get((executable, symbol_name(export))))
            body.append(make_export(export, ordinal, layout, _grid_with_device(export.count, export)))
            ordinal += 1
        elif not isinstance(export, ModuleOp):
            body.append(export.clone())
    # The code.
    for module in modules:
        lower_common(module)
        lower_tiles(module, target)
        lower_subgroups(module, target)
    return [*body, *modules]


def _function_name(export: stream.ExecutableExportOp) -> str:
    """Return the name of the function that an export refers to: its own name, unless it states another one."""
    reference = export.function_ref
    if isinstance(reference, SymbolRefAttr):
        return reference.root_reference.data
    return reference.data if isinstance(reference, StringAttr) else symbol_name(export)


def _entry(export: stream.ExecutableExportOp, functions: dict[str, func.FuncOp], uses: Counter[str]) -> func.FuncOp:
    """Return the function that an export refers to, renamed to the export's name; a copy if others refer to it, too.

    Raises CompileError if there is no such function in `functions`.

    Args:
        export: The export.
        functions: Functions of the executable by the names that the program gives them.
        uses: Number of exports that refer to each function, from this one on; one is subtracted.
    """
    name = _function_name(export)
    if name not in functions:
        raise CompileError(
            f"export '@{symbol_name(export)}' names no function of its executable",
            location_of(export),
            f"functions: {', '.join('@' + f for f in functions) or 'none'}",
        )
    function = functions[name]
    uses[name] -= 1
    if uses[name]:  # the last export of a function gets the function itself
        function = function.clone()
        block = functions[name].parent
        assert block is not None
        block.insert_op_before(function, functions[name])
    function.properties["sym_name"] = StringAttr(symbol_name(export))
    return function


def _grid_with_device(count: Region, export: Operation) -> Region:
    """Return a copy of the region that computes the grid of the program's export, as a `hal` export has it.

    `(%n: index) { ...; stream.return %x, %y, %z }` becomes `(%device: !hal.device, %n: index) { ...; hal.return %x, %y,
    %z }`. The grid is the number of workgroups along x, y and z.

    Raises CompileError if the export has no region.
    """
    if not count.blocks:
        raise CompileError(
            f"export '@{symbol_name(export)}' has no workgroup count", location_of(export),
            "give it a region: workgroups(%size: index) -> (index, index, index) { ... }",
        )  # fmt: skip
    copy = count.clone()
    copy.block.insert_arg(hal.DeviceType(), 0)
    terminator = copy.block.last_op
    assert terminator is not None
    end = hal.ReturnOp(operands=[list(terminator.operands)])
    set_location(end, terminator)
    copy.block.insert_op_before(end, terminator)
    erase_op(terminator)
    return copy


def make_export(source: Operation, ordinal: int, layout: Layout, count: Region) -> Operation:
    """Return a `hal.executable.export` with the name and the stated workgroup size, tiles and flops of `source`.

    Tiles are the bytes of each binding that one workgroup accesses. Raises CompileError if a tile is invalid, or if
    there is not one tile for each binding.

    Args:
        source: The export of the program.
        ordinal: Index of the export in its executable.
        layout: Bindings and push constants of the kernel.
        count: Region that computes the number of workgroups.
    """
    # The export. Only bindings that are not written have the flag ReadOnly.
    bindings = [
        hal.PipelineBindingAttr(
            StringAttr("storage_buffer"), ArrayAttr([StringAttr("ReadOnly")] if b.read_only else [])
        )
        for b in layout.bindings
    ]  # fmt: skip
    stated = source.attributes.get("workgroup_size")
    export = hal.ExecutableExportOp(
        properties={
            "sym_name": StringAttr(symbol_name(source)),
            "sym_visibility": StringAttr("public"),
            "ordinal": IntegerAttr(ordinal, IndexType()),
            "layout": hal.PipelineLayoutAttr(IntAttr(layout.constants), ArrayAttr(bindings), ArrayAttr([])),
            "workgroup_size": stated if isinstance(stated, ArrayAttr) else None,
        },
        attributes={name: source.attributes[name] for name in (TILES, FLOPS) if name in source.attributes},
        regions=[Region(), count],
    )
    set_location(export, source)
    # Tiles that the program states are checked against the bindings.
    try:
        check_tiles(export, len(bindings))
    except VerifyException as error:
        raise CompileError(f"export '@{symbol_name(source)}': {error}", location_of(source)) from None
    return export


def _generated(op: flow.ExecutableOp, target: hal.ExecutableTargetAttr) -> list[Operation]:
    """Return the exports and the module of an outlined executable for one target, with a contract for each export: the
    function that checks the sizes of a dispatch, and returns its grid and memory needs.
    """
    exports = [e for e in op.body.block.ops if isinstance(e, flow.ExecutableExportOp)]
    module = next(m for m in op.body.block.ops if isinstance(m, ModuleOp))
    functions = {symbol_name(f): f for f in module.body.block.ops if isinstance(f, func.FuncOp)}
    body: list[Operation] = []
    kernels: list[Operation] = []
    for ordinal, export in enumerate(exports):
        function = functions[symbol_name(export)]
        kernel = lower(function, target)
        # A grid that the program states replaces the kernel's own. The tiles of the kernel fit only its own grid.
        states_grid = bool(export.count.blocks)
        count = _grid_with_device(export.count, export) if states_grid else kernel.count
        new_export = make_export(export, ordinal, kernel.layout, count)
        if kernel.tiles and not states_grid:
            new_export.attributes[TILES] = ArrayAttr([IntegerAttr(size, i64) for size in kernel.tiles])
        # A number of flops that the program states is not replaced.
        flops = None if FLOPS in new_export.attributes else count_flops(function)
        if flops is not None:
            new_export.attributes[FLOPS] = flops
        body += [new_export, contract_of(function, kernel)]
        kernels += [*kernel.globals, kernel.function]
    inner = ModuleOp(kernels)
    set_location(inner, op)
    return [*body, inner]
