"""Loading of an artifact: validation, device queries, and selection and linking of executable variants."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from pydispatch import logs
from pydispatch._core.artifact import ArtifactFile
from pydispatch._core.linking import Manifest, read_manifest
from pydispatch._core.memory import Pool
from pydispatch._core.program import Module
from pydispatch._core.sched import Scheduler
from pydispatch.errors import ArtifactError
from pydispatch.runtime.program import derived, manifest
from pydispatch.runtime.program.derived import Sharing
from pydispatch.runtime.program.manifest import CONTRACTS, MANIFEST, PROGRAM
from pydispatch.runtime.program.variants import Chosen, DeviceProperties, choose

DirectLink = Callable[[Module, ArtifactFile, Manifest], list[tuple[int, ...]] | None]
"""Function that links all executables of a program from its manifest as the C core reads it. It returns for each the
index of its variant followed by its constants; None, with nothing linked, if the program needs a `Linker`."""


class Linker(Protocol):
    """Interface that devices implement to link the executables of one program, a module of the C core."""

    def link(self, module: Module, file: ArtifactFile, variants: list[Chosen]) -> None:
        """Link the code of `variants`, members of `file`, into the program: the chosen variant of each executable."""

    def finish(self, module: Module) -> None:
        """Finish linking, after all executables are linked and before the program runs."""


def load(
    file: ArtifactFile,
    properties: DeviceProperties,
    sched: Scheduler,
    pool: Pool,
    linker: Linker,
    parameters: Mapping[str, Any] | None = None,
    sharing: Sharing | None = None,
    link_directly: DirectLink | None = None,
) -> Module:
    """Link the program of an artifact.

    Args:
        file: The open artifact.
        properties: Properties of the device, by which variants are chosen and queries of the program about it answered.
        sched: Scheduler that runs the dispatches of the program.
        pool: Pool of the memory that calls allocate.
        linker: Interface of the device that links executables.
        parameters: Files or arrays with the constants that are not in the artifact, by scope; None if there are none.
        sharing: Memory of derived constants (computed from others at load) that programs on the device share; None to
            share nothing.
        link_directly: Faster way to link a program all of whose code is in the artifact, without imports; None if the
            device has none. `linker` links all other programs.

    Raises:
        ArtifactError: The artifact is broken.
        DeviceUnavailableError: No variant of an executable runs on the device.
        MissingImportError: A variant has unresolved imports.
        InvalidArgumentError: `parameters` do not match the program.
    """
    start, logs_choices = time.perf_counter(), logs.runtime.has_info
    try:
        if logs_choices:  # only `linker` logs which variants it chooses
            link_directly = None
        module = _load(file, properties, sched, pool, linker, parameters, sharing, link_directly)
    except ArtifactError as error:
        # Errors of the C core do not name the artifact, while errors of this module do.
        if str(error).startswith(file.name):
            raise
        raise ArtifactError(f"{file.name}: {error}") from None
    if logs_choices:
        logs.runtime.info(
            "%s: loaded for %s: %d executables, %d functions, %d constants, in %.1f ms",
            file.name, properties.ids[-1],  # the last name of a device is the most specific one
            module.executable_count, len(module.functions()) + len(module.procedures()), len(module.constants()),
            1e3 * (time.perf_counter() - start),
        )  # fmt: skip
    return module


def _load(
    file: ArtifactFile, properties: DeviceProperties, sched: Scheduler, pool: Pool, linker: Linker,
    parameters: Mapping[str, Any] | None, sharing: Sharing | None, link_directly: DirectLink | None,
) -> Module:  # fmt: skip
    """Create the module, and complete it: constants, executables, parameters, derived constants, host commands, state.

    For `link_directly` the C core reads the manifest, which takes less time. Python reads it if the device cannot link
    directly, if the C core refuses the manifest, or if `link_directly` returns None.

    Args:
        file: The open artifact.
        properties: Properties of the device, by which variants are chosen and queries of the program about it answered.
        sched: Scheduler that runs the dispatches of the program.
        pool: Pool of the memory that calls allocate.
        linker: Interface of the device that links executables.
        parameters: Files or arrays with the constants that are not in the artifact, by scope; None if there are none.
        sharing: Derived constants (computed from others at load) that programs on the device share; None to share
            nothing.
        link_directly: Faster way to link a program all of whose code is in the artifact; None if the device has none.
    """
    core_manifest = None if link_directly is None else read_manifest(file)  # as the C core reads it
    python_manifest = manifest.read(file) if core_manifest is None else None  # (executables, functions)
    module = Module(file.find(PROGRAM, verify=True), sched, pool, file)
    for i, (category, key) in enumerate(module.queries()):  # about the device, such as ("hal.cpu", "avx2")
        module.answer(i, properties.answer(category, key))
    _bind_constants(module, file)
    # Executables. Programs whose code is all in the artifact are linked directly if the device can do that. `keys` has
    # for each executable (index of its variant, executable constants, ...), such as (1, 64): equal artifacts with equal
    # keys run the same code, and so derive equal constants, which they may share.
    keys = None
    if link_directly is not None and core_manifest is not None:
        keys = link_directly(module, file, core_manifest)
    is_shareable = keys is not None
    if keys is not None:
        module.details = partial(manifest.details, file, keys)
    else:
        executables, functions = python_manifest or manifest.read(file)
        variants = _link_executables(module, file, properties, linker, executables, functions)
        keys = [(variant.number, *variant.constants) for variant in variants]
        # Imported functions, and code that is supplied at load time ("dynamic"), may differ between two loads.
        is_shareable = not any(v.entry.get("imports") or v.entry.get("dynamic") for v in variants)
    if parameters is not None or module.parameters():  # after the executables, which state the alignment of parameters
        from pydispatch.runtime.program.parameters import bind

        module.bound = tuple(bind(module, parameters))
    if module.derivations():
        derived.attach(module, file, keys, sharing if is_shareable else None)
    linker.finish(module)
    if module.procedures():
        from pydispatch._core.state import State

        module.state = State(module)
    return module


def _bind_constants(module: Module, file: ArtifactFile) -> None:
    """Bind the constants whose bytes are in the artifact: all but parameters and derived constants."""
    for i, constant in enumerate(module.constants()):
        if constant is None:  # derived from others
            continue
        member, offset, size, parameter = constant  # offset and size in bytes
        if parameter is None:
            module.bind_constant(i, _constant(file, member, offset, size), is_mapped=file.is_mapped)


def _link_executables(
    module: Module, file: ArtifactFile, properties: DeviceProperties, linker: Linker,
    executables: list[dict[str, Any]], functions: dict[str, dict[str, Any]],
) -> list[Chosen]:  # fmt: skip
    """Choose and link the variant of each executable that runs here, and load the contracts of its exports.

    A contract states the shapes, types and alignments that a generated kernel relies on; plans are checked against it.
    Kernels written by hand have none.

    Args:
        module: The program, without executables so far.
        file: Its artifact.
        properties: Properties of the device, by which variants are chosen.
        linker: Interface of the device that links the chosen variants.
        executables: Entry of each executable in the manifest, in order, with its name and variants.
        functions: Entry of each function in the manifest, by name.

    Returns:
        The chosen variant of each executable, in the order of the program.

    Raises:
        ArtifactError: The manifest lists other executables or functions than the program, or code is invalid.
        DeviceUnavailableError: No variant of an executable runs on the device.
        MissingImportError: A variant has unresolved imports.
    """
    _require_same_functions(module, file, executables, functions)
    variants = [choose(module, file.name, properties, i, executable) for i, executable in enumerate(executables)]
    linker.link(module, file, variants)
    # Operation counts of kernels and signatures of functions, which only profiles and descriptions read.
    flops = {chosen.index: chosen.entry["flops"] for chosen in variants if "flops" in chosen.entry}
    module.details = flops, functions
    # "contracts" of a variant has for each export the index of its contract in CONTRACTS, or None.
    with_contracts = [chosen for chosen in variants if chosen.entry.get("contracts") is not None]
    if with_contracts:
        module.load_contracts(file.find(CONTRACTS, verify=True))
        for chosen in with_contracts:
            module.set_contracts(chosen.index, chosen.entry["contracts"])
        # A plan is checked against the contracts once, when it is created, and serves later calls with equal keys. The
        # scalars that any contract checks therefore become keys of plans, which needs all contracts.
        module.apply_contracts()
    return variants


def _require_same_functions(
    module: Module, file: ArtifactFile, executables: list[dict[str, Any]], functions: dict[str, dict[str, Any]]
) -> None:
    """Raise ArtifactError unless the manifest lists as many executables and the same functions as the program."""
    if len(executables) != module.executable_count:
        raise ArtifactError(
            f"{file.name}: {MANIFEST} lists {len(executables)} executables, {PROGRAM} {module.executable_count}"
        )
    actual = [name for _, name in (*module.functions(), *module.procedures())]
    if sorted(functions) != sorted(actual):
        raise ArtifactError(f"{file.name}: {MANIFEST} lists the functions {[*functions]}, {PROGRAM} {actual}")


def _constant(file: ArtifactFile, member: str, offset: int, length: int) -> memoryview:
    """Return the bytes of a constant in a member. Raise ArtifactError if they exceed the member."""
    data: memoryview = file.find(member)
    if offset + length > len(data):
        raise ArtifactError(
            f"{file.name}: a constant takes {length} bytes at {offset} of '{member}', which has {len(data)}"
        )
    return data[offset : offset + length]
