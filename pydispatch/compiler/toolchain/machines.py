"""Machines that LLVM compiles for, and how much it optimizes."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Protocol

from pydispatch.compiler.target.levels import LEVELS
from pydispatch.compiler.worker.library import library


class MachineDescription(Protocol):
    """Interface of a CPU or GPU that code is compiled for; the attributes are those of `LlvmMachine`."""

    @property
    def arch(self) -> str: ...  # such as "x86_64"
    @property
    def cpu(self) -> str: ...  # LLVM's name of the CPU
    @property
    def triple(self) -> str: ...  # LLVM's target triple
    @property
    def llvm_features(self) -> str: ...  # as in LLVM's "target-features" attribute: "+avx2,+fma"
    @property
    def has(self) -> frozenset[str]: ...  # names of the CPU features
    @property
    def tune(self) -> str: ...  # CPU for whose timing code is scheduled; "" for `cpu`
    @property
    def vector_width(self) -> int: ...  # preferred width of vectors in bits; 0 leaves it to LLVM


@dataclass(frozen=True)
class LlvmMachine:
    """CPU or GPU that code is compiled for, as plain values that can be sent to another process.

    Attributes:
        arch: Architecture, such as "x86_64".
        cpu: LLVM's name of the CPU.
        triple: LLVM's target triple.
        llvm_features: CPU features as LLVM writes them, with signs: "+avx2,+fma".
        has: Names of all CPU features that code may use, without signs, such as "avx2"; also those that `cpu` implies.
        tune: CPU for whose timing code is scheduled; "" for `cpu`.
        vector_width: Preferred width of vectors in bits; 0 leaves it to LLVM.
    """

    arch: str
    cpu: str
    triple: str
    llvm_features: str
    has: frozenset[str]
    tune: str
    vector_width: int


@dataclass(frozen=True)
class Effort:
    """Optimization effort of LLVM.

    Attributes:
        level: Level of the optimization pipeline, 0 to 3 as in clang's -O3.
        code_level: Level of code generation (instruction selection, scheduling), 0 to 3.
        unrolls: Whether loops are unrolled and interleaved, and straight-line code is vectorized.
    """

    level: int
    code_level: int
    unrolls: bool


FULL = Effort(level=3, code_level=3, unrolls=True)
"""Default effort. `BLOCKS` and `LESS` save compilation time, for register blocks and for fallback variants."""

BLOCKS = Effort(level=2, code_level=3, unrolls=True)
"""For matrix products in register blocks, which the emitter has unrolled and vectorized. Level 3 would unswitch the
loops that pack rows: LLVM takes 1.4 times as long for ResNet-50, whose calls are not faster (AMD EPYC Zen 4)."""

LESS = Effort(level=1, code_level=1, unrolls=False)
"""For fallback variants, those for a generic CPU of executables that also have variants for specific CPUs. Loops are
still vectorized. LLVM takes 0.24 to 0.6 of the time for products and layers of networks. The code for x86-64 is up to
1.12 times slower (AMD EPYC Zen 3: products, a BERT block 1.00 to 1.03, 3x3 convolutions 1.12)."""


def words(machine: MachineDescription) -> tuple[object, ...]:
    """Return the fields of a machine as a cache key of the code that is compiled for it."""
    m = machine
    return m.arch, m.cpu, m.triple, m.llvm_features, sorted(m.has), m.tune, m.vector_width


@functools.lru_cache(maxsize=64)
def target_machine(machine: LlvmMachine, code_level: int = FULL.code_level) -> Any:
    """Return LLVM's target machine, which emits position-independent code. code_level: see `Effort`."""
    llvm = library()
    target = llvm.Target.from_triple(machine.triple)
    model = "medium" if machine.arch == "riscv64" else "small"  # the small model of RISC-V reaches only the low 2 GiB
    return target.create_target_machine(
        cpu=_cpu_name(machine), features=machine.llvm_features, opt=code_level, reloc="pic", codemodel=model
    )


def _cpu_name(machine: LlvmMachine) -> str:
    """Return LLVM's name of the machine's CPU. RISC-V code is for a generic CPU plus the listed features."""
    return "generic-rv64" if machine.arch == "riscv64" else machine.cpu


def known_features(arch: str) -> frozenset[str]:
    """Return the names of the CPU features of all x86-64 levels (x86-64-v2 and so on); none for other architectures,
    which have no levels."""
    return frozenset().union(*LEVELS.values()) if arch == "x86_64" else frozenset()


@functools.lru_cache(maxsize=64)
def layout(machine: LlvmMachine) -> str:
    """Return LLVM's data layout string."""
    return str(target_machine(machine).target_data)


def function_attributes(machine: LlvmMachine) -> str:
    """Return the attributes of every function that is emitted, as the text of an LLVM attribute group.

    "no-builtins" has two effects:
    - LLVM does not replace code by calls of C library functions. For example, a loop that stores zeros does not become
      a call of memset.
    - LLVM can inline any function into the emitted ones. If they lacked the attribute, it would not inline functions
      that have it, such as those that clang compiles with -ffreestanding.
    """
    attributes = ["nounwind", '"no-builtins"', '"no-trapping-math"="true"', f'"target-cpu"="{_cpu_name(machine)}"']
    # On most x86 CPUs, gathers and scatters are slower than the loads and stores that they replace.
    tuning = ("+prefer-no-gather", "+prefer-no-scatter") if machine.arch == "x86_64" else ()
    features = [machine.llvm_features, *tuning] if machine.llvm_features else tuning
    if features:
        attributes.append(f'"target-features"="{",".join(features)}"')
    if machine.tune:
        attributes.append(f'"tune-cpu"="{machine.tune}"')
    if machine.vector_width:
        attributes.append(f'"prefer-vector-width"="{machine.vector_width}"')
    return " ".join(attributes)
