"""The CPU as a compilation target."""

from __future__ import annotations

import platform
from collections.abc import Sequence

from xdsl.dialects.builtin import DictionaryAttr, StringAttr

from pydispatch.compiler.kernel_ir.kernel import ARCHITECTURES
from pydispatch.compiler.target.backend import Backend
from pydispatch.compiler.target.cpu import BASELINE, Machine, cpu_names, machine_of
from pydispatch.compiler.target.cpu_features import check_features
from pydispatch.compiler.target.variants import target_of
from pydispatch.errors import CompileError
from pydispatch.ir.dialects.hal.device import ExecutableTargetAttr

PREFIX = "embedded-elf-"
"""Beginning of IREE's names of CPU formats, such as embedded-elf-x86_64."""
FORMATS = {name: PREFIX + suffix for suffix, arch in ARCHITECTURES.items() for name in (suffix, arch, PREFIX + suffix)}
"""Names that `targets=` accepts, and the format of each."""


def host_format() -> str:
    """Return the embedded ELF format of this machine, such as `embedded-elf-x86_64`. Raises CompileError for other
    architectures.
    """
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    if machine not in ARCHITECTURES.values():
        raise CompileError(
            f"this machine ({machine}) is none of {', '.join(ARCHITECTURES.values())}; name targets explicitly"
        )
    return FORMATS[machine]


class Cpu(Backend):
    """Backend for CPUs: it compiles a kernel to one function per ISA level, such as AVX2 or AVX-512.

    At run time, a call of this function computes a workgroup, on a worker of the thread pool.
    """

    name = "llvm-cpu"
    emitter = "pydispatch.compiler.backends.cpu.backend:compile_variant"
    shares_executables = True  # all dispatches of a program are one library
    names_cpus = True  # `cpu=` is for this backend
    stops = True  # a kernel ends the call at an assertion that does not hold
    machines = tuple(name for name in FORMATS if not name.startswith(PREFIX))

    def select(self, machine: str) -> ExecutableTargetAttr | None:
        """Return the target of an architecture ("x86_64"), or of this machine for ""; None for another name."""
        if not machine:
            return self.target(host_format())
        return self.target(FORMATS[machine]) if machine in FORMATS else None

    def with_options(
        self, target: ExecutableTargetAttr, cpus: Sequence[str], features: str
    ) -> list[ExecutableTargetAttr]:
        """Return one target for each of `cpus` that has the architecture of `target`; `target` itself if none has.

        `cpus` that exist only for other architectures are for the other targets of the compilation. `features` are
        LLVM's, such as "+avx2,-fma".
        """
        arch = ARCHITECTURES.get(target.format.data.removeprefix(PREFIX))
        targets = []
        for cpu in cpus or [""]:  # "": the CPU that the target states
            if cpu in ("native", "host") and target.format.data != host_format():
                continue
            if _is_of_another_architecture(cpu, arch):
                continue
            config = dict(target.configuration.data)
            if cpu:
                config["cpu"] = StringAttr("native" if cpu == "host" else cpu)
                config.pop("cpu_features", None)  # they were stated for the CPU that is replaced
            if features:
                check_features(arch or "", filter(None, features.split(",")))
                config["cpu_features"] = StringAttr(features)
            targets.append(ExecutableTargetAttr(target.backend, target.format, DictionaryAttr(config)))
        return targets or [target]

    def has_format(self, format: str) -> bool:
        """Return whether `format` is a format of embedded ELF files, for any architecture."""
        return format.startswith(PREFIX)

    def cpu_machine(self, target: ExecutableTargetAttr) -> Machine:
        """Return the CPU that a target attribute describes, whose vector registers hold blocks of matrix products."""
        return machine_of(target_of(target))


def _is_of_another_architecture(cpu: str, arch: str | None) -> bool:
    """Return whether a CPU name exists only for other architectures than `arch`."""
    if arch not in BASELINE:  # an architecture whose names are not known
        return False
    return cpu not in cpu_names(arch) and any(cpu in cpu_names(other) for other in BASELINE)


BACKEND = Cpu()
"""Backend that `extensions.builtin` registers."""
