"""Turns an artifact into a linked program: checks it, answers device queries, loads a variant of each executable."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pydispatch._core.artifact import ArtifactFile
from pydispatch._core.memory import Pool
from pydispatch._core.program import Module
from pydispatch._core.sched import Scheduler
from pydispatch.errors import ArtifactError, DeviceUnavailableError, Error, MissingImportError

if TYPE_CHECKING:
    from pydispatch._core.plugin import Resolution
    from pydispatch.runtime.program.imports import Code, Import, Registry

MANIFEST = "manifest.json"
PROGRAM = "program.bin"
CONTRACTS = "contracts.bin"
_TEXT = frozenset((str,))


@dataclass(frozen=True)
class Host:
    """Properties of a device by which variants are chosen, and which programs may query.

    ids: names of the device. format: of the executables that it runs. features: what its CPU has; known: all names of
    features. processor_data: the eight words that kernels are given. why_not: in words, why requirements that the
    device does not meet are not met; without, their names are listed. remedy: what to do about it.
    """

    ids: tuple[str, ...]
    format: str
    features: frozenset[str]
    known: frozenset[str]
    processor_data: tuple[int, ...]
    workers: int
    why_not: Callable[[Sequence[str]], str] | None = None
    remedy: str = ""

    def answer(self, category: str, key: str) -> int | None:
        """The answer to `hal.device.query`, or None when the device does not know such a thing."""
        if category == "hal.executable.format":
            return int(key == self.format)
        if category == "hal.cpu":
            return int(key in self.features) if key in self.known else None
        if category == "hal.device.id":
            return int(any(fnmatch.fnmatchcase(name, key) for name in self.ids))
        if key == "concurrency":
            # Same results as IREE: queues of the device, workers of a dispatch.
            return {"hal.device": 1, "hal.dispatch": self.workers}.get(category)
        return None


class Foreign(Protocol):
    """A device that runs executables by itself, see `_core.device`."""

    def link(
        self,
        module: Module,
        index: int,
        executable: dict[str, Any],
        variant: dict[str, Any],
        data: memoryview,
        constants: list[int],
        chosen: int,
    ) -> None:
        """Loads variant number `chosen` of executable `index`; executable and variant are entries of the manifest."""

    def finish(self, module: Module) -> None:
        """Everything is linked, and nothing has run."""


def load(
    file: ArtifactFile,
    host: Host,
    sched: Scheduler,
    pool: Pool,
    registry: Registry | None = None,
    parameters: Mapping[str, Any] | None = None,
    foreign: Foreign | None = None,
) -> tuple[Module, list[Import]]:
    """Links the program of an artifact; returns it and the provider of each import.

    Raises ArtifactError when it is broken, DeviceUnavailableError when no variant of an executable runs here,
    MissingImportError when one needs a function that `registry` does not provide, InvalidArgumentError when
    `parameters` are not what the program needs.
    """
    try:
        return _load(file, host, sched, pool, registry, parameters, foreign)
    except ArtifactError as error:
        # Errors of the C core do not name the artifact.
        if str(error).startswith(file.name):
            raise
        raise ArtifactError(f"{file.name}: {error}") from None


def _load(
    file: ArtifactFile,
    host: Host,
    sched: Scheduler,
    pool: Pool,
    registry: Registry | None,
    parameters: Mapping[str, Any] | None,
    foreign: Foreign | None,
) -> tuple[Module, list[Import]]:
    text = bytes(file.find(MANIFEST, True))
    try:
        manifest = json.loads(text.decode())
        executables, functions = _executables(manifest), _names(manifest)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        executables = None
    if executables is None or functions is None:
        raise _manifest_error(file.name, text)
    module = Module(file.find(PROGRAM, True), sched, pool, file)
    for i, (category, key) in enumerate(module.queries()):
        module.answer(i, host.answer(category, key))
    for i, (member, offset, length, parameter) in enumerate(module.constants()):
        if parameter is None:
            module.bind_constant(i, _constant(file, member, offset, length))
    if len(executables) != module.executable_count:
        raise ArtifactError(
            f"{file.name}: {MANIFEST} lists {len(executables)} executables, {PROGRAM} {module.executable_count}"
        )
    actual = [name for _, name in (*module.functions(), *module.procedures())]
    if sorted(functions) != sorted(actual):
        raise ArtifactError(f"{file.name}: {MANIFEST} lists the functions {functions}, {PROGRAM} {actual}")
    linker = _Linker(module, file, host, registry, foreign)
    for i, executable in enumerate(executables):
        linker.link(i, executable)
    linker.settle()
    imports = linker.imports()
    if parameters is not None or module.parameters():  # after the executables, which state its alignment
        from pydispatch.runtime.program.parameters import bind

        module.bound = tuple(bind(module, parameters))
    if foreign is not None:
        foreign.finish(module)
    if module.procedures():
        from pydispatch._core.procedure import State

        module.state = State(module)
    return module, imports


_Words = tuple[list[int], tuple[int, ...], int]
"""Executable constants, processor data, and the number of the variant."""


class _Linker:
    """Loads the executables of one program, and keeps what is known of their imports."""

    def __init__(
        self, module: Module, file: ArtifactFile, host: Host, registry: Registry | None, foreign: Foreign | None
    ) -> None:
        self.module, self.file, self.host, self.registry, self.foreign = module, file, host, registry, foreign
        self.resolution: Resolution | None = None
        self.has_contracts = False
        self.importing: list[tuple[str, dict[str, Any]]] = []  # executables with imports, in the order of loading

    def link(self, index: int, executable: dict[str, Any]) -> None:
        """Loads the best variant of an executable; see `load` for what may be raised."""
        name, variant, constants, chosen = _prepare(self.module, self.file, self.host, index, executable)
        if self.foreign is not None:
            data = self.file.find(variant["member"], True)
            self.foreign.link(self.module, index, executable, variant, data, constants, chosen)
            self._hold(index, name, variant)
            return
        words: _Words = (constants, self.host.processor_data, chosen)
        if variant.get("dynamic"):
            self._link_given(index, executable, name, variant, words)
            return
        elf = self.file.find(variant["member"], True)
        alignment = variant["alignment"]
        if not variant.get("imports"):
            count = self.module.load_executable(index, elf, name, *words, alignment)
        else:
            self.importing.append((name, variant))
            try:
                count = self.module.load_executable(index, elf, name, *words, alignment, self._resolution())
            except MissingImportError:
                raise self._missing() from None
        if len(executable["exports"]) > count:  # a library linked elsewhere may have more exports than the program uses
            raise ArtifactError(
                f"{self.file.name}: {MANIFEST} lists {len(executable['exports'])} exports of executable '{name}', "
                f"'{variant['member']}' has {count}"
            )

        self._hold(index, name, variant)

    def _hold(self, index: int, name: str, variant: dict[str, Any]) -> None:
        """Sets the contracts of a variant's exports."""
        numbers = variant.get("contracts")
        if numbers is None:
            return
        if not self.has_contracts:
            self.module.load_contracts(self.file.find(CONTRACTS, True))
            self.has_contracts = True
        self.module.set_contracts(index, numbers)

    def settle(self) -> None:
        """All executables are linked."""
        if self.has_contracts:
            self.module.settle()

    def _link_given(
        self, index: int, executable: dict[str, Any], name: str, variant: dict[str, Any], words: _Words
    ) -> None:
        """The same for an executable that the program only declares: its code comes from the device."""
        code = _given(self.registry, name, executable)
        alignment = max(code.ALIGNMENT, variant["alignment"])
        self.importing.append((name, variant))
        resolution = self._resolution()
        try:
            self.module.load_executable(
                index, code.elf, name, *words, alignment, resolution=resolution, query=code.query, owner=code.owner
            )
        except Error as error:
            raise type(error)(f"{error} (the code was given by device.add_executable from {code.source})") from None
        if resolution is None or not any(s.group == len(self.importing) - 1 for s in resolution.report()):
            self.importing.pop()  # it has no imports

    def _resolution(self) -> Resolution | None:
        if self.registry is not None and self.resolution is None:
            self.resolution = self.registry.manager.resolution()
            self.module.flushes = self.registry.system
        return self.resolution

    def imports(self) -> list[Import]:
        """The resolved imports and their providers, after all executables are loaded."""
        if self.resolution is not None:
            self.resolution.settle()
        if not self.importing:
            return []
        from pydispatch.runtime.program.imports import report

        return report(self.resolution, self.importing)

    def _missing(self) -> MissingImportError:
        """Names all unresolved imports of the last executable, the providers asked, and the remedy."""
        from pydispatch.runtime.program.imports import missing

        name, variant = self.importing[-1]
        symbols = self.resolution.report() if self.resolution is not None else []
        provided = [s.name for s in symbols if s.group == len(self.importing) - 1 and s.provider is not None]
        asked = [p.label for p in self.resolution.providers()] if self.resolution is not None else []
        known = self.registry.names.values() if self.registry is not None else ()
        return missing(name, variant, provided, asked, known)


