"""Selection of the targets that a program is compiled for.

Explicit arguments take precedence, then the module's own `hal.device.targets`. The default is the CPU of this
machine. CPUs (`x86-64-v3`, `neoverse-n1`, `native`) apply to the targets of their architecture. A target that is
named "cpu", or selected by default, has generic code and code for this machine unless CPUs or features are passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute

from pydispatch import extensions
from pydispatch.compiler.target.backend import backend_named, backend_of, backends, require_backend
from pydispatch.compiler.target.default_cpus import default_cpus
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.dialects.hal.dialect import DeviceTargetAttr, ExecutableTargetAttr

DEFAULT = "cpu"
"""The target of programs that state none."""

_DESCRIPTIVE_ENTRIES = frozenset(
    ("data_layout", "target_triple", "native_vector_size", "target_abi", "max_stack_allocation_size")
)
"""Configuration entries that do not decide whether the objects of a `key` belong to a target (`key_matches`): a key may
state them even if the target does not."""


def canonical(target: ExecutableTargetAttr) -> ExecutableTargetAttr:
    """Return the target with the canonical name of its backend."""
    backend = backend_of(target)
    if backend is None or backend.name == target.backend.data:
        return target
    return ExecutableTargetAttr(StringAttr(backend.name), target.format, target.configuration)


def executable_targets(attribute: Attribute) -> list[ExecutableTargetAttr]:
    """Return the executable targets inside a `hal.device.targets` value, in order, without repetitions.

    For `[#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]>]`, the result is the
    inner attribute, in its canonical form.
    """
    return list(dict.fromkeys(map(canonical, _targets_in(attribute))))


def _targets_in(attribute: Attribute) -> Iterator[ExecutableTargetAttr]:
    """Yield the executable targets in an attribute, at any depth."""
    if isinstance(attribute, ExecutableTargetAttr):
        yield attribute
    elif isinstance(attribute, DeviceTargetAttr):
        yield from _targets_in(attribute.executable_targets)
    elif isinstance(attribute, ArrayAttr):
        for item in attribute.data:
            yield from _targets_in(cast(Attribute, item))
    elif hasattr(attribute, "devices"):  # #hal.device.select
        yield from _targets_in(attribute.devices)


def select_targets(
    module: ModuleOp,
    targets: Sequence[str] | None = None,
    cpu: str | Sequence[str] | None = None,
    features: str = "",
    is_single: bool = False,
) -> list[ExecutableTargetAttr]:
    """Return the targets to compile `module` for.

    Args:
        module: The module.
        targets: Names such as "cpu", "sm_80" or "embedded-elf-x86_64"; None for the targets that the module states.
        cpu: One CPU name or several ("generic", "native", "x86-64-v3", "cortex-a76"), each of which gives a variant for
            its architecture.
        features: LLVM features ("+avx2,+fma") that are added to every CPU target.
        is_single: Whether a target that states no CPU gets generic code alone. Otherwise it gets a variant for each of
            `default_cpus`. Has no effect with `cpu` or `features`.

    Returns:
        The targets in order, without repetitions: with `cpu`, one for each of the CPUs.

    Raises:
        CompileError: A target or CPU name is not known, or a named CPU has an architecture that is not compiled for.
    """
    # The targets, without CPUs from the caller.
    device_targets = module.attributes.get("hal.device.targets")
    stated = [] if device_targets is None else executable_targets(device_targets)
    if targets is not None:
        chosen = [target for name in targets for target in _named(name, stated)]
    else:
        chosen = stated or _named(DEFAULT, [])
    chosen = list(dict.fromkeys(chosen))
    for target in chosen:
        require_backend(target, location=location_of(module))
    # A variant of each CPU target for each of the caller's CPUs; else, for targets without a CPU, the default ones.
    levels = [cpu] if isinstance(cpu, str) else list(cpu or ())
    if levels or features:
        with_levels = [t for target in chosen for t in apply_levels(target, levels, features)]
        _check_used(levels, chosen, with_levels)
        return with_levels
    if is_single:
        return chosen
    open_targets = _without_stated_cpu(targets, stated)
    return [v for target in chosen for v in (_defaults(target) if target in open_targets else [target])]


def _without_stated_cpu(
    targets: Sequence[str] | None, stated: Sequence[ExecutableTargetAttr]
) -> set[ExecutableTargetAttr]:
    """Return the targets that may be compiled for default CPUs, because neither the module nor the caller states one.

    Args:
        targets: Names that the caller passed. Only names of backends, such as "cpu", leave the CPU open; those of
            machines or formats do not. None if the caller passed no names.
        stated: The targets that the module states.
    """
    if targets is None:  # the targets are those of the module, or else the default
        return set() if stated else set(_named(DEFAULT, []))
    return {t for name in targets if backend_named(name) for t in _named(name, stated)} - set(stated)


def _defaults(target: ExecutableTargetAttr) -> list[ExecutableTargetAttr]:
    """Return copies of a target for the default CPUs; only the first of several copies that require the same features.

    For example, if this machine has only the features of its whole architecture, "native" and "generic" require the
    same features, and one copy is returned for both.
    """
    backend = backend_of(target)
    if backend is None or not backend.names_cpus:
        return [target]
    by_requirements: dict[tuple[str, ...], ExecutableTargetAttr] = {}  # required features → the first such target
    for variant in backend.with_options(target, default_cpus(), features=""):
        machine = backend.cpu_machine(variant)
        by_requirements.setdefault(machine.requires if machine else (), variant)
    return list(by_requirements.values())


def _check_used(
    levels: Sequence[str], chosen: Sequence[ExecutableTargetAttr], variants: Sequence[ExecutableTargetAttr]
) -> None:
    """Check that each named CPU became a target, if there are CPU targets; raise CompileError otherwise.

    A CPU of an architecture that is not compiled for would otherwise be ignored.

    Args:
        levels: The CPU names that the caller passed.
        chosen: The targets, before the names were applied to them.
        variants: The targets after that.
    """
    cpu_targets = [target.format.data for target in chosen if (backend := backend_of(target)) and backend.names_cpus]
    if not cpu_targets:
        return
    # "native" and its synonym "host" are no error if no target has the architecture of this machine.
    used = {StringAttr("native"), *(target.configuration.data.get("cpu") for target in variants)}
    for level in levels:
        if StringAttr("native" if level == "host" else level) not in used:
            raise CompileError(
                f"CPU '{level}' belongs to an architecture that is not compiled for",
                note=f"the targets are {', '.join(cpu_targets)}; add one by targets= or --target",
            )


def _named(name: str, stated: Sequence[ExecutableTargetAttr]) -> list[ExecutableTargetAttr]:
    """Return the targets that one name stands for. Raises CompileError for an unknown name.

    Args:
        name: Name of a backend ("cuda"), or of a machine ("x86_64", "sm_80").
        stated: The targets that the module states.
    """
    # The name of a backend for several architectures stands for the backend's targets that the module states, if any.
    backend = backend_named(name)
    if backend is not None and backend.architectures is not None:
        of_module = [target for target in stated if target.backend.data == backend.name]
        if of_module:
            return of_module
    # Otherwise it stands for the backend's default target. The name of a machine stands for the target of the first
    # backend that has the machine: `select` returns None in other backends. `select("")` returns the default.
    names_machine = backend is None
    for candidate in backends() if backend is None else [backend]:
        target = candidate.select(name if names_machine else "")
        if target is not None:
            return [target]
    names = sorted({part.name for part in extensions.parts("target")})
    known = [*names, *(machine for candidate in backends() for machine in candidate.machines)]
    raise CompileError(f"there is no target '{name}'; known: {', '.join(known)}")


def apply_levels(target: ExecutableTargetAttr, levels: Sequence[str], features: str) -> list[ExecutableTargetAttr]:
    """Return a target for each CPU that fits `target`.

    Return only `target` itself if none fits, if its backend has no CPUs, or if the backend is not installed.

    Args:
        target: The target.
        levels: Names of CPUs or levels ("x86-64-v3", "native").
        features: LLVM features ("+avx2,-fma") of each of these targets; "" for none.
    """
    backend = backend_of(target)
    return [target] if backend is None else backend.with_options(target, levels, features)


def in_written_order(target: ExecutableTargetAttr) -> ExecutableTargetAttr:
    """Return the target with `reassociate = false`: kernels add floats up in the written order."""
    config = {**target.configuration.data, "reassociate": IntegerAttr(0, 1)}
    return ExecutableTargetAttr(target.backend, target.format, DictionaryAttr(config))


def key_matches(key: ExecutableTargetAttr, target: ExecutableTargetAttr) -> bool:
    """Return whether objects listed under `key` belong to `target`: backend and format are equal, and the target has
    the configuration entries that the key states.

    A key `<"llvm-cpu", "embedded-elf-x86_64", {cpu = "znver4"}>` matches targets with this CPU. A key without entries
    matches all targets of the backend and format.

    Architectures are left to the caller: code for one may run on others.
    """
    key, backend = canonical(key), backend_of(key)
    if key.backend != target.backend or key.format != target.format:
        return False
    architectures = None if backend is None else backend.architectures
    entries_of_architectures = () if architectures is None else architectures.entries
    entries = target.configuration.data
    for name, value in key.configuration.data.items():
        if name in entries_of_architectures:  # left to the caller
            continue
        if name in entries:
            if entries[name] != value:
                return False
        # The target lacks the entry. Without a CPU it is generic, and without features it has none beyond its CPU's. An
        # entry such as data_layout follows from the format. Any other entry asks for something that the target lacks.
        elif name == "cpu":
            if value != StringAttr("generic"):
                return False
        elif name == "cpu_features":
            if value != StringAttr(""):
                return False
        elif name not in _DESCRIPTIVE_ENTRIES:
            return False
    return True
