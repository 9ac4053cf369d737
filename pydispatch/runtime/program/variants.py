"""Choice of the variant of an executable that runs on a device, and reasons why no variant does."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydispatch import logs
from pydispatch._core.program import Module
from pydispatch.errors import ArtifactError, DeviceUnavailableError
from pydispatch.runtime.program.manifest import MANIFEST, PROGRAM


@dataclass(frozen=True)
class DeviceProperties:
    """Properties of a device by which variants are chosen, and which programs may query.

    Attributes:
        ids: Names of the device, which `hal.device.id` matches; the last is the most specific one.
        format: Format of the executables that it runs, such as "embedded-elf-x86_64".
        features: Features that it has, such as "avx2". `in` also decides on a limit "name>=number".
        queryable: Names of the features that programs can query: for these the device knows whether it has them or not.
            A query for any other feature has no answer.
        processor_data: The eight 64-bit words that describe the CPU to kernels, as in IREE; 0 on other devices.
        workers: Number of threads or queues that run dispatches.
        why_not: Function that returns, in words, why the device does not meet a list of requirements. If it is None,
            messages list the requirements that it lacks.
        remedy: What the user can do about missing requirements, for messages; "" for no advice.
    """

    ids: tuple[str, ...]
    format: str
    features: frozenset[str]
    queryable: frozenset[str]
    processor_data: tuple[int, ...]
    workers: int
    why_not: Callable[[Sequence[str]], str] | None = None
    remedy: str = ""

    def answer(self, category: str, key: str) -> int | None:
        """Return the answer to a query of the program (`hal.device.query`); None if the device has no answer.

        For example, answer("hal.cpu", "avx2") is 1 on a CPU with AVX2, and answer("hal.device.id", "cuda*") on a CUDA
        device.
        """
        if category == "hal.executable.format":
            return int(key == self.format)
        if category == "hal.cpu":
            return int(key in self.features) if key in self.queryable else None
        if category == "hal.device.id":
            return int(any(fnmatch.fnmatchcase(name, key) for name in self.ids))
        if key == "concurrency":
            # As in IREE: the number of queues of the device, and the number of workers of a dispatch.
            return {"hal.device": 1, "hal.dispatch": self.workers}.get(category)
        return None


@dataclass(slots=True)  # not frozen, which takes twice as long to make
class Chosen:
    """Variant of an executable that was chosen for the device.

    Attributes:
        index: Index of the executable in the program.
        name: Name of the executable.
        exports: Names of its exports, from the manifest.
        number: Index of the variant in the executable.
        entry: Entry of the variant in the manifest.
        constants: Values of the executable's specialization constants, which the program computes at load; 32-bit
            words, read by its kernels.
    """

    index: int
    name: str
    exports: list[str]
    number: int
    entry: dict[str, Any]
    constants: list[int]


def choose(module: Module, file: str, properties: DeviceProperties, index: int, executable: dict[str, Any]) -> Chosen:
    """Return the variant of an executable that runs on a device; of several, the one with the most requirements.

    Args:
        module: The program.
        file: File of the artifact, for messages.
        properties: Properties of the device.
        index: Index of the executable in the program.
        executable: Its entry in the manifest.

    Raises:
        ArtifactError: Manifest and program differ.
        DeviceUnavailableError: No variant runs on the device.
    """
    # `constants_function` is the index of the program's function that computes the constants; None: no constants.
    # `conditions` has for each variant the index of the function that decides whether it may run; None: always.
    name, constants_function, constant_count, conditions = module.executable(index)
    variants = executable["variants"]
    if executable["name"] != name or len(variants) != len(conditions):
        raise ArtifactError(
            f"{file}: executable {index} is '{executable['name']}' with {len(variants)} variants in {MANIFEST}, "
            f"'{name}' with {len(conditions)} in {PROGRAM}"
        )
    needs = [(variant["format"], variant["requires"]) for variant in variants]
    variant_index = best_of(properties, needs, lambda index: _holds(module, conditions[index]))
    if variant_index is None:
        raise DeviceUnavailableError(_no_variant(module, file, properties, name, variants, conditions))
    _log_faster(file, properties, variants[variant_index])
    if logs.runtime.has_debug:
        _log_choice(module, file, properties, name, variants, conditions, variant_index)
    constants = [] if constants_function is None else module.evaluate(constants_function, constant_count, variant_index)
    return Chosen(index, name, executable["exports"], variant_index, variants[variant_index], constants)


def best_of(
    properties: DeviceProperties,
    needs: Sequence[tuple[str, Sequence[str]]],
    holds: Callable[[int], bool] = lambda index: True,
) -> int | None:
    """Return the index of the variant with the most requirements that a device meets, the first of equals.

    Args:
        properties: Properties of the device.
        needs: (format, requirements) of each variant.
        holds: holds(index) returns whether the condition of the variant with this index is true. It runs code of the
            program, and is called only for a variant that would be the best one so far.
    """
    best, most_requirements = None, -1
    for index, (format, requires) in enumerate(needs):
        runs_here = format == properties.format and properties.features.issuperset(requires)
        has_more_requirements = len(requires) > most_requirements
        if runs_here and has_more_requirements and holds(index):
            best, most_requirements = index, len(requires)
    return best


def _holds(module: Module, condition: int | None) -> bool:
    """Return whether the condition of a variant is true.

    condition: index of the program's function that decides, by the lowest bit of its result; None for no condition.
    """
    return condition is None or bool(module.evaluate(condition, 1)[0] & 1)


def _no_variant(
    module: Module,
    file: str,
    properties: DeviceProperties,
    name: str,
    variants: Sequence[dict[str, Any]],
    conditions: Sequence[int | None],
) -> str:
    """Return the message that no variant of an executable runs on the device: why each does not, and what to do.

    On a CPU, for example:

        app.pdx: no variant of executable 'k' runs on this device (embedded-elf-x86_64):
          variant 'x86-64-v4' needs avx512f, which the machine lacks
          variant 'vulkan' has the format vulkan-spirv-fb
        the machine has: avx2, fma

    A device with `properties.why_not` explains missing requirements itself; the last line is then its remedy.

    Args:
        module: The program.
        file: File of the artifact.
        properties: Properties of the device.
        name: Name of the executable.
        variants: Entries of its variants in the manifest.
        conditions: For each variant the index of the program's function that decides whether it may run; None: always.
    """
    lines = [f"{file}: no variant of executable '{name}' runs on this device ({properties.format}):"]
    device_explains = properties.why_not is not None  # else the message lists the features of the machine
    # Whether the message ends with the features of the machine, or with the device's remedy.
    lists_features = ends_with_remedy = False
    for variant, condition in zip(variants, conditions, strict=True):
        lines.append(f"  variant '{variant['name']}' {_why_not(module, properties, variant, condition)}")
        missing = _missing(variant["requires"], properties) if variant["format"] == properties.format else []
        missing_features = [need for need in missing if ">=" not in need]  # the others are limits: "name>=number"
        if device_explains:
            ends_with_remedy |= bool(missing)
        else:
            lists_features |= bool(missing_features)
    if not variants:
        lines.append("  it has no variants at all")
    if all(variant["format"] != properties.format for variant in variants):
        lines.append(f"compile it for this device too: targets=('{_TARGETS.get(properties.format, 'cpu')}', ...)")
    if ends_with_remedy and properties.remedy:
        lines.append(properties.remedy)
    if lists_features:
        lines.append(f"the machine has: {', '.join(sorted(properties.features)) or 'no optional features'}")
    return "\n".join(lines)


def _why_not(module: Module, properties: DeviceProperties, variant: dict[str, Any], condition: int | None) -> str:
    """Return why a variant does not run here; "" when it does.

    condition: index of the module's function that decides whether the variant may run; None: it always may.
    """
    if variant["format"] != properties.format:
        return f"has the format {variant['format']}"
    if missing := _missing(variant["requires"], properties):
        if properties.why_not is not None:
            return properties.why_not(variant["requires"])
        return f"needs {', '.join(_shown(need, properties) for need in missing)}, which the machine lacks"
    if not _holds(module, condition):
        return "its condition does not hold on this device"
    return ""


def _log_choice(
    module: Module, file: str, properties: DeviceProperties, name: str, variants: Sequence[dict[str, Any]],
    conditions: Sequence[int | None], variant_index: int,
) -> None:  # fmt: skip
    """Log which variant of an executable was chosen, what it needs, and why each of the others was not.

    variant_index: index of the chosen one. conditions: for each variant the index of the program's function that
    decides whether it may run; None: always.
    """
    needs = ", ".join(variants[variant_index]["requires"]) or "nothing"
    reasons = []
    for i, (variant, condition) in enumerate(zip(variants, conditions, strict=True)):
        if i != variant_index:
            # "" for a variant that runs here too: of those, the one with the most requirements was chosen.
            why = _why_not(module, properties, variant, condition)
            reasons.append(f"; '{variant['name']}' {why or 'needs no more'}")
    logs.runtime.debug(
        "%s: executable '%s': variant '%s' runs here and needs %s%s", file, name, variants[variant_index]["name"],
        needs, "".join(reasons),
    )  # fmt: skip


_LEVELS = (("avx512f", "x86-64-v4"), ("avx2", "x86-64-v3"))
"""(CPU feature, level of x86-64 that adds it), widest vectors first: a variant that does not require the feature uses
narrower vectors than a CPU that has it.
"""

_advised: set[tuple[str, str]] = set()
"""(artifact's file, level of `_LEVELS`) of each logged advice to recompile for that level, so that a process logs it
once.
"""


def _log_faster(file: str, properties: DeviceProperties, variant: dict[str, Any]) -> None:
    """Log once that recompiling would make generated code faster, if the CPU has wider vectors than the code uses."""
    if "machine_model" not in variant:  # code that the user wrote, which this compiler cannot make wider
        return
    # (CPU feature, level) of the widest vectors that the CPU has; None if it has none that are wider than the baseline.
    widest = next((row for row in _LEVELS if row[0] in properties.features), None)
    if widest is None:
        return
    feature, level = widest
    if feature in variant["requires"] or (file, level) in _advised:
        return
    _advised.add((file, level))
    logs.runtime.info(
        "%s: variant '%s' uses narrower vectors than this machine has; compile with cpu=('generic', '%s') for faster "
        "code", file, variant["name"], level,
    )  # fmt: skip


_TARGETS = {"vulkan-spirv-fb": "vulkan", "cuda-nvptx-fb": "cuda", "webgpu-wgsl-fb": "webgpu"}
"""Format of executables → the target of the compiler that makes them; every other format is that of a CPU."""


def _shown(need: str, properties: DeviceProperties) -> str:
    """Return the text of a requirement; for a limit, "name>=number", with the device's value if it has one."""
    limit, is_limit, _ = need.partition(">=")
    device_value = getattr(properties.features, "limits", {}).get(limit)
    return f"{need} (it has {device_value})" if is_limit and device_value is not None else need


def _missing(requires: Iterable[str], properties: DeviceProperties) -> list[str]:
    """Return the requirements, features or limits, that a device does not meet."""
    return [feature for feature in requires if feature not in properties.features]