def _given(registry: Registry | None, name: str, executable: dict[str, Any]) -> Code:
    """The code of an executable that the program only declares."""
    code = registry.executables.get(name) if registry is not None else None
    if code is not None:
        return code
    given = ", ".join(f"'{other}'" for other in registry.executables) if registry is not None else ""
    exports = ", ".join(f"@{export}" for export in executable.get("exports", ()))
    raise MissingImportError(
        f"the program only declares executable '@{name}' ({exports}) and the device was not given its code"
        f"{f'; it was given {given}' if given else ''}\n"
        f"supply it with device.add_executable('{name}', 'library.so') before loading",
        (name,),
    )


def _names(manifest: dict[str, Any]) -> list[str] | None:
    """The functions of a manifest, None unless they and the constants are well-formed."""
    functions, constants = manifest["functions"], manifest["constants"]
    if type(functions) is not list or type(constants) is not list:
        return None
    for entry in constants:
        if not (type(entry["member"]) is type(entry["dtype"]) is str and type(entry["shape"]) is list):
            return None
        if not all(type(size) is int for size in entry["shape"]):
            return None
    names = [entry["name"] for entry in functions if type(entry["signature"]) is str]
    return names if len(names) == len(functions) and _are_texts(names) else None


def _are_texts(value: object) -> bool:
    return type(value) is list and _TEXT.issuperset(map(type, value))  # of nothing, too


