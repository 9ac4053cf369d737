"""Which targets a program is compiled for.

Explicit arguments win; without them the module's own `hal.device.targets` hold; without those it is the CPU of this
machine, generic. CPU levels (`x86-64-v3`, `native`) apply to the targets of their architecture.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute

from pydispatch.compiler.kernel_ir.kernel import ARCHITECTURES
from pydispatch.compiler.target import cuda as cuda_arch
from pydispatch.compiler.target.cpu_features import check_features
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.dialects.hal.dialect import DeviceTargetAttr, ExecutableTargetAttr

BACKENDS = {"llvm-cpu": "cpu", "vulkan-spirv": "vulkan", "cuda": "cuda"}
"""Backend name of a target attribute -> module of pydispatch.compiler.backends."""

ALIASES = {"vulkan": "vulkan-spirv", "nvptx": "cuda", "cpu": "llvm-cpu"}
"""Other names of backends in target attributes."""

DEVICES = {
    "cpu": "llvm-cpu", "local": "llvm-cpu", "llvm-cpu": "llvm-cpu", "vulkan": "vulkan-spirv",
    "vulkan-spirv": "vulkan-spirv", "cuda": "cuda",
}  # fmt: skip
"""What `targets=` may name -> backend."""

FORMATS = {"vulkan-spirv": "vulkan-spirv-fb", "cuda": cuda_arch.FORMAT}
"""Backends with one format, whatever the machine."""

HINTS = frozenset(("data_layout", "target_triple", "native_vector_size", "target_abi", "max_stack_allocation_size"))
"""Configuration entries that a key may state and a target need not: they describe, they do not choose."""


def host_format() -> str:
    """The embedded ELF format of this machine, `embedded-elf-x86_64` for example."""
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    for suffix, name in ARCHITECTURES.items():
        if name == machine:
            return f"embedded-elf-{suffix}"
    raise CompileError(
        f"this machine ({machine}) is none of {', '.join(ARCHITECTURES.values())}; name targets explicitly"
    )


def canonical(target: ExecutableTargetAttr) -> ExecutableTargetAttr:
    """The target with the name of its backend that is in BACKENDS."""
    backend = ALIASES.get(target.backend.data)
    if backend is None:
        return target
    return ExecutableTargetAttr(StringAttr(backend), target.format, target.configuration)


def executable_targets(attribute: Attribute) -> list[ExecutableTargetAttr]:
    """The executable targets inside a `hal.device.targets` value, in order, without repetitions."""
    found: dict[ExecutableTargetAttr, None] = {}

    def walk(node: Attribute) -> None:
        if isinstance(node, ExecutableTargetAttr):
            found[canonical(node)] = None
        elif isinstance(node, DeviceTargetAttr):
            walk(node.executable_targets)
        elif isinstance(node, ArrayAttr):
            for item in node.data:
                walk(cast(Attribute, item))
        elif hasattr(node, "devices"):  # #hal.device.select
            walk(node.devices)

    walk(attribute)
    return list(found)


def select_targets(
    module: ModuleOp, targets: Sequence[str] | None = None, cpu: str | Sequence[str] | None = None, features: str = ""
) -> list[ExecutableTargetAttr]:
    """The targets to compile `module` for.

    targets: names such as "cpu" or "sm_80", or embedded ELF formats; None takes the module's own. cpu: one CPU name or
    several ("generic", "native", "x86-64-v3", "cortex-a76"); each gives a variant for its architecture. features: LLVM
    features ("+avx2,+fma") added to every CPU target.
    """
    own = module.attributes.get("hal.device.targets")
    if targets is not None:
        stated = [] if own is None else executable_targets(own)
        cuda = [t for t in stated if t.backend.data == cuda_arch.BACKEND]
        # "cuda" alone leaves the architectures to the module.
        chosen = [t for name in targets for t in (cuda if name == "cuda" and cuda else _named(name))]
    elif own is not None and executable_targets(own):
        chosen = executable_targets(own)
    else:
        chosen = [ExecutableTargetAttr(StringAttr("llvm-cpu"), StringAttr(host_format()), DictionaryAttr({}))]
    chosen = list(dict.fromkeys(chosen))
    for target in chosen:
        require_backend(target, module)
    levels = [cpu] if isinstance(cpu, str) else list(cpu or ())
    if not levels and not features:
        return chosen
    return [t for target in chosen for t in apply_levels(target, levels, features)]


def _named(name: str) -> list[ExecutableTargetAttr]:
    """The target that one name stands for: "cpu" is this machine, "x86_64" or "embedded-elf-x86_64" an architecture,
    "sm_80" or "cuda:sm_80" one of CUDA."""
    backend = DEVICES.get(name, "llvm-cpu")
    if cuda_arch.is_architecture(name.removeprefix("cuda:")):
        return [_cuda(name.removeprefix("cuda:"))]
    if backend in FORMATS:
        return [ExecutableTargetAttr(StringAttr(backend), StringAttr(FORMATS[backend]), DictionaryAttr({}))]
    formats = {name: f"embedded-elf-{suffix}" for suffix, arch in ARCHITECTURES.items() for name in (suffix, arch)}
    if name in DEVICES:
        format = host_format()
    elif name in formats or name in formats.values():
        format = formats.get(name, name)
    else:
        known = [*sorted({*DEVICES, *formats}), f"sm_80 and the like ({', '.join(cuda_arch.NAMES)})"]
        raise CompileError(f"there is no target '{name}'; known: {', '.join(known)}")
    return [ExecutableTargetAttr(StringAttr("llvm-cpu"), StringAttr(format), DictionaryAttr({}))]


def _cuda(name: str) -> ExecutableTargetAttr:
    """The target of an architecture of CUDA."""
    if name.rstrip("af") not in cuda_arch.NAMES:
        raise CompileError(f"there is no CUDA architecture '{name}'", note=f"known: {', '.join(cuda_arch.NAMES)}")
    config = DictionaryAttr({"target": StringAttr(name)})
    return ExecutableTargetAttr(StringAttr(cuda_arch.BACKEND), StringAttr(cuda_arch.FORMAT), config)


def require_backend(target: ExecutableTargetAttr, module: ModuleOp) -> None:
    """CompileError when nothing here emits code for the target."""
    name = target.backend.data
    if name not in BACKENDS:
        raise CompileError(
            f"there is no backend '{name}' in this build",
            location_of(module),
            f"supported: {', '.join(BACKENDS)}; choose others with targets=",
        )


def apply_levels(target: ExecutableTargetAttr, levels: Iterable[str], features: str) -> list[ExecutableTargetAttr]:
    """One target for each CPU level that fits the architecture of `target`; itself when none does."""
    if target.backend.data != "llvm-cpu":
        return [target]
    arch = ARCHITECTURES.get(target.format.data.removeprefix("embedded-elf-"))
    made = []
    for level in levels or [""]:
        if level in ("native", "host") and target.format.data != host_format():
            continue
        if level.startswith("x86-64") and arch != "x86_64":
            continue
        config = dict(target.configuration.data)
        if level:
            config["cpu"] = StringAttr("native" if level == "host" else level)
            config.pop("cpu_features", None)
        if features:
            check_features(arch or "", filter(None, features.split(",")))
            config["cpu_features"] = StringAttr(features)
        made.append(ExecutableTargetAttr(target.backend, target.format, DictionaryAttr(config)))
    return made or [target]


def in_written_order(target: ExecutableTargetAttr) -> ExecutableTargetAttr:
    """The target with `reassociate = false`: kernels add floats up in the written order."""
    config = {**target.configuration.data, "reassociate": IntegerAttr(0, 1)}
    return ExecutableTargetAttr(target.backend, target.format, DictionaryAttr(config))


def config_string(target: ExecutableTargetAttr, key: str, default: str = "") -> str:
    """A string entry of a target's configuration."""
    value = target.configuration.data.get(key)
    return value.data if isinstance(value, StringAttr) else default


def key_matches(key: ExecutableTargetAttr, target: ExecutableTargetAttr) -> bool:
    """Whether objects listed under `key` belong to `target`: backend, format and every entry that the key states.

    Architectures of CUDA are left to whoever asks: code for one runs on others.
    """
    key = canonical(key)
    if key.backend != target.backend or key.format != target.format:
        return False
    have = target.configuration.data
    for name, value in key.configuration.data.items():
        if key.backend.data == cuda_arch.BACKEND and name in cuda_arch.HINTS:
            continue
        if name in have:
            if have[name] != value:
                return False
        elif name == "cpu":
            if value != StringAttr("generic"):
                return False
        elif name not in HINTS and not (name == "cpu_features" and value == StringAttr("")):
            return False
    return True