def _are_numbers(value: object) -> bool:
    """Of functions, or null where an export has none."""
    return type(value) is list and all(n is None or (type(n) is int and 0 <= n < 2**32 - 1) for n in value)


def _executables(manifest: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The executables of a manifest when well-formed as far as loading needs, else None."""
    header = manifest["pydispatch"]
    if type(header["format"]) is not int or header["format"] != 1 or type(header["version"]) is not str:
        return None
    executables: list[dict[str, Any]] = manifest["executables"]
    if type(executables) is not list:
        return None
    for executable in executables:
        if type(executable["name"]) is not str or not _are_texts(executable["exports"]):
            return None
        if type(executable["variants"]) is not list or not all(map(_is_variant, executable["variants"])):
            return None
    return executables


def _is_variant(variant: dict[str, Any]) -> bool:
    alignment = variant["alignment"]
    return (
        type(alignment) is int and 0 < alignment <= 4096 and not alignment & (alignment - 1)
        and type(variant["member"]) is type(variant["name"]) is type(variant["format"]) is str
        and _are_texts(variant["requires"]) and _are_texts(variant["imports"])
        and type(variant.get("dynamic", False)) is bool
        and type(variant.get("calls", [])) is type(variant.get("warnings", [])) is list
        and _are_numbers(variant.get("contracts", []))
        and type(variant.get("spirv", {})) is type(variant.get("ptx", {})) is dict
    )  # fmt: skip


def _manifest_error(name: str, text: bytes) -> ArtifactError:
    """What is wrong with a manifest, and where, according to the strict reader."""
    from pydispatch.formats.artifact.manifest import Manifest

    try:
        Manifest.from_bytes(text)
    except ArtifactError as error:
        return ArtifactError(f"{name}: {error}")
    return ArtifactError(f"{name}: {MANIFEST} cannot be read")


def _constant(file: ArtifactFile, member: str, offset: int, length: int) -> memoryview:
    data: memoryview = file.find(member)
    if length > len(data) or offset > len(data) - length:
        raise ArtifactError(
            f"{file.name}: a constant takes {length} bytes at {offset} of '{member}', which has {len(data)}"
        )
    return data[offset : offset + length]


def _prepare(
    module: Module, file: ArtifactFile, host: Host, index: int, entry: dict[str, Any]
) -> tuple[str, dict[str, Any], list[int], int]:
    """The name of an executable, its chosen variant, that variant's constants, and its index."""
    name, constants_function, constant_count, conditions = module.executable(index)
    variants = entry["variants"]
    if entry["name"] != name or len(variants) != len(conditions):
        raise ArtifactError(
            f"{file.name}: executable {index} is '{entry['name']}' with {len(variants)} variants in {MANIFEST}, "
            f"'{name}' with {len(conditions)} in {PROGRAM}"
        )
    chosen = _choose(module, host, variants, conditions)
    if chosen is None:
        raise DeviceUnavailableError(_no_variant(module, file, host, name, variants, conditions))
    variant = variants[chosen]
    constants = [] if constants_function is None else module.evaluate(constants_function, constant_count, chosen)
    return name, variant, constants, chosen


def _choose(
    module: Module, host: Host, variants: Sequence[dict[str, Any]], conditions: Sequence[int | None]
) -> int | None:
    """Of the variants that run here the one with the most requirements; the first of equals."""
    best, most = None, -1
    for i, variant in enumerate(variants):
        requires = variant["requires"]
        if variant["format"] != host.format or len(requires) <= most or not host.features.issuperset(requires):
            continue
        if _holds(module, conditions[i]):
            best, most = i, len(requires)
    return best


def _holds(module: Module, condition: int | None) -> bool:
    return condition is None or bool(module.evaluate(condition, 1)[0] & 1)


def _no_variant(
    module: Module,
    file: ArtifactFile,
    host: Host,
    name: str,
    variants: Sequence[dict[str, Any]],
    conditions: Sequence[int | None],
) -> str:
    lines = [f"{file.name}: no variant of executable '{name}' runs on this device ({host.format}):"]
    lists = unmet = False
    for variant, condition in zip(variants, conditions, strict=True):
        if variant["format"] != host.format:
            why = f"has the format {variant['format']}"
        elif (missing := _missing(variant["requires"], host)) and host.why_not is not None:
            why, unmet = host.why_not(variant["requires"]), True
        elif missing:
            why = f"needs {', '.join(_shown(need, host) for need in missing)}, which the machine lacks"
            lists |= any(">=" not in need for need in missing)
        elif not _holds(module, condition):
            why = "its condition does not hold on this device"
        lines.append(f"  variant '{variant['name']}' {why}")
    if not variants:
        lines.append("  it has no variants at all")
    if all(variant["format"] != host.format for variant in variants):
        lines.append(f"compile it for this device too: targets=('{_TARGETS.get(host.format, 'cpu')}', ...)")
    if unmet and host.remedy:
        lines.append(host.remedy)
    if lists:
        lines.append(f"the machine has: {', '.join(sorted(host.features)) or 'no optional features'}")
    return "\n".join(lines)


_TARGETS = {"vulkan-spirv-fb": "vulkan", "cuda-nvptx-fb": "cuda"}


def _shown(need: str, host: Host) -> str:
    """A requirement; for a limit also the device's value."""
    limit, is_limit, _ = need.partition(">=")
    have = getattr(host.features, "limits", {}).get(limit)
    return f"{need} (it has {have})" if is_limit and have is not None else need


def _missing(requires: Iterable[str], host: Host) -> list[str]:
    return [feature for feature in requires if feature not in host.features]
